"""`skitter pages`: list and filter the pages of a crawl."""

import argparse
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial

from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.display import as_json, printable
from skitter.export.records import page_record
from skitter.export.source import Source
from skitter.model import Page

_STATUS = re.compile(r"[1-5](?:xx|\d\d)")


def parser() -> Parser:
    """The flags of `skitter pages`."""
    made = Parser(
        "pages",
        "List the pages of a crawl, one a line: status, URL, title. All filters must agree. Works while the crawl runs.",
        [
            "skitter pages skitter-example.org --status 404",
            "skitter pages skitter-example.org --status 2xx --contains about --limit 20 --json",
            "skitter pages --config cluster.toml --status 404",
        ],
    )
    add_crawl(made)
    made.add_argument(
        "--status",
        action="append",
        default=[],
        type=_status,
        metavar="CODE",
        help="404, 4xx …; may be given several times",
    )
    made.add_argument("--host", metavar="HOST", help="pages of this host; * and ? match, as in *.example.org")
    made.add_argument("--contains", metavar="TEXT", help="pages with this in their title or URL, in any case")
    made.add_argument(
        "--duplicates", action="store_true", help="only pages that repeat another one, exactly or nearly"
    )
    made.add_argument("--limit", type=int, metavar="N", help="stop after N pages")
    made.add_argument(
        "--json", action="store_true", help="one JSON object a line: the page record without its text"
    )
    return made


def _status(text: str) -> str:
    if not _STATUS.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is no status; write for example 404 or 4xx")
    return text.lower()


def run(arguments: argparse.Namespace) -> Exit:
    """List the pages that match."""
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("--limit: write 1 or more")
    return ask(arguments, partial(_list, arguments))


async def _list(arguments: argparse.Namespace, source: Source) -> Exit:
    left = arguments.limit
    async for page in source.frontier.pages():
        if not matches(
            page, arguments.status, arguments.host, arguments.contains, duplicates=arguments.duplicates
        ):
            continue
        print(_json(page) if arguments.json else _line(page))
        if left is not None:
            left -= 1
            if not left:
                break
    return Exit.DONE


def matches(
    page: Page, statuses: Sequence[str], host: str | None, contains: str | None, *, duplicates: bool
) -> bool:
    """Do all filters agree?"""
    if statuses and not {str(page.status), f"{page.status // 100}xx"} & set(statuses):
        return False
    if host is not None and not fnmatchcase(page.host, host.lower()):
        return False
    if duplicates and not page.duplicate_of:
        return False
    text = contains and contains.casefold()
    return not text or text in page.title.casefold() or text in page.url.casefold()


def _line(page: Page) -> str:
    how = "repeats" if page.identical else "is nearly"
    repeats = f"  ({how} {printable(page.duplicate_of)})" if page.duplicate_of else ""
    return f"{page.status}  {printable(page.url)}  {printable(page.title)}".rstrip() + repeats


def _json(page: Page) -> str:
    record = page_record(page, "")
    del record["text"]
    return as_json(record)
