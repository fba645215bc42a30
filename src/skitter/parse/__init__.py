"""Parsing: from bodies to Documents.

`sniff` determines what a body is; the table says which parser reads it, and whether that is slow. A body without a
parser is a Document too, one without text: it is archived and its header fields count. A parser does not fail on what
the web sends: it finds less. An exception from here is a bug of ours, and the visit records it as such.

What is slow is read by a process of its own (see `pool`), so that nothing else has to wait, and a parser that hangs,
crashes or takes all memory costs one page.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from msgspec import Struct

from skitter.model import Document
from skitter.parse import directives, html, sniff, text
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings


class Parser(Struct, frozen=True):
    """A module with a function `parse(body, settings)` that returns a Document.

    A slow one is only loaded in a parser process. The others read documents of up to `parse.pool_above` at once.
    """

    module: str
    slow: bool = False


_HTML, _TEXT = Parser(html.__name__), Parser(text.__name__)

PARSERS: dict[str, Parser] = {
    "text/html": _HTML,
    "application/xhtml+xml": _HTML,
    "text/plain": _TEXT,
    "text/markdown": _TEXT,
}
"""By media type. A new parser is one line here, and its module."""


def parse(url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings) -> Document:
    """Parse a body according to its type, here and now.

    Header names are lower-case. Linear in the length of the content.
    """
    body = sniff.body(url, headers, content[: settings.max_input])
    parser = PARSERS.get(body.media_type)
    return _described(body) if parser is None else _function(parser.module)(body, settings)


def described(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings
) -> Document:
    """What a body is, without reading it."""
    return _described(sniff.body(url, headers, content[: settings.max_input]))


def _described(body: Body) -> Document:
    return Document(
        media_type=body.media_type,
        charset=body.http_charset,
        base=body.url,
        language=body.language,
        directives=directives.of_page(body.headers),
    )


def is_slow(url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings) -> bool:
    """Whether a body takes long to parse, so that a parser process should do it."""
    large = len(content) > settings.pool_above
    if not large and not _any_slow():
        return False
    parser = PARSERS.get(sniff.body(url, headers, content[: settings.max_input]).media_type)
    return parser is not None and (large or parser.slow)


@cache
def _any_slow() -> bool:
    return any(parser.slow for parser in PARSERS.values())


@cache
def _function(module: str) -> Callable[[Body, ParseSettings], Document]:
    found: Callable[[Body, ParseSettings], Document] = import_module(module).parse
    return found
