"""A crawl that nobody made: records of any number of pages written straight into a store, with what checks look for.

Some pages are missing, slow, empty, repeated, deep, redirected or hostile, in fixed proportions and always the same ones.
Nothing is fetched, and there is no archive.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import IO

import msgspec

from skitter import urls
from skitter.backends.rocksdb import rocks_frontier
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Requested
from skitter.frontier import ShardFrontier
from skitter.model import (
    Directives,
    Exchange,
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
from skitter.ports import Mark
from skitter.settings import Settings

NOW = 1_800_000_000.0
_GROUP = 200
_AT_ONCE = 5_000
_HOSTS = 20
_LANGUAGES = ("en", "de", "fr", "", "en-GB", "ja")
_WORDS = ("water", "paper", "stone", "river", "garden", "engine", "letter", "winter", "market", "bridge")


def build(directory: Path, pages: int, links: int = 20) -> None:
    """Create a finished crawl of about so many pages, each with so many links."""
    crawl = CrawlDirectory(directory)
    crawl.prepare()
    crawl.make(Settings())
    with crawl.request_log(0).open("wb") as log:
        asyncio.run(_Made(crawl, pages, links).fill(log))


class _Made:
    def __init__(self, crawl: CrawlDirectory, pages: int, links: int) -> None:
        self._crawl = crawl
        self._pages = pages
        self._links = links
        self._dice = Random(7)
        self._encode = msgspec.json.Encoder().encode_lines

    async def fill(self, log: IO[bytes]) -> None:
        frontier = rocks_frontier(self._crawl.state(0))
        await frontier.open(NOW)
        for first in range(0, self._pages, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, self._pages))
            await frontier.add([self._link(number) for number in some], [], NOW)
        now = NOW
        done = 0
        while visits := await self._leased(frontier, now):
            found = [self._settled(visit, now) for visit in visits]
            done += len(found)
            await frontier.settle(found, Mark("00-synthetic-00001.warc.gz", done * 9_000), now)
            log.write(self._encode(list(self._requests(found))))
            now += 2
        await frontier.close(now)

    async def _leased(self, frontier: ShardFrontier, now: float) -> list[Visit]:
        return list(await frontier.lease(_GROUP, now))

    def _requests(self, found: list[Settlement]) -> Iterator[Requested]:
        for one in found:
            exchange, link = one.exchange, one.visit.link
            if exchange is not None:
                fault = one.verdict.reason.code if one.verdict.reason and not one.status else ""
                yield Requested(
                    url=link.url,
                    host=link.host,
                    address=exchange.address,
                    start=exchange.started,
                    end=exchange.ended,
                    status=one.status,
                    bytes=len(exchange.body),
                    purpose=link.purpose.value,
                    attempt=1,
                    fault=fault,
                )

    def _url(self, number: int) -> str:
        scheme = "http" if number % 50 == 7 else "https"
        name = "Report" if number % 90 == 5 else "article"
        query = f"?page={number % 9}&sort=up" if number % 20 == 3 else ""
        return f"{scheme}://www{number % _HOSTS}.site{number % 5}.example/section-{number % 300}/{name}-{number}{query}"

    def _link(self, number: int, parent: str = "") -> Link:
        url = self._url(number)
        depth = 0 if number < _HOSTS else 1 + number % 8
        return Link(url=url, key=urls.key(url) or url, host=urls.host(url), depth=depth, parent=parent)

    def _settled(self, visit: Visit, now: float) -> Settlement:
        link = visit.link
        number = int(link.url.partition("?")[0].rpartition("-")[2]) if "-" in link.url else 0
        seconds = 4.0 if number % 101 == 1 else 0.05 + number % 7 / 50
        body = b"x" * (300 if number % 9 else 3_000)
        exchange = Exchange(link.url, "192.0.2.1", now, now + seconds, b"GET", b"", body)
        verdict = Verdict(state=State.CRAWLED, host_free=now, host_delay=0.0)
        if link.purpose is Purpose.ROBOTS:
            copy = RobotsCopy(origin=link.origin, status=200, access="all", fetched_at=now, expires=now + 1e9)
            return Settlement(visit=visit, verdict=verdict, robots=copy, exchange=exchange, status=200)
        if number % 97 == 11:
            reason = Reason("timeout", "no answer within 30 s")
            failed = Verdict(state=State.FAILED, reason=reason, host_free=now, host_delay=0.0)
            return Settlement(visit=visit, verdict=failed, exchange=exchange)
        if number % 40 == 13:
            target = self._link((number + 40) % self._pages if number % 80 == 13 else number - 1)
            reason = Reason("redirect", f"redirects (301) to {target.url}")
            moved = Verdict(state=State.CRAWLED, reason=reason, host_free=now, host_delay=0.0)
            return Settlement(visit=visit, verdict=moved, links=[target], exchange=exchange, status=301)
        page = self._page(link, number, now)
        found, refused = self._out(number, link.url)
        return Settlement(
            visit=visit,
            verdict=verdict,
            page=page,
            links=found,
            refused=refused,
            exchange=exchange,
            status=page.status,
        )

    def _out(self, number: int, parent: str) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        navigation = [self._link(place, parent) for place in range(5)]
        others = [self._link(self._dice.randrange(self._pages), parent) for _ in range(self._links - 7)]
        outside = f"https://www.elsewhere{number % 400}.example/"
        secret = f"https://www{number % _HOSTS}.site{number % 5}.example/private/{number % 1_000}"
        refused = [
            (self._named(outside, parent), Reason("scope.host", "another host")),
            (self._named(secret, parent), Reason("robots", "Disallow: /private/")),
        ]
        return navigation + others, refused

    def _named(self, url: str, parent: str) -> Link:
        return Link(url=url, key=url, host=urls.host(url), depth=3, parent=parent)

    def _page(self, link: Link, number: int, now: float) -> Page:
        status = 404 if number % 60 == 17 else 500 if number % 700 == 19 else 200
        words = " ".join(_WORDS[(number // 10**place) % 10] for place in range(5))
        title = "" if number % 45 == 1 else "Home" if number % 33 == 2 else f"{words} {number}"
        twin = self._url(number - 1) if number % 25 == 9 else ""
        named = link.url if number % 3 else self._url(number + 1) if number % 70 == 0 else ""
        return Page(
            url=link.url,
            requested_url=link.url,
            key=link.key,
            host=link.host,
            domain=urls.registrable_domain(link.host),
            status=status,
            fetched_at=now,
            depth=link.depth,
            parent=link.parent,
            content_type="application/pdf" if number % 30 == 4 else "text/html",
            charset="utf-8",
            headers=[("content-type", "text/html; charset=utf-8"), ("server", "nginx")],
            size=18_000 + number % 1_000 * 50,
            title="<script>alert(1)</script>" if number % 5_000 == 8 else title,
            description="" if number % 4 == 1 else f"About {words}" if number % 8 else "Our site",
            language=_LANGUAGES[number % len(_LANGUAGES)],
            digest=f"sha1:{number - (1 if twin else 0):032X}",
            simhash=number * 0x9E3779B97F4A7C15 % 2**64,
            duplicate_of=twin,
            identical=bool(twin) and number % 2 == 0,
            canonical=named,
            robots=Directives(index=number % 35 != 6, follow=number % 80 != 6),
            links_count=self._links if number % 500 else 900,
            archive=Place("00-synthetic-00001.warc.gz", number * 9_000, 9_000),
            alternates={"de": self._url(number + 1)} if number % 100 == 0 else None,
        )
