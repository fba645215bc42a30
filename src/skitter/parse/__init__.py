"""Parsing: from bodies to Documents.

`sniff` determines what a body is; the table says which parser reads it. A body without a parser is a Document
too, one without text: it is archived and its header fields count. A parser does not fail on what the web
sends: it finds less. An exception from here is a bug of ours, and the visit records it as such.
"""

from collections.abc import Callable, Sequence

from skitter.model import Document
from skitter.parse import directives, html, sniff, text
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

PARSERS: dict[str, Callable[[Body, ParseSettings], Document]] = {
    "text/html": html.parse,
    "application/xhtml+xml": html.parse,
    "text/plain": text.parse,
    "text/markdown": text.parse,
}


def parse(url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings) -> Document:
    """Parse a body according to its type. Header names are lower-case. Linear in the length of the content."""
    body = sniff.body(url, headers, content[: settings.max_input])
    parser = PARSERS.get(body.media_type)
    return _described(body) if parser is None else parser(body, settings)


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
