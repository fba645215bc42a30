"""`skitter add`: more seeds for a running crawl."""

import argparse
import sys
from collections.abc import Iterator

from skitter import seeds
from skitter.cli.crawl import opened_seeds
from skitter.cli.ordering import Target, asked, order_parser, with_client
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.control.client import Client
from skitter.control.orders import Add
from skitter.ports import StateError
from skitter.reporting.format import counted, printable
from skitter.seeds import BadSeed

_SEEDS = 1000  # in one request
_BYTES = 1 << 20
_HINT = "add seeds with: skitter crawl URL -o {where}"


def parser() -> Parser:
    """The flags of `skitter add`."""
    made = order_parser(
        "add",
        "more URLs",
        "Add seeds to a running crawl. They are checked like those that it was started with, widen its scope in the same way, "
        "and are kept for good when this returns. A URL that was refused or failed is tried again. A cluster takes them as "
        "`skitter cluster add` does. Exit code 1 if the crawl does not run.",
        [
            "skitter add skitter-example.org https://example.org/new",
            "skitter add skitter-example.org --seeds more.txt",
            "skitter add --config cluster.toml https://example.org/new",
        ],
        "URL... [--seeds FILE]",
    )
    made.add_argument(
        "--seeds",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with more URLs, one per line, or JSON lines; - for standard input",
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    """Add the seeds."""
    target = Target(arguments)
    if not target.words and not arguments.seeds:
        raise UsageError("there is nothing to add; name a URL, or a file of URLs with --seeds")
    if target.config is not None:
        return _add_to_cluster(arguments, target)
    for seed in seeds.named(target.words, target.here.read_settings().urls):
        if isinstance(seed, BadSeed):
            raise UsageError(seed.complaint)
    for name in arguments.seeds:
        opened_seeds(name).close()  # a missing file is said before anything is added

    def add(client: Client) -> int:
        return _add(client, target.words, arguments.seeds)

    return with_client(target, add, _HINT)


def _add(client: Client, texts: list[str], files: list[str]) -> int:
    added = 0
    try:
        if texts:
            added += asked(client, Add(texts)).changed or 0
        for name in files:
            for request in _batches(name):
                answer = asked(client, request)
                added += answer.changed or 0
                for complaint in answer.complaints:
                    print(f"skitter: seed {printable(complaint)} is not crawled", file=sys.stderr)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {counted(added, 'seed')} added before; run the same command again"
        ) from None
    except StateError as problem:
        raise StateError(f"{problem}; {counted(added, 'seed')} added before") from None
    print(f"{counted(added, 'seed')} added")
    return Exit.DONE


def _batches(name: str) -> Iterator[Add]:
    """A seed file in requests of bounded size."""
    shown = "standard input" if name == "-" else name
    with opened_seeds(name) as file:
        number, first, some, size = 0, 1, [], 0
        while line := seeds.line_of(file):
            number += 1
            some.append(_text(line, f"{shown}:{number}"))
            size += len(some[-1])
            if len(some) == _SEEDS or size > _BYTES:
                yield Add(some, shown, first)
                first, some, size = number + 1, [], 0
        if some:
            yield Add(some, shown, first)


def _text(line: bytes, where: str) -> str:
    """A line as it can be sent. One that cannot be a seed is reported here, and an empty one sent in its place."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = ""
    if len(line) > seeds.MAX_LINE or (line.strip() and not text):
        seed = seeds.parsed(line, where)
        if isinstance(seed, BadSeed):
            print(f"skitter: seed {printable(seed.complaint)} is not crawled", file=sys.stderr)
        return ""
    return text.rstrip("\n")


def _add_to_cluster(arguments: argparse.Namespace, target: Target) -> int:
    from skitter.cli.cluster_ordering import add  # noqa: PLC0415  slow to import; usage errors do not need it

    arguments.url, arguments.config = target.words, target.config
    return add(arguments)
