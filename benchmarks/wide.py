"""Skitter alone on 3,000 hosts with a delay of one second: how many pages per second one worker sustains.

Judged by the server's log: how many pages were requested in each minute, that each was requested once and
stored, and how long each host was idle.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawlers import skitter
from benchmarks.spending import Cost, spend
from benchmarks.webs import WIDE, Served, cores, cpu_of, serving
from skitter.testing.web import Request, Server, gaps

STOPPED_AT_A_LIMIT = 3  # exit code of a crawl that ends with work left


@dataclass(frozen=True)
class Minute:
    """One minute of the crawl."""

    pages_per_second: float
    resident_mb: float  # the maximum in it


@dataclass(frozen=True)
class Wide:
    """One polite crawl."""

    seconds: float
    pages: int  # stored
    asked: int  # page requests that the server answered completely
    repeated: int  # of these, to a page that was requested before
    pages_per_second: float
    minutes: list[Minute]
    cpu: float  # seconds per 1,000 pages
    cpu_share: float  # of its core
    server_share: float
    peak_mb: float
    connections: int
    shortest_gap: (
        float  # seconds between the end of a response and the next request to its host, over all hosts
    )


def measure(seconds: int) -> Wide:
    """Crawl for this long, on its own core."""
    with serving(WIDE) as served, tempfile.TemporaryDirectory(prefix="skitter-bench-") as folder:
        order = skitter(served, Path(folder), time=f"{seconds}s")
        began, before = time.time(), cpu_of(served.server.pid)
        cost = spend(order.command, order.stdin, cores()[1], codes=(0, STOPPED_AT_A_LIMIT))
        server_cpu = cpu_of(served.server.pid) - before
        return _judged(served, cost, began, server_cpu)


def _judged(served: Served, cost: Cost, began: float, server_cpu: float) -> Wide:
    stored = json.loads(cost.output)["counts"]["pages"]
    assert isinstance(served.server, Server)
    log = served.server.log()
    pages = [request for request in log if request.page != "/robots.txt" and request.whole]
    distinct = {(request.host, request.page) for request in pages}
    return Wide(
        seconds=cost.seconds,
        pages=stored,
        asked=len(pages),
        repeated=len(pages) - len(distinct),
        pages_per_second=stored / cost.seconds,
        minutes=_minutes(pages, cost, began),
        cpu=cost.cpu / stored * 1000,
        cpu_share=cost.cpu / cost.seconds,
        server_share=server_cpu / cost.seconds,
        peak_mb=cost.peak_mb,
        connections=len({request.connection for request in log}),
        shortest_gap=min(min(between) for between in gaps(log).values() if between),
    )


def _minutes(pages: Sequence[Request], cost: Cost, began: float) -> list[Minute]:
    """Only whole minutes; a shorter crawl has one of its own length."""
    whole = max(1, int(cost.seconds // 60))
    length = min(60.0, cost.seconds)
    asked = Counter(int((request.start - began) // length) for request in pages)
    memory: Counter[int] = Counter()
    for when, resident in cost.memory:
        memory[int(when // length)] = max(memory[int(when // length)], resident)
    return [Minute(asked[number] / length, memory[number] / 2**20) for number in range(whole)]


def said(found: Wide) -> str:
    """The crawl in a few lines."""
    rates = " ".join(f"{minute.pages_per_second:,.0f}" for minute in found.minutes)
    memory = " ".join(f"{minute.resident_mb:.0f}" for minute in found.minutes)
    return (
        f"{found.pages_per_second:,.0f} pages/s over {found.seconds:.0f} s; by minute: {rates}\n"
        f"{found.cpu:.2f} CPU s per 1,000 pages, {found.cpu_share:.0%} of its core, the server {found.server_share:.0%}\n"
        f"peak {found.peak_mb:.0f} MB; by minute: {memory}\n"
        f"{found.pages:,} pages stored, {found.asked:,} asked for, {found.repeated} of them twice; "
        f"{found.connections:,} connections; no host was touched sooner than {found.shortest_gap:.3f} s after its last answer"
    )


if __name__ == "__main__":
    import sys

    print(said(measure(int(sys.argv[1]) if sys.argv[1:] else 60)))
