"""A crawl as it was at some time: of each page the newest answer that had been archived by then.

The store has the last answer alone; the archive has all of them, and its index of captures knows when each came. A page that a
browser rendered is what its server sent: of that there is a record for every time.
"""

import time
from collections.abc import AsyncIterator
from typing import cast

from msgspec.structs import replace

from skitter import urls
from skitter.export.replay.captures import Capture, Captures
from skitter.export.source import Source
from skitter.model import Page, Purpose, UrlRecord
from skitter.ports import Records
from skitter.reporting.format import moment

STAMP = "%Y%m%d%H%M%S"
_NOT_MODIFIED = 304


def at_time(source: Source, captures: Captures, at: float) -> Source:
    """The crawl as it was then. Only its pages can be asked for, and what is archived of them."""
    return cast("Source", _Then(source, captures, at))


class _Then:
    """`Source`, with another read side."""

    def __init__(self, source: Source, captures: Captures, at: float) -> None:
        self._source = source
        self.frontier = cast("Records", _ThenRecords(source, captures, at))
        self.name = f"{source.name} at {moment(at)}"

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)


class _ThenRecords:
    """`Records.pages` and `Records.page`."""

    def __init__(self, source: Source, captures: Captures, at: float) -> None:
        self._source, self._captures = source, captures
        self._stamp = time.strftime(STAMP, time.gmtime(at))

    async def pages(self) -> AsyncIterator[Page]:
        """Every page that had an answer by then."""
        async for record in self._source.frontier.urls():
            if record.purpose is Purpose.PAGE and record.last_crawl is not None:
                page = await self._then(record)
                if page is not None:
                    yield page

    async def page(self, key: str, host: str) -> Page | None:
        """What was stored for a URL."""
        record = await self._source.frontier.url(key, host)
        return None if record is None else await self._then(record)

    async def _then(self, record: UrlRecord) -> Page | None:
        rules = self._source.settings.urls
        found = [
            each
            for each in self._captures.until(record.url, self._stamp)
            if urls.key(each.url, rules) == record.key
        ]
        if not found:
            return None
        last, body = found[0], self._body(found)
        stored = await self._source.frontier.page(record.key, urls.host(record.url))
        made = Page(
            url=last.url,
            requested_url=last.url,
            key=record.key,
            host=urls.host(last.url),
            domain=urls.registrable_domain(urls.host(last.url)),
            status=last.status if last.status != _NOT_MODIFIED or body is None else body.status,
            fetched_at=0.0,
            content_type="" if body is None else body.mime,
            digest=last.digest if body is None else body.digest or last.digest,
            archive=None if body is None else body.place,
        )
        if stored is not None and stored.digest == made.digest:
            return replace(made, title=stored.title, language=stored.language, ignored=stored.ignored)
        return made

    def _body(self, found: list[Capture]) -> Capture | None:
        """The answer whose body was that of the newest one: itself, the one it repeats, or the last that had one."""
        last = found[0]
        if not last.is_revisit:
            return last
        if last.status != _NOT_MODIFIED and (same := self._captures.with_digest(last.digest)) is not None:
            return same
        return next((each for each in found if not each.is_revisit), None)
