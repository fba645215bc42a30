"""A small finished crawl to read from: the reference frontier, filled through its port, and an archive in memory."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

from skitter import urls
from skitter.crawl.directory import CrawlDirectory
from skitter.export.source import Stored
from skitter.model import (
    Directives,
    Exchange,
    Level,
    Link,
    Page,
    Place,
    Purpose,
    Reason,
    RobotsCopy,
    Settlement,
    State,
    Verdict,
    Visit,
)
from skitter.ports import Command, Frontier, Mark
from skitter.settings import Settings
from skitter.testing.reference import memory_frontier

NOW = 1_700_000_000.0
ROBOTS = b"User-agent: *\nDisallow: /private/\n"
ROOT = "https://example.org/"
ABOUT = "https://example.org/about"
COPY = "https://example.org/copy"
HTML = b"<!doctype html><title>=About \xe2\x98\x83 us</title><p>Twelve words of <b>text</b>.</p>"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class MemoryArchive:
    """Answers by place."""

    def __init__(self, answers: Mapping[Place, bytes]) -> None:
        self._answers = answers

    def read(self, place: Place) -> bytes:
        if place not in self._answers:
            raise OSError(f"{place.file} has no whole record at {place.offset}")
        return self._answers[place]

    def records(self, file: str) -> Iterator[Stored]:
        return iter(())


class CrawledSource:
    """What `skitter.compose.open_source` gives, without a disk."""

    def __init__(self, frontier: Frontier, archive: MemoryArchive, directory: CrawlDirectory) -> None:
        self.settings = Settings()
        self.frontier = frontier
        self.archive = archive
        self.directory = directory

    @property
    def name(self) -> str:
        return str(self.directory.path)

    async def roots(self) -> list[str]:
        return self.directory.roots()

    async def commands(self) -> list[Command]:
        return []

    async def files(self) -> list[str]:
        return self.directory.files()

    def path_of(self, file: str) -> str:
        return file

    async def elsewhere(self) -> dict[str, int]:
        return {}


def page(url: str, **fields: object) -> Page:
    made: dict[str, object] = {
        "url": url,
        "requested_url": url,
        "key": urls.key(url),
        "host": urls.host(url),
        "domain": urls.registrable_domain(urls.host(url)),
        "status": 200,
        "fetched_at": NOW,
        "content_type": "text/html",
        "charset": "utf-8",
        "headers": (("content-type", "text/html"),),
        "size": len(HTML),
        "digest": "sha1:AAAA",
    }
    return Page(**(made | fields))  # type: ignore[arg-type]


def link(url: str, **fields: object) -> Link:
    made: dict[str, object] = {"url": url, "key": urls.key(url), "host": urls.host(url)}
    return Link(**(made | fields))  # type: ignore[arg-type]


async def _fill(frontier: Frontier) -> None:
    await frontier.open(NOW)
    await frontier.add([link(ROOT, seed=True, level=Level.CRITICAL)], [], NOW)
    found = [
        link(url, depth=1, parent=ROOT)
        for url in (ABOUT, COPY, "https://example.org/private/x", "https://example.org/gone")
    ]
    elsewhere = (
        link("https://other.example/", depth=1, parent=ROOT),
        Reason("scope.host", "other.example is not the host of a seed"),
    )
    now = NOW
    for _ in range(20):
        for visit in await frontier.lease(1, now):
            await frontier.settle([_settled(visit, found, elsewhere, now)], Mark("00-1.warc.gz", 99), now)
        now += 10.0
        if visit.link.url.endswith("/gone"):
            return


def _settled(visit: Visit, found: list[Link], elsewhere: tuple[Link, Reason], now: float) -> Settlement:
    url = visit.link.url
    exchange = Exchange(url, "192.0.2.1", now, now + 0.1, b"GET", b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100)
    done = Verdict(state=State.CRAWLED, host_free=now + 1.1, host_delay=1.0)
    if visit.link.purpose is Purpose.ROBOTS:
        copy = RobotsCopy(
            origin=visit.link.origin, status=200, body=ROBOTS, fetched_at=now, expires=now + 86400
        )
        return Settlement(visit=visit, verdict=done, robots=copy, exchange=exchange, status=200)
    if "/private/" in url:
        no = Verdict(state=State.REFUSED, reason=Reason("robots", "robots.txt line 2: Disallow: /private/"))
        return Settlement(visit=visit, verdict=no)
    if url == ROOT:
        stored = page(
            url, title="Home", links_count=5, archive=Place("00-1.warc.gz", 0, 50), digest="sha1:ROOT"
        )
        return Settlement(
            visit=visit,
            verdict=done,
            page=stored,
            links=found,
            refused=[elsewhere],
            exchange=exchange,
            status=200,
        )
    if url.endswith("/gone"):
        stored = page(
            url,
            status=404,
            depth=1,
            parent=ROOT,
            title="Nothing here",
            archive=Place("00-1.warc.gz", 400, 50),
        )
        return Settlement(visit=visit, verdict=done, page=stored, exchange=exchange, status=404)
    twin = (
        {"duplicate_of": ABOUT, "identical": True, "archive": Place("00-1.warc.gz", 300, 50)}
        if url == COPY
        else {}
    )
    fields = {
        "depth": 1,
        "parent": ROOT,
        "title": "=About ☃ us\x1b[2J",
        "simhash": 0xAB,
        "archive": Place("00-1.warc.gz", 100, 50),
    }
    stored = page(url, robots=Directives(index=False), **(fields | twin))
    return Settlement(visit=visit, verdict=done, page=stored, exchange=exchange, status=200)


def crawled(folder: Path) -> CrawledSource:
    """A home page with four links: one fetched, one its exact copy, one forbidden by robots.txt, one gone; one was refused."""
    frontier = memory_frontier()
    asyncio.run(_fill(frontier))
    chunked = ANSWER + b"%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML)
    revisit = ANSWER
    answers = {
        Place(
            "00-1.warc.gz", 0, 50
        ): b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<title>Home</title>Welcome",
        Place("00-1.warc.gz", 100, 50): chunked,
        Place("00-1.warc.gz", 300, 50): revisit,
    }
    directory = CrawlDirectory(folder)
    directory.add_roots([ROOT])
    return CrawledSource(frontier, MemoryArchive(answers), directory)
