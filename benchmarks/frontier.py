"""What the frontier costs: CPU microseconds, user and system, background threads included.

    python benchmarks/frontier.py [--urls 1000000] [--directory DIR]

Links are offered to 20,000 hosts by Zipf's law, half of them known; visits are leased and settled in groups of 50 with 20
links each, half known: four of five to their own host ("local"), or to any host. Each row is measured when the store
holds so many URLs: the price must not grow with them.
"""

import argparse
import asyncio
import gc
import os
import platform
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from skitter.backends.rocksdb import RocksFrontier
from skitter.model import Exchange, Link, Page, Purpose, RobotsCopy, Settlement, State, Verdict, Visit
from skitter.ports import Mark

HOSTS = 20_000
GROUP = 50
LINKS = 20
VISITS = 2_000
OFFERED = 20_000
BATCH = 500
KNOWN = 50_000  # links that are offered again
HEADERS = [("content-type", "text/html; charset=utf-8"), ("server", "nginx"), ("content-length", "18000")]


class Web:
    """Links by Zipf's law, half of them offered before."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._weights = list(_cumulated(1 / rank for rank in range(1, HOSTS + 1)))
        self._made = 0
        self._known: list[Link] = []

    def new(self, count: int, at: str = "") -> list[Link]:
        hosts = self._dice.choices(range(HOSTS), cum_weights=self._weights, k=count)
        links = []
        for number, host in enumerate(hosts):
            self._made += 1
            name = at if at and number % 5 else f"www.host{host}.example"
            url = f"https://{name}/some/section/of/the/site/article-{self._made}.html"
            depth = self._made % 7
            parent = f"https://{name}/some/section/index.html"
            links.append(Link(url=url, key=url, host=name, depth=depth, score=-float(depth), parent=parent))
        for link in links:
            if len(self._known) < KNOWN:
                self._known.append(link)
            else:
                self._known[self._dice.randrange(KNOWN)] = link
        return links

    def half_known(self, count: int, at: str = "") -> list[Link]:
        new = self.new(count - count // 2, at)
        # What a page links to was mostly linked to by its neighbours too.
        known = self._dice.choices(new if at else self._known, k=count // 2)
        return [*new, *map(_found_again, known)]


def _found_again(link: Link) -> Link:
    """An equal link, made afresh as a parser would: what the frontier is given has just been in the CPU's hands."""
    url = link.url[:8] + link.url[8:]
    return Link(
        url=url,
        key=url,
        host=link.host[:4] + link.host[4:],
        depth=link.depth,
        score=link.score,
        parent=link.parent,
    )


def _cumulated(weights: Iterator[float]) -> Iterator[float]:
    total = 0.0
    for weight in weights:
        total += weight
        yield total


def settlement(visit: Visit, links: list[Link], now: float) -> Settlement:
    link = visit.link
    verdict = Verdict(state=State.CRAWLED, host_free=now + 1, host_delay=1.0)
    exchange = Exchange(link.url, "192.0.2.1", now, now, b"GET", b"head", b"body")
    if link.purpose is Purpose.ROBOTS:
        copy = RobotsCopy(origin=link.origin, status=200, access="all", expires=now + 1e6)
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
        text="",
    )
    return Settlement(visit=visit, verdict=verdict, page=page, links=links, exchange=exchange, status=200)


def _settle_memory() -> None:
    """Keep what the benchmark itself holds out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


class Bench:
    def __init__(self, directory: Path) -> None:
        self.frontier = RocksFrontier(directory)
        self.web = Web(1)
        self.now = 1_000_000.0

    async def fill(self, urls: int) -> None:
        while (await self.frontier.counts()).added < urls:
            await self.frontier.add(self.web.new(1000), [], self.now)

    async def add(self) -> float:
        """CPU microseconds per link; making the links is not counted."""
        spent = 0.0
        _settle_memory()
        for _ in range(OFFERED // BATCH):
            links = self.web.half_known(BATCH)
            began = time.process_time()
            await self.frontier.add(links, [], self.now)
            spent += time.process_time() - began
        return spent / OFFERED * 1e6

    async def visit(self, links: int, *, local: bool) -> float:
        """CPU microseconds per visit; making the pages is not counted."""
        done, spent = 0, 0.0
        _settle_memory()
        while done < VISITS:
            self.now += 2
            began = time.process_time()
            visits = await self.frontier.lease(GROUP, self.now)
            spent += time.process_time() - began
            found = [self.web.half_known(links, visit.link.host if local else "") for visit in visits]
            settlements = [settlement(*each, self.now) for each in zip(visits, found, strict=True)]
            began = time.process_time()
            await self.frontier.settle(settlements, Mark("a", done), self.now)
            spent += time.process_time() - began
            done += len(visits)
        return spent / done * 1e6

    async def row(self, urls: int) -> str:
        await self.fill(urls)
        added = await self.add()
        bare = await self.visit(0, local=False)
        local = await self.visit(LINKS, local=True)
        anywhere = await self.visit(LINKS, local=False)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        return f"{urls:>10,} {added:>8.1f} {bare:>12.1f} {local:>14.1f} {anywhere:>17.1f} {memory:>10}"


async def main(urls: int, directory: Path) -> None:
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, CPU µs each\n"
    )
    print("      URLs      add  visit, bare  20 links local  20 links anywhere   peak MiB")
    bench = Bench(directory)
    await bench.frontier.open(bench.now)
    size = 100_000
    while size <= urls:
        print(await bench.row(size), flush=True)
        size *= 10
    print(bench.frontier.statistics())
    began = time.perf_counter()
    bench.frontier.abandon()
    await bench.frontier.open(bench.now)
    print(f"\nopened again after a kill in {time.perf_counter() - began:.2f} s")
    await bench.frontier.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    where = arguments.directory or Path(tempfile.mkdtemp(prefix="skitter-bench-"))
    try:
        asyncio.run(main(arguments.urls, where / "state"))
    finally:
        if arguments.directory is None:
            shutil.rmtree(where)
