"""The cost of the frontier, or of whole crawls, in instructions: counted by valgrind.

    python -m benchmarks.instructions [CHECKOUT] [--urls 6000] [--keep DIRECTORY]     the rows of `benchmarks.frontier`
    python -m benchmarks.instructions [CHECKOUT] --pages 200,1200 [--keep DIRECTORY]  a page of *site*, and the start

CPU time on a busy machine varies by a tenth and more from run to run; the number of instructions hardly does, so it shows what a
change costs. It includes RocksDB's threads and leaves out what the benchmark itself does.

A page is the difference of two crawls of *site* that have so many pages, of the process that crawls; the start is what is left
of the smaller one. What a crawl does once a second counts too, and under valgrind a page takes fifty times as long: it is about
a fiftieth of a page here, and nothing in a real crawl.

CHECKOUT is the directory of another version, which is measured too and divided by: `git worktree add --detach ../old COMMIT`,
then `make .venv/ready` there. Each version runs its own benchmark in its own `.venv`, under callgrind. With `--keep` the profiles
stay, for `callgrind_annotate`.

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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import crawlers, webs
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
_START, _PAGE = "start", "page"
_CRAWLS = {_PAGE: "a page of site", _START: "the start and end of its crawl"}


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


# ------------------------------------------------------------------------------------------------ around valgrind


def _crawl(pages: int, profiles: Path) -> tuple[int, int]:
    """Crawl a site of so many pages: the number that it really has, and the instructions of the process that crawls."""
    web = replace(webs.SITE, pages_per_host=pages)
    out = profiles / f"crawl-{pages}"
    with webs.serving(web) as served, tempfile.TemporaryDirectory(prefix="skitter-bench-") as folder:
        order = crawlers.skitter(served, Path(folder))
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}.%p", *order.command]
        subprocess.run(
            command, input=order.stdin, text=True, stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True
        )
    return len(served.pages), max(map(_total, profiles.glob(f"{out.name}.*")))


def _total(profile: Path) -> int:
    """Instructions of one process, with those of its parent up to the fork."""
    found = _TOTAL.search(profile.read_text(errors="replace"))
    return int(found[1]) if found else 0


# ------------------------------------------------------------------------------------------------ outside


def measure(checkout: Path, urls: int, profiles: Path) -> dict[str, float]:
    """Instructions for each row of one version."""
    profiles.mkdir(parents=True, exist_ok=True)
    switches = _compiled(profiles)
    with tempfile.TemporaryDirectory(prefix="skitter-bench-") as directory:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={profiles / 'out'}",
        ]
        command += [*_script(checkout), "--count", str(switches), "--urls", str(urls)]
        rows = _run([*command, "--directory", f"{directory}/state"], checkout, profiles)
    totals = _totals(profiles)
    return {name: totals[int(row)] / count for name, (row, count) in rows.items()}


def measure_crawls(checkout: Path, sizes: Sequence[int], profiles: Path) -> dict[str, float]:
    """Instructions of a page and of the start, of one version."""
    profiles.mkdir(parents=True, exist_ok=True)
    command = [*_script(checkout), "--pages", ",".join(map(str, sizes)), "--crawl", str(profiles)]
    (few, least), (many, most) = _run(command, checkout, profiles)
    page = (most - least) / (many - few)
    return {_PAGE: page, _START: least - few * page}


def _script(checkout: Path) -> list[str]:
    """This script, as it runs in one version."""
    python = checkout / ".venv/bin/python"
    return [str(python if python.exists() else sys.executable), str(Path(__file__).resolve())]


def _run(command: list[str], checkout: Path, profiles: Path) -> Any:
    """What it found. The script is this version's, and imports the other one's benchmarks and Skitter."""
    told = os.environ | {"PYTHONPATH": f"{checkout}:{checkout / 'src'}", "PYTHONHASHSEED": "0"}
    told.pop("PYTHONDONTWRITEBYTECODE", None)  # as for users: no crawl compiles modules
    with (profiles / "valgrind.txt").open("w") as said:
        run = subprocess.run(command, cwd=checkout, env=told, stdout=subprocess.PIPE, stderr=said, text=True, check=True)  # fmt: skip
    return json.loads(run.stdout)


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


def table(titles: dict[str, str], here: dict[str, float], there: dict[str, float] | None) -> str:
    """Instructions each, and how many times as many as the other version's."""
    lines = [f"{'instructions':<50}{'here':>16}" + (f"{'there':>16}{'times':>8}" if there else "")]
    for name, title in titles.items():
        line = f"{title:<50}{here[name]:>16,.0f}"
        lines.append(line + (f"{there[name]:>16,.0f}{here[name] / there[name]:>8.3f}" if there else ""))
    return "\n".join(lines)


def main(arguments: argparse.Namespace) -> None:
    if arguments.count:
        asyncio.run(_count(arguments.directory, arguments.urls, arguments.count))
        return
    if arguments.crawl:
        print(json.dumps([_crawl(pages, arguments.crawl) for pages in arguments.pages]))
        return

    def measured(checkout: Path, name: str) -> dict[str, float]:
        if arguments.pages:
            return measure_crawls(checkout, arguments.pages, profiles / name)
        return measure(checkout, arguments.urls, profiles / name)

    with tempfile.TemporaryDirectory(prefix="skitter-profiles-") as temporary:
        profiles = (arguments.keep or Path(temporary)).resolve()
        here = measured(_HERE, "here")
        there = measured(arguments.checkout.resolve(), "there") if arguments.checkout else None
    print(table(_CRAWLS if arguments.pages else _ROWS, here, there))


def _two_sizes(text: str) -> tuple[int, int]:
    few, many = map(int, text.split(","))
    return few, many


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, nargs="?", help="the directory of another version")
    parser.add_argument("--urls", type=int, default=_URLS, help="the size of the store")
    parser.add_argument(
        "--pages", type=_two_sizes, metavar="FEW,MANY", help="count whole crawls of two sites of these sizes"
    )
    parser.add_argument("--keep", type=Path, help="where the profiles are kept")
    parser.add_argument("--crawl", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(_parser().parse_args())
