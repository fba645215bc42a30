"""The cost of a command: wall clock, CPU and memory of it and all its child processes."""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PAGE = os.sysconf("SC_PAGESIZE")
LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Cost:
    """Of one command, start-up included."""

    seconds: float
    cpu: float  # user + system, of all its processes
    peak_mb: float  # resident memory, summed over its processes, sampled ten times a second
    output: str
    memory: list[tuple[float, int]]  # seconds since the start, resident bytes


def spend(
    command: Sequence[str], stdin: str = "", core: int | None = None, codes: Sequence[int] = (0,)
) -> Cost:
    """Run the command on a core, or on all of them, and wait for its end; other exit codes are failures."""
    pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said:
        given.write(stdin)
        given.seek(0)
        began = time.perf_counter()
        # Files, not pipes: nobody has to read while the command runs, so the harness does not interfere.
        child = subprocess.Popen(
            [*pinned, *command], stdin=given, stdout=said, stderr=subprocess.STDOUT, env=_environment()
        )
        with Watch(child.pid) as watch:
            # wait4 includes the command's children if it waited for them; all commands here do.
            _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        output = said.read()
    if child.returncode not in codes:
        raise SystemExit(f"{' '.join(command)[:200]} ended with {child.returncode}:\n{output[-2000:]}")
    # Not the ru_maxrss of wait4: a child's starts with that of its parent.
    peak = max((resident for _, resident in watch.seen), default=0)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, peak / 2**20, output, watch.seen)


def _environment() -> dict[str, str]:
    """As for users: their Python keeps compiled modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Watch:
    """Samples the memory of a process and its descendants ten times a second."""

    def __init__(self, pid: int) -> None:
        self.seen: list[tuple[float, int]] = []
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        began = time.perf_counter()
        while not self._over.wait(LOOK_EVERY):
            self.seen.append((time.perf_counter() - began, resident(self._pid)))


def resident(pid: int) -> int:
    """Resident bytes of a process and its descendants; shared memory is counted for each."""
    total, waiting = 0, [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            total += int((process / "statm").read_text().split()[1]) * PAGE
            for thread in (process / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return total
