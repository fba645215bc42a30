"""From Python: the same engine and the same settings as the command line, as an asynchronous iterator of pages."""

import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from skitter import seeds
from skitter.compose import Crawl, opened
from skitter.events import Event, Events, Settled
from skitter.model import Page
from skitter.report import Report
from skitter.settings import Settings
from skitter.settings.file import load

_AHEAD = 100  # pages that may wait for the caller before leasing pauses


def crawl(
    *urls: str,
    directory: str | Path | None = None,
    settings: Settings | None = None,
    **overrides: object,
) -> "Run":
    """Crawl from these URLs and iterate over the pages as they become durable.

    `directory` keeps the crawl: a later call with the same one goes on where this one stopped. Without it the crawl lives
    in a temporary directory and is gone at the end. `settings` is the whole tree; `overrides` are single settings, either
    by the names of the command line (`max_pages=100`, `scope="domain"`, `delay="2s"`) or dotted, as in
    `**{"fetch.deadline": "10s"}`.
    """
    values = {
        f"{section}.{name}": value
        for section, fields in dataclasses.asdict(settings or Settings()).items()
        for name, value in fields.items()
        if value is not None
    }
    values |= {_FLAGS.get(name, name): value for name, value in overrides.items()}
    return Run(urls, directory, load(None, {}, values))


# The names of the command line, and the settings they stand for.
_FLAGS = {
    "scope": "scope.kind",
    "include": "scope.include",
    "exclude": "scope.exclude",
    "max_pages": "crawl.max_pages",
    "max_depth": "scope.max_depth",
    "max_time": "crawl.max_time",
    "max_bytes": "crawl.max_bytes",
    "delay": "politeness.delay",
    "per_host": "politeness.per_host",
    "concurrency": "crawl.concurrency",
    "user_agent": "fetch.user_agent",
    "contact": "fetch.contact",
    "allow_private": "fetch.allow_private",
    "resolve": "fetch.resolve",
    "strategy": "schedule.strategy",
}


class Run:
    """One run of a crawl. Iterate over it once; leaving the loop early drains what is in flight and saves it."""

    def __init__(self, urls: Iterable[str], directory: str | Path | None, settings: Settings) -> None:
        self._urls = tuple(urls)
        self._path = None if directory is None else Path(directory)
        self.settings = settings
        self._report: Report | None = None
        self._pages: AsyncGenerator[Page, None] | None = None

    @property
    def report(self) -> Report:
        """What the run came to; there is none before its end."""
        if self._report is None:
            raise RuntimeError(
                "the crawl has not ended yet: iterate to its end, or await aclose(), before reading the report"
            )
        return self._report

    def __aiter__(self) -> AsyncIterator[Page]:
        if self._pages is None:
            self._pages = self._crawl()
        return self._pages

    async def aclose(self) -> None:
        """Stop, drain and save. Needed only when the loop was left early and the report is wanted at once."""
        if self._pages is not None:
            await self._pages.aclose()

    async def _crawl(self) -> AsyncGenerator[Page, None]:
        events, pages = Events(), _Pages()
        events.subscribe(pages)
        async with AsyncExitStack() as stack:
            path = self._path or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skitter-")))
            running = await stack.enter_async_context(opened(path, self.settings, events))
            await running.seed(seeds.named(self._urls, self.settings.urls))
            pages.crawl = running
            work = asyncio.ensure_future(running.run())
            work.add_done_callback(lambda _: pages.queue.put_nowait(None))
            try:
                while (page := await pages.next()) is not None:
                    yield page
            finally:
                running.stop()
                running.shard.resume_leasing()
                self._report = await work


class _Pages:
    """Pages between the crawl and its caller. A caller who is slow makes the crawl wait, not memory grow."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Page | None] = asyncio.Queue()
        self.crawl: Crawl | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Settled) and event.page is not None:
            self.queue.put_nowait(event.page)
            if self.crawl is not None and self.queue.qsize() >= _AHEAD:
                self.crawl.shard.paused = True

    async def next(self) -> Page | None:
        page = await self.queue.get()
        if self.crawl is not None and self.crawl.shard.paused and self.queue.qsize() < _AHEAD // 2:
            self.crawl.shard.resume_leasing()
        return page
