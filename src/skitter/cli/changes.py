"""`skitter changes`: what changed between two crawls of the same pages, or between two times of one."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace

from skitter.cli.reading import opened_crawl
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source, with_settings
from skitter.reporting.format import as_json, counted, printable
from skitter.runtime.dates import w3c
from skitter.settings import SettingsError, seconds

_SHOWN_HUNKS = 5  # of a page, on the screen
_SHOWN_REMARKS = 10
_RED, _GREEN, _BOLD, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"

if TYPE_CHECKING:  # slow to import
    from skitter.export.changes import Change


def parser() -> Parser:
    """The flags of `skitter changes`."""
    made = Parser(
        "changes",
        "What changed between two crawls, or between two times of one crawl that fetches its pages again (--from, --to): pages that are new, changed (with the words that went and came), moved to "
        "another URL, gone, or unchanged. Main content is compared, without menus and footers; stamps that change at every "
        "visit (dates of updates, counts of visitors) are ignored. A page is gone if NEW does not hold it, so both crawls should be "
        "complete. Exit code 0 if nothing changed, 1 if something did.",
        [
            "skitter changes skitter-example.org-may skitter-example.org-june",
            "skitter changes old new --json | jq 'select(.kind == \"changed\") | .url'",
            "skitter changes old new --html -o changes.html",
            "skitter changes may.toml june.toml",
            "skitter changes skitter-example.org --from 2026-05-01 --to 2026-06-01",
        ],
    )
    cluster = "or the settings file of a cluster"
    made.add_argument("old", type=Path, metavar="OLD", help=f"the directory of the earlier crawl, {cluster}")
    made.add_argument(
        "new", type=Path, nargs="?", metavar="NEW", help=f"the directory of the later crawl, {cluster}"
    )
    when = "as 2026-05-01, 2026-05-01T12:00 (UTC) or 7d: so long ago"
    made.add_argument(
        "--from", dest="since", metavar="TIME", help=f"compare OLD as it was at this time; {when}"
    )
    made.add_argument(
        "--to", dest="until", metavar="TIME", help="with itself as it was at this one (default: now)"
    )
    made.add_argument(
        "--with",
        dest="workers",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="the directory of a worker, for a cluster without a bucket; may be repeated",
    )
    shape = made.add_mutually_exclusive_group()
    shape.add_argument(
        "--json", action="store_true", help="a JSON object per line for each change, and one with the numbers"
    )
    shape.add_argument("--html", action="store_true", help="one HTML page, which needs no network")
    made.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="output file (default: -, standard output)"
    )
    made.add_argument("--all", action="store_true", help="also list pages that did not change")
    made.add_argument(
        "--extractor",
        choices=("trafilatura", "fast"),
        help="who finds the main content (default: parse.extractor of NEW)",
    )
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Compare the crawls, and write what changed."""
    from skitter.export import diffing  # noqa: PLC0415  `changes --help` does not need it
    from skitter.export.destination import destination  # noqa: PLC0415  the same

    if arguments.output != "-" and (arguments.output.endswith("/") or Path(arguments.output).is_dir()):
        raise UsageError(f"-o: {arguments.output} is a folder; name a file")
    _check_named(arguments)
    diffing.require()
    with destination(arguments.output) as files:
        file = files.open("changes")
        told = _Told(file, coloured=arguments.output == "-" and sys.stdout.isatty())
        code = _ask(arguments, told)
        file.flush()
    return code


def _check_named(arguments: argparse.Namespace) -> None:
    """UsageError unless two crawls are named, or one and a time."""
    times = arguments.since is not None or arguments.until is not None
    if arguments.new is None and arguments.since is None:
        raise UsageError("name two crawls, or one and a time with --from")
    if arguments.new is not None and times:
        raise UsageError("--from and --to are times of one crawl; name one")
    if arguments.new is not None and arguments.old.resolve() == arguments.new.resolve():
        raise UsageError("OLD and NEW are the same crawl; name two, or two times of it with --from and --to")


def _moment(text: str, now: float) -> float:
    """A date and time, or so long ago."""
    if "-" in text and (at := w3c(text)) is not None:
        return at
    if not text.isdigit():  # a year, or seconds? Nobody should have to guess
        with suppress(SettingsError):
            return now - seconds(text)
    raise UsageError(f"{text!r} is not a time; write 2026-05-01, 2026-05-01T12:00 or 7d for so long ago")


