"""`skitter index`: send pages to OpenSearch or Elasticsearch, from a crawl directory or from a cluster's Kafka."""

import argparse
import os
from functools import partial
from pathlib import Path

from skitter.cli.reading import ask_crawl
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source
from skitter.ports import EngineError, StateError
from skitter.reporting.format import counted
from skitter.settings.file import load


def parser() -> Parser:
    """The flags of `skitter index`."""
    made = Parser(
        "index",
        "Send pages to the search index named by [search] in the settings; template and index are created if missing. "
        "With a directory: sends what the index does not have yet; may be interrupted and repeated, also while the "
        "crawl runs. Without: reads from Kafka what the workers of a cluster store, until interrupted; several can "
        "run in parallel, and a restarted one continues where it stopped. Exit code 1 if a page could not be indexed.",
        [
            "skitter index skitter-example.org --config cluster.toml",
            "skitter index --config cluster.toml",
            "skitter index --config cluster.toml --once",
        ],
    )
    made.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="the crawl directory")
    made.add_argument("--once", action="store_true", help="without DIR: stop when no more pages arrive")
    made.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file with the [search] section (default: crawl.toml of the directory); the environment overrides it",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Index a crawl directory once, or follow a cluster."""
    if arguments.directory is None:
        return _follow(arguments)
    if arguments.once:
        raise UsageError("--once is only for a cluster; a directory is always read once")
    return ask_crawl([arguments.directory], None, partial(_index, arguments))


def _follow(arguments: argparse.Namespace) -> Exit:
    if arguments.config is None:
        raise UsageError("name a crawl directory, or the settings of a cluster with --config")
    settings = load(arguments.config, os.environ, {})
    if settings.cluster.size != "full":
        raise UsageError(
            f"{arguments.config}: cluster.size is {settings.cluster.size}, but only a full cluster has its pages in Kafka; "
            "name a crawl directory"
        )
    import asyncio  # noqa: PLC0415  slow to import; `index --help` does not need it

    from skitter.cli.indexing import follow  # noqa: PLC0415  the same

    return asyncio.run(follow(settings, once=arguments.once, quiet=arguments.quiet))


async def _index(arguments: argparse.Namespace, source: Source) -> Exit:
    from skitter.cli.indexing import fill  # noqa: PLC0415  parsers are not needed for `index --help`
    from skitter.compose.searching import shared_index  # noqa: PLC0415

    index = shared_index(load(arguments.config or source.directory.kept_settings(), os.environ, {}))
    try:
        await index.open()
        try:
            _, remarks = await fill(source, index, quiet=arguments.quiet)
        except EngineError as lost:  # it was up before: indexed pages stay, and the next run continues
            raise StateError(str(lost)) from None
        print(f"{counted(await index.count(), 'page')} in the index")
    finally:
        await index.close()
    return Exit.NO if remarks else Exit.DONE
