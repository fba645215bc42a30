"""A crawl on the command line: run it, show its progress, stop it on a signal, print the report."""

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from skitter.cli import streams
from skitter.cli.crawl import SeedFile
from skitter.cli.progress import REDRAW, Crawling, Screen, screen
from skitter.cli.stopping import interrupts_remembered, stoppable
from skitter.cli.usage import Exit
from skitter.events import Events, Warned
from skitter.fleet.control import snapshot
from skitter.fleet.parent import Fleet, assembled
from skitter.model import Link
from skitter.reporting import report as reports
from skitter.reporting.format import printable
from skitter.reporting.log import said, say
from skitter.reporting.progress import Rate
from skitter.seeds import BadSeed, without_credentials
from skitter.seeds.intake import Intake
from skitter.settings import Settings

_NO_CONTACT = "no contact is set, so site owners cannot reach you; set one with --contact or fetch.contact"


def crawl(
    arguments: argparse.Namespace,
    settings: Settings,
    directory: Path,
    named: Sequence[Link | BadSeed] = (),
    files: Sequence[SeedFile] = (),
) -> int:
    """Crawl until it is done, at a limit or interrupted, and return the exit code."""
    shown = screen(sys.stderr, quiet=arguments.quiet)
    stop_logging = log_to(shown, verbose=arguments.verbose, quiet=arguments.quiet)
    events = Events()
    events.subscribe(say, *said())
    try:
        with (
            interrupts_remembered(),
            assembled(
                directory,
                settings,
                events,
                keep=lambda intake: _keep(intake, named, files),
                tell_requests=arguments.verbose,
            ) as fleet,
            ExitStack() as stack,
        ):
            stack.enter_context(_served(arguments.serve, directory, shown))
            if getattr(arguments, "paused", False):
                fleet.pause()
            if getattr(arguments, "refresh", False):
                fleet.refresh()
            if not settings.fetch.contact and not settings.fetch.user_agent:
                events.emit(Warned(_NO_CONTACT))
            for text in getattr(arguments, "url", ()):
                if (bare := without_credentials(text)) != text.strip():
                    events.emit(Warned(f"{bare} is crawled without the user name and password in its URL"))
            report = asyncio.run(_work(fleet, shown))
    except KeyboardInterrupt as interrupted:
        if str(interrupted):
            raise
        raise KeyboardInterrupt(
            f"interrupted; the state is safe\nContinue with: skitter resume {printable(str(directory))}"
        ) from None
    finally:
        shown.end()
        stop_logging()
    if arguments.json:
        streams.result(reports.to_json(report) + "\n")
    elif not arguments.quiet:
        streams.result(reports.render(report))
    if arguments.quiet and report.exit_code in {Exit.NO, Exit.STATE}:
        streams.write(sys.stderr, f"skitter: {reports.in_one_line(report)}\n")
    return report.exit_code


@contextmanager
def _served(address: str | None, directory: Path, shown: Screen) -> Iterator[None]:
    """Serve the crawl by a process of its own while it runs, if that is asked for."""
    if address is None:
        yield
        return
    words = [
        "skitter.runtime.tied",
        str(os.getpid()),
        sys.executable,
        "-m",
        "skitter",
        "serve",
        str(directory),
    ]
    server = subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, "-m", *words, "--listen", address, "--quiet"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with server:
        if server.stdout is None:
            raise AssertionError("a pipe was asked for")
        if link := server.stdout.readline().decode().strip():  # else it has said why not
            shown.say(f"skitter: it is served at {link}")
        try:
            yield
        finally:
            server.terminate()


def _keep(intake: Intake, named: Sequence[Link | BadSeed], files: Sequence[SeedFile]) -> None:
    """Copy all seeds into the crawl directory, before anything else."""
    try:
        intake.keep_links(named)
        for file in files:
            file.keep(intake)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted before all seeds were read; run the same command again, which is safe"
        ) from None


async def _work(fleet: Fleet, shown: Screen) -> reports.Report:
    with _stoppable(fleet, shown):
        async with _watched(fleet, shown):
            return await fleet.run()


# ------------------------------------------------------------------------------------------------ stopping


@contextmanager
def _stoppable(fleet: Fleet, shown: Screen) -> Iterator[None]:
    """The first signal drains, the second stops at once. Either way the state is safe."""

    def drain() -> None:
        fleet.stop()
        shown.say("stopping: finishing and saving requests in flight; interrupt again to stop at once")

    with stoppable(drain, fleet.stop_at_once):
        yield


# ------------------------------------------------------------------------------------------------ watching


@asynccontextmanager
async def _watched(fleet: Fleet, shown: Screen) -> AsyncIterator[None]:
    """Redraw the progress display while the crawl runs."""
    began, rate = time.monotonic(), Rate()

    async def redraw() -> None:
        while True:
            now = time.monotonic()
            shown.show(Crawling(snapshot(fleet, rate, began, now)), now)
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
    """Prints log lines through the screen, so that they do not break the progress display."""

    def __init__(self, shown: Screen) -> None:
        super().__init__()
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.say(record.getMessage())


def log_to(shown: Screen, *, verbose: bool, quiet: bool) -> Callable[[], None]:
    """Send log lines to the screen; call the result to undo that."""
    log = logging.getLogger("skitter")
    before = log.handlers, log.propagate, log.level

    def undo() -> None:
        log.handlers, log.propagate, level = before
        log.setLevel(level)

    log.handlers = [_ScreenHandler(shown)]
    log.propagate = False
    log.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    return undo
