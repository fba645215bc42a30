"""`skitter show`: a stored page, in the form that somebody wants to look at.

Everything comes from the records and the archive; nothing is fetched. What goes to a terminal is shown line by line without
anything the terminal would obey; what goes to a file or a pipe is as it was stored.
"""

import argparse
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial

from msgspec.structs import replace

from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source, with_settings
from skitter.model import Page, State, UrlRecord
from skitter.reporting.format import amount, as_json, counted, moment, printable
from skitter.reporting.records import page_record

_BEGINNING = 600  # characters of the text on the first screen
_WIDTH = 100


def parser() -> Parser:
    """The flags of `skitter show`."""
    made = Parser(
        "show",
        "Show a stored page: its record and the beginning of its text, or with a flag one part of it. Nothing is fetched. "
        "Exit code 1 if the page was never fetched, or its answer cannot be read from the archive. Works while the crawl runs.",
        [
            "skitter show skitter-example.org https://example.org/about",
            "skitter show skitter-example.org https://example.org/about --text",
            "skitter show skitter-example.org https://example.org/about --markdown",
            "skitter show skitter-example.org https://example.org/about --html | less",
            "skitter show skitter-example.org https://example.org/about --linked-from",
            "skitter show --config cluster.toml https://example.org/about --headers",
        ],
    )
    add_crawl(made, several=True)
    made.add_argument("url", metavar="URL", help="any spelling of the URL")
    parts = made.add_mutually_exclusive_group()
    for name, about in _ABOUT.items():
        parts.add_argument(f"--{name}", dest="part", action="store_const", const=name, help=about)
    made.add_argument(
        "--extractor",
        choices=("trafilatura", "fast"),
        help="with --markdown: who finds the main content (default: parse.extractor of the crawl)",
    )
    return made


_RENDERED = "in a browser: title, text and links are those after its scripts have run"
_ABOUT: Mapping[str, str] = {
    "text": "its text, as search and exports see it",
    "html": "its body without compression, whatever it is made of; for files and pipes, byte for byte",
    "markdown": "its main content as Markdown",
    "rendered": "its HTML after its scripts have run, if it was rendered",
    "screenshot": "a picture of it (PNG), if there is one; for files and pipes",
    "headers": "status line and header fields, as received",
    "links": "every link on it, and what became of that",
    "linked-from": "the stored pages that link to it",
    "json": "its record with the text, as one JSON object",
}


def run(arguments: argparse.Namespace) -> Exit:
    """Show the page."""
    if arguments.extractor is not None and arguments.part != "markdown":
        raise UsageError("--extractor says who finds the main content; use it with --markdown")
    return ask(arguments, partial(_show, arguments))


async def _show(arguments: argparse.Namespace, source: Source) -> Exit:
    from skitter.export.findings import NotAUrlError, find  # noqa: PLC0415  `show --help` does not need the fetcher

    if arguments.extractor is not None:
        parse = replace(source.settings.parse, extractor=arguments.extractor)
        source = with_settings(source, replace(source.settings, parse=parse))
    try:
        found = await find(arguments.url, source, time.time())
    except NotAUrlError as problem:
        raise UsageError(str(problem)) from None
    if arguments.part == "linked-from" and found.record is not None:
        return await _linked_from(found.record, source)
    if found.page is None:
        _complain(f"{found.url} {_never(found.record)}; `skitter why` says everything about it")
        return Exit.NO
    try:
        return await _PARTS[arguments.part](found.page, source)
    except BrokenPipeError:  # `skitter show … | head`
        raise
    except OSError as problem:
        _complain(f"{found.page.url}: its answer cannot be read from the archive: {problem}")
        return Exit.NO


def _never(record: UrlRecord | None) -> str:
    if record is None:
        return "was never found by this crawl"
    if record.reason is not None:
        return f"has no stored page: {record.reason.detail or record.reason.code}"
    return "has no stored page yet" if record.state in (State.QUEUED, State.LEASED) else "has no stored page"


def _complain(text: str) -> None:
    print(f"skitter: {printable(text)}", file=sys.stderr)


def _absent(page: Page) -> Exit:
    _complain(f"{page.url}: its body is not in the archive")
    return Exit.NO


# ------------------------------------------------------------------------------------------------ parts


