"""Whole crawls side by side: every crawler once, then every crawler again, so that all of them meet the same machine.

The server has one core and the crawler the other; only runs with several workers share both cores.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import same
from benchmarks.crawlers import CRAWLERS, Crawler
from benchmarks.spending import spend
from benchmarks.webs import Served, Web, cores, cpu_of, serving


@dataclass(frozen=True)
class Run:
    """One crawl from start to end."""

    pages: int  # pages stored, of those that exist
    seconds: float
    cpu: float
    peak_mb: float
    server_cpu: float
    requests: int  # as counted by the server
    connections: int
    forbidden: int  # requests for pages that robots.txt forbids


@dataclass(frozen=True)
class Row:
    """A crawler's result: medians over its runs."""

    name: str
    label: str
    pages: int
    of: int
    pages_per_second: float
    cpu: float  # seconds per 1,000 pages, as are the next two
    cpu_least: float
    cpu_most: float
    peak_mb: float
    server_share: float  # of its core
    requests: int
    connections: int
    forbidden: int
    runs: list[Run]
    same: int | None = None  # pages whose title, text and links equal Skitter's


def crawl(crawler: Crawler, served: Served) -> Run:
    """One run, counted by what it stored and what the server saw."""
    with tempfile.TemporaryDirectory(prefix="skitter-bench-") as name:
        folder = Path(name)
        order = crawler.order(served, folder)
        began, before = time.time(), cpu_of(served.server.pid)
        core = cores()[1] if crawler.workers == 1 else None
        cost = spend(order.command, order.stdin, core, order.codes)
        server_cpu = cpu_of(served.server.pid) - before
        stored = crawler.stored(served, folder)
    log = [request for request in served.server.log() if request.start >= began]
    asked = [f"http://{request.host}:{served.server.port}{request.path}" for request in log]
    return Run(
        pages=len(stored & served.pages),
        seconds=cost.seconds,
        cpu=cost.cpu,
        peak_mb=cost.peak_mb,
        server_cpu=server_cpu,
        requests=len(log),
        connections=len({request.connection for request in log}),
        forbidden=sum(url in served.forbidden for url in asked),
    )


def summed_up(crawler: Crawler, of: int, runs: Sequence[Run]) -> Row:
    """Medians, and the spread of the CPU."""

    def median(values: Iterable[float]) -> float:
        return statistics.median(values)

    # Per stored page: missing pages does not make a crawler cheaper.
    cpu = [run.cpu / max(run.pages, 1) * 1000 for run in runs]
    return Row(
        name=crawler.name,
        label=crawler.label,
        pages=min(run.pages for run in runs),
        of=of,
        pages_per_second=median(run.pages / run.seconds for run in runs),
        cpu=median(cpu),
        cpu_least=min(cpu),
        cpu_most=max(cpu),
        peak_mb=median(run.peak_mb for run in runs),
        server_share=median(run.server_cpu / run.seconds for run in runs),
        requests=int(median(run.requests for run in runs)),
        connections=int(median(run.connections for run in runs)),
        forbidden=max(run.forbidden for run in runs),
        runs=list(runs),
    )


def measure(web: Web, rounds: int, chosen: Sequence[str]) -> list[Row]:
    """All crawlers on one web."""
    if web.missing():
        _say(f"{web.name}: not measured; it needs {web.missing()}")
        return []
    wanted = [crawler for crawler in CRAWLERS if web.part in crawler.webs]
    wanted = [crawler for crawler in wanted if not chosen or crawler.name in chosen]
    able = []
    for crawler in wanted:
        if crawler.missing():
            _say(f"{crawler.label}: not measured, {crawler.missing()}")
        else:
            able.append(crawler)
    runs: dict[str, list[Run]] = {crawler.name: [] for crawler in able}
    with serving(web) as served:
        # On real pages crawlers differ in where tags end words: there, only the pages are compared.
        agreed = {} if web.folder else same.agreement(able, served)
        for turn in range(rounds):
            for crawler in (*able[turn % len(able) :], *able[: turn % len(able)]):
                run = crawl(crawler, served)
                runs[crawler.name].append(run)
                _say(
                    f"{web.name} {turn + 1}/{rounds}  {crawler.label}: {run.cpu / max(run.pages, 1) * 1000:.2f}"
                )
        rows = [summed_up(crawler, len(served.pages), runs[crawler.name]) for crawler in able]
        return [replace(row, same=agreed.get(row.name)) for row in rows]


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
