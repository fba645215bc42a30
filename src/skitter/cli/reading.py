"""How the reading commands open a crawl: while it runs, without a lock, changing nothing.

The settings file of a cluster, or the directory of one of its workers, gives access to the whole cluster: it names the
engines.
"""

import argparse
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source
from skitter.reporting.format import counted
from skitter.settings import Settings
from skitter.settings.file import build, given


def add_directory(parser: Parser, more: str = "") -> None:
    """Add the argument for the directory of a crawl on this machine (or `more`)."""
    parser.add_argument("directory", type=Path, metavar="DIR", help=f"the crawl directory{more}")


def is_wacz(path: Path) -> bool:
    """Whether this names a WACZ file and no crawl."""
    return path.is_file() or (path.suffix == ".wacz" and not path.is_dir())


def add_crawl(parser: Parser, *, several: bool = False, more: str = "") -> None:
    """Add the arguments that name a crawl: a directory (or `more`), or the settings of a cluster."""
    more += "; for a cluster without a bucket, the directories of all workers" if several else ""
    parser.add_argument(
        "directory",
        type=Path,
        nargs="*" if several else "?",
        metavar="DIR",
        help=f"the crawl directory{more}",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file of a cluster: its crawl is read from the engines, and no directory is needed",
    )


def ask(arguments: argparse.Namespace, question: Callable[[Source], Awaitable[Exit]]) -> Exit:
    """Open the crawl named by the arguments of `add_crawl`, run the question, and close it."""
    named: list[Path] | Path | None = arguments.directory
    directories = named if isinstance(named, list) else [named] if named is not None else []
    return ask_crawl(directories, arguments.config, question)


def ask_crawl(
    directories: Sequence[Path], config: Path | None, question: Callable[[Source], Awaitable[Exit]]
) -> Exit:
    """Open the crawl in these directories or on a cluster's engines, run the question, and close it."""
    import asyncio  # noqa: PLC0415  slow to import; `skitter why --help` does not need it

    async def answer() -> Exit:
        async with opened_crawl(directories, config) as source:
            return await question(source)

    return asyncio.run(answer())


@asynccontextmanager
async def opened_crawl(directories: Sequence[Path], config: Path | None) -> AsyncIterator[Source]:
    """The crawl in these directories or on a cluster's engines, closed at the end. Every reading command comes by here."""
    from skitter.compose import open_source  # noqa: PLC0415  slow to import, see `ask_crawl`
    from skitter.crawl.directory import CrawlDirectory  # noqa: PLC0415  the same

    if not directories and config is None:
        raise UsageError(
            "no crawl named; name its directory, or the settings file of a cluster with --config"
        )
    said = None if config is None else _cluster(config)
    if said is not None:  # before connecting to any engine
        for directory in directories:
            CrawlDirectory(directory).check_same_cluster(build(said))
    source = await open_source(directories, None if said is None else await _in_force(said))
    try:
        yield source
    finally:
        await source.close()


async def missing_lines(source: Source) -> list[str]:
    """Messages about pages that cannot be read because their worker's directory was not named."""
    elsewhere = await source.elsewhere()
    if not elsewhere:
        return []
    lines = [f"{counted(sum(elsewhere.values()), 'page')} of this crawl could not be read from the archive:"]
    lines += [
        f"  {counted(pages, 'page')} in {where or 'some directory'}" for where, pages in elsewhere.items()
    ]
    return [*lines, "name these worker directories, or copies of them, on the command line"]


async def cluster_settings(file: Path) -> Settings:
    """The settings of the cluster that a file names, as its workers share them."""
    return await _in_force(_cluster(file))


def _cluster(file: Path) -> dict[str, object]:
    """The cluster settings given by a file and the environment."""
    said = given(file, os.environ, {})
    if build(said).cluster.size == "none":
        raise UsageError(
            f"{file}: cluster.size is none, which is a crawl on one machine; name its directory, without --config"
        )
    return said


async def _in_force(said: Mapping[str, object]) -> Settings:
    """The shared settings stored on the engine, combined with the given connection settings."""
    from skitter.cluster.ports import UnknownSettings  # noqa: PLC0415  see `ask_crawl`
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  the same

    settings = build(said)
    with suppress(UnknownSettings):  # a crawl created before settings were stored
        settings, _ = await settings_in_force(settings, said, strict=False)
    return settings
