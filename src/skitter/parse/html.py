"""HTML documents: from bytes to a Document.

Lexbor takes UTF-8, so a page in UTF-8 is passed on as received; other encodings are decoded first. With
content markers, the head is still read from the whole page, but text and links only from between the markers.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from skitter.model import Document
from skitter.parse import charset, content, directives, flat, markup, sniff
from skitter.parse.findings import INLINE, Findings, read_tree, tidy
from skitter.parse.kinds import told_kinds
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings
from skitter.urls import resolve

if TYPE_CHECKING:
    from skitter.parse.assets import Assets

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
    if page.assets is not None:
        document = _with_assets(document, page.assets, body)
    if not (settings.content_start and settings.content_end):
        return _with_main(document, source, settings) if settings.main else document
    inside = content.between(source.decode("utf-8", "replace"), settings)
    if inside is None:
        return replace(document, text="", links=(), nofollow=(), rels=None, ignored=content.MISSING)
    between = "\n".join(inside).encode()
    part = read(between, settings)
    followed, unfollowed = _hrefs(part, encoding)
    title = capped(page.title or part.heading, TITLE)
    rels = _rels(part, encoding)
    document = replace(
        document, title=title, text=part.text(), links=followed, nofollow=unfollowed, rels=rels
    )
    return _with_main(document, between, settings) if settings.main else document


def _with_main(document: Document, source: bytes, settings: ParseSettings) -> Document:
    from skitter.parse import main  # noqa: PLC0415  only where settings ask for it

    tame = is_bearable(source.decode("utf-8", "replace"))
    return main.of_html(document, source, settings, tame=tame)


def _utf8(raw: bytes, encoding: str) -> bytes:
    """The document in UTF-8; unchanged if it already is."""
    if encoding == charset.UTF_8:
        return raw.removeprefix(b"\xef\xbb\xbf")
    if encoding in charset.SINGLE_BYTE and raw.isascii():
        return raw
    return charset.decode(raw, encoding).encode()


def read(source: bytes, settings: ParseSettings) -> Findings:
    """Everything found in a UTF-8 document."""
    findings = Findings(settings.max_links, settings.agent or directives.AGENT)
    if settings.assets:
        from skitter.parse.assets import Assets  # noqa: PLC0415  few crawls need it

        findings.assets = Assets(settings.max_links)
    if is_tame(source):
        read_tree(source, findings)
    else:
        text = source.decode("utf-8", "replace")
        flat.read(text, findings)
        if findings.assets is not None:
            findings.assets.read_tags(text)
    if settings.sloppy_anchors:
        flat.sloppy_anchors(source.decode("utf-8", "replace"), findings)
    return findings


def _document(body: Body, encoding: str, page: Findings) -> Document:
    for value in body.headers.get("refresh", ()):
        page.refresh(value)
    base = _base(page.base, body.url)
    canonical = page.canonical
    if canonical or "link" in body.headers:
        canonical = _elsewhere(page, base, body)
    asked, statements = directives.NOTHING
    if page.rules or page.statements or not directives.SAYING.isdisjoint(body.headers):
        asked, statements = directives.of_page(body.headers, page.rules, page.statements, page.agent)
    followed, unfollowed = _hrefs(page, encoding)
    return Document(
        media_type=body.media_type,
        charset=encoding,
        base=base,
        title=capped(page.title or page.heading, TITLE),
        description=capped(page.description, TOLD),
        author=capped(page.author, TOLD),
        keywords=capped(page.keywords, TOLD),
        language=page.language or page.meta_language or body.language,
        text=page.text(),
        canonical=canonical,
        directives=asked,
        links=followed,
        nofollow=unfollowed,
        rels=_rels(page, encoding),
        statements=statements,
        alternates=page.alternates,
        licences=page.licences,
    )


def _with_assets(document: Document, assets: "Assets", body: Body) -> Document:
    """The document with what is needed to show it, hrefs spelt as in `_hrefs`."""
    for value in body.headers.get("link", ()):
        assets.add_header(value)
    if not assets.icon:  # browsers look for one there
        assets.add("/favicon.ico")
    kinds = {tidy(in_encoding(href, document.charset)): kind for href, kind in assets.hrefs.items()}
    kinds.pop("", None)
    return replace(document, assets=tuple(kinds), asset_kinds=told_kinds(kinds))


def _elsewhere(page: Findings, base: str, body: Body) -> str:
    """The canonical URL, which is a link unless it is the page itself; and the page in other languages."""
    canonical = directives.canonical(page.canonical, base, body.url, body.headers)
    if canonical and canonical != body.url:
        page.link(canonical)
        page.told(canonical, ("canonical",))
    for language, href in directives.alternates(body.headers).items():
        page.alternate(language, href)
    return canonical


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


def _rels(page: Findings, encoding: str) -> dict[str, tuple[str, ...]] | None:
    """What is said about a few of the hrefs, spelt as they are in `_hrefs`."""
    if not page.rels:
        return None
    tidied = ((tidy(href), words) for href, words in page.rels.items())
    return {in_encoding(href, encoding): words for href, words in tidied if href}


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


# ------------------------------------------------------------------------------------------------ is a tree safe to build?
#
# Building a tree by the standard takes time quadratic in the nesting depth and in the attributes of an
# element, and memory quadratic in unclosed formatting elements: 14 KB of <b id=…> and <p> take a second and
# 380 MB. `is_tame` shows, cheaply and without trusting the markup, that a document is too small for that to
# matter. All others are read by `flat`.

# Worst cases measured with selectolax 1.0: 8,000 nested tags 0.1 s; 64 KiB of attributes on one element 0.4
# s; 300,000 reconstructed formatting elements 0.2 s and 110 MB.
_MAX_TAGS = 8_000
_MAX_ATTRIBUTES = 100  # on one element
_MAX_MERGED = 20
_MAX_RECONSTRUCTED = 300_000
_MAX_LOOKED_AT = 200_000  # most tags of a document whose nesting is checked: 0.1 s
_FEW_TAGS = 1_000  # half of them reconstructing the other half stays below the limit
_SHORT = 64 * 1024  # smaller documents cannot hold too many attributes

# Formatting elements (HTML Standard, 13.2.4.3) that are never closed are created again in every block that
# follows. Without attributes there are at most three of a kind ("Noah's Ark clause"), and an <a> closes the
# <a> before it. Attributes of every further <html> and <body> are added to those of the first (13.2.6.4.7).
_FORMATTING = rb"b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
# The first two letters are checked first: most tags cost nothing more, and the search takes two thirds of the
# time.
_COSTLY = re.compile(
    rb"<(?=[bcefhinstuBCEFHINSTU][iomtIOMT\t\n\f\r /])(?i:(%b)|body|html)[\t\n\f\r /]" % _FORMATTING
)
# A formatting element that is closed before anything but text and <span> can follow it is created once,
# whatever surrounds it. If the tokenizer does not see its start tag, it does not exist; if it does, it sees
# the end tag too, because quotes and tags in between are complete. <span> is not "special", so the end tag
# closes it too (13.2.6.4.7, the adoption agency algorithm). Without this, a third of 4,500 pages of
# documentation would count as hostile, and be read four times slower.
_TAG_END = rb"""(?:[\t\n\f\r ]++[a-zA-Z][a-zA-Z0-9:\-]*+(?:="[^"<>]*+"|='[^'<>]*+')?+)*+[\t\n\f\r ]*+>"""
_CLOSED = re.compile(
    rb"<(?=[bcefinstu][iomt\t\n\f\r ])(%b)(?=[\t\n\f\r ])%b(?:[^<]++|</?span%b)*+</\1>"
    % (_FORMATTING, _TAG_END, _TAG_END)
)
# A start tag with too many attributes, searched for after every < and letter. Long names and values count as
# several attributes, so a false tag that contains the beginnings of others costs no more than its length.
_FLOOD = re.compile(
    rb"<[a-zA-Z][^\t\n\f\r />]{0,64}+(?:[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r />=]{0,64}+"
    rb"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"?+|'[^']*+'?+|[^\t\n\f\r >]{0,64}+))?+){%d}+"""
    % _MAX_ATTRIBUTES
)


