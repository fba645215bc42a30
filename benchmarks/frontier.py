"""The cost of the frontier: CPU microseconds, user and system, including RocksDB's background threads.

    python -m benchmarks.frontier [--urls 100000 1000000] [--shape zipf|one-host|many-hosts] [--json FILE]

Each size runs in its own process. It fills a store, then measures while the store holds that many URLs: the
cost must not grow with them. Known links are drawn from everything ever offered, so no cache of recent ones
can answer for them; only "the same again" offers the very same objects, as the memo of judged links does for
the navigation of a site. Visits are leased and settled in groups of 20; of the links on a page four of five
stay on its host. At the end the process kills itself, with visits open, and another one opens the store and
reports how long that took.

The default ends in about a minute; `--urls 1000000 10000000` is the long one.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np

from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier import ShardFrontier
from skitter.model import Exchange, Link, Page, Purpose, RobotsCopy, Settlement, State, Verdict, Visit
from skitter.ports import Mark
from skitter.runtime.metrics import as_fields

SHAPES = {"zipf": 100_000, "one-host": 1, "many-hosts": 0}  # hosts; 0: one for every URL
SIZES = (100_000, 1_000_000)
GROUP = 20
LINKS = 20
NAVIGATION = 40  # links on a page of an already known site
# Compactions are rare and large, larger with more data: too few visits meet none of them, or far too much.
VISITS, VISITS_PER_URL = 2_000, 50
OFFERED = 20_000
BATCH = 500
REMEMBERED = 16  # links of a host that its later pages repeat
HEADERS = [("content-type", "text/html; charset=utf-8"), ("server", "nginx"), ("content-length", "18000")]
ROWS = {
    "new": "add, all new",
    "half": "add, half known",
    "nine": "add, nine of ten known",
    "same": "add, the same again",
    "visit_half": "lease + settle, 20 links half known",
    "visit_nine": "lease + settle, 20 links nine of ten known",
    "visit_known": "lease + settle, 40 links known, the same again",
    "visit_bare": "lease + settle, no links",
    "rss_mb": "resident MB",
    "peak_mb": "resident MB, peak",
    "disk_bytes": "bytes on disk per URL",
    "reopen_s": "seconds to open after kill -9",
    "first_s": "seconds to the first visit after that",
}


class Web:
    """Links by number: the same number is the same link, so nothing offered has to be remembered."""

    def __init__(self, shape: str) -> None:
        self._dice = Random(1)
        self._ranks = _zipf(SHAPES[shape]) if SHAPES[shape] else None
        self._of_host: dict[str, list[int]] = {}
        self.made = self._local = 0

    def _host(self, number: int) -> str:
        if self._ranks is None:
            return f"www.host{number}.example"
        return f"www.host{self._ranks[number * 2_654_435_761 % len(self._ranks)]}.example"

    def _link(self, number: int, host: str = "") -> Link:
        host = host or self._host(number)
        url = f"https://{host}/some/section/of/the/site/article-{number}.html"
        parent = f"https://{host}/some/section/index.html"
        depth = number % 7
        return Link(url=url, key=url, host=host, depth=depth, score=-float(depth), parent=parent)

    def new(self, count: int) -> list[Link]:
        self.made += count
        return [self._link(number) for number in range(self.made - count, self.made)]

    def known(self, count: int) -> list[Link]:
        """Equal links, created again as a parser would."""
        return [self._link(self._dice.randrange(self.made)) for _ in range(count)]

    def mixed(self, count: int, new: int) -> list[Link]:
        known = self.known(count - new)
        return known + self.new(new)

    def page(self, host: str, count: int, new: int) -> list[Link]:
        """The links of a page: four of five stay on its host, and repeat what its other pages linked to."""
        return [self._of_page(host, local=place % 5 != 0, new=place < new) for place in range(count)]

    def _of_page(self, host: str, *, local: bool, new: bool) -> Link:
        known = self._of_host.setdefault(host, [])
        if not local or not (new or known):
            return (self.new(1) if new else self.known(1))[0]
        if not new:
            return self._link(self._dice.choice(known), host)
        self._local -= 1  # negative numbers: never drawn as one of all links
        known.append(self._local)
        del known[:-REMEMBERED]
        return self._link(self._local, host)


def _zipf(hosts: int) -> list[int]:
    """Ranks such that equal steps through the list hit the hosts by Zipf's law."""
    weights = np.cumsum(1 / np.arange(1, hosts + 1))
    quantiles = np.linspace(0, weights[-1], 1 << 21, endpoint=False)
    ranks: list[int] = np.searchsorted(weights, quantiles, side="right").astype(np.int32).data  # type: ignore[assignment]
    return ranks


