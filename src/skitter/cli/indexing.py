"""Filling a search index, with progress messages; shared by `search` and `index`."""

import asyncio
import sys
import time
from math import inf
from typing import Protocol

from skitter.cli.progress import Transfer, screen
from skitter.cli.stopping import cancelled_by_signals
from skitter.cli.usage import Exit
from skitter.export.search.feed import Fed, feed
from skitter.export.search.stored import Ends, changed
from skitter.export.source import Source
from skitter.ports import Rejected, SearchIndex
from skitter.reporting.format import counted
from skitter.runtime.clock import SystemClock
from skitter.settings import Settings

SHOWN_REMARKS = 10
_ENDS = "ends"  # name of the note that says when the next page asks to be taken out
_FILLED = "filled"  # name of the note with the crawl's counts when the index was last complete


class NotedIndex(SearchIndex, Protocol):
    """A search index that can store small notes."""

    def note(self, name: str) -> str:
        """The note of this name; empty if there is none."""
        ...

    def leave_note(self, name: str, value: str) -> None:
        """Store a note."""
        ...


async def brought_up_to_date(source: Source, index: NotedIndex, *, quiet: bool) -> int:
    """Add the pages that the index does not have yet; returns the number of pages with a problem.

    If the crawl has made no requests since the last time, nothing is read.
    """
    counts = (
        await source.frontier.counts()
    )  # read before the pages: what is stored meanwhile is added next time
    moment = f"{counts.requests} requests, {counts.pages} pages"
    if respected := source.settings.export.respect_ai:
        moment += f", without {', '.join(respected)}"
    if index.note(_FILLED) == moment and time.time() < float(index.note(_ENDS) or inf):
        return 0
    ends: list[float] = []
    fed, remarks = await fill(source, index, quiet=quiet, ends=ends.append)
    if not remarks and not fed.rejected:
        index.leave_note(_FILLED, moment)
        next_end = min((end for end in ends if end > time.time()), default=None)
        index.leave_note(_ENDS, "" if next_end is None else str(next_end))
    return remarks


async def fill(
    source: Source, index: SearchIndex, *, quiet: bool, ends: Ends | None = None
) -> tuple[Fed, int]:
    """Add the pages that an index does not have yet; returns the result and the number of pages with a problem."""
    said = _Said(quiet=quiet)
    fed = await feed(
        changed(source, index, said.remark, ends),
        index,
        respected=source.settings.export.respect_ai,
        poison=lambda rejected: said.remark(_rejection(rejected)),
        progress=said.progress,
    )
    if fed.indexed or fed.removed:
        await index.refresh()
    said.end(fed)
    return fed, said.remarks


async def follow(settings: Settings, *, once: bool, quiet: bool) -> Exit:
    """Index what a cluster stores until interrupted or, with `once`, until nothing is left."""
    from skitter.compose.searching import document_source, shared_index  # noqa: PLC0415  not needed for `index --help`
    from skitter.engines.watch import INDEXING, EngineWatch  # noqa: PLC0415  with the engines

    index, said = shared_index(settings), _Said(quiet=quiet)
    try:
        await index.open()
        source = document_source(settings)
        guards = [index.guard, source.guard]
        for guard in guards:
            guard.test_with(settings.cluster.breaker_tests)
        watch = EngineWatch(guards, INDEXING, SystemClock(), said.say)
        watching = asyncio.create_task(watch.run())
        try:
            with cancelled_by_signals():
                fed = await feed(
                    source.batches(until_none_are_left=once),
                    index,
                    respected=settings.export.respect_ai,
                    poison=lambda rejected: said.remark(_rejection(rejected)),
                    progress=said.progress,
                    patience=inf,  # pages wait in Kafka
                )
            await index.refresh()
            said.end(fed)
        except asyncio.CancelledError:
            return Exit.DONE  # asked to stop; unacknowledged pages are delivered again
        finally:
            watching.cancel()
            await source.close()
    finally:
        await index.close()
    return Exit.NO if said.remarks else Exit.DONE


def _rejection(rejected: Rejected) -> str:
    return f"{rejected.url}: refused by the index: {rejected.reason}"


class _Said:
    """Messages on standard error while an index is filled."""

    def __init__(self, *, quiet: bool) -> None:
        self.remarks = 0
        self._shown = screen(sys.stderr, quiet=quiet)
        self._began = time.monotonic()

    def remark(self, text: str) -> None:
        self.remarks += 1
        if self.remarks <= SHOWN_REMARKS:
            self.say(text)

    def progress(self, fed: Fed) -> None:
        now = time.monotonic()
        elapsed = now - self._began
        self._shown.show(Transfer(done=fed.indexed, one="page", many="pages", elapsed=elapsed), now)

    def end(self, fed: Fed) -> None:
        self._shown.end()
        if self.remarks > SHOWN_REMARKS:
            self.say(f"… and {counted(self.remarks - SHOWN_REMARKS, 'more page')} that could not be indexed")
        gone = f", {counted(fed.removed, 'page')} removed" if fed.removed else ""
        if fed.indexed or gone:
            self.say(f"{counted(fed.indexed, 'page')} indexed{gone}")

    def say(self, text: str) -> None:
        self._shown.say(f"skitter: {text}")