class _Told:
    """Writes changes as text, and counts them."""

    def __init__(self, file: IO[bytes], *, coloured: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.remarks = 0
        self._file = file
        self._colours = (_RED, _GREEN, _BOLD, _PLAIN) if coloured else ("", "", "", "")

    def write(self, text: str) -> None:
        self._file.write(text.encode("utf-8", "backslashreplace"))

    def remark(self, text: str) -> None:
        self.remarks += 1
        if self.remarks <= _SHOWN_REMARKS:
            print(f"skitter: {printable(text)}", file=sys.stderr)

    def as_text(self, change: "Change") -> str:
        red, green, bold, plain = self._colours
        came = f"  (was {printable(change.old_url)})" if change.old_url else ""
        lines = [f"{bold}{change.kind:<9}{plain} {printable(change.url)}{came}"]
        if change.note:
            lines.append(f"          {printable(change.note)}")
        for hunk in change.hunks[:_SHOWN_HUNKS]:
            marks = {"-": (f"{red}[-", f"-]{plain}"), "+": (f"{green}{{+", f"+}}{plain}"), "=": ("", "")}
            words = (f"{marks[piece.sign][0]}{printable(piece.text)}{marks[piece.sign][1]}" for piece in hunk)
            lines.append(f"          {' '.join(words)}")
        if len(change.hunks) > _SHOWN_HUNKS:
            lines.append(f"          … and {counted(len(change.hunks) - _SHOWN_HUNKS, 'more change')}")
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        from skitter.export.changes import KINDS  # noqa: PLC0415  see above

        return ", ".join(f"{self.counts[kind]:,} {kind}" for kind in KINDS)


def _ask(arguments: argparse.Namespace, told: _Told) -> Exit:
    import asyncio  # noqa: PLC0415  slow to import

    async def answer() -> Exit:
        if arguments.new is None:
            async with opened_crawl(*_named(arguments.old, arguments.workers)) as source:
                return await _times(arguments, source, told)
        before, after = (_named(each, arguments.workers) for each in (arguments.old, arguments.new))
        async with opened_crawl(*before) as old, opened_crawl(*after) as new:
            return await _compare(arguments, old, new, told)

    return asyncio.run(answer())


async def _times(arguments: argparse.Namespace, source: Source, told: _Told) -> Exit:
    """Compare a crawl with itself."""
    from skitter.compose.replaying import captures_of  # noqa: PLC0415  see above
    from skitter.export.at_time import STAMP, at_time  # noqa: PLC0415  the same

    now = time.time()
    since = _moment(arguments.since, now)
    until = now if arguments.until is None else _moment(arguments.until, now)
    if until <= since:
        raise UsageError("--to is not after --from")
    async with captures_of(source, lambda _: None) as captures:
        first = captures.first()
        if time.strftime(STAMP, time.gmtime(since)) < first:
            begins = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.strptime(first, STAMP))
            raise UsageError(f"--from: nothing was archived by then; the first answer is of {begins}")
        return await _compare(
            arguments, at_time(source, captures, since), at_time(source, captures, until), told
        )


def _named(crawl: Path, workers: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """The directories of a crawl, and the settings file of its cluster. Each worker says which cluster is its own."""
    from skitter.crawl.directory import CrawlDirectory  # noqa: PLC0415  see above
    from skitter.settings.file import load  # noqa: PLC0415  the same

    file = crawl if crawl.is_file() else None
    directories = [] if file else [crawl]
    if workers:
        cluster = (load(file, os.environ, {}) if file else CrawlDirectory(crawl).read_settings()).cluster
        others = {each: CrawlDirectory(each).read_settings().cluster for each in workers}
        directories += [
            each
            for each, its in others.items()
            if its.size == cluster.size != "none" and its.name == cluster.name
        ]
    return directories, file


async def _compare(arguments: argparse.Namespace, old: Source, new: Source, told: _Told) -> Exit:
    from skitter.export.changes import UNCHANGED, changes  # noqa: PLC0415  see above

    settings = new.settings
    if arguments.extractor is not None:
        settings = replace(settings, parse=replace(settings.parse, extractor=arguments.extractor))
    alike = with_settings(old, replace(old.settings, parse=settings.parse)), with_settings(new, settings)
    with TemporaryFile("w+", encoding="utf-8", errors="backslashreplace") as body:
        shown = _shape(arguments, told)
        async for change in changes(*alike, told.remark):
            told.counts[change.kind] += 1
            if change.kind != UNCHANGED or arguments.all:
                made = shown(change)
                body.write(made) if arguments.html else told.write(made)
        if arguments.html:
            from skitter.export import changes_page  # noqa: PLC0415  see above

            told.write(changes_page.head(old.name, new.name, told.counts))
            body.seek(0)
            while piece := body.read(1 << 16):
                told.write(piece)
    return _concluded(arguments, told)


def _shape(arguments: argparse.Namespace, told: _Told) -> "Callable[[Change], str]":
    if arguments.html:
        from skitter.export import changes_page  # noqa: PLC0415  see above

        return changes_page.article
    if arguments.json:
        return lambda change: f"{as_json(to_builtins(change))}\n"
    return told.as_text


def _concluded(arguments: argparse.Namespace, told: _Told) -> Exit:
    from skitter.export.changes import KINDS, UNCHANGED  # noqa: PLC0415  see above

    changed = sum(number for kind, number in told.counts.items() if kind != UNCHANGED)
    if arguments.json:
        told.write(f"{as_json({'summary': {kind: told.counts[kind] for kind in KINDS}})}\n")
    elif not arguments.html:
        told.write(f"{told.summary()}\n")
    if told.remarks > _SHOWN_REMARKS:
        print(
            f"skitter: … and {counted(told.remarks - _SHOWN_REMARKS, 'more page')} without content",
            file=sys.stderr,
        )
    if arguments.output != "-":
        print(f"skitter: {told.summary()}; written to {arguments.output}", file=sys.stderr)
    return Exit.NO if changed or told.remarks else Exit.DONE
