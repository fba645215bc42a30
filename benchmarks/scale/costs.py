"""The cost of a page, a URL and a host in bytes and CPU: whole crawls of two sites, and stores filled on purpose.

The sites are the benchmarks' *site* (synthetic pages of 18 KB) and, if installed, Debian's python3-doc, whose
pages are real. They are crawled as a user would, with everything on and no delay, and the size of the crawl
directory is measured. Stores are filled in separate processes, so that memory is theirs alone.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.crawlers import skitter
from benchmarks.frontier import Web as Links
from benchmarks.frontier import settlement
from benchmarks.spending import Cost, resident, spend
from benchmarks.webs import SITE, Web, cores, serving
from benchmarks.wide import STOPPED_AT_A_LIMIT
from skitter.backends.rocksdb import rocks_frontier
from skitter.model import Link, Purpose
from skitter.ports import Mark

REAL = Path("/usr/share/doc/python3.11/html")
ROUNDS = 3
URLS, HOSTS = 3_000_000, 1_000_000
PAGES, LINKS, PER_HOST = 30_000, 40, 100
NOW = 1e9


@dataclass(frozen=True)
class PageCost:
    """Per stored page of a crawl; bytes, seconds."""

    label: str
    pages: int
    links: float  # on a page
    wire: float  # received, including heads; neither site compresses
    archive: float
    log: float
    cpu: float
    peak_mb: float


def measure() -> dict[str, Any]:
    """Everything, as in the JSON file."""
    sites = [_crawled("made-up pages", lambda: serving(SITE))]
    if REAL.is_dir():
        sites.append(_crawled("python3-doc", _real))
    return {"pages": [asdict(site) for site in sites], "stores": {name: _apart(name) for name in STORES}}


# ------------------------------------------------------------------------------------------------ crawls


class Site(Protocol):
    """A web that is being served."""

    web: Web

    @property
    def seeds(self) -> list[str]: ...


@dataclass
class _Files:
    """A folder, served by Python's own web server."""

    web: Web
    seeds: list[str]


@contextmanager
def _real() -> Iterator[_Files]:
    command = [sys.executable, "-um", "http.server", "0", "--bind", "127.0.0.1", "--protocol", "HTTP/1.1"]
    with subprocess.Popen(
        [*command, "--directory", str(REAL)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            os.sched_setaffinity(server.pid, {cores()[0]})
            port = server.stdout.readline().split(" port ")[1].split()[0]  # type: ignore[union-attr]
            yield _Files(replace(SITE, per_host=8), [f"http://127.0.0.1:{port}/index.html"])
        finally:
            server.terminate()


def _crawled(label: str, served: Callable[[], AbstractContextManager[Site]]) -> PageCost:
    """The median crawl of a site by CPU, minus the cost of a crawl of a single page."""
    with served() as site:
        start = min(_crawl(label, site, "--max-pages=1").cpu for _ in range(ROUNDS))
        found = [_crawl(label, site) for _ in range(ROUNDS)]
    cpu = statistics.median(each.cpu - start / each.pages for each in found)
    return replace(found[0], cpu=cpu)


def _crawl(label: str, site: Site, *options: str) -> PageCost:
    with tempfile.TemporaryDirectory(prefix="skitter-scale-") as name:
        folder = Path(name)
        order = skitter(site, folder)  # type: ignore[arg-type]  # it needs no more than a Site
        command = [*order.command, *options]
        cost = spend(command, order.stdin, cores()[1], codes=(0, STOPPED_AT_A_LIMIT))
        return _weighed(label, folder / "crawl", cost)


def _weighed(label: str, crawl: Path, cost: Cost) -> PageCost:
    counts = json.loads(cost.output)["counts"]
    pages = counts["pages"]
    return PageCost(
        label,
        pages,
        counts["seen"] / pages,
        counts["bytes"] / pages,
        _weight(crawl / "archive", "*.warc.gz") / pages,
        _weight(crawl / "log", "requests-*") / pages,
        cost.cpu / pages,
        cost.peak_mb,
    )


def _weight(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.rglob(pattern))


# ------------------------------------------------------------------------------------------------ stores


def _apart(name: str) -> dict[str, float]:
    """Fill a store in a separate process."""
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale.costs", name], check=True, capture_output=True, text=True
    )
    return json.loads(said.stdout)  # type: ignore[no-any-return]


def _state(folder: Path) -> int:
    return _weight(folder, "*.sst") + _weight(folder, "*.log") + _weight(folder, "*.blob")


async def _filled(shape: str, urls: int, folder: Path) -> dict[str, float]:
    """This many URLs, all waiting."""
    frontier, links = rocks_frontier(folder), Links(shape)
    await frontier.open(NOW)
    memory = []
    for goal in (urls // 3, urls):
        while links.made < goal:
            await frontier.add(links.new(1000), [], NOW)
        memory.append(resident(os.getpid()))
    await frontier.close(NOW)
    return {
        "urls": urls,
        "disk": _state(folder) / urls,
        "memory": (memory[1] - memory[0]) / (urls - urls // 3),  # what is there from the start does not count
        "resident_mb": memory[1] / 2**20,
    }


async def _pages(folder: Path) -> dict[str, float]:
    """This many visited pages, each with links to known pages."""
    frontier = rocks_frontier(folder)
    await frontier.open(NOW)
    links = [_page(number) for number in range(PAGES)]
    await frontier.add(links, [], NOW)
    now, visited = NOW, 0
    while visited < PAGES:
        now += 2
        settlements = []
        for visit in await frontier.lease(64, now):
            first = visited % (PAGES - LINKS)
            visited += visit.link.purpose is Purpose.PAGE
            settlements.append(settlement(visit, links[first : first + LINKS], now))
        await frontier.settle(settlements, Mark("a", visited), now)
    await frontier.close(now)
    return {"pages": PAGES, "links": LINKS, "disk": _state(folder) / PAGES}


def _page(number: int) -> Link:
    host = f"www.host{number // PER_HOST}.example"
    url = f"https://{host}/some/section/of/the/site/article-{number}.html"
    return Link(
        url=url, key=url, host=host, depth=1, score=-1.0, parent=f"https://{host}/some/section/index.html"
    )


STORES: dict[str, Callable[[Path], Coroutine[Any, Any, dict[str, float]]]] = {
    "urls": partial(_filled, "zipf", URLS),  # on 100,000 hosts
    "hosts": partial(_filled, "many-hosts", HOSTS),  # each on a host of its own
    "pages": _pages,
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="skitter-scale-") as scratch:
        print(json.dumps(asyncio.run(STORES[sys.argv[1]](Path(scratch) / "state"))))
