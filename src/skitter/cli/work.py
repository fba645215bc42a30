"""`skitter work`: run a cluster worker until it is told to leave."""

import argparse
import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.cli.options import add_settings, add_volume, given_by
from skitter.cli.progress import REDRAW, Crawling, Screen, screen
from skitter.cli.stopping import stoppable, until_signal
from skitter.cli.usage import Exit, Parser
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.model import Stop
from skitter.ports import EngineError, StateError
from skitter.reporting.format import printable
from skitter.reporting.progress import Progress, Rate
from skitter.settings import Settings
from skitter.settings.file import build

if TYPE_CHECKING:
    from skitter.cluster.run import WorkerRun

_SAVING = 5.0  # seconds to save finished visits when stopped at once


def parser() -> Parser:
    """The flags of `skitter work`."""
    made = Parser(
        "work",
        "Join a cluster: take a share of its shards and crawl them until interrupted, or until the whole crawl has "
        "reached a limit. Workers may come and go at any time; each needs its own directory. The first interrupt "
        "hands all shards over and exits; the second stops at once, and so does an engine that stays away for four "
        "leases after the first. Exit codes: 0 left when asked, 2 wrong settings or an engine that cannot be "
        "used, 3 stopped at a limit, 4 disk full or directory unusable, 130 stopped at once.",
        [
            "skitter work --config cluster.toml",
            "skitter work --config cluster.toml -o /data/worker-1",
        ],
    )
    made.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="settings file (TOML) with [cluster]"
    )
    made.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory of this worker (default: ./skitter-NAME)"
    )
    made.add_argument(
        "--stay-at-limit",
        action="store_true",
        help="at a limit leave the cluster but keep running until a signal; for supervisors that restart on any exit code (StatefulSet, compose)",
    )
    add_settings(made)
    add_volume(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Join the cluster; rejoin with new settings whenever they change."""
    given = given_by(arguments, arguments.config)
    settings = build(given)
    directory = CrawlDirectory(arguments.output or Path(f"skitter-{settings.cluster.name}"))

    from skitter.cli.running import log_to  # noqa: PLC0415  the engine is slow to import; usage errors do not need it
    from skitter.compose.cluster import joined  # noqa: PLC0415  the same
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  the same
    from skitter.reporting.log import said, say  # noqa: PLC0415  the same
    from skitter.runtime.process import run as run_loop  # noqa: PLC0415  the same

    shown = screen(sys.stderr, quiet=arguments.quiet)
    stop_logging = log_to(shown, verbose=arguments.verbose, quiet=arguments.quiet)
    events = Events()
    events.subscribe(say, *said())

    told = threading.Event()  # set by a signal

    async def work() -> tuple[Stop, str]:
        now, version = await settings_in_force(settings, given)
        while True:
            stop, worker = await run_with(now, version)
            if not worker.again:
                return stop, worker.why
            now, version = await _read_again(settings, given)

    async def run_with(now: Settings, version: int) -> "tuple[Stop, WorkerRun]":
        async with joined(directory, now, events, version) as worker:
            name, where = worker.worker.name, printable(str(directory.path))
            with _stoppable(worker, shown, told):
                shown.say(f"{name} has joined {settings.cluster.name}, in {where}")
                watching = asyncio.create_task(_watch(worker, shown))
                try:
                    return await worker.run(), worker
                finally:
                    watching.cancel()

    try:
        stop, why = run_loop(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt(
            "stopped at once; the state is safe, and other workers take its shards"
        ) from None
    finally:
        shown.end()
        stop_logging()
    if stop is Stop.DISK:
        raise StateError(
            f"{why}; free some space and start it again in its directory; other workers take its shards"
        )
    if stop is not Stop.LIMIT:
        return Exit.DONE
    if arguments.stay_at_limit and not told.is_set():
        _stay(shown)
    return Exit.LIMIT


def _stay(shown: Screen) -> None:
    """Wait for a signal. The worker has left the cluster: it holds no shard and no connection."""
    shown.say(
        "left the cluster; waiting for a signal to exit; to continue the crawl, raise the limit with `skitter cluster set` and restart the worker"
    )
    until_signal()


async def _read_again(settings: Settings, given: Mapping[str, object]) -> tuple[Settings, int]:
    """The shared settings after a change; they win over what this worker was started with.

    The engine answered a moment ago; if it is away now, wait for it.
    """
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  see `run`

    while True:
        try:
            return await settings_in_force(settings, given, strict=False)
        except EngineError:
            await asyncio.sleep(1.0)


@contextmanager
def _stoppable(worker: "WorkerRun", shown: Screen, told: threading.Event) -> Iterator[None]:
    """The first signal hands the shards over and sets `told`; the second stops at once, and so does an engine without which
    nothing can be handed over. The state is safe either way.
    """
    loop, working = asyncio.get_running_loop(), asyncio.current_task()
    waiting: list[asyncio.Task[None]] = []

    def leave() -> None:
        told.set()
        worker.leave()
        shown.say(
            "leaving: finishing requests in flight, then handing over all shards; interrupt again to stop at once"
        )
        waiting.append(asyncio.create_task(lose_patience()))

    async def lose_patience() -> None:
        engine = await worker.cut_off()
        shown.say(f"{engine} is away for too long to hand over what is left; stopping at once")
        go()

    def go() -> None:
        if working is not None:
            working.cancel()
        # Finished visits are saved now, and an engine outage would delay that for ever. As after a crash, the next
        # owner of the shards repeats what was not saved.
        loop.call_later(_SAVING, os._exit, Exit.INTERRUPTED)

    try:
        with stoppable(leave, go):
            yield
    finally:
        for task in waiting:
            task.cancel()


async def _watch(worker: "WorkerRun", shown: Screen) -> None:
    """Redraw the progress display."""
    began, rate, held = time.monotonic(), Rate(), worker.worker.held
    while True:
        now, counts = time.monotonic(), held.counts
        progress = Progress(
            counts=counts,
            in_flight=held.in_flight,
            hosts_ready=None,
            rate=rate.of(worker.requests, now),
            elapsed=now - began,
            max_pages=None,
            max_time=None,
            max_bytes=None,
            rate_of=" requests",
            waiting=held.waiting(),
        )
        shown.show(Crawling(progress), now)
        await asyncio.sleep(REDRAW)
