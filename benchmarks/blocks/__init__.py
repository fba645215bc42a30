"""The cost of the building blocks of a crawl, compared with a stored baseline to show regressions.

A block is a generator: it prepares its material, then yields the CPU seconds of one operation, round after
round. The best round counts, because the machine is shared. Between the rounds a small loop of plain Python
is timed; figures are compared as multiples of its best, so that a slower machine does not look like a slower
Skitter.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.blocks.archive import archive
from benchmarks.blocks.fetch import fetch
from benchmarks.blocks.frontier import add, lease_and_settle
from benchmarks.blocks.parse import parse_page
from benchmarks.blocks.robots import robots_match, robots_read
from benchmarks.blocks.simhash import simhash_page
from benchmarks.blocks.url import url
from skitter.runtime.process import tune_allocator

BASELINE = Path(__file__).with_name("baseline.json")
ROUNDS = 25
REGRESSION = 1.3  # two quiet runs differ by a tenth, runs on a busy machine by a fifth

BLOCKS: Mapping[str, Callable[[], Iterator[float]]] = {
    "url: one link, resolved and made a key": url,
    "robots: read a file of 100 rules": robots_read,
    "robots: match one URL": robots_match,
    "fetch: one page over a kept connection": fetch,
    "parse: one page of 18 KB with 40 links": parse_page,
    "simhash: one page of 700 words": simhash_page,
    "archive: one page packed, appended, synced": archive,
    "frontier: add one link, half are known": add,
    "frontier: lease and settle one visit with 20 links": lease_and_settle,
}


@dataclass(frozen=True)
class Figure:
    """One block: its current cost, its baseline, and the ratio on equal machines."""

    name: str
    now: float  # CPU µs of one operation
    calibration: float  # CPU µs of the loop in the same run
    baseline: float | None
    ratio: float | None


def measure() -> list[Figure]:
    """All blocks, in a process with the allocator settings of a crawl."""
    tune_allocator()
    loops: list[float] = []
    costs = {name: _best(block, loops) for name, block in BLOCKS.items()}
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return [compared(name, cost, min(loops), stored) for name, cost in costs.items()]


def _best(block: Callable[[], Iterator[float]], loops: list[float]) -> float:
    costs = []
    with closing(block()) as rounds:  # type: ignore[type-var]  # a generator, though its type does not say so
        for cost in islice(rounds, ROUNDS):
            costs.append(cost * 1e6)
            loops.append(calibrate() * 1e6)
    return min(costs)


def compared(name: str, now: float, calibration: float, stored: Mapping[str, Any]) -> Figure:
    """A figure beside its baseline, if it has one."""
    baseline = stored.get("blocks", {}).get(name)
    if baseline is None:
        return Figure(name, now, calibration, None, None)
    return Figure(name, now, calibration, baseline, (now / calibration) / (baseline / stored["calibration"]))


def calibrate() -> float:
    """CPU seconds of a little plain Python: numbers, strings, a dictionary, a sort."""
    began = time.process_time()
    table = {number * 7919 % 10_007: f"/section/{number}.html" for number in range(10_000)}
    sum(len(text) for _, text in sorted(table.items()))
    return time.process_time() - began


def store(figures: Sequence[Figure]) -> None:
    """Store these as the baseline."""
    stored = {
        "calibration": figures[0].calibration,
        "blocks": {figure.name: round(figure.now, 3) for figure in figures},
    }
    BASELINE.write_text(json.dumps(stored, indent=1) + "\n")
