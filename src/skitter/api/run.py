"""One run of a crawl from Python: an iterator of pages, with the report at the end."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

from skitter import seeds
from skitter.api.thread import LoopThread
from skitter.compose import opened
from skitter.crawl.local_crawl import Crawl
from skitter.events import Event, Events, Settled, Warned
from skitter.links import page as pages
from skitter.links.filter import Wanted
from skitter.links.page import Page
from skitter.model import Purpose, State
from skitter.reporting.log import said, say
from skitter.reporting.report import Report
from skitter.settings import Settings

# How much may wait for the caller before leasing pauses: pages, and bytes of their bodies.
_AHEAD = 100
_AHEAD_BYTES = 64 * 2**20
_NO_CONTACT = 'no contact is set, so site owners cannot reach you; set one with contact="you@example.org"'


class Run:
    """One run of a crawl. Iterate over it once, with `for` or `async for`.

        run = skitter.crawl("https://example.org", max_pages=100)
        for page in run:
            print(page.status, page.url, page.title)
        print(run.report.counts.pages, run.report.warnings)

    Leaving the loop early stops the crawl: what is in flight is finished and saved. A `for` loop waits for that; after an
    `async for` loop, `await run.aclose()` or the end of `async with skitter.crawl(...) as run:` does.

    `run.report` has counts, hosts and warnings; warnings also go to the logger "skitter" as they happen.
    """

    def __init__(
        self,
        urls: Iterable[str],
        directory: str | Path | None,
        settings: Settings,
        links: Wanted | None = None,
    ) -> None:
        self._urls = tuple(urls)
        self._path = None if directory is None else Path(directory)
        self.settings = settings
        self._links = links
        self._report: Report | None = None
        self._begun = False
        self._thread: LoopThread | None = None
        self._work: asyncio.Task[Report] | None = None
        self._crawl: Crawl | None = None
        self._pages: asyncio.Queue[Page | None] = asyncio.Queue()
        self._waiting = 0  # bytes of their bodies
        self._left = False
        self._paused = False

    def __repr__(self) -> str:
        what = ", ".join(self._urls) or str(self._path)
        if self._report is not None:
            return f"<Run of {what}: {self._report.outcome}, {self._report.counts.pages} pages>"
        state = "running" if self._begun else 'not started; start with "for page in run"'
        return f"<Run of {what}: {state}>"

    @property
    def report(self) -> Report:
        """The report of the run; raises before its end."""
        if self._report is None:
            raise RuntimeError(
                "the crawl has not ended yet: iterate to its end, or call close() (await aclose() in asynchronous code), "
                "before reading the report"
                if self._begun
                else 'the crawl has not started yet: iterate over it first, as in "for page in run"'
            )
        return self._report

    # -- iterating -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Page]:
        self._begin()
        return self._on_a_thread()

    def __aiter__(self) -> AsyncIterator[Page]:
        self._begin()
        self._start()
        return _Loop(self)

    def _begin(self) -> None:
        if self._begun:
            raise RuntimeError(
                "a run can only be iterated once, and this one was; for another run call skitter.crawl() again, with the "
                "same directory=...to continue the same crawl"
            )
        self._begun = True

    def _start(self) -> None:
        self._work = asyncio.ensure_future(self._run())
        self._work.add_done_callback(lambda _: self._pages.put_nowait(None))

    def _on_a_thread(self) -> Iterator[Page]:
        thread = self._thread = LoopThread(self._drained, self._stopped_at_once)
        try:
            thread.call(self._started())
            while not thread.closed and (page := thread.call(self.next_page())) is not None:
                yield page
        finally:
            thread.close()

    async def _started(self) -> None:
        self._start()

    async def next_page(self) -> Page | None:
        """The next durable page; None at the end. An error that stopped the crawl is raised here."""
        if self._work is not None and self._work.done() and self._pages.empty():
            await self._work
            return None
        page = await self._pages.get()
        if page is None:
            if self._work is not None:
                await self._work
            return None
        self._waiting -= page.size
        if self._crawl is not None and self._paused and not self._is_too_far_ahead(of=2):
            self._paused = False
            self._crawl.local_shards.go_on()
        return page

    # -- ending ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Stop, and wait until everything in flight is saved. For plain loops; in asynchronous code use `aclose`."""
        self._left = True
        if self._thread is not None:
            self._thread.close()

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
            self._crawl.local_shards.go_on()

    async def _drained(self) -> None:
        """End cleanly. An error that stopped the crawl was already raised in the loop."""
        self.leave()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _stopped_at_once(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    # -- the crawl itself ------------------------------------------------------------------------------------

    async def _run(self) -> Report:
        async with AsyncExitStack() as stack:
            path = self._path or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skitter-")))
            events = Events()
            events.subscribe(say, *said())
            events.subscribe(partial(self._hear, events), Settled)
            named = seeds.named(self._urls, self.settings.urls)
            crawl = await stack.enter_async_context(
                opened(path, self.settings, events, self._links, seeds=named)
            )
            if not self.settings.fetch.contact and not self.settings.fetch.user_agent:
                events.emit(Warned(_NO_CONTACT))
            await crawl.seed()
            self._crawl = crawl
            if self._left:
                crawl.stop()
            self._report = await crawl.run()
        return self._report

    def _hear(self, events: Events, event: Event) -> None:
        """Queue pages for the caller, and collect warnings."""
        if not isinstance(event, Settled):
            return
        if failure := _failure(event):
            events.emit(Warned(failure))
        needed = event.visit.link.purpose is Purpose.ASSET and not event.visit.link.seed  # by a page
        if event.page is not None and event.exchange is not None and not self._left and not needed:
            self._take(pages.made(event.page, event.exchange, self.settings))

    def _take(self, page: Page) -> None:
        """Queue a page. A slow caller pauses the crawl instead of filling memory."""
        self._pages.put_nowait(page)
        self._waiting += page.size
        if self._crawl is not None and self._is_too_far_ahead():
            self._paused = True
            self._crawl.local_shards.pause()

    def _is_too_far_ahead(self, *, of: int = 1) -> bool:
        """Whether too much waits for the caller; once paused, until it is half of that, so that pauses are
        worthwhile.
        """
        return self._pages.qsize() >= _AHEAD // of or self._waiting >= _AHEAD_BYTES // of


def _failure(event: Settled) -> str:
    """A warning about a page, in a sentence: it was given up, or it is a seed that could not be fetched."""
    link, page = event.visit.link, event.page
    if link.purpose is not Purpose.PAGE:
        return ""
    what = f"seed {link.url}" if link.seed else link.url
    why = event.reason.detail or event.reason.code if event.reason else ""
    if page is not None:
        return f"{what} answered {page.status}" if link.seed and page.status >= 400 else ""
    if event.state is State.FAILED:
        return f"{what} was given up: {why}"
    return f"{what} is not crawled: {why}" if link.seed and event.state is State.REFUSED else ""


class _Loop:
    """The iterator of an `async for`. When the loop is left it is garbage collected, which stops the crawl."""

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
