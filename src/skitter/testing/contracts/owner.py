"""Helpers for frontier tests: a store that can be opened, killed and opened again, and its owner."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Protocol

from msgspec.structs import replace

from skitter import urls
from skitter.frontier.robots_first import carry
from skitter.model import (
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
    UrlRecord,
    Verdict,
    Visit,
)
from skitter.ports import Frontier, Mark, Opened

P = ParamSpec("P")
START = 1_000_000.0
DAY = 86_400.0


class Ground(Protocol):
    """One empty store, and how to own it."""

    def frontier(self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0) -> Frontier:
        """A frontier on the store, not opened yet."""
        ...

    async def kill(self, frontier: Frontier) -> None:
        """End its owner as `kill -9` would: nothing more is written, and the store can be opened again."""
        ...


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in its own event loop. A ground or suite with connections closes them there: `release`."""

    async def released(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await test(*args, **kwargs)
        finally:
            for owner in (kwargs.get("ground"), *args[:1]):
                release = getattr(owner, "release", None)
                if release is not None:
                    await release()

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(released(*args, **kwargs))

    return run


# ------------------------------------------------------------------------------------------------ values


def link(
    url: str,
    *,
    level: Level = Level.NORMAL,
    score: float = 0.0,
    depth: int = 0,
    parent: str = "",
    seed: bool = False,
) -> Link:
    """A wanted link. Its key is the URL without the fragment, so that two spellings can share one."""
    key = url.partition("#")[0]
    host = urls.host(url)
    return Link(url=url, key=key, host=host, level=level, score=score, depth=depth, parent=parent, seed=seed)


def exchange(url: str, size: int = 10) -> Exchange:
    """An answer of this many bytes in all."""
    return Exchange(url, "192.0.2.1", START, START, b"GET", b"h" * (size // 2), b"b" * (size - size // 2))


def page(
    visit: Visit, *, status: int = 200, digest: str = "", simhash: int | None = None, at: float = START
) -> Page:
    """The page found by a visit."""
    target = visit.link
    return Page(
        url=target.url,
        requested_url=target.url,
        key=target.key,
        host=target.host,
        domain=urls.registrable_domain(target.host),
        status=status,
        fetched_at=at,
        depth=target.depth,
        headers=[("content-type", "text/plain")],
        text="the text is for the caller",
        digest=digest,
        simhash=simhash,
        purpose=target.purpose,
    )


def allowed(origin: str, until: float) -> RobotsCopy:
    """A robots.txt that forbids nothing."""
    return RobotsCopy(origin=origin, status=200, access="all", fetched_at=START, expires=until)


CRAWLED = Verdict(state=State.CRAWLED)

# ------------------------------------------------------------------------------------------------ owner


class Owner:
    """The process that owns a frontier, with a clock that only the test moves."""

    def __init__(self, ground: Ground, now: float, options: dict[str, Any]) -> None:
        self._ground = ground
        self._options = options
        self.now = now
        self.frontier = ground.frontier(**options)
        self.opened = Opened()
        self.mark = Mark("00-00001.warc.gz", 0)

    @classmethod
    async def of(cls, ground: Ground, now: float = START, **options: Any) -> "Owner":  # noqa: ANN401  passed through
        """Open a frontier on the ground."""
        owner = cls(ground, now, options)
        owner.opened = await owner.frontier.open(now)
        return owner

    async def killed(self, after: float = 0.0) -> "Owner":
        """Die, and let another owner open the store later."""
        await self._ground.kill(self.frontier)
        return await Owner.of(self._ground, self.now + after, **self._options)

    async def restarted(self, after: float = 0.0) -> "Owner":
        """Close cleanly, and open again."""
        await self.frontier.close()
        return await Owner.of(self._ground, self.now + after, **self._options)

    async def add(self, *links: Link | str, refused: Sequence[tuple[Link, Reason]] = ()) -> int:
        """Offer links."""
        wanted = [link(one) if isinstance(one, str) else one for one in links]
        return await self.frontier.add(wanted, refused, self.now)

    async def lease(self, limit: int = 100) -> list[Visit]:
        """Lease whatever is available."""
        return await self.frontier.lease(limit, self.now)

    async def lease_pages(self, limit: int = 100) -> list[Visit]:
        """Lease pages; robots.txt files that come first allow everything, for a day, and cost no time."""
        pages: list[Visit] = []
        for _ in range(1000):
            visits = await self.lease(limit - len(pages))
            robots = [visit for visit in visits if visit.link.purpose is Purpose.ROBOTS]
            pages += [visit for visit in visits if visit.link.purpose is not Purpose.ROBOTS]
            for visit in robots:
                await self.settle(visit, robots=allowed(visit.link.origin, self.now + DAY))
            if not robots or len(pages) == limit:
                return pages
        raise AssertionError("robots.txt is asked for again and again")

    async def lease_page(self) -> Visit:
        """Lease exactly one page."""
        visits = await self.lease_pages(1)
        assert visits, "nothing was handed out"
        return visits[0]

    async def settle(self, visit: Visit, verdict: Verdict = CRAWLED, **found: Any) -> bool:  # noqa: ANN401  see Settlement
        """Settle one visit."""
        settlement = Settlement(visit=visit, verdict=verdict, **found)
        return (await self.frontier.settle([settlement], self.mark, self.now))[0]

    async def store(self, visit: Visit, stored: Page | None = None, **found: Any) -> bool:  # noqa: ANN401  see Settlement
        """Settle a visit with a page at the end of the archive."""
        place = Place(self.mark.file, self.mark.end, 100)
        self.mark = Mark(place.file, place.offset + place.length)
        kept = page(visit) if stored is None else stored
        return await self.settle(visit, page=replace(kept, archive=place), status=kept.status, **found)

    async def crawl(self, limit: int = 100) -> list[str]:
        """Visit and store pages until nothing is leased; their URLs in order."""
        order: list[str] = []
        while len(order) < limit and (visits := await self.lease_pages(1)):
            order.append(visits[0].link.url)
            await self.store(visits[0])
        return order

    async def new_rules(self, origin: str) -> None:
        """A copy of a robots.txt arrives that differs from the one before."""
        copy = replace(allowed(origin, self.now + DAY), changed=True)
        await self.add(carry(copy, urls.host(origin)))

    async def url(self, url: str) -> UrlRecord:
        """The record of a URL, which must exist."""
        record = await self.frontier.url(link(url).key, urls.host(url))
        assert record is not None, f"{url} has no record"
        return record
