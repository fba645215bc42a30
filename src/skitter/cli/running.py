"""A crawl on the command line: run it, show how it goes, stop it when asked, and say what it came to."""

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from skitter import report as reports
from skitter.cli.progress import REDRAW, Progress, Screen, screen
from skitter.cli.usage import Exit
from skitter.compose import Crawl, opened
from skitter.display import printable
from skitter.events import Event, Events, Requested, Warned
from skitter.log import say
from skitter.model import Link
from skitter.process import run
from skitter.seeds import BadSeed
from skitter.settings import Settings

RATE_WINDOW = 10.0  # seconds over which the rate is averaged
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_CONTACT = "no contact is set, so site owners cannot reach you; name one with --contact or fetch.contact"


def crawl(
    arguments: argparse.Namespace, settings: Settings, directory: Path, seeds: Iterable[Link | BadSeed]
) -> int:
    """Crawl until it is done, at a limit or interrupted. Returns the exit code."""
    shown = screen(sys.stderr, quiet=arguments.quiet)
    _log_to(shown, verbose=arguments.verbose, quiet=arguments.quiet)
    try:
        report = run(_work(settings, directory, seeds, shown))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the state is safe\nGo on with: skitter resume {printable(str(directory))}"
        ) from None
    if arguments.json:
        print(reports.to_json(report))
    elif not arguments.quiet:
        print(reports.render(report), end="")
    if arguments.quiet and report.exit_code in {Exit.NO, Exit.STATE}:
        print(f"skitter: {reports.headline(report)}. {reports.advice(report)}", file=sys.stderr)
    return report.exit_code


async def _work(
    settings: Settings, directory: Path, seeds: Iterable[Link | BadSeed], shown: Screen
) -> reports.Report:
    events, watch = Events(say), Watch()
    events.subscribe(watch)
    try:
        async with opened(directory, settings, events) as work:
            if not settings.fetch.contact and not settings.fetch.user_agent:
                events.emit(Warned(_NO_CONTACT))
            async with _stoppable(work, shown), _watched(work, watch, shown):
                await work.seed(seeds)
                return await work.run()
    finally:
        shown.end()


# ------------------------------------------------------------------------------------------------ stopping


@asynccontextmanager
async def _stoppable(work: Crawl, shown: Screen) -> AsyncIterator[None]:
    """The first signal drains, the second stops at once. Either way the state is safe."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    # What nohup or a shell's "&" has set aside stays so.
    signals = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if asked and task is not None:
            task.cancel()
            return
        asked = True
        shown.say("stopping: requests in flight are finished and saved; interrupt again to stop at once")
        work.stop()

    for number in signals:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if not asked:
            raise
        raise KeyboardInterrupt from None
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


# ------------------------------------------------------------------------------------------------ watching


class Watch:
    """What progress shows beyond the counts: how fast it goes lately, and which URLs were answered last."""

    def __init__(self) -> None:
        self._latest: deque[str] = deque(maxlen=4)
        self._pages: deque[tuple[float, int]] = deque()

    def __call__(self, event: Event) -> None:
        """Remember the URL of a request."""
        if isinstance(event, Requested):
            self._latest.append(event.url)

    def rate(self, pages: int, now: float) -> float:
        """Pages per second over the last seconds."""
        self._pages.append((now, pages))
        while len(self._pages) > 2 and self._pages[1][0] <= now - RATE_WINDOW:
            self._pages.popleft()
        began, had = self._pages[0]
        return (pages - had) / (now - began) if now > began else 0.0

    def urls(self) -> list[str]:
        """The URLs answered last, the newest first."""
        return list(reversed(self._latest))


def snapshot(work: Crawl, watch: Watch, began: float, now: float) -> Progress:
    """The crawl as it is now. Times are monotonic."""
    counts, limits = work.shard.counts, work.settings.crawl
    ready = (
        work.stations.frontier.statistics().get("agenda", {}).get("ready")
    )  # not every frontier counts them
    return Progress(
        counts=counts,
        in_flight=work.shard.in_flight,
        hosts_ready=None if ready is None else int(ready),
        rate=watch.rate(counts.pages, now),
        elapsed=now - began,
        max_pages=limits.max_pages,
        max_time=limits.max_time,
        max_bytes=limits.max_bytes,
        urls=watch.urls(),
    )


@asynccontextmanager
async def _watched(work: Crawl, watch: Watch, shown: Screen) -> AsyncIterator[None]:
    """Keep the screen current."""
    began = time.monotonic()

    async def redraw() -> None:
        while True:
            now = time.monotonic()
            shown.show(snapshot(work, watch, began, now), now)
            await asyncio.sleep(REDRAW)

    task = asyncio.create_task(redraw())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# ------------------------------------------------------------------------------------------------ saying


class _ScreenHandler(logging.Handler):
    """Log lines go where progress goes, so that they do not tear it."""

    def __init__(self, shown: Screen) -> None:
        super().__init__()
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.say(record.getMessage())


def _log_to(shown: Screen, *, verbose: bool, quiet: bool) -> None:
    log = logging.getLogger("skitter")
    log.handlers = [_ScreenHandler(shown)]
    log.propagate = False
    log.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
