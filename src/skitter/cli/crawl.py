"""`skitter crawl`: from URLs to a crawl directory."""

import argparse
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from skitter import seeds, urls
from skitter.cli.options import add_manner, add_settings, resolve
from skitter.cli.usage import Parser, UsageError
from skitter.crawl.directory import CrawlDirectory, directory_name
from skitter.model import Link, Purpose
from skitter.seeds import BadSeed

if TYPE_CHECKING:
    from skitter.seeds.intake import Intake


def parser() -> Parser:
    """The flags of `skitter crawl`."""
    made = Parser(
        "crawl",
        "Crawl from these URLs into a directory. If the directory holds a crawl, it continues, and the URLs are added "
        "to it. You can interrupt at any time (Ctrl-C, SIGTERM, or by closing the terminal): nothing is lost, and "
        "`skitter resume DIR` continues. Exit codes: 0 done, 1 no page could be fetched, 2 wrong usage or settings, 3 "
        "stopped at a limit, 4 disk full or directory unusable, 130 interrupted.",
        [
            "skitter crawl https://example.org",
            "skitter crawl example.org --scope domain --max-pages 1000 --delay 2s --contact me@example.net",
            "skitter crawl --seeds urls.txt -o my-crawl --config crawl.toml",
            "skitter crawl https://example.org --max-pages 100 --assets",
            "skitter crawl example.org --sitemap-only",
            "skitter crawl app.example.org --render auto",
            "skitter crawl --sitemap https://example.org/news.xml --sitemap-only",
            "skitter crawl example.org --recrawl --max-time 7d",
            "skitter crawl example.org --with scorer.py --strategy scorer:score",
        ],
    )
    add_sources(made)
    made.add_argument(
        "--refresh",
        action="store_true",
        help="if the directory holds a crawl: one more round, as `skitter resume --refresh`",
    )
    made.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="crawl directory (default: ./skitter-HOST, or ./skitter-HOST-PORT)",
    )
    add_manner(made)
    return made


def add_sources(made: Parser) -> None:
    """Add what says where to crawl, and how: shared with `skitter job add`."""
    made.add_argument("url", nargs="*", metavar="URL", help="where to start; without a scheme, https is used")
    made.add_argument(
        "--seeds",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with more URLs, one per line, or JSON lines; - for standard input",
    )
    made.add_argument(
        "--sitemap",
        action="append",
        default=[],
        metavar="URL",
        help="read this sitemap or feed, and crawl the pages that it lists; repeatable",
    )
    alone = made.add_mutually_exclusive_group()
    alone.add_argument(
        "--sitemap-only",
        action="store_true",
        help="crawl only pages that sitemaps list: those given with --sitemap; with a URL, those of its site",
    )
    alone.add_argument(
        "--no-sitemaps",
        action="store_true",
        help="read no sitemap, even if a robots.txt names one, except those given with --sitemap",
    )
    made.add_argument("--config", type=Path, metavar="FILE", help="settings file (TOML)")
    add_settings(made)


def run(arguments: argparse.Namespace) -> int:
    """Open the seed files and crawl; they are closed at the end."""
    with ExitStack() as closing:
        return _run(arguments, [closing.enter_context(opened_seeds(name)) for name in arguments.seeds])


def _run(arguments: argparse.Namespace, files: Sequence[BufferedReader]) -> int:
    """Check seeds, directory and settings, then crawl."""
    from_files = list(zip(arguments.seeds, files, strict=True))
    path = arguments.output or default_directory([*arguments.url, *arguments.sitemap], from_files)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; choose another crawl directory with -o")
    directory = CrawlDirectory(path)
    if not arguments.url and not arguments.sitemap and not files and not directory.exists:
        raise UsageError(
            "there is nothing to crawl; name a URL, a file of URLs with --seeds, or a sitemap with --sitemap"
        )
    if mode := sitemaps_mode(arguments):
        arguments.set = [*arguments.set, f"scope.sitemaps={mode}"]
    settings = resolve(arguments, arguments.config or directory.kept_settings())
    named = [
        *seeds.named(arguments.url, settings.urls),
        *seeds.named(arguments.sitemap, settings.urls, Purpose.SITEMAP),
    ]
    bad = [seed for seed in named if isinstance(seed, BadSeed)]
    if bad and len(bad) == len(named) and not files:
        raise UsageError(f"there is nothing to crawl: {bad[0].complaint}")

    given = [SeedFile(name, file) for name, file in from_files]
    if not directory.exists:
        read = (seeds.read(file, file.name, settings.urls) for file in given)
        _look_for_a_link(chain(named, chain.from_iterable(read)))

    from skitter.cli.running import crawl  # noqa: PLC0415  the engine is slow to import; usage errors do not need it

    return crawl(arguments, settings, path, named, given)


def sitemaps_mode(arguments: argparse.Namespace) -> str:
    """The value of `scope.sitemaps` that the flags ask for; empty if they leave it to the settings."""
    if arguments.no_sitemaps:
        return "off"
    if not arguments.sitemap_only:
        return ""
    return "named" if arguments.sitemap and not arguments.url and not arguments.seeds else "only"


class SeedFile:
    """A seed file or standard input, whose first lines may already have been read."""

    def __init__(self, name: str, file: BufferedReader) -> None:
        self.name = name
        self._file = file
        self._begun = bytearray()

    def readline(self, size: int, /) -> bytes:
        """Read the next line, and remember it for `keep`."""
        line = self._file.readline(size)
        self._begun += line
        return line

    def keep(self, intake: "Intake") -> None:
        """Copy it from its beginning into the crawl directory. A pipe is copied while the crawl runs."""
        handle = self._file.fileno()
        if stat.S_ISREG(os.fstat(handle).st_mode):
            intake.keep(self.name, self._file, bytes(self._begun))
            return
        os.set_blocking(handle, False)
        begun = bytes(self._begun) + self._file.peek()  # buffered, but not read yet
        os.set_blocking(handle, True)
        intake.keep_as_it_comes(self.name, handle, begun)


def _look_for_a_link(every: Iterable[Link | BadSeed]) -> None:
    """Read seeds up to the first usable one: without one, no directory is created."""
    first: BadSeed | None = None
    for seed in every:
        if isinstance(seed, Link):
            return
        first = first or seed
    because = f": {first.complaint}" if first else "; the seeds are empty"
    raise UsageError(f"there is nothing to crawl{because}")


def opened_seeds(name: str) -> BufferedReader:
    """Open a seed file, or standard input."""
    if name == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(name).open("rb")
    except OSError as problem:
        raise UsageError(
            f"--seeds: {name}: {problem.strerror}; name an existing file, or - for standard input"
        ) from None


def default_directory(texts: Sequence[str], files: Sequence[tuple[str, BufferedReader]]) -> Path:
    """./skitter-HOST, from the first URL with a host. Of a file, only the buffered beginning is read."""
    beginnings = (seeds.read(BytesIO(file.peek()), name) for name, file in files)
    first: BadSeed | None = None
    for seed in chain(seeds.named(texts), *beginnings):
        if isinstance(seed, Link):
            return Path(directory_name(urls.origin(seed.url)))
        first = first or seed
    if any(file.peek() for _, file in files):
        because = f" ({first.complaint})" if first else ""
        raise UsageError(f"there is no URL to name the crawl directory after{because}; name one with -o")
    if first is not None:
        raise UsageError(f"there is nothing to crawl: {first.complaint}")
    raise UsageError(
        "there is nothing to crawl; name a URL, a file of URLs with --seeds, or a sitemap with --sitemap"
    )