def is_tame(source: bytes) -> bool:
    """Whether the tree of this document is small, whatever its markup.

    Every start tag begins with < and a letter, so counting those is an upper bound even if comments or quotes
    hide some. If there are many, their nesting is checked.
    """
    tags = _count_tags(source)
    if tags > _MAX_TAGS and not (tags <= _MAX_LOOKED_AT and is_shallow(source, tags)):
        return False
    if tags <= _FEW_TAGS and len(source) <= _SHORT:
        return True
    costly = _COSTLY.findall(source)
    merged = costly.count(b"")
    formatting = len(costly) - merged
    if formatting * tags > _MAX_RECONSTRUCTED:
        formatting -= len(_CLOSED.findall(source))
    if merged > _MAX_MERGED or formatting * tags > _MAX_RECONSTRUCTED:
        return False
    return len(source) <= _SHORT or _FLOOD.search(source) is None


def _count_tags(source: bytes) -> int:
    """How often < stands in it.

    `bytes.count` compares byte by byte. To delete a character, Python searches with memchr: 2.5 µs for 18 KB, not 5.3.
    """
    return source.count(b"<") if len(source) > _SHORT else len(source) - len(source.replace(b"<", b""))


# For `is_shallow`. An element that holds only text is closed by its end tag, whatever and wherever it is, so
# it changes no depth: it is one token, the first alternative here. Then raw text elements, tags, and what is
# not a tag.
_TOKEN = re.compile(
    rb"<(?:([a-zA-Z][a-zA-Z0-9]*+)(?=[\t\n\f\r />])%(attributes)b>[^<]*+</\1>"
    rb"|(?=[%(letters)b])((?i:%(raw)b))(?=[\t\n\f\r />])%(attributes)b>(?:[^<]++|<(?!/(?i:\2)[\t\n\f\r />]))*+"
    rb"|(/?)([a-zA-Z][^\t\n\f\r />]*+)%(attributes)b>?+"
    rb"|!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)|[!?/][^>]*+>?+)"
    % {
        b"attributes": markup.ATTRIBUTES_BYTES,
        b"letters": markup.RAW_LETTERS.encode(),
        b"raw": "|".join(sorted(markup.RAW)).encode(),
    }
)
# Where our tags could differ from the standard's: CDATA sections in SVG, scripts inside comments inside
# scripts, and HTML elements inside SVG.
_COMMENT = re.compile(rb"<!--(?:[^-]++|-(?!->))*+")
_DRAWN = markup.names("circle ellipse g line path polygon polyline rect svg use")


