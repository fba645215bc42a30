"""`skitter reload`: a running crawl takes over changed settings."""

import argparse
from pathlib import Path

from skitter.cli.options import add_settings, resolve
from skitter.cli.ordering import START, Target, asked, with_client
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.control.client import Client
from skitter.control.orders import Reload
from skitter.reporting.format import printable
from skitter.settings.file import dump


def parser() -> Parser:
    """The flags of `skitter reload`."""
    made = Parser(
        "reload",
        "Change the settings of a running crawl: edit crawl.toml in its directory and run this, or name the changes as "
        "flags. What is in flight is finished under the old settings. URLs that wait and are no longer wanted leave the "
        "queue, with the reason; URLs that were refused and are wanted now come back. The changes stay for the following "
        "runs, also after `kill -9`. A setting that cannot change while a crawl runs is refused with exit code 2, and nothing is changed. "
        "Exit code 1 if the crawl does not run: then `skitter resume` takes the same flags.",
        [
            "skitter reload skitter-example.org",
            "skitter reload skitter-example.org --delay 5s --exclude '/calendar/'",
            "skitter reload skitter-example.org --set politeness.max_crawl_delay=10m",
            "skitter reload skitter-example.org --config my.toml",
        ],
    )
    made.add_argument("words", nargs=1, metavar="DIR", help="the crawl directory")
    made.add_argument(
        "--config", type=Path, metavar="FILE", help="settings file to use instead of its crawl.toml"
    )
    add_settings(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Send the settings to the crawl, and say what has changed."""
    target = Target(argparse.Namespace(words=arguments.words, config=None))
    if target.config is not None:
        raise UsageError(
            "this is the directory of a worker; settings of a cluster change for all of its workers: skitter cluster set"
        )
    settings = resolve(arguments, arguments.config or target.here.kept_settings())

    def ask(client: Client) -> int:
        for line in asked(client, Reload(dump(settings))).said.splitlines():
            print(printable(line))
        return Exit.DONE

    return with_client(target, ask, START)
