"""What is asked about crawls: their state, pages, queue, hosts, failures, and why a URL is where it is."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from skitter import reasons, urls
from skitter.cli.pages import matches
from skitter.cli.status import per_second, standing
from skitter.cli.why import as_fields
from skitter.control.orders import is_paused
from skitter.export import reread
from skitter.export.findings import NotAUrlError, find
from skitter.export.source import Source
from skitter.model import Counts, HostRecord, State, UrlRecord
from skitter.reporting.progress import Rate
from skitter.reporting.records import host_record, page_record, url_record
from skitter.serve.catalogue import Catalogue, Served
from skitter.serve.history import history_of
from skitter.serve.lists import Close, Lists
from skitter.serve.live import live_of
from skitter.serve.problems import ProblemError, bad_request, not_found
from skitter.serve.reading import FRESH, Reading
from skitter.serve.shapes import (
    Action,
    Cause,
    Causes,
    Crawl,
    Crawls,
    Events,
    EventsAsked,
    FailuresAsked,
    HostsAsked,
    Listing,
    Live,
    PageAsked,
    PagesAsked,
    QueueAsked,
    Rates,
    UrlAsked,
)

_WHEN_RUNNING: tuple[Action, ...] = ("stop", "block", "unblock", "retry", "add")


class Answers:
    """Answers questions about the crawls of a catalogue."""

    def __init__(self, catalogue: Catalogue, reading: Reading) -> None:
        self.catalogue = catalogue
        self.reading = reading
        self.lists = Lists()
        self._looking = asyncio.Lock()
        self._rates: dict[str, Rate] = {}
        self._seen: tuple[float, Crawls] | None = None

    # -- crawls ------------------------------------------------------------------------------------------------

    async def crawls(self) -> Crawls:
        """All crawls. One that cannot be read says why, and hides no other."""
        found = [await self._in_any_state(served) for served in self.catalogue.all()]
        return Crawls(found, ("create",) if self.catalogue.root is not None else ())

    async def _in_any_state(self, served: Served) -> Crawl:
        try:
            return await self.crawl(served.id)
        except ProblemError as problem:
            return Crawl(id=served.id, name=served.id, state="unreadable", reason=str(problem))

    async def crawls_lately(self) -> Crawls:
        """The same, as it was at most a moment ago: many ask once a second."""
        async with self._looking:
            if self._seen is None or time.monotonic() - self._seen[0] > FRESH:
                self._seen = time.monotonic(), await self.crawls()
            return self._seen[1]

    async def crawl(self, crawl: str) -> Crawl:
        """One crawl."""
        served = self.catalogue.find(crawl)
        try:
            return await self._read(served)
        except ProblemError as problem:
            if problem.status != 409 or served.path is None or not served.directory.in_use():
                raise
        return Crawl(id=served.id, name=served.id, state="starting", reason="it is being started")

    async def _read(self, served: Served) -> Crawl:
        async with self.reading.source(served) as source:
            counts = await source.frontier.counts()
            paused = is_paused(await source.commands())
            running = source.directory.in_use()
            live = await self._live(served, counts.pages) if running else None
            now = standing(source.name, source.settings, counts, running=running, paused=paused)
            return Crawl(
                id=served.id,
                name=served.id,
                state="paused" if running and paused else now.state,  # type: ignore[arg-type]
                reason=now.said,
                advice=now.advice or None,
                available_actions=_actions(
                    served, running=running, paused=paused, left=counts.queued + counts.leased
                ),
                counts=msgspec.to_builtins(counts, str_keys=True),
                rates=_rates(counts),
                live=live,
            )

    async def _live(self, served: Served, pages: int) -> Live | None:
        rate = self._rates.setdefault(served.id, Rate()).of(pages, time.monotonic())
        return await asyncio.to_thread(live_of, served.directory, rate)

    async def causes(self, crawl: str) -> Causes:
        """What failed and what was refused, by cause."""
        async with self.reading.source(self.catalogue.find(crawl)) as source:
            counts = await source.frontier.counts()
        statuses = {str(status): number for status, number in counts.statuses.items() if status >= 400}
        return Causes(_causes(counts.failures), _causes(counts.refused), statuses)

    # -- lists -------------------------------------------------------------------------------------------------

    async def pages(self, crawl: str, asked: PagesAsked) -> Listing:
        """Stored pages, without their text."""

        async def rows(source: Source) -> AsyncIterator[dict[str, Any]]:
            statuses = [asked.status] if asked.status else []
            types = [asked.type] if asked.type else []
            async for page in source.frontier.pages():
                if matches(
                    page,
                    statuses,
                    asked.host or None,
                    asked.contains or None,
                    types=types,
                    duplicates=asked.duplicates,
                ):
                    record = page_record(page, "")
                    del record["text"]
                    yield record

        return await self._listing(crawl, asked, rows)

    async def queue(self, crawl: str, asked: QueueAsked) -> Listing:
        """URLs that wait for a visit, or for their next one."""

        async def rows(source: Source) -> AsyncIterator[dict[str, Any]]:
            text = asked.contains.casefold()
            async for record in source.frontier.urls():
                if (
                    record.state is State.QUEUED
                    and _is_on(record, asked.host)
                    and text in record.url.casefold()
                ):
                    yield url_record(record)

        return await self._listing(crawl, asked, rows)

    async def failures(self, crawl: str, asked: FailuresAsked) -> Listing:
        """URLs that were given up, or answered with an error."""

        async def rows(source: Source) -> AsyncIterator[dict[str, Any]]:
            async for record in source.frontier.urls():
                cause = _cause(record)
                if cause and asked.cause in ("", cause) and _is_on(record, asked.host):
                    yield url_record(record) | {"cause": cause, "linked_from": record.parent or None}

        return await self._listing(crawl, asked, rows)

    async def hosts(self, crawl: str, asked: HostsAsked) -> Listing:
        """Hosts, with their clocks and counts."""

        async def rows(source: Source) -> AsyncIterator[dict[str, Any]]:
            async for host in source.frontier.hosts():
                if _is_in(host, asked.state) and (
                    not asked.host or fnmatchcase(host.host, asked.host.lower())
                ):
                    yield host_record(host)

        return await self._listing(crawl, asked, rows)

    async def _listing(
        self,
        crawl: str,
        asked: PagesAsked | QueueAsked | FailuresAsked | HostsAsked,
        rows: Callable[[Source], AsyncIterator[dict[str, Any]]],
    ) -> Listing:
        served = self.catalogue.find(crawl)

        async def begin() -> tuple[AsyncIterator[dict[str, Any]], Close]:
            opened = await self.reading.take(served)

            def close() -> Awaitable[None]:
                return self.reading.give_back(opened)

            return rows(opened.source), close

        what = f"{served.id} {type(asked).__name__} {msgspec.structs.replace(asked, cursor='', limit=1)}"
        items, following = await self.lists.page(what, asked.cursor, asked.limit, begin)
        return Listing(items=items, next=following or None)

    # -- one URL -----------------------------------------------------------------------------------------------

    async def why(self, crawl: str, asked: UrlAsked) -> dict[str, Any]:
        """Every decision about a URL."""
        async with self.reading.source(self.catalogue.find(crawl)) as source:
            try:
                return as_fields(await find(asked.url, source, time.time()))
            except NotAUrlError as problem:
                raise bad_request(str(problem)) from None

    async def page(self, crawl: str, asked: PageAsked) -> dict[str, Any]:
        """A stored page; its text is read from the archive again."""
        async with self.reading.source(self.catalogue.find(crawl)) as source:
            try:
                page = (await find(asked.url, source, time.time())).page
            except NotAUrlError as problem:
                raise bad_request(str(problem)) from None
            if page is None:
                raise not_found("no page is stored for this URL; ask why: /api/v1/crawls/{crawl}/why?url=…")
            document = await reread.document(page, source) if asked.text else None
            record = page_record(page, "" if document is None else document.text)
            if not asked.text:
                del record["text"]
            return record

    # -- events ------------------------------------------------------------------------------------------------

    async def events(self, crawl: str, asked: EventsAsked) -> Events:
        """What happened, in order."""
        found = history_of(self.catalogue.find(crawl), asked.after, asked.limit)
        return Events(found, found[-1].id if found else asked.after)

    async def close(self) -> None:
        """Close what is open."""
        await self.lists.close()
        await self.reading.close()


def _actions(served: Served, *, running: bool, paused: bool, left: int) -> tuple[Action, ...]:
    turn: Action = "continue" if paused else "pause"
    if served.config is not None:
        return (turn, "block", "unblock", "retry")
    if running:
        return (turn, *_WHEN_RUNNING)
    return ("resume",) if left else ()


def _rates(counts: Counts) -> Rates:
    return Rates(
        per_second(counts.pages, counts),
        per_second(counts.requests, counts),
        per_second(counts.bytes, counts),
    )


def _causes(numbers: dict[str, int]) -> list[Cause]:
    found = []
    for code, number in sorted(numbers.items(), key=lambda each: -each[1]):
        entry = reasons.explained(code)
        found.append(Cause(code, number, entry.meaning if entry else None, entry.remedy if entry else None))
    return found


def _cause(record: UrlRecord) -> str:
    """Why a URL counts as failed; empty if it does not."""
    if record.state is State.CRAWLED and record.status >= 400:
        return str(record.status)
    if record.state is State.FAILED:
        return record.reason.code if record.reason is not None else "failed"
    return ""


def _is_on(record: UrlRecord, pattern: str) -> bool:
    return not pattern or fnmatchcase(urls.host(record.url), pattern.lower())


def _is_in(host: HostRecord, state: str) -> bool:
    match state:
        case "waiting":
            return host.queued > 0 and host.aside is None
        case "aside":
            return host.aside is not None
        case "slowed":
            return host.pace is not None and (host.pace.wait > 0 or host.pace.parked > 0)
        case _:
            return True
