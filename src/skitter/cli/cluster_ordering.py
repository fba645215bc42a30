"""Controls and follows a crawl on many machines, through the engine that is its truth."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from skitter.cli.feeding import add as add_seeds
from skitter.cli.feeding import interruptible, seed_files
from skitter.cli.following import Following
from skitter.cli.ordering import checked
from skitter.cli.reading import cluster_settings
from skitter.cli.usage import Exit
from skitter.cluster.orders import HowFar, add_command, all_commands, obeyed_by_all
from skitter.cluster.status import Status, seen, snapshot
from skitter.compose.engines import Engines, opened, truth
from skitter.control.client import Followed
from skitter.control.orders import Continue, Pause, Request, command_of, in_words, is_paused
from skitter.crawl.done import Snapshot, why_over
from skitter.events import Stopped, Warned
from skitter.ports import Command, Do, EngineAway
from skitter.reporting.format import counted, printable
from skitter.reporting.progress import Progress
from skitter.settings import Settings
from skitter.settings.file import build, given

_EVERY = 2.0  # seconds between two looks


async def order(config: Path, request: Request) -> int:
    """Give a command, and wait until all workers have it."""
    checked(request, await cluster_settings(config))
    print("\n".join(map(printable, await told(config, request))))
    return Exit.DONE


async def told(config: Path, request: Request) -> list[str]:
    """The same; returns what happened, in lines."""
    settings = await cluster_settings(config)
    command = command_of(request, settings.urls, time.time())
    async with truth(settings) as claims:
        paused = is_paused(await all_commands(claims))
        if isinstance(request, Pause) and paused:
            return ["paused already"]
        if isinstance(request, Continue) and not paused:
            return ["it was not paused"]
        command = await add_command(claims, command)
        far = await obeyed_by_all(claims, command.number, settings.cluster.lease)
    return _said(command, far)


def _said(command: Command, far: HowFar) -> list[str]:
    if not far.workers:
        return ["it is kept; no worker runs now, and every shard applies it when one joins"]
    whole = not far.lacking
    if command.do is Do.PAUSE:
        in_flight = (
            f"; {counted(far.in_flight, 'request')} in flight at the last heartbeat" if far.in_flight else ""
        )
        lines = [f"paused{in_flight}" if whole else "pausing"]
    elif command.do is Do.CONTINUE:
        lines = ["continued"]
    else:
        lines = [in_words(command, far.result, whole=whole)]
    if far.lacking:
        lines.append(f"not applied yet by {', '.join(far.lacking)}")
    if far.free and command.do not in (Do.PAUSE, Do.CONTINUE):
        lines.append(f"{counted(far.free, 'shard')} without a worker apply it when one takes them")
    return lines


def add(arguments: argparse.Namespace) -> int:
    """Add seeds, as `skitter cluster add` does."""
    # Before the event loop starts: a pipe may be slow, and Ctrl-C must work.
    files = seed_files(arguments, build(given(arguments.config, os.environ, {})))

    async def bring() -> int:
        with interruptible() as interrupted:
            settings = await cluster_settings(arguments.config)
            return await add_seeds(arguments, files, settings, interrupted)

    return asyncio.run(bring())


# ------------------------------------------------------------------------------------------------ following


async def follow(config: Path, *, json: bool) -> int:
    """Show the cluster until nothing is left to do, or until Ctrl-C."""
    settings = await cluster_settings(config)
    with Following(sys.stdout, json=json) as shown:
        async with opened(settings, "", looking=True) as engines:
            async for each in _stream(engines, settings):
                shown.show(each, msgspec.json.encode(each))
    return Exit.DONE


async def _stream(engines: Engines, settings: Settings) -> AsyncIterator[Followed]:
    """The progress at every look, and what has changed in between. Ends when the crawl is over."""
    workers: set[str] | None = None
    before: Snapshot | None = None
    away = ""
    while True:
        try:
            status = await seen(engines)
            now = await snapshot(engines)
        except EngineAway as problem:
            if str(problem) != away:
                yield Warned(str(problem))
            away, before = str(problem), None
            await asyncio.sleep(_EVERY)
            continue
        away = ""
        here = _alive(status, settings)
        for text in [] if workers is None else _changes(workers, here):
            yield Warned(text)
        workers = here
        yield _progress(status, settings)
        limit = "" if here else status.limit_reached(settings.crawl)
        if not status.paused and (why := why_over(before, now, at_limit=bool(limit))):
            yield Stopped(why.value, status.counts)
            return
        before = now
        await asyncio.sleep(_EVERY)


def _alive(status: Status, settings: Settings) -> set[str]:
    lease = settings.cluster.lease
    return {worker.name for worker in status.workers if worker.now - worker.seen_at < lease}


def _changes(before: set[str], now: set[str]) -> list[str]:
    joined = [f"worker {name} has joined" for name in sorted(now - before)]
    return joined + [f"worker {name} has left, or is no longer heard of" for name in sorted(before - now)]


def _progress(status: Status, settings: Settings) -> Progress:
    limits = settings.crawl
    return Progress(
        counts=status.counts,
        in_flight=sum(worker.about.get("in_flight", 0) for worker in status.workers),
        rate=sum(worker.about.get("rate", 0.0) for worker in status.workers),
        rate_of=" requests",
        elapsed=status.elapsed,
        max_pages=limits.max_pages,
        max_time=limits.max_time,
        max_bytes=limits.max_bytes,
        paused=status.paused,
    )
