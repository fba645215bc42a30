"""Process-wide settings. Limits are changed in separate processes."""

import asyncio
import gc
import resource
import subprocess
import sys

import pytest
import uvloop

from skitter.runtime.process import run, tune_allocator

LIMITED = """
import resource, sys
from skitter.runtime.process import raise_open_files
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(raise_open_files(wanted), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "told"),
    [
        (64, 512, 256, (256, 256, 512)),  # raised as far as needed
        (64, 512, 4096, (512, 512, 512)),  # no further than allowed
        (300, 512, 256, (300, 300, 512)),  # never lowered
    ],
)
def test_open_files_are_raised_as_far_as_needed_and_allowed(soft, hard, wanted, told):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip(f"needs a hard limit of {hard} open files")
    numbers = [str(number) for number in (soft, hard, wanted)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *numbers], capture_output=True, text=True, check=True, timeout=60
    )
    assert tuple(map(int, done.stdout.split())) == told


def test_the_allocator_is_tuned_or_says_that_it_is_not():
    assert tune_allocator() is (sys.platform.startswith("linux") and _glibc())


def _glibc():
    return any("libc.so" in name or "glibc" in name for name in _maps())


def _maps():
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123  a file of the kernel
        return {line.split("/")[-1].strip() for line in maps if "/" in line}


def test_the_program_runs_on_the_fast_loop_and_gives_its_result_back():
    async def main():
        return asyncio.get_running_loop()

    loop = run(main())
    assert isinstance(loop, uvloop.Loop)
    assert loop.is_closed()


def test_exceptions_are_raised_unchanged():
    async def main():
        raise ZeroDivisionError("out")

    with pytest.raises(ZeroDivisionError, match="out"):
        run(main())


def test_garbage_is_collected_rarely_while_the_program_runs_and_cycles_still_go():
    class Knot:
        def __init__(self) -> None:
            self.itself = self
            self.weight: list[list[int]] = [[] for _ in range(10)]

    async def main() -> tuple[int, int]:
        thresholds = gc.get_threshold()
        for _ in range(100_000):
            Knot()
        return thresholds[0], sum(isinstance(one, Knot) for one in gc.get_objects())

    before = gc.get_threshold()
    threshold, left = run(main())
    assert threshold > before[0]
    assert left < 50_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
