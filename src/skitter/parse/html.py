"""HTML documents: from bytes to a Document.

Lexbor takes UTF-8, so a page in UTF-8 goes to it as it came; other encodings are decoded first. Where the operator has
named content markers, the head is still read from the whole page, but text and links only from between the markers.
"""

from msgspec.structs import replace

from skitter.model import Document
from skitter.parse import charset, content, directives, flat, tree
from skitter.parse.findings import Findings
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings
from skitter.urls import resolve


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read an HTML document."""
    encoding = charset.of_html(body.content, body.http_charset)
    source = _utf8(body.content, encoding)
    page = read(source, settings)
    document = _document(body, encoding, page)
    if not content.is_marked_out(settings):
        return document
    inside = content.between(source.decode("utf-8", "replace"), settings)
    if inside is None:
        return replace(document, text="", links=(), nofollow=(), ignored=content.MISSING)
    part = read("\n".join(inside).encode(), settings)
    followed, unfollowed = _hrefs(part)
    title = page.title or part.heading
    return replace(document, title=title, text=part.text(), links=followed, nofollow=unfollowed)


def _utf8(raw: bytes, encoding: str) -> bytes:
    """The document in UTF-8, which it may be already."""
    if encoding == charset.UTF_8:
        return raw.removeprefix(b"\xef\xbb\xbf")
    if encoding in charset.SINGLE_BYTE and raw.isascii():
        return raw
    return charset.decode(raw, encoding).encode()


def read(source: bytes, settings: ParseSettings) -> Findings:
    """Everything there is to find in a document in UTF-8."""
    findings = Findings(settings.max_links)
    if flat.is_tame(source):
        tree.read(source, findings)
    else:
        flat.read(source.decode("utf-8", "replace"), findings)
    if settings.sloppy_anchors:
        flat.sloppy_anchors(source.decode("utf-8", "replace"), findings)
    return findings


def _document(body: Body, encoding: str, page: Findings) -> Document:
    rules, preferences = directives.of_headers(body.headers)
    for value in body.headers.get("refresh", ()):
        page.refresh(value)
    followed, unfollowed = _hrefs(page)
    return Document(
        media_type=body.media_type,
        charset=encoding,
        base=body.url if page.base is None else resolve(page.base, body.url) or body.url,
        title=page.title or page.heading,
        description=page.description,
        author=page.author,
        keywords=page.keywords,
        language=page.language or page.meta_language or body.language,
        text=page.text(),
        canonical=page.canonical,
        directives=directives.directives(rules + page.rules, preferences | page.preferences),
        links=followed,
        nofollow=unfollowed,
    )


def _hrefs(page: Findings) -> tuple[list[str], list[str]]:
    """Links to follow and links not to follow, in order of appearance."""
    hrefs = page.hrefs
    if all(hrefs.values()):
        return list(hrefs), []
    return [href for href, follow in hrefs.items() if follow], [
        href for href, follow in hrefs.items() if not follow
    ]
