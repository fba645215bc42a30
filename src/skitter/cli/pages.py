"""`skitter pages`: list, filter and sort the pages of a crawl, or the URLs that failed.

Lines are printed as they are read, whatever the size of the crawl; sorting uses temporary files if they do not fit into
memory.
"""

import argparse
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from fnmatch import fnmatchcase
from functools import partial

from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.choosing import has_status, matches
from skitter.export.ordering import Ordered
from skitter.export.source import Source
from skitter.model import Page, Purpose, State, UrlRecord
from skitter.reporting.format import as_json, printable
from skitter.reporting.records import page_record, url_record

_STATUS = re.compile(r"[1-5](?:xx|\d\d)")
_END_OF_KEY = "\0"  # occurs in no URL or line, and sorts before everything


def parser() -> Parser:
    """The flags of `skitter pages`."""
    made = Parser(
        "pages",
        "List the pages of a crawl, one per line: status, URL, title; for a missing page, also the page that links to "
        "it. With --failed: the URLs that could not be fetched, with their status or the reason. A page must match "
        "all filters. Works while the crawl runs.",
        [
            "skitter pages skitter-example.org --failed",
            "skitter pages skitter-example.org --status 2xx --type html --sort size --reverse --limit 20",
            "skitter pages skitter-example.org --contains about --json",
            "skitter pages --config cluster.toml --status 404",
        ],
    )
    add_crawl(made)
    made.add_argument(
        "--failed",
        action="store_true",
        help="URLs answered with 4xx or 5xx or given up, and where they are linked",
    )
    made.add_argument(
        "--status",
        action="append",
        default=[],
        type=_status,
        metavar="CODE",
        help="404, 4xx …; repeatable",
    )
    made.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="TYPE",
        help="pages of this media type: text/html, image/*, or a part of it: pdf; repeatable",
    )
    made.add_argument(
        "--host", metavar="HOST", help="pages of this host; * and ? are wildcards, as in *.example.org"
    )
    made.add_argument(
        "--contains", metavar="TEXT", help="pages with this text in their title or URL, ignoring case"
    )
    made.add_argument(
        "--duplicates", action="store_true", help="only exact and near-duplicates of other pages"
    )
    made.add_argument(
        "--purpose",
        choices=[purpose.value for purpose in Purpose if purpose is not Purpose.ROBOTS],
        help="only what was fetched for this purpose: pages, what they need to be shown (asset), or what a seed file names",
    )
    made.add_argument("--sort", choices=sorted(_KEYS), help="sort order; unsorted by default")
    made.add_argument("--reverse", action="store_true", help="reverse the sort order")
    made.add_argument("--limit", type=int, metavar="N", help="stop after N pages")
    made.add_argument(
        "--json", action="store_true", help="one JSON object per line: the page record without its text"
    )
    return made


def _status(text: str) -> str:
    if not _STATUS.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a status; write for example 404 or 4xx")
    return text.lower()


def run(arguments: argparse.Namespace) -> Exit:
    """List the pages that match."""
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("--limit: write 1 or more")
    if arguments.reverse and not arguments.sort:
        raise UsageError("--reverse needs --sort, as in --sort size --reverse")
    if arguments.failed and (arguments.type or arguments.duplicates or arguments.sort in _PAGE_ONLY):
        raise UsageError(
            "--failed lists URLs, which have no type, size, title or duplicates; remove these flags"
        )
    return ask(arguments, partial(_list, arguments))


async def _list(arguments: argparse.Namespace, source: Source) -> Exit:
    left = arguments.limit
    async with aclosing(_lines(arguments, source)) as lines:
        async for line in lines:
            print(line)
            if left is not None:
                left -= 1
                if not left:
                    break
    return Exit.DONE


async def _lines(arguments: argparse.Namespace, source: Source) -> AsyncGenerator[str, None]:
    if not arguments.sort:
        async for _, line in _rows(arguments, source):
            yield line
        return
    with Ordered(reverse=arguments.reverse) as ordered:
        async for key, line in _rows(arguments, source):
            ordered.add(f"{key}{_END_OF_KEY}{line}")
        for line in ordered.lines():
            yield line.partition(_END_OF_KEY)[2]


async def _rows(arguments: argparse.Namespace, source: Source) -> AsyncIterator[tuple[str, str]]:
    """The lines to show, each with its sort key."""
    key = _KEYS[arguments.sort] if arguments.sort else _unsorted
    if arguments.failed:
        async for record in _failures(arguments, source):
            yield key(record), _failed_json(record) if arguments.json else _failed_line(record)
    else:
        async for page in _pages(arguments, source):
            yield key(page), _json(page) if arguments.json else _line(page)


# ------------------------------------------------------------------------------------------------ choosing


async def _pages(arguments: argparse.Namespace, source: Source) -> AsyncIterator[Page]:
    async for page in source.frontier.pages():
        if matches(
            page,
            arguments.status,
            arguments.host,
            arguments.contains,
            types=arguments.type,
            duplicates=arguments.duplicates,
            purpose=arguments.purpose,
        ):
            yield page


async def _failures(arguments: argparse.Namespace, source: Source) -> AsyncIterator[UrlRecord]:
    """URLs that were answered with an error status or given up."""
    text = arguments.contains and arguments.contains.casefold()
    async for record in source.frontier.urls():
        answered = record.state is State.CRAWLED and record.status >= 400
        if not answered and record.state is not State.FAILED:
            continue
        if arguments.status and not has_status(record.status, arguments.status):
            continue
        if arguments.host is not None and not fnmatchcase(_host(record), arguments.host.lower()):
            continue
        if arguments.purpose is not None and record.purpose != arguments.purpose:
            continue
        if not text or text in record.url.casefold():
            yield record


def _host(record: UrlRecord) -> str:
    from skitter import urls  # noqa: PLC0415  --help does not need the URL parser

    return urls.host(record.url)


# ------------------------------------------------------------------------------------------------ showing


def _line(page: Page) -> str:
    how = "repeats" if page.identical else "is nearly"
    repeats = f"  ({how} {printable(page.duplicate_of)})" if page.duplicate_of else ""
    linked = _linked(page.parent) if page.status >= 400 else ""
    return f"{page.status}  {printable(page.url)}  {printable(page.title)}".rstrip() + repeats + linked


def _linked(parent: str) -> str:
    return f"  (linked from {printable(parent)})" if parent else "  (a seed)"


def _failed_line(record: UrlRecord) -> str:
    why = record.reason
    said = str(record.status) if record.status >= 400 else why.code if why else "failed"
    detail = f"  {printable(why.detail)}" if why and why.detail and record.status < 400 else ""
    return f"{printable(said)}  {printable(record.url)}{detail}{_linked(record.parent)}"


def _json(page: Page) -> str:
    record = page_record(page, "")
    del record["text"]
    return as_json(record)


def _failed_json(record: UrlRecord) -> str:
    return as_json(url_record(record) | {"linked_from": record.parent or None})


def _unsorted(_found: Page | UrlRecord) -> str:
    return ""


# Padded numbers sort correctly as text.
_KEYS: Mapping[str, Callable[..., str]] = {
    "depth": lambda found: f"{found.depth:020d}",
    "size": lambda page: f"{page.size:020d}",
    "status": lambda found: f"{found.status:020d}",
    "time": lambda found: (
        f"{(found.fetched_at if isinstance(found, Page) else found.last_crawl or 0.0):020.6f}"
    ),
    "title": lambda page: printable(page.title).casefold(),
    "url": lambda found: str(found.url),
}
_PAGE_ONLY = ("size", "title")
