"""From Python: the same engine and the same settings as the command line, as an asynchronous iterator of pages."""

import asyncio
import difflib
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from msgspec.structs import asdict

from skitter import seeds
from skitter.compose import Crawl, opened
from skitter.directory import CrawlDirectory
from skitter.events import Event, Events, Settled
from skitter.model import Page
from skitter.report import Report
from skitter.settings import SECTIONS, Settings, SettingsError
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
    in a temporary directory and is gone at the end. `settings` is the whole tree; without it, a directory goes on with its own; `overrides` are single settings, either
    by the names of the command line (`max_pages=100`, `scope="domain"`, `delay="2s"`) or dotted, as in
    `**{"fetch.deadline": "10s"}`.
    """
    if not urls and directory is None:
        raise ValueError("there is nothing to crawl: name a URL, or the directory of a crawl to go on with")
    keywords = {_dotted(name): name for name in overrides}
    values = {_dotted(name): value for name, value in overrides.items()}
    kept = None if directory is None else CrawlDirectory(Path(directory)).settings_file
    if settings is not None:
        values = _flat(settings) | values
    elif kept is not None and kept.is_file():
        return Run(urls, directory, load(kept, {}, values, flags=keywords))
    return Run(urls, directory, load(None, {}, values, flags=keywords))


def _flat(settings: Settings) -> dict[str, object]:
    return {
        f"{section}.{name}": value
        for section in SECTIONS
        for name, value in asdict(getattr(settings, section)).items()
        if value is not None
    }


def _dotted(name: str) -> str:
    """The setting that a keyword stands for."""
    if name in _FLAGS or "." in name:
        return _FLAGS.get(name, name)
    near = difflib.get_close_matches(name, _FLAGS, 1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else f"keywords are {', '.join(_FLAGS)}; other settings are written dotted"
    )
    raise SettingsError(f"unknown keyword {name}; {hint}")


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
    "shards": "crawl.shards",
    "user_agent": "fetch.user_agent",
    "contact": "fetch.contact",
    "allow_private": "fetch.allow_private",
    "resolve": "fetch.resolve",
    "strategy": "schedule.strategy",
}


class Run:
    """One run of a crawl. Iterate over it once; leaving the loop early stops the crawl, which drains and saves.

    The crawl itself is a task of its own. `aclose`, or the end of an `async with` block, waits for it.
    """

    def __init__(self, urls: Iterable[str], directory: str | Path | None, settings: Settings) -> None:
        self._urls = tuple(urls)
        self._path = None if directory is None else Path(directory)
        self.settings = settings
        self._report: Report | None = None
        self._work: asyncio.Task[Report] | None = None
        self._crawl: Crawl | None = None
        self._pages: asyncio.Queue[Page | None] = asyncio.Queue()
        self._left = False
        self._paused = False

    @property
    def report(self) -> Report:
        """What the run came to; there is none before its end."""
        if self._report is None:
            raise RuntimeError(
                "the crawl has not ended yet: iterate to its end, or await aclose(), before reading the report"
            )
        return self._report

    def __aiter__(self) -> AsyncIterator[Page]:
        if self._work is None:
            self._work = asyncio.ensure_future(self._run())
            self._work.add_done_callback(lambda _: self._pages.put_nowait(None))
        return _Loop(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop, and wait until everything in flight is saved."""
        self.leave()
        if self._work is not None:
            await self._work

    def leave(self) -> None:
        """Nobody reads on: lease nothing more; what is in flight is finished and saved."""
        self._left = True
        if self._crawl is not None:
            self._crawl.stop()
            self._crawl.team.go_on()

    async def next_page(self) -> Page | None:
        """The next page that has become durable; None at the end. What broke the crawl is raised here."""
        if self._work is not None and self._work.done() and self._pages.empty():
            await self._work
            return None
        page = await self._pages.get()
        if page is None and self._work is not None:
            await self._work
        if self._crawl is not None and self._paused and self._pages.qsize() < _AHEAD // 2:
            self._paused = False
            self._crawl.team.go_on()
        return page

    async def _run(self) -> Report:
        async with AsyncExitStack() as stack:
            path = self._path or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skitter-")))
            events = Events()
            events.subscribe(self._hear, Settled)
            crawl = await stack.enter_async_context(opened(path, self.settings, events))
            await crawl.seed(seeds.named(self._urls, self.settings.urls))
            self._crawl = crawl
            if self._left:
                crawl.stop()
            self._report = await crawl.run()
        return self._report

    def _hear(self, event: Event) -> None:
        """Keep pages for the caller. One who is slow makes the crawl wait, not memory grow."""
        if isinstance(event, Settled) and event.page is not None and not self._left:
            self._pages.put_nowait(event.page)
            if self._crawl is not None and self._pages.qsize() >= _AHEAD:
                self._paused = True
                self._crawl.team.pause()


class _Loop:
    """What an `async for` holds. When the loop is left the object goes, and with it the wish for more pages."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __aiter__(self) -> "_Loop":
        return self

    async def __anext__(self) -> Page:
        page = await self._run.next_page()
        if page is None:
            raise StopAsyncIteration
        return page

    def __del__(self) -> None:
        self._run.leave()
