"""How the commands that control a running crawl reach it: by its socket, or through the engines of a cluster."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.control.client import Client, NotRunningError, connected
from skitter.control.orders import Answer, BadOrderError, Request, command_of
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import StateError
from skitter.reporting.format import printable
from skitter.settings import Settings

CHANGE = "to change it before it goes on, start it with `skitter resume {where} --paused`, then repeat this"
START = "start it with: skitter resume {where}"


def order_parser(name: str, what: str, description: str, examples: Sequence[str], usage: str = "") -> Parser:
    """The parser of a command whose arguments are a crawl and names of something. `usage` shows those names."""
    made = Parser(name, description, examples)
    shown = f" {usage}" if usage else ""
    made.usage = f"skitter {name} [-h] (DIR | --config FILE){shown}"
    made.add_argument(
        "words", nargs="*", default=[], metavar="DIR", help=f"the crawl directory{what and f', then {what}'}"
    )
    made.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file of a cluster, instead of DIR; the directory of one of its workers does as well",
    )
    return made


class Target:
    """The crawl that a command line names, and the words that follow it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        words: list[str] = list(arguments.words)
        self.config: Path | None = arguments.config
        self.directory: CrawlDirectory | None = None
        if self.config is None:
            if not words:
                raise UsageError(
                    "no crawl named; name its directory, or the settings file of a cluster with --config"
                )
            self.directory = CrawlDirectory(Path(words.pop(0)))
            settings = self.directory.read_settings()
            if settings.cluster.size != "none":
                self.config = self.directory.settings_file
        self.words = words

    @property
    def here(self) -> CrawlDirectory:
        """The directory of a crawl on this machine."""
        if self.directory is None or self.config is not None:
            raise AssertionError("this crawl is a cluster's")
        return self.directory

    @property
    def where(self) -> str:
        """Its directory, as one types it."""
        return shlex.quote(printable(str(self.here.path)))


def order(target: Target, request: Request, hint: str) -> int:
    """Give a command, and say what has happened. `hint` says what to do if the crawl does not run."""
    if target.config is not None:
        return _order_cluster(target.config, request)
    checked(request, target.here.read_settings())

    def ask(client: Client) -> int:
        print(printable(asked(client, request).said))
        return Exit.DONE

    return with_client(target, ask, hint)


def checked(request: Request, settings: Settings) -> None:
    """UsageError for a malformed host or URL, before anybody is asked."""
    try:
        command_of(request, settings.urls, 0.0)
    except BadOrderError as problem:
        raise UsageError(str(problem)) from None


def asked(client: Client, request: Request) -> Answer:
    """The answer; StateError if the crawl refuses, UsageError if the request itself is wrong."""
    answer = client.ask(request)
    if answer.error and answer.wrong:
        raise UsageError(answer.error)
    if answer.error:
        raise StateError(answer.error)
    return answer


def with_client(target: Target, use: Callable[[Client], int], hint: str) -> int:
    """Connect to a running crawl on this machine; if it does not run, say so."""
    directory = target.here
    try:
        with connected(directory.control_socket, directory.in_use) as client:
            return use(client)
    except NotRunningError:
        pass
    where = printable(str(directory.path))
    if directory.in_use():
        raise StateError(f"{where} is in use, but nobody answers at {directory.control_socket.name} in it")
    print(f"skitter: {where} is not running; {hint.format(where=target.where)}", file=sys.stderr)
    return Exit.NO


def _order_cluster(config: Path, request: Request) -> int:
    import asyncio  # noqa: PLC0415  slow to import; usage errors do not need it

    from skitter.cli.cluster_ordering import order as order_cluster  # noqa: PLC0415  the same

    return asyncio.run(order_cluster(config, request))
