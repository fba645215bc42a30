"""How the reading commands reach a crawl: they work while it runs, take no lock and change nothing.

The directory of a cluster's worker stands for the whole cluster: its settings say where the engines are.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from skitter.cli.usage import Exit, Parser
from skitter.export.source import Source


def add_directory(parser: Parser) -> None:
    """Every reading command begins with the crawl it is about."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl directory")


def ask(directory: Path, question: Callable[[Source], Awaitable[Exit]]) -> Exit:
    """Open a crawl, ask it something, and let go of it."""
    # The engine is large; `skitter why --help` need not wait for it.
    import asyncio  # noqa: PLC0415

    from skitter.compose import open_source  # noqa: PLC0415

    async def answer() -> Exit:
        source = await open_source(directory)
        try:
            return await question(source)
        finally:
            await source.close()

    return asyncio.run(answer())
