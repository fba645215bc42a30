"""`skitter export`: write a crawl as a file for other programs.

The file appears complete or not at all: it is written under a temporary name and renamed at the end.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from skitter.cli.progress import LINES_EVERY
from skitter.cli.reading import add_crawl, ask, missing_lines
from skitter.cli.usage import Exit, Parser
from skitter.export.source import Source
from skitter.reporting.format import counted, printable

FORMATS = ("jsonl", "csv", "urls", "links", "cdxj")
SHOWN_REMARKS = 10


def parser() -> Parser:
    """The flags of `skitter export`."""
    made = Parser(
        "export",
        "Write a crawl as a file. jsonl: page records with their text. csv: page records without text; cells that "
        "begin like a formula get an apostrophe in front. urls: every URL with its state and reason, as JSON lines. "
        "links: source,target as CSV. cdxj: the index of the archive. Works while the crawl runs. For a cluster "
        "without a bucket, name the directories of all workers (or copies of them) for jsonl and cdxj. Exit code 1 if "
        "the text of a page could not be read from the archive (it is null then), or if directories are missing; a "
        "message says which.",
        [
            "skitter export skitter-example.org --format jsonl -o pages.jsonl",
            "skitter export skitter-example.org --format urls | grep '\"refused\"'",
            "skitter export --config cluster.toml --format links -o links.csv",
        ],
    )
    add_crawl(made, several=True)
    made.add_argument("--format", required=True, choices=FORMATS, help="file format")
    made.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="output file (default: -, standard output)"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Write the file."""
    return ask(arguments, partial(_write, arguments))


async def _write(arguments: argparse.Namespace, source: Source) -> Exit:
    from skitter.export import formats  # noqa: PLC0415  parsers are not needed for `export --help`

    say = _Remarks(quiet=arguments.quiet)
    with destination(arguments.output) as file:
        if arguments.format == "cdxj":
            say.written(await formats.cdxj(source, file))
        else:
            async for line in formats.FORMATS[arguments.format](source, say.remark):
                file.write(line)
                say.written()
    if arguments.format == "cdxj" or say.remarks:
        say.missing(await missing_lines(source))
    return say.end(arguments.output)


@contextmanager
def destination(name: str) -> Iterator[TextIO]:
    """The output file. A regular file is replaced when everything is written; a failure leaves nothing behind."""
    path = Path(name)
    if name == "-":
        yield sys.stdout
    elif path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        with path.open("w", encoding="utf-8") as file:
            yield file
    else:
        draft = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with draft.open("x", encoding="utf-8", newline="") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as problem:
            if problem.filename != str(draft):
                raise
            raise OSError(
                problem.errno, problem.strerror, name
            ) from None  # report the name that was asked for
        finally:
            draft.unlink(missing_ok=True)


class _Remarks:
    """Messages on standard error during an export."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._lines = 0
        self.remarks = 0
        self._missing = False  # whether some pages are on disks that cannot be read here
        self._next = time.monotonic() + LINES_EVERY

    def remark(self, text: str) -> None:
        self.remarks += 1
        if self.remarks <= SHOWN_REMARKS:
            self._say(text)

    def written(self, lines: int = 1) -> None:
        self._lines += lines
        # Reading the clock costs more than most lines, so it is read only now and then.
        if self._lines % 256 == 0 and time.monotonic() >= self._next:
            self._next = time.monotonic() + LINES_EVERY
            self._say(counted(self._lines, "line"))

    def end(self, name: str) -> Exit:
        if self.remarks > SHOWN_REMARKS:
            self._say(
                f"… and {counted(self.remarks - SHOWN_REMARKS, 'more page')} whose text could not be read"
            )
        if name != "-":
            self._say(f"{counted(self._lines, 'line')} written to {name}")
        return Exit.NO if self.remarks or self._missing else Exit.DONE

    def missing(self, lines: Sequence[str]) -> None:
        self._missing = bool(lines)
        for line in lines:
            self._say(line)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"skitter: {printable(text)}", file=sys.stderr)
