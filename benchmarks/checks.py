"""How long the named questions take on a large crawl.

    python -m benchmarks.checks [--pages 100000] [--links 20] [--directory DIR]

A synthetic crawl is written into a store, unless DIR has one already. Then its tables are loaded into DuckDB and every check is
run on them, as `skitter report` does. Wall-clock and CPU seconds; DuckDB uses several cores.
"""

import argparse
import asyncio
import gc
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.synthetic import build
from skitter.compose import open_source
from skitter.export.checks import checks
from skitter.export.checks.running import Finding, findings
from skitter.export.tables.asking import crawl_database

_SHOWN = 20


async def measure(directory: Path) -> tuple[dict[str, float], list[Finding]]:
    """Seconds by what was done, and what was found."""
    source = await open_source([directory])
    rows = 0

    def told(number: int) -> None:
        nonlocal rows
        rows += number

    known = checks()
    try:
        began, cpu = time.monotonic(), time.process_time()
        questions = [check.sql for check in known.values()]
        async with crawl_database(source, questions, told=told, ours=True) as opened:
            loaded, cpu_loaded = time.monotonic(), time.process_time()
            found = [each async for each in findings(opened, known.values(), _SHOWN)]
            ended = time.monotonic()
        pages = (await source.frontier.counts()).pages
    finally:
        await source.close()
    figures = {
        "pages": pages,
        "rows": rows,
        "load_s": loaded - began,
        "checks_s": ended - loaded,
        "all_s": ended - began,
        "load_cpu_s": cpu_loaded - cpu,
        "all_cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return figures, found


def main() -> None:
    gc.set_threshold(100_000)  # as the command does
    parser = argparse.ArgumentParser("python -m benchmarks.checks", description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = options.directory or Path(folder) / "crawl"
        if not (directory / "crawl.toml").exists():
            build(directory, round(options.pages * 1.05), options.links)  # some URLs are no pages
        figures, found = asyncio.run(measure(directory))
    for one in sorted(found, key=lambda each: -each.seconds):
        print(f"{one.check.name:<28} {one.seconds:8.3f} s {one.total:>12,} rows")
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores")
    print(f"{len(found)} checks; " + ", ".join(f"{name} {value:,.1f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