def settlement(visit: Visit, links: Sequence[Link], now: float) -> Settlement:
    link = visit.link
    verdict = Verdict(state=State.CRAWLED, host_free=now + 1, host_delay=1.0)
    exchange = Exchange(link.url, "192.0.2.1", now, now, b"GET", b"head", b"body")
    if link.purpose is Purpose.ROBOTS:
        copy = RobotsCopy(origin=link.origin, status=200, access="all", expires=now + 1e9)
        return Settlement(visit=visit, verdict=verdict, robots=copy, exchange=exchange)
    page = Page(
        url=link.url,
        requested_url=link.url,
        key=link.key,
        host=link.host,
        domain=link.host.removeprefix("www."),
        status=200,
        fetched_at=now,
        depth=link.depth,
        parent=link.parent,
        headers=HEADERS,
        title="The title of an article of usual length",
        digest=f"sha1:{hash(link.key):x}",
        simhash=hash(link.key) & (2**64 - 1),
    )
    return Settlement(visit=visit, verdict=verdict, page=page, links=links, exchange=exchange, status=200)


class Meter:
    """CPU time of the whole process, without what the main thread spends on the benchmark itself.

    It starts when RocksDB's background threads are idle and ends when they are done, so that each figure
    includes the compactions it caused and no others.
    """

    def __init__(self, frontier: ShardFrontier) -> None:
        store = cast("RocksStore", frontier._store)  # noqa: SLF001  nobody else can ask
        self._families = store.db._families.values()  # noqa: SLF001  the same
        gc.collect()
        gc.freeze()  # the benchmark's own data must not burden the collector
        self._wait_for_background()
        self._began, self._own = time.process_time(), 0.0

    def _wait_for_background(self) -> None:
        """Wait until nothing runs, for long enough: RocksDB may leave a compaction pending that it does not
        consider worthwhile.
        """
        quiet = 0
        while quiet < 50:
            busy = any(
                one.property_int_value(f"rocksdb.{name}")
                for one in self._families
                for name in ("num-running-compactions", "num-running-flushes", "mem-table-flush-pending")
            )
            quiet = 0 if busy else quiet + 1
            time.sleep(0.01)

    def own(self, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        result = work()
        self._own += time.thread_time() - began
        return result

    def each(self, count: int) -> float:
        """Microseconds."""
        self.own(self._wait_for_background)
        return (time.process_time() - self._began - self._own) / count * 1e6


class Bench:
    """One frontier under load."""

    def __init__(self, directory: Path, shape: str) -> None:
        self.frontier = rocks_frontier(directory)
        self.web = Web(shape)
        self.now = 1_000_000.0
        self.visits = VISITS

    async def offer(self, count: int, make: Callable[[], list[Link]]) -> float:
        meter, done = Meter(self.frontier), 0
        while done < count:
            links = meter.own(make)
            await self.frontier.add(links, [], self.now)
            done += len(links)
        return meter.each(done)

    async def robots(self, visits: int) -> None:
        """Settle the robots.txt files of the next hosts, so that pages are measured."""
        for _ in range(visits // GROUP):
            self.now += 2
            leased = await self.frontier.lease(GROUP, self.now)
            found = [settlement(visit, [], self.now) for visit in leased]
            await self.frontier.settle(found, Mark(), self.now)

    async def visit(self, make: Callable[[str], Sequence[Link]]) -> float:
        meter, done = Meter(self.frontier), 0
        while done < self.visits:
            self.now += 2
            visits = await self.frontier.lease(GROUP, self.now)
            if not visits:
                raise AssertionError("nothing to visit")
            found = meter.own(partial(self._pages, visits, make))
            await self.frontier.settle(found, Mark("a", done), self.now)
            done += len(visits)
        return meter.each(done)

    def _pages(self, visits: Sequence[Visit], make: Callable[[str], Sequence[Link]]) -> list[Settlement]:
        return [settlement(visit, make(visit.link.host), self.now) for visit in visits]

    async def figures(self, urls: int) -> dict[str, float]:
        web, self.visits = self.web, max(VISITS, min(10 * VISITS, urls // VISITS_PER_URL))
        figures = {"new": await self.offer(urls, lambda: web.new(1000))}
        figures["half"] = await self.offer(OFFERED, lambda: web.mixed(BATCH, BATCH // 2))
        figures["nine"] = await self.offer(OFFERED, lambda: web.mixed(BATCH, BATCH // 10))
        again = web.known(BATCH)
        await self.frontier.add(again, [], self.now)
        figures["same"] = await self.offer(OFFERED, lambda: again)
        await self.robots(self.visits)
        navigation = web.known(NAVIGATION)
        figures["visit_bare"] = await self.visit(lambda _: ())
        figures["visit_half"] = await self.visit(lambda host: web.page(host, LINKS, LINKS // 2))
        figures["visit_nine"] = await self.visit(lambda host: web.page(host, LINKS, LINKS // 10))
        figures["visit_known"] = await self.visit(lambda _: navigation)
        return figures


def _memory() -> dict[str, float]:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return {
        name: int(fields[field].split()[0]) >> 10
        for name, field in (("rss_mb", "VmRSS"), ("peak_mb", "VmHWM"))
    }


def _stored(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


async def _fill_and_die(directory: Path, shape: str, urls: int) -> None:
    bench = Bench(directory, shape)
    await bench.frontier.open(bench.now)
    figures = await bench.figures(urls) | _memory()
    await bench.frontier.lease(GROUP, bench.now + 10)
    figures["disk_bytes"] = _stored(directory) / (await bench.frontier.counts()).added
    print(
        json.dumps(figures | {"statistics": as_fields(bench.frontier.metrics()), "now": bench.now}),
        flush=True,
    )
    os.kill(os.getpid(), signal.SIGKILL)


async def _open_again(directory: Path, now: float) -> None:
    frontier = rocks_frontier(directory)
    began = time.perf_counter()
    opened = await frontier.open(now + 20)
    opened_in = time.perf_counter() - began
    visits = await frontier.lease(GROUP, now + 40)
    figures = {"reopen_s": opened_in, "first_s": time.perf_counter() - began}
    if not opened.lost or not visits:
        raise AssertionError("the killed process left no visits open")
    await frontier.close()
    print(json.dumps(figures))


def _child(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.frontier", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        said = child.communicate()[0]
    if not said:
        raise RuntimeError(f"{command} ended with {child.returncode} and said nothing")
    answer: dict[str, Any] = json.loads(said)
    return answer


def measure(urls: int, shape: str = "zipf", directory: Path | None = None) -> dict[str, Any]:
    """All figures at one size, by the names in ROWS."""
    where = Path(tempfile.mkdtemp(prefix="skitter-bench-", dir=directory))
    try:
        figures = _child("--part", "fill", "--urls", urls, "--shape", shape, "--directory", where / "state")
        now = figures.pop("now")
        figures |= _child("--part", "open", "--now", now, "--directory", where / "state")
    finally:
        shutil.rmtree(where)
    return {"urls": urls, "shape": shape, **figures}


def table(results: Iterable[dict[str, Any]]) -> str:
    """Figures side by side, one column per size."""
    columns = list(results)
    lines = [f"{'URLs':<50}" + "".join(f"{column['urls']:>14,}" for column in columns)]
    for name, title in ROWS.items():
        lines.append(f"{title:<50}" + "".join(f"{column[name]:>14.2f}" for column in columns))
    return "\n".join(lines)


def main(arguments: argparse.Namespace) -> None:
    if arguments.part == "fill":
        asyncio.run(_fill_and_die(arguments.directory, arguments.shape, arguments.urls[0]))
    elif arguments.part == "open":
        asyncio.run(_open_again(arguments.directory, arguments.now))
    else:
        print(
            f"CPython {platform.python_version()}, {os.cpu_count()} cores; CPU µs each; hosts: {arguments.shape}"
        )
        results = []
        for urls in arguments.urls:
            results.append(measure(urls, arguments.shape, arguments.directory))
            print(table(results), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, nargs="+", default=list(SIZES), help="sizes to measure at")
    parser.add_argument("--shape", choices=SHAPES, default="zipf", help="how the URLs spread over hosts")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--directory", type=Path, help="where the stores are made and removed")
    parser.add_argument("--part", choices=("fill", "open"), help=argparse.SUPPRESS)
    parser.add_argument("--now", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(_parser().parse_args())
