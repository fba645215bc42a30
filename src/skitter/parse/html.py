"""HTML documents: from bytes to a Document.

Lexbor takes UTF-8, so a page in UTF-8 is passed on as received; other encodings are decoded first. With
content markers, the head is still read from the whole page, but text and links only from between the markers.
"""

import unicodedata
from urllib.parse import quote

from msgspec.structs import replace

from skitter.model import Document
from skitter.parse import charset, content, directives, flat, markup, sniff
from skitter.parse.findings import Findings, read_tree
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings
from skitter.urls import resolve

_ASCII = bytes(range(0x80))
TITLE = 1_000  # characters kept of a title; browsers and search engines show fewer than 100
TOLD = 5_000  # … of a description, author or keywords


def parse(body: Body, settings: ParseSettings) -> Document:
    """Parse an HTML document."""
    encoding = charset.of_html(body.content, body.http_charset)
    source = _utf8(body.content, encoding)
    if body.media_type == sniff.XHTML:
        source = markup.spelt_out(source.decode("utf-8", "replace")).encode()
    page = read(source, settings)
    document = _document(body, encoding, page)
    if not (settings.content_start and settings.content_end):
        return document
    inside = content.between(source.decode("utf-8", "replace"), settings)
    if inside is None:
        return replace(document, text="", links=(), nofollow=(), ignored=content.MISSING)
    part = read("\n".join(inside).encode(), settings)
    followed, unfollowed = _hrefs(part, encoding)
    title = capped(page.title or part.heading, TITLE)
    return replace(document, title=title, text=part.text(), links=followed, nofollow=unfollowed)


def _utf8(raw: bytes, encoding: str) -> bytes:
    """The document in UTF-8; unchanged if it already is."""
    if encoding == charset.UTF_8:
        return raw.removeprefix(b"\xef\xbb\xbf")
    if encoding in charset.SINGLE_BYTE and raw.isascii():
        return raw
    return charset.decode(raw, encoding).encode()


def read(source: bytes, settings: ParseSettings) -> Findings:
    """Everything found in a UTF-8 document."""
    findings = Findings(settings.max_links)
    if flat.is_tame(source):
        read_tree(source, findings)
    else:
        flat.read(source.decode("utf-8", "replace"), findings)
    if settings.sloppy_anchors:
        flat.sloppy_anchors(source.decode("utf-8", "replace"), findings)
    return findings


def _document(body: Body, encoding: str, page: Findings) -> Document:
    for value in body.headers.get("refresh", ()):
        page.refresh(value)
    followed, unfollowed = _hrefs(page, encoding)
    return Document(
        media_type=body.media_type,
        charset=encoding,
        base=_base(page.base, body.url),
        title=capped(page.title or page.heading, TITLE),
        description=capped(page.description, TOLD),
        author=capped(page.author, TOLD),
        keywords=capped(page.keywords, TOLD),
        language=page.language or page.meta_language or body.language,
        text=page.text(),
        canonical=page.canonical,
        directives=directives.of_page(body.headers, page.rules, page.preferences),
        links=followed,
        nofollow=unfollowed,
    )


def _base(href: str | None, url: str) -> str:
    """HTML Standard, 2.4.2: the page's own URL if <base> is missing or invalid."""
    return url if href is None else resolve(href, url or href) or url


def _hrefs(page: Findings, encoding: str) -> tuple[list[str], list[str]]:
    """Links to follow and links not to follow, in order of appearance."""
    found = hrefs = page.hrefs()
    if encoding != charset.UTF_8 and not all(map(str.isascii, hrefs)):
        hrefs = {}
        for written, follow in found.items():
            href = in_encoding(written, encoding)
            hrefs[href] = follow or hrefs.get(href, False)
    if all(hrefs.values()):
        return list(hrefs), []
    return [href for href, follow in hrefs.items() if follow], [
        href for href, follow in hrefs.items() if not follow
    ]


def in_encoding(href: str, encoding: str) -> str:
    """A link whose query is encoded in the page's encoding, which is unknown later (WHATWG URL, 4.4)."""
    path, mark, rest = href.partition("?")
    query, hash_mark, fragment = rest.partition("#")
    if query.isascii() or "#" in path or encoding.startswith("utf-16") or encoding == charset.REPLACEMENT:
        return href
    return f"{path}{mark}{quote(charset.query_bytes(query, encoding), safe=_ASCII)}{hash_mark}{fragment}"


def capped(text: str, most: int) -> str:
    """At most this many characters; combining marks are not separated from their letter."""
    if len(text) <= most:
        return text
    while most and unicodedata.combining(text[most]):
        most -= 1
    return text[:most].rstrip()