def is_shallow(source: bytes, tags: int) -> bool:
    """Whether the elements of a large document are nested so little that its tree is built in linear time.

    An element counts as closed only by its own end tag, right after everything inside it was closed. That is
    how tools write; a document that nests otherwise counts as deeper than it is. Elements that end by
    themselves are ignored: there are at most four for each of the others (table, tbody, tr, td).
    """
    most = _MAX_TAGS * _MAX_TAGS // 5 // tags  # end tags search for their element through all open ones
    if b"<![CDATA[" in source or any(b"<script" in each.lower() for each in _COMMENT.findall(source)):
        return False
    is_open: list[bytes] = []
    drawings = 0
    for leaf, raw, end, written in _TOKEN.findall(source):
        if leaf:
            continue
        name = written.lower()
        if drawings and (raw or (name and name not in _DRAWN_BYTES)):
            return False
        if not name or name in _NOT_COUNTED:
            continue
        if not end:
            is_open.append(name)
            drawings += name == b"svg"
            if len(is_open) > most or name == b"math":
                return False
        elif is_open and is_open[-1] == name:
            is_open.pop()
            drawings -= name == b"svg"
    return True


_VOID = markup.names(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
)
# Optional end tags (HTML Standard, 13.1.2.4): the next one of these, or the end of the parent, ends them.
_ENDS_BY_ITSELF = markup.names("colgroup dd dt li optgroup option p rb rp rt tbody td tfoot th thead tr")
_NOT_COUNTED = frozenset(name.encode() for name in _VOID | _ENDS_BY_ITSELF)
_DRAWN_BYTES = frozenset(name.encode() for name in _DRAWN)
_FORMATTING_NAMES = frozenset(_FORMATTING.decode().split("|"))


def is_bearable(source: str) -> bool:
    """Whether a tree of this document can be built in acceptable time and memory.

    Only called for main content, and for programs that want the tree of a page, including large ones: it goes through
    all tags, where `is_tame` counts.
    """
    raw = source.encode("utf-8", "replace")
    if is_tame(raw):
        return True
    if _COSTLY.findall(raw).count(b"") > _MAX_MERGED:
        return False
    tags = list(markup.tags(source))
    # `_FLOOD` also finds them in scripts, which hold markup in one large page of six.
    if any(len(tag.written) > _MAX_ATTRIBUTES and markup.many(tag.written, _MAX_ATTRIBUTES) for tag in tags):
        return False
    depth, unclosed = _nesting(tags)
    return depth <= _MAX_TAGS and unclosed * len(tags) <= _MAX_RECONSTRUCTED


def _nesting(tags: Sequence[markup.Tag]) -> tuple[int, int]:
    """The maximum nesting depth, and how many formatting elements are created again in what follows.

    A formatting element that holds a block is not ended by its end tag (13.2.6.4.7), so it counts as never
    closed.
    """
    is_open: Counter[str] = Counter()
    formatting: Counter[str] = Counter()
    depth = deepest = unclosed = 0
    for tag in tags:
        name = tag.name
        if not name or name in _VOID or name in markup.RAW:
            continue
        if tag.end:
            if is_open[name] > 0:
                is_open[name] -= 1
                depth -= 1
            if formatting[name] > 0:
                formatting[name] -= 1
            continue
        if name in _FORMATTING_NAMES:
            if tag.written:  # without attributes there are at most three of a kind
                formatting[name] += 1
        elif name not in INLINE and formatting:
            unclosed += formatting.total()
            formatting.clear()
        if name not in _ENDS_BY_ITSELF:
            is_open[name] += 1
            depth += 1
            deepest = max(deepest, depth)
    return deepest, unclosed + formatting.total()
