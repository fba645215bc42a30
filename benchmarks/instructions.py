"""The cost of the frontier in instructions: the rows of `benchmarks.frontier`, counted by valgrind.

    python -m benchmarks.instructions [CHECKOUT] [--urls 6000] [--keep DIRECTORY]

CPU time on a busy machine varies by a tenth and more from run to run; the number of instructions hardly does, so it shows what a
change costs. It includes RocksDB's threads and leaves out what the benchmark itself does.

CHECKOUT is the directory of another version, which is measured too and divided by: `git worktree add --detach ../old COMMIT`,
then `make .venv/ready` there. Each version runs its own `benchmarks/frontier.py` in its own `.venv`, under callgrind. With
`--keep` the profiles stay, one for each row, for `callgrind_annotate`.

It needs valgrind and a C compiler, and takes some minutes for each version.
"""

import argparse
import asyncio
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import frontier as bench

_HERE = Path(__file__).resolve().parent.parent
_URLS = 6_000
# valgrind is talked to by a sequence of instructions, which Python cannot write.
_SWITCHES = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void toggle(void) { CALLGRIND_TOGGLE_COLLECT; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(const char *row) { CALLGRIND_DUMP_STATS_AT(row); }
"""
_ROW = re.compile(r"^desc: Trigger: Client Request: (\d+)$", re.MULTILINE)
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_ROWS = {name: title for name, title in bench.ROWS.items() if title.startswith(("add", "lease"))}


# ------------------------------------------------------------------------------------------------ inside valgrind


class Meter(bench.Meter):
    """Counts instructions instead of microseconds. They are in the profile with the number that `each` returns."""

    switches: ctypes.CDLL
    counts: list[int]  # how many were measured, by row

    def __init__(self, frontier: Any) -> None:
        super().__init__(frontier)
        self._flush()
        self.switches.zero()

    def _flush(self) -> None:
        """Every row begins with empty write buffers and pays for its own: a full one would be the price of one row."""
        for family in self._families:
            family.flush()
        self._wait_for_background()

    def own(self, work: Callable[[], Any]) -> Any:
        """Not counted: the switch is that of the calling thread, so RocksDB's threads go on counting."""
        self.switches.toggle()
        result = work()
        self.switches.toggle()
        return result

    def each(self, count: int) -> float:
        """The number of the row."""
        self.own(self._flush)
        self.switches.dump(str(len(self.counts)).encode())
        self.counts.append(count)
        return len(self.counts) - 1


async def _count(directory: Path, urls: int, switches: Path) -> None:
    Meter.switches, Meter.counts = ctypes.CDLL(str(switches)), []
    bench.Meter = Meter  # type: ignore[misc]
    one = bench.Bench(directory, "zipf")
    await one.frontier.open(one.now)
    Meter.switches.begin()
    rows = await one.figures(urls)
    print(json.dumps({name: (row, Meter.counts[int(row)]) for name, row in rows.items()}), flush=True)
    os._exit(0)


# ------------------------------------------------------------------------------------------------ outside


def measure(checkout: Path, urls: int, profiles: Path) -> dict[str, float]:
    """Instructions for each row of one version."""
    profiles.mkdir(parents=True, exist_ok=True)
    switches = _compiled(profiles)
    python = checkout / ".venv/bin/python"
    with tempfile.TemporaryDirectory(prefix="skitter-bench-") as directory:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={profiles / 'out'}",
        ]
        command += [str(python if python.exists() else sys.executable), str(Path(__file__).resolve())]
        command += ["--count", str(switches), "--urls", str(urls), "--directory", f"{directory}/state"]
        # The script is this version's, and imports the other one's benchmark and Skitter.
        told = os.environ | {"PYTHONPATH": f"{checkout}:{checkout / 'src'}", "PYTHONHASHSEED": "0"}
        with (profiles / "valgrind.txt").open("w") as said:
            run = subprocess.run(command, cwd=checkout, env=told, stdout=subprocess.PIPE, stderr=said, text=True, check=True)  # fmt: skip
    totals = _totals(profiles)
    return {name: totals[int(row)] / count for name, (row, count) in json.loads(run.stdout).items()}


def _compiled(directory: Path) -> Path:
    source, library = directory / "switches.c", directory / "switches.so"
    source.write_text(_SWITCHES)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def _totals(profiles: Path) -> dict[int, int]:
    """Instructions by the number of the row."""
    found = {}
    for profile in profiles.glob("out.*"):
        text = profile.read_text(errors="replace")
        row, total = _ROW.search(text), _TOTAL.search(text)
        if row and total:
            found[int(row[1])] = int(total[1])
    return found


def table(here: dict[str, float], there: dict[str, float] | None) -> str:
    """Instructions each, and how many times as many as the other version's."""
    lines = [f"{'instructions':<50}{'here':>12}" + (f"{'there':>12}{'times':>8}" if there else "")]
    for name, title in _ROWS.items():
        line = f"{title:<50}{here[name]:>12,.0f}"
        lines.append(line + (f"{there[name]:>12,.0f}{here[name] / there[name]:>8.3f}" if there else ""))
    return "\n".join(lines)


def main(arguments: argparse.Namespace) -> None:
    if arguments.count:
        asyncio.run(_count(arguments.directory, arguments.urls, arguments.count))
        return
    with tempfile.TemporaryDirectory(prefix="skitter-profiles-") as temporary:
        profiles = (arguments.keep or Path(temporary)).resolve()
        here = measure(_HERE, arguments.urls, profiles / "here")
        there = (
            measure(arguments.checkout.resolve(), arguments.urls, profiles / "there")
            if arguments.checkout
            else None
        )
    print(table(here, there))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, nargs="?", help="the directory of another version")
    parser.add_argument("--urls", type=int, default=_URLS, help="the size of the store")
    parser.add_argument("--keep", type=Path, help="where the profiles are kept")
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(_parser().parse_args())
