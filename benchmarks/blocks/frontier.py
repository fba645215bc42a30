"""The durable frontier, small: `python -m benchmarks.frontier` is the long version, which shows the cost of size."""

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.frontier import settlement
from skitter.backends.rocksdb import rocks_frontier
from skitter.model import Link, Purpose
from skitter.ports import Mark

HOSTS = 200
BATCH = 500
GROUP = 50
LINKS = 20


class Links:
    """Endless links; half of each batch were in the previous one."""

    def __init__(self) -> None:
        self._made: defaultdict[str, int] = defaultdict(int)

    def of_all_hosts(self, count: int) -> list[Link]:
        return [_link(f"www.host{number % HOSTS}.example", number) for number in self._numbers("", count)]

    def of_one_host(self, host: str, count: int) -> list[Link]:
        return [_link(host, number) for number in self._numbers(host, count)]

    def _numbers(self, of: str, count: int) -> range:
        first = max(0, self._made[of] - count // 2)
        self._made[of] = first + count
        return range(first, first + count)


def _link(host: str, number: int) -> Link:
    url = f"https://{host}/some/section/of/the/site/article-{number}.html"
    return Link(url=url, key=url, host=host, depth=number % 7, score=-float(number % 7))


def add() -> Iterator[float]:
    links = Links()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        frontier = rocks_frontier(Path(folder, "state"))
        runner.run(frontier.open(0.0))
        try:
            while True:
                batches = [links.of_all_hosts(BATCH) for _ in range(4)]
                began = time.process_time()
                for batch in batches:
                    runner.run(frontier.add(batch, [], 0.0))
                yield (time.process_time() - began) / (4 * BATCH)
        finally:
            runner.run(frontier.close())


def lease_and_settle() -> Iterator[float]:
    """A visit to every host in each round, with links to its own pages; the first round is their robots.txt files."""
    links, now = Links(), 1_000_000.0
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        frontier = rocks_frontier(Path(folder, "state"))
        runner.run(frontier.open(now))
        try:
            runner.run(frontier.add(links.of_all_hosts(HOSTS * 40), [], now))
            while True:
                now += 2
                spent, done = 0.0, 0
                for _ in range(HOSTS // GROUP):
                    began = time.process_time()
                    visits = runner.run(frontier.lease(GROUP, now))
                    spent += time.process_time() - began
                    found = [
                        settlement(visit, links.of_one_host(visit.link.host, LINKS), now) for visit in visits
                    ]
                    began = time.process_time()
                    runner.run(frontier.settle(found, Mark("a", done), now))
                    spent += time.process_time() - began
                    done += sum(visit.link.purpose is not Purpose.ROBOTS for visit in visits)
                if done:
                    yield spent / done
        finally:
            runner.run(frontier.close())
