"""Parsing: from bodies to Documents.

`sniff` determines what a body is; the table says which parser reads it, and whether that is slow. A body without a
parser is a Document too, one without text: it is archived and its header fields count. A parser does not fail on what
the web sends: it finds less. An exception from here is a bug of ours, and the visit records it as such.

What is slow is read by a process of its own (see `pool`), so that nothing else has to wait, and a parser that hangs,
crashes or takes all memory costs one page. Its library may be an extra; where that is not installed, the document is
described only.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace

from skitter.model import Document
from skitter.parse import directives, html, sniff, text
from skitter.parse.findings import tidy
from skitter.parse.kinds import FRAME, told_kinds
from skitter.parse.sniff import Body
from skitter.runtime.extras import is_there
from skitter.settings import ParseSettings


class Parser(Struct, frozen=True):
    """A module with a function `parse(body, settings)` that returns a Document.

    A slow one is only loaded in a parser process, and never gets a document that begins like markup. The others read
    documents of up to `parse.pool_above` at once.
    """

    module: str
    slow: bool = False
    whole: bool = False  # a part of a document is worthless: `parse.max_input` does not cut it
    extra: str = ""  # which has its library


_HTML, _TEXT = Parser(html.__name__), Parser(text.__name__)
_PDF = Parser("skitter.parse.pdf", slow=True, whole=True, extra="pdf")
_IMAGE = Parser("skitter.parse.image", slow=True, whole=True, extra="images")
_OFFICE = Parser("skitter.parse.office", slow=True, whole=True)
_EPUB = Parser("skitter.parse.epub", slow=True, whole=True)
_JSON = Parser("skitter.parse.json", whole=True)
_XML = Parser("skitter.parse.xml")
_CSV = Parser("skitter.parse.csv")

PARSERS: dict[str, Parser] = {
    "text/html": _HTML,
    "application/xhtml+xml": _HTML,
    "text/plain": _TEXT,
    "text/markdown": _TEXT,
    "application/pdf": _PDF,
    "application/x-pdf": _PDF,
    **dict.fromkeys(sniff.IMAGES, _IMAGE),
    **dict.fromkeys(sniff.OFFICE, _OFFICE),
    "application/epub+zip": _EPUB,
    "application/json": _JSON,
    "text/json": _JSON,
    "application/x-ndjson": _JSON,
    "application/jsonl": _JSON,
    "application/x-jsonlines": _JSON,
    "application/xml": _XML,
    "text/xml": _XML,
    "text/csv": _CSV,
    "application/csv": _CSV,
    "text/tab-separated-values": _CSV,
}
"""By media type. A new parser is one line here, its module, and its extension in `skitter.settings.extensions`."""

# RFC 6839: what a type is written in. A picture in XML is no text.
_SUFFIXES = {"json": _JSON, "xml": _XML}
_PICTURES = frozenset(("image/svg+xml",))
_BLANK = b" \t\r\n\f\xef\xbb\xbf"  # what may stand before the first tag, a byte order mark included
_NOT_WHAT_IT_SAYS = "it is labelled {}, but it is markup"


def parse(url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings) -> Document:
    """Parse a body according to its type, here and now.

    Header names are lower-case. Linear in the length of the content.
    """
    body = sniff.body(url, headers, content)
    parser = parser_of(body.media_type)
    if parser is None or not parser.whole:
        body = _cut(body, settings)
    if parser is None:
        document = replace(_described(body, settings), links=directives.hrefs(body.url, body.headers))
    elif parser.slow and _is_markup(content):
        document = replace(_described(body, settings), ignored=_NOT_WHAT_IT_SAYS.format(body.media_type))
    else:
        document = _function(parser.module)(body, settings)
    if settings.assets and not document.assets:
        document = _with_assets(document, body, settings, "")
    return document


def parse_asset(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings, kind: str
) -> Document:
    """Read what a page needs, for what it needs itself: no text, and no links to follow."""
    body = _cut(sniff.body(url, headers, content), settings)
    if kind == FRAME and parser_of(body.media_type) is _HTML:
        framed = html.parse(body, settings)
        return replace(
            _described(body, settings),
            charset=framed.charset,
            base=framed.base,
            title=framed.title,
            assets=framed.assets,
            asset_kinds=framed.asset_kinds,
        )
    return _with_assets(_described(body, settings), body, settings, kind)


def _cut(body: Body, settings: ParseSettings) -> Body:
    """As much of a body as is parsed."""
    most = settings.max_input
    return body if len(body.content) <= most else replace(body, content=body.content[:most])


def _with_assets(document: Document, body: Body, settings: ParseSettings, kind: str) -> Document:
    """The document with what a style sheet, drawing, manifest or module needs."""
    from skitter.parse import assets  # noqa: PLC0415  few crawls need it

    hrefs = assets.read(body, kind, settings)
    if not hrefs:
        return document
    kinds = {tidied: each for href, each in hrefs.items() if (tidied := tidy(href))}
    return replace(document, assets=tuple(kinds), asset_kinds=told_kinds(kinds))


def parser_of(media_type: str) -> Parser | None:
    """The parser of a media type; None if there is none, or its library is not installed."""
    parser = PARSERS.get(media_type) or _SUFFIXES.get(media_type.rpartition("+")[2])
    if parser is None or (parser.extra and not is_there(parser.extra)):
        return None
    return None if media_type in _PICTURES else parser


def _is_markup(content: bytes) -> bool:
    """Whether a body begins with a tag, as no document of a slow parser does."""
    return content[:1] == b"<" or content[:64].lstrip(_BLANK)[:1] == b"<"


def described(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings
) -> Document:
    """What a body is, without reading it."""
    return _described(sniff.body(url, headers, content), settings)


def _described(body: Body, settings: ParseSettings) -> Document:
    asked, statements = directives.of_page(body.headers, agent=settings.agent or directives.AGENT)
    return Document(
        media_type=body.media_type,
        charset=body.http_charset,
        base=body.url,
        language=body.language,
        canonical=directives.canonical("", body.url, body.url, body.headers),
        directives=asked,
        statements=statements,
    )


def check(settings: ParseSettings) -> None:
    """Raise SettingsError, with the pip line, if the settings need a library or a program that is not installed."""
    if settings.main:
        from skitter.parse import main  # noqa: PLC0415  only where settings ask for it

        main.require(settings)
    if settings.ocr:
        from skitter.parse import ocr  # noqa: PLC0415  the same

        ocr.require(settings)


def is_slow(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings, asset: str = ""
) -> bool:
    """Whether a body takes long to parse, so that a parser process should do it. A small page of HTML pays next to nothing."""
    large = len(content) > settings.pool_above
    if asset:
        return large and is_read_asset(url, headers, content, settings, asset)
    if not large and not settings.main and _is_markup(content):
        return False
    parser = parser_of(sniff.body(url, headers, content).media_type)
    if parser is None:
        return False
    return large or parser.slow or (settings.main and parser is _HTML)  # main content takes ten times as long


def is_read_asset(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings, kind: str
) -> bool:
    """Whether an asset may need something itself."""
    from skitter.parse import assets  # noqa: PLC0415  few crawls need it

    media_type = sniff.body(url, headers, content[: settings.max_input]).media_type
    return assets.is_read(kind, media_type) or (kind == FRAME and parser_of(media_type) is _HTML)


@cache
def _function(module: str) -> Callable[[Body, ParseSettings], Document]:
    found: Callable[[Body, ParseSettings], Document] = import_module(module).parse
    return found
