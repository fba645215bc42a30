"""`skitter cluster add`: adds seeds to a cluster; can be interrupted and continued."""

import argparse
import asyncio
import shlex
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skitter import seeds
from skitter.cli.crawl import opened_seeds
from skitter.cli.usage import Exit, UsageError
from skitter.ports import EngineError
from skitter.reporting.format import count
from skitter.settings import Settings

if TYPE_CHECKING:
    from skitter.cluster.intake import Intake


class SeedFile(NamedTuple):
    """A seed file that can be read again, and how to continue with it."""

    path: Path
    name: str
    again: str
    copied: bool


def seed_files(arguments: argparse.Namespace, settings: Settings) -> list[SeedFile]:
    """The files named by --seeds. A pipe is copied to a file first, to its end."""
    found = []
    for name in arguments.seeds:
        if name != "-" and _is_file(Path(name)):
            found.append(SeedFile(Path(name), name, "run the same command again to continue", copied=False))
            continue
        try:
            path = _copy(name, settings)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted while the seeds were read; nothing was added") from None
        words = ["skitter", "cluster", "add", "--config", str(arguments.config), "--seeds", str(path)]
        found.append(SeedFile(path, str(path), f"continue with: {shlex.join(words)}", copied=True))
    return found


def _is_file(path: Path) -> bool:
    """Whether it is a regular file, which can be read again. A missing file is reported when it is opened."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _copy(name: str, settings: Settings) -> Path:
    from skitter.cluster.intake import kept  # noqa: PLC0415  the engine is slow to import; usage errors do not need it

    with opened_seeds(name) as pipe:
        path = kept(pipe, settings.cluster.name, Path())
    print(f"skitter: a copy of the seeds is kept in {path} until all of them are added", file=sys.stderr)
    return path


async def add(
    arguments: argparse.Namespace,
    files: Sequence[SeedFile],
    settings: Settings,
    interrupted: threading.Event,
) -> int:
    """Add seeds until all are in or a signal comes. Added seeds stay, and the same command continues after them."""
    from skitter.cluster.intake import Intake  # noqa: PLC0415  engines' libraries are large
    from skitter.compose.engines import opened  # noqa: PLC0415  the same

    async with opened(settings, "") as engines:
        intake = Intake(engines, settings, lambda text: print(f"skitter: {text}", file=sys.stderr))
        intake.stopping = interrupted.is_set
        await intake.bring(seeds.named(arguments.url, settings.urls))
        for file in files:
            await _bring_file(file, intake)
    if not intake.added and not intake.resumed:
        raise UsageError("there is nothing to add; name a URL, or a file of URLs with --seeds")
    many = f"{count(intake.added)} seeds were sent to their shards"
    print("1 seed was sent to its shard" if intake.added == 1 else many)
    return Exit.DONE


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first signal stops after the current batch, the second at once.

    Cancelling at the first would not be reliable: it is lost if an engine answers at the same moment.
    """
    loop, working = asyncio.get_running_loop(), asyncio.current_task()
    asked = threading.Event()

    def interrupt() -> None:
        if asked.is_set() and working is not None:
            working.cancel()
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield asked
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _bring_file(file: SeedFile, intake: "Intake") -> None:
    try:
        await intake.bring_file(file.path, file.name)
    except asyncio.CancelledError:
        raise KeyboardInterrupt(f"interrupted; {intake.far}; {file.again}") from None
    except EngineError as problem:
        raise EngineError(f"{problem}; {intake.far}; {file.again}") from None
    if file.copied:
        with suppress(OSError):
            file.path.unlink()
