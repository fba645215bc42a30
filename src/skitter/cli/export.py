"""`skitter export`: write a crawl as files for other programs.

What is written appears whole or not at all (see `export.destination`).
"""

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from skitter import __version__
from skitter.cli.progress import PlainScreen, Screen, Transfer, screen
from skitter.cli.reading import add_crawl, ask, missing_lines
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.destination import Files, destination, is_folder, unfinished
from skitter.export.formats import FORMATS
from skitter.export.source import Source, with_settings
from skitter.export.wacz_key import WaczKey, make_key
from skitter.export.writing import Format
from skitter.reporting.format import counted
from skitter.robots.usage import USES
from skitter.settings import Settings, SettingsError, size

SHOWN_REMARKS = 10
_LOOK = 16  # reading the clock costs more than some lines, so it is read only now and then


def parser() -> Parser:
    """The flags of `skitter export`."""
    formats = " ".join(f"{each.name}: {each.about}." for each in FORMATS.values())
    made = Parser(
        "export",
        f"Write a crawl as a file, or as a folder of files. {formats} Works while the crawl runs. The output appears "
        "whole or not at all; with --resume, one in many files that was interrupted or killed goes on where it was when the same "
        "command is given again. For a cluster without a bucket, name the directories of all workers (or copies of them) "
        "for jsonl and cdxj. Exit code 1 if the text of a page could not be read from the archive (it is null then), "
        "or if directories are missing; a message says which.",
        [
            "skitter export skitter-example.org --format jsonl -o pages.jsonl",
            "skitter export skitter-example.org --format jsonl -o pages.jsonl.gz",
            "skitter export skitter-example.org --format csv -o pages/ --split 100MB --gzip",
            "skitter export skitter-example.org --format markdown -o markdown/",
            "skitter export skitter-example.org --format jsonl -o pages/ --split 1GB --resume",
            "skitter export skitter-example.org --format chunks --extractor fast -o chunks.jsonl",
            "skitter export skitter-example.org --format urls | grep '\"refused\"'",
            "skitter export skitter-example.org --format jsonl --respect-ai train-ai -o pages.jsonl",
            "skitter export skitter-example.org --format wacz -o example.wacz",
            "skitter export skitter-example.org --format wacz -o example.wacz --sign my-key.pem --new-key",
            "skitter export skitter-example.org --format parquet -o tables/",
            "skitter export skitter-example.org --format sqlite -o crawl.sqlite",
            "skitter export --config cluster.toml --format links -o links.csv",
        ],
    )
    add_crawl(made, several=True)
    made.add_argument("--format", required=True, choices=tuple(FORMATS), help="file format")
    made.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="output file, or a new folder if it ends with / (default: -, standard output)",
    )
    made.add_argument(
        "--split",
        metavar="SIZE",
        help="write a folder of numbered files of at most this size before compression, for example 1GB; lines stay whole",
    )
    made.add_argument(
        "--gzip", action="store_true", help="compress; a FILE that ends with .gz is compressed anyway"
    )
    made.add_argument(
        "--resume",
        action="store_true",
        help="keep the files that are complete if the export is interrupted, beside FILE, and continue with them when the same "
        "command is given again; for folders of files (--split, "
        f"{', '.join(each.name for each in FORMATS.values() if each.tree and each.resumes)})",
    )
    made.add_argument(
        "--respect-ai",
        metavar="USES",
        help="leave out pages that say no to one of these uses, as in train-ai,ai-input; none for no use "
        "(default: export.respect_ai of the crawl); not for urls and links",
    )
    made.add_argument(
        "--extractor",
        choices=("trafilatura", "fast"),
        help="for markdown and chunks: who finds the main content (default: parse.extractor of the crawl)",
    )
    made.add_argument(
        "--noarchive", action="store_true", help="for cdxj and wacz: also pages that ask for noarchive"
    )
    made.add_argument(
        "--sign",
        metavar="KEY",
        help="for wacz: sign it with the private key in this file (default: export.sign of the crawl)",
    )
    made.add_argument(
        "--new-key", action="store_true", help="with --sign: make the key first; the file must be new"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Write the export."""
    name, chosen = arguments.output, FORMATS[arguments.format]
    if chosen.tree and name != "-" and not name.endswith("/"):
        name = f"{name}/"
    split = None if arguments.split is None else _size(arguments.split)
    folder = is_folder(name, split=split is not None)
    compress = arguments.gzip or (not folder and name.endswith(".gz"))
    if name == "-" and split is not None:
        raise UsageError("--split: standard output cannot be split; name a folder with -o, as in -o pages/")
    if name == "-" and not chosen.streams:
        what = f"folder with -o, as in -o {chosen.name}/" if chosen.tree else "file with -o"
        raise UsageError(f"{chosen.name} cannot go to standard output; name a {what}")
    if not folder and not name.endswith(chosen.suffix):
        raise UsageError(f"-o {name}: the name of a {chosen.name} file ends with {chosen.suffix}")
    if not chosen.lines and (compress or split is not None):
        raise UsageError(
            f"{chosen.name} can be neither split nor compressed; leave out --split, --gzip and .gz"
        )
    if arguments.resume:
        _check_resumes(chosen, folder=folder, split=split)
    if folder and Path(name).exists() and (not Path(name).is_dir() or any(Path(name).iterdir())):
        raise UsageError(f"{name}: there is something already; name a new or empty folder")
    if arguments.respect_ai is not None and chosen.name in {"urls", "links"}:
        raise UsageError(
            f"--respect-ai leaves out pages, and {chosen.name} lists none; use it with another format"
        )
    _check_key(arguments, chosen)
    asked = partial(
        _asked,
        sign=arguments.sign,
        respect_ai=_uses(arguments.respect_ai),
        noarchive=arguments.noarchive,
        extractor=arguments.extractor,
    )

    async def work(source: Source) -> Exit:
        said = with_settings(source, asked(source.settings))
        output = _Output(name, split, compress=compress, resume=arguments.resume)
        return await _write(said, chosen, output, quiet=arguments.quiet)

    return ask(arguments, work)


class _Output(Struct, frozen=True):
    """Where an export goes."""

    name: str
    split: int | None
    compress: bool
    resume: bool

    def resumes(self, source: Source, chosen: Format) -> dict[str, object] | None:
        """What is written, for a later run that is to go on with it."""
        if not self.resume:
            return None
        settings = repr((source.settings.export, source.settings.parse, source.settings.urls))
        return {
            "crawl": source.name,
            "format": chosen.name,
            "split": self.split,
            "gzip": self.compress,
            "settings": hashlib.sha256(settings.encode()).hexdigest(),
            "version": __version__,
        }


def _check_resumes(chosen: Format, *, folder: bool, split: int | None) -> None:
    """UsageError if such an export starts over anyway."""
    if not chosen.resumes:
        raise UsageError(f"--resume: {chosen.name} is made in one go; leave it out")
    if not folder or (split is None and not chosen.tree):
        raise UsageError(
            "--resume continues an export of many files, and this is one file; write a folder of them, as in -o pages/ --split 1GB"
        )


def _check_key(arguments: argparse.Namespace, chosen: Format) -> None:
    """Make the key that signs, if asked to. UsageError if nothing can be signed."""
    if arguments.new_key and arguments.sign is None:
        raise UsageError("--new-key makes the key that --sign names; write for example --sign my-key.pem")
    if arguments.sign is not None and chosen.name != "wacz":
        raise UsageError(f"--sign: only wacz files can be signed, and this is {chosen.name}")
    if arguments.new_key:
        make_key(arguments.sign)
    if arguments.sign is not None:
        WaczKey(arguments.sign)  # what is wrong with it is said before anything is read


def _uses(text: str | None) -> tuple[str, ...] | None:
    """The uses named by the flag; None if it was not given."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "none"))
    for name in names:
        if name not in USES:
            raise UsageError(f"--respect-ai: {name!r} is not one of {', '.join(USES)}")
    return names


def _asked(
    settings: Settings,
    *,
    respect_ai: tuple[str, ...] | None,
    noarchive: bool,
    extractor: str | None,
    sign: str | None,
) -> Settings:
    """The settings of the crawl, changed by the flags."""
    export = settings.export
    export = replace(
        export,
        respect_ai=export.respect_ai if respect_ai is None else respect_ai,
        noarchive=export.noarchive or noarchive,
        sign=export.sign if sign is None else sign,
    )
    parse = settings.parse if extractor is None else replace(settings.parse, extractor=extractor)
    return replace(settings, export=export, parse=parse)


def _size(text: str) -> int:
    try:
        found = size(text)
    except SettingsError as problem:
        raise UsageError(f"--split: {problem}") from None
    if found < 1:
        raise UsageError(f"--split: {text} is too small; write for example 100MB")
    return found


async def _write(source: Source, chosen: Format, output: _Output, *, quiet: bool) -> Exit:
    from asyncio import CancelledError  # noqa: PLC0415  `export --help` does not need it

    from skitter.cli.stopping import cancelled_by_signals  # noqa: PLC0415  the same

    name, resumes = output.name, output.resumes(source, chosen)
    opened = destination(name, split=output.split, compress=output.compress, resumes=resumes)
    try:
        with cancelled_by_signals(), opened as files:
            told = _Told(_screen(name, quiet=quiet), files)
            try:
                await chosen.write(source, files, told)
            finally:
                told.end()
    except CancelledError:
        what = "" if name == "-" else f"; {name} was not written"
        if resumes is not None:
            what = f"; what is complete is kept in {unfinished(name)}, and the same command goes on with it"
        raise KeyboardInterrupt(f"interrupted{what}") from None
    if chosen.archive_alone or told.remarks:
        told.missing(await missing_lines(source))
    code = told.summary(name)
    if chosen.name == "wacz" and source.settings.export.sign:
        told.signed(source.settings.export.sign)
    return code


def _screen(name: str, *, quiet: bool) -> Screen:
    """A display that is redrawn, unless it would be drawn between the lines of the export itself."""
    together = name == "-" and sys.stdout.isatty()
    return PlainScreen(sys.stderr) if together and not quiet else screen(sys.stderr, quiet=quiet)


class _Told:
    """`writing.Listener`: progress and messages on standard error."""

    def __init__(self, shown: Screen, files: Files) -> None:
        self.remarks = 0
        self._shown = shown
        self._files = files
        self._done = 0
        self._total: int | None = None
        self._names = ("line", "lines")
        self._left_out: Counter[str] = Counter()  # pages, by reason
        self._missing = False  # whether some pages are on disks that cannot be read here
        self._began = time.monotonic()

    def expect(self, total: int | None, one: str, many: str = "") -> None:
        self._total, self._names = total, (one, many or f"{one}s")

    def done(self, number: int = 1) -> None:
        self._done += number
        if not self._done % _LOOK:
            now = time.monotonic()
            self._shown.show(
                Transfer(
                    done=self._done,
                    total=self._total,
                    one=self._names[0],
                    many=self._names[1],
                    written=self._files.written,
                    elapsed=now - self._began,
                ),
                now,
            )

    def remark(self, text: str) -> None:
        self.remarks += 1
        self._files.flawed = True
        if self.remarks <= SHOWN_REMARKS:
            self._say(text)

    def left_out(self, why: str) -> None:
        self._left_out[why] += 1

    def end(self) -> None:
        self._shown.end()

    def missing(self, lines: Sequence[str]) -> None:
        self._missing = bool(lines)
        for line in lines:
            self._say(line)

    def summary(self, name: str) -> Exit:
        if self.remarks > SHOWN_REMARKS:
            self._say(
                f"… and {counted(self.remarks - SHOWN_REMARKS, 'more page')} whose text could not be read"
            )
        if self._files.flawed and not self.remarks:
            self._say("the text of some pages could not be read before the export was interrupted")
        for why, number in self._left_out.items():
            self._say(f"{counted(number, 'page')} left out: {why}")
        if name != "-":
            many = f" ({counted(self._files.files, 'file')})" if Path(name).is_dir() else ""
            self._say(f"{counted(self._done, *self._names)} written to {name}{many}")
        return Exit.NO if self._files.flawed or self._missing else Exit.DONE

    def signed(self, file: str) -> None:
        self._say(
            f"signed by the key in {file}, {WaczKey(file).fingerprint}: tell this to whoever is to check it"
        )

    def _say(self, text: str) -> None:
        self._shown.say(f"skitter: {text}")
