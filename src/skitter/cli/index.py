"""`skitter index`: put the pages of a crawl directory into OpenSearch or Elasticsearch."""

import argparse
import os
from functools import partial
from pathlib import Path

from skitter.cli.reading import add_directory, ask
from skitter.cli.usage import Exit, Parser
from skitter.display import counted
from skitter.export.source import Source
from skitter.ports import EngineError, StateError
from skitter.settings.file import load


def parser() -> Parser:
    """The flags of `skitter index`."""
    made = Parser(
        "index",
        "Put the pages of a crawl into the index that [search] names in the settings; template and index are made if they "
        "are missing. Only what is new or was fetched again is sent, so it may be interrupted and repeated. Works while the "
        "crawl runs. Exit code 1 if a page could not be indexed.",
        ["skitter index skitter-example.org --config cluster.toml"],
    )
    add_directory(made)
    made.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file with the [search] section (default: crawl.toml of the directory); the environment comes after",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Send what the index lacks."""
    return ask(arguments.directory, partial(_index, arguments))


async def _index(arguments: argparse.Namespace, source: Source) -> Exit:
    from skitter.cli.indexing import fill  # noqa: PLC0415  parsers are not needed for `index --help`
    from skitter.compose import shared_index  # noqa: PLC0415

    index = shared_index(load(arguments.config or source.directory.settings_file, os.environ, {}))
    try:
        await index.open()
        try:
            _, remarks = await fill(source, index, quiet=arguments.quiet)
        except EngineError as lost:  # it was there before: what is in stays in, and the next run goes on
            raise StateError(str(lost)) from None
        print(f"{counted(await index.count(), 'page')} in the index")
    finally:
        await index.close()
    return Exit.NO if remarks else Exit.DONE