async def _card(page: Page, source: Source) -> Exit:
    """The record in lines, and the beginning of the text."""
    page = await _with_alts(page, source)
    print(printable(page.url))
    for name, value in _fields(page):
        print(f"  {name:<12}{printable(value)}")
    text = await _text_of(page, source)
    if text is None:
        return _absent(page)
    beginning = " ".join(text[:_BEGINNING].split())
    if beginning:
        print()
        more = " …" if len(text) > _BEGINNING else ""
        print(textwrap.fill(printable(beginning) + more, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    return Exit.DONE


def _fields(page: Page) -> list[tuple[str, str]]:
    """What is worth a line: fields that say something."""
    found = f", linked from {page.parent}" if page.parent else ", a seed"
    said = [
        ("status", str(page.status)),
        ("title", page.title),
        ("description", page.description),
        ("author", page.author),
        ("fetched", f"{moment(page.fetched_at)}, at depth {page.depth}{found}"),
        ("asked as", page.requested_url if page.requested_url != page.url else ""),
        ("type", ", ".join(filter(None, (page.content_type, page.charset, page.language)))),
        ("size", amount(page.size)),
        ("rendered", _RENDERED if page.archive is not None and page.archive.beside else ""),
        ("links", counted(page.links_count, "link") if page.links_count else ""),
        ("repeats" if page.identical else "is nearly", page.duplicate_of),
        ("canonical", page.canonical if page.canonical != page.url else ""),
        ("robots", ", ".join(page.robots.rules)),
        ("ignored", page.ignored),
        ("purpose", "" if page.purpose.handling.counts else page.purpose.value),
        *((name, _shown(value)) for name, value in (page.media or {}).items()),
        ("digest", page.digest),
        ("archive", f"{page.archive.file} at {page.archive.offset}" if page.archive else "no body is stored"),
    ]
    return [(name, value) for name, value in said if value]


def _shown(value: object) -> str:
    return " · ".join(map(str, value)) if isinstance(value, list) else str(value)


async def _with_alts(page: Page, source: Source) -> Page:
    """An image, with the alt texts on the page it was found on."""
    from skitter.export.alts import of_parent  # noqa: PLC0415  parsers are slow to import

    return await of_parent(page, source)


async def _text_of(page: Page, source: Source) -> str | None:
    from skitter.export import reread  # noqa: PLC0415  parsers are slow to import

    document = await reread.document(page, source)
    return None if document is None else document.text


async def _text(page: Page, source: Source) -> Exit:
    text = await _text_of(page, source)
    if text is None:
        return _absent(page)
    _give(text)
    return Exit.DONE


async def _markdown(page: Page, source: Source) -> Exit:
    from skitter.export.contents import Contents  # noqa: PLC0415  parsers are slow to import

    async with Contents(source.settings) as contents:
        found = await contents.of(page, source)
    if found.problem:
        _complain(found.problem)
        return Exit.NO
    _give(found.content.markdown)
    return Exit.DONE


async def _html(page: Page, source: Source) -> Exit:
    from skitter.export import reread  # noqa: PLC0415  parsers are slow to import

    answer = await reread.answer(page, source)
    if answer is None:
        return _absent(page)
    if sys.stdout.isatty() and not page.content_type.startswith("text/") and b"\0" in answer.content[:1024]:
        kind = page.content_type or "binary"
        raise UsageError(
            f"the body is {kind}, {amount(len(answer.content))}; send it to a file: --html > FILE"
        )
    if sys.stdout.isatty():
        _give(answer.content.decode(page.charset or "utf-8", "replace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer.content)
    return Exit.DONE


async def _rendered(page: Page, source: Source) -> Exit:
    return _made_of_it(page, source, 0, "it was not rendered (fetch.render)")


async def _screenshot(page: Page, source: Source) -> Exit:
    if sys.stdout.isatty():
        raise UsageError("a screenshot is a PNG; send it to a file: --screenshot > FILE")
    return _made_of_it(page, source, 1, "there is no screenshot of it (fetch.screenshots)")


def _made_of_it(page: Page, source: Source, number: int, missing: str) -> Exit:
    """What a browser made of a page."""
    place = None if page.archive is None else page.archive.behind(number)
    if place is None:
        _complain(f"{page.url}: {missing}")
        return Exit.NO
    made = source.archive.read(place)
    if sys.stdout.isatty():
        _give(made.decode("utf-8", "replace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
    return Exit.DONE


async def _headers(page: Page, source: Source) -> Exit:
    """Of the page's own record: a page that repeats another has header fields of its own."""
    if page.archive is None:
        return _absent(page)
    head = source.archive.read(page.archive).partition(b"\r\n\r\n")[0]
    _give(head.decode("latin-1").replace("\r\n", "\n"))
    return Exit.DONE


async def _json(page: Page, source: Source) -> Exit:
    page = await _with_alts(page, source)
    print(as_json(page_record(page, await _text_of(page, source) or "")))
    return Exit.DONE


def _give(text: str) -> None:
    """Text on standard output, made harmless for a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    print(text)


# ------------------------------------------------------------------------------------------------ links


async def _links(page: Page, source: Source) -> Exit:
    from skitter.export import reread  # noqa: PLC0415  parsers are slow to import

    document = await reread.document(page, source)
    if document is None:
        return _absent(page)
    async for line in _fates((*document.links, *document.nofollow), document.base, source):
        print(line)
    return Exit.DONE


async def _fates(hrefs: tuple[str, ...], base: str, source: Source) -> AsyncIterator[str]:
    """Every link once, in the order of the page: its status or state, and its URL."""
    from skitter import urls  # noqa: PLC0415  `show --help` does not need the URL parser

    seen = set[str]()
    for href in hrefs:
        forms = urls.link(href, base, source.settings.urls)
        if forms is None or forms[1] in seen:
            continue
        url, key, host = forms
        seen.add(key)
        yield f"{_fate(await source.frontier.url(key, host)):<10} {printable(url)}"


def _fate(record: UrlRecord | None) -> str:
    if record is None:
        return "unknown"  # found on a page whose links are not followed
    return str(record.status) if record.status else record.state.value


async def _linked_from(record: UrlRecord, source: Source) -> Exit:
    """All stored links are looked through: they are kept by the page they are on."""
    found = False
    async for origin, target in source.frontier.links():
        if target == record.url:
            print(printable(origin))
            found = True
    if not found:
        _complain(f"no stored page links to {record.url}")
    return Exit.DONE if found else Exit.NO


_PARTS = {
    None: _card,
    "text": _text,
    "html": _html,
    "markdown": _markdown,
    "rendered": _rendered,
    "screenshot": _screenshot,
    "headers": _headers,
    "links": _links,
    "json": _json,
    "linked-from": _card,  # of a URL without a record there is nothing to look for
}
