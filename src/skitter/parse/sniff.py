"""The media type of a body, from its label or, if that is missing or plainly wrong, from its first bytes.

Follows the MIME Sniffing Standard, which says when a label must be believed: text/plain that looks like HTML
stays text/plain, and only a body without a label, or with a meaningless one, is judged by its content alone.
We deviate in one point: a body labelled HTML that is an image or an archive is not read as HTML.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from skitter.parse import charset, markup

_RESOURCE_HEADER = 1445  # bytes; MIME Sniffing Standard, 5.2
_MAX_FIELD = 1000  # characters of a Content-Type that are examined and cached

# Header fields that any parser reads. Names are lower-case, as the fetcher returns them.
_READ = markup.names(
    "content-language content-signal content-type content-usage link refresh tdm-policy tdm-reservation x-robots-tag"
)
XHTML = "application/xhtml+xml"
_HTML = frozenset(("text/html", XHTML))
_UNKNOWN = frozenset(("", "unknown/unknown", "application/unknown", "*/*"))

# MIME Sniffing Standard, 3.1: a byte that does not occur in text.
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
# 7.1: how an HTML document begins; the byte after the tag's name ends it.
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*+<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)"
    rb"[ >\t\n\f\r]",
    re.IGNORECASE,
)
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*+<\?xml")
# 7.3: feeds are often served as HTML.
_FEED = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[\t\n\f\r ]++|<!--(?:[^-]++|-(?!->))*+-->|<[!?][^>]*+>)*+<(rss|feed|rdf:RDF)[\t\n\f\r >]"
)
_FEEDS = {b"rss": "application/rss+xml", b"feed": "application/atom+xml", b"rdf:RDF": "application/rss+xml"}
# 6.1 to 6.4 and 7.1, and some more that occur on the web.
_MAGIC = (
    (re.compile(rb"%PDF-"), "application/pdf"),
    (re.compile(rb"%!PS-Adobe-"), "application/postscript"),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"RIFF....WEBPVP", re.DOTALL), "image/webp"),
    (re.compile(rb"\x00\x00[\x01\x02]\x00"), "image/x-icon"),
    (re.compile(rb"BM"), "image/bmp"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "image/avif"),
    (re.compile(rb"....ftyp", re.DOTALL), "video/mp4"),
    (re.compile(rb"\x1a\x45\xdf\xa3"), "video/webm"),
    (re.compile(rb"RIFF....AVI ", re.DOTALL), "video/avi"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wave"),
    (re.compile(rb"FORM....AIFF", re.DOTALL), "audio/aiff"),
    (re.compile(rb"OggS\x00"), "application/ogg"),
    (re.compile(rb"MThd\x00\x00\x00\x06"), "audio/midi"),
    (re.compile(rb"ID3|\xff[\xf2\xf3\xfb]"), "audio/mpeg"),
    (re.compile(rb"\x1f\x8b\x08"), "application/x-gzip"),
    (re.compile(rb"PK\x03\x04"), "application/zip"),
    (re.compile(rb"Rar!\x1a\x07"), "application/x-rar-compressed"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "application/x-7z-compressed"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "application/zstd"),
    (re.compile(rb"wOFF"), "font/woff"),
    (re.compile(rb"wOF2"), "font/woff2"),
    (re.compile(rb"\x00\x01\x00\x00|OTTO"), "font/sfnt"),
    (re.compile(rb"\x00asm"), "application/wasm"),
)
_OCTETS = "application/octet-stream"

IMAGES = (
    "image/png",
    "image/jpeg",
    "image/jpg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/tiff",
    "image/bmp",
    "image/x-ms-bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
)
_OOXML, _ODF = "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."
# By extension, which decides where a server only says that it is some zip file or some bytes.
BY_EXTENSION = {
    "docx": f"{_OOXML}wordprocessingml.document",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "pptx": f"{_OOXML}presentationml.presentation",
    "odt": f"{_ODF}text",
    "ods": f"{_ODF}spreadsheet",
    "odp": f"{_ODF}presentation",
}
OFFICE = tuple(BY_EXTENSION.values())
_EPUB = "application/epub+zip"
_ZIP = "application/zip"
_VAGUE = frozenset((_OCTETS, _ZIP, "application/x-zip-compressed", "binary/octet-stream", "application/download",
    "application/x-download", "application/force-download"))  # fmt: skip


class Body(Struct, frozen=True):
    """A body, and what is known about it before it is read."""

    url: str
    media_type: str
    http_charset: str  # the encoding named by Content-Type, or ""
    headers: dict[str, list[str]]  # those that parsers use
    content: bytes

    @property
    def language(self) -> str:
        """The language named by the header fields; a list of several is ignored (RFC 9110 8.5)."""
        value = ",".join(self.headers.get("content-language", ())).strip()
        return "" if "," in value else value


def body(url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Body:
    """Determine what a response body is."""
    read: dict[str, list[str]] = {}
    for name, value in headers:
        if name in _READ:
            read.setdefault(name, []).append(value)
    labels = read.get("content-type")
    supplied, encoding = content_type(labels[-1][:_MAX_FIELD]) if labels else ("", "")
    kind = media_type(supplied, encoding, content)
    return Body(url, _meant(kind, url, content) if kind in _VAGUE else kind, encoding, read, content)


def _meant(kind: str, url: str, content: bytes) -> str:
    """What a file is whose label says too little: a PDF, an image, or the kind of document that a zip file is."""
    magic = _magic(content[:_RESOURCE_HEADER])
    if magic == "application/pdf" or magic in IMAGES:
        return magic
    if magic != _ZIP:
        return kind
    # OpenDocument and EPUB name themselves in their first member, which is not compressed.
    inside = content[38:128] if content[30:38] == b"mimetype" else b""
    if inside.startswith(_EPUB.encode()):
        return _EPUB
    named = next((each for each in OFFICE if inside.startswith(each.encode())), "")
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return named or BY_EXTENSION.get(ending, kind)


@lru_cache(256)
def content_type(value: str) -> tuple[str, str]:
    """The media type of a Content-Type field, in lower case, and the encoding, if it names a known one."""
    essence = _ESSENCE.match(value.lower())
    return essence[1] if essence else "", next(
        filter(None, map(_charset_parameter, _PARAMETER.finditer(value))), ""
    )


_ESSENCE = re.compile(
    r"[\t\n\r ]*+([!#$%&'*+\-.^_`|~0-9a-z]++/[!#$%&'*+\-.^_`|~0-9a-z]++)[\t\n\r ]*+(?:[;,]|\Z)"
)
# MIME Sniffing Standard, 4.4: name=value after a semicolon; no white space around the equals sign. A comma
# comes from a field that was sent twice.
_PARAMETER = re.compile(r""";[\t\n\r ]*+([^;="]++)(?:=(?:"((?:[^"\\]++|\\.)*+)"?|([^;,]*+)))?""", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def _charset_parameter(match: re.Match[str]) -> str:
    name, quoted, bare = match.groups()
    if name.lower() != "charset":
        return ""
    if quoted is not None:
        return charset.named(re.sub(r"\\(.)", r"\1", quoted))
    bare = (bare or "").rstrip(" \t\r\n")
    return charset.named(bare) if _TOKEN.fullmatch(bare) else ""


def media_type(supplied: str, encoding: str, content: bytes) -> str:
    """The media type to treat a body as."""
    if supplied in _UNKNOWN:
        return _sniffed(content)
    if supplied in _HTML:
        if not content or _HTML_START.match(content):
            return supplied
        head = content[:_RESOURCE_HEADER]
        if feed := _FEED.match(head):
            return _FEEDS[feed[1]]
        return _binary(head, encoding) or supplied
    if supplied == "text/plain":
        return _binary(content[:_RESOURCE_HEADER], encoding) or supplied
    return supplied


def _binary(head: bytes, encoding: str) -> str:
    """What a body labelled as text really is; empty if it is text."""
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    # UTF-16 contains zero bytes.
    if charset.mark(head)[0] or encoding.startswith("utf-16") or not _BINARY.search(head):
        return ""
    return _magic(head) or _OCTETS


def _magic(head: bytes) -> str:
    return next((name for pattern, name in _MAGIC if pattern.match(head)), "")


def _sniffed(content: bytes) -> str:
    """MIME Sniffing Standard, 7.1: identifying a resource with an unknown MIME type."""
    head = content[:_RESOURCE_HEADER]
    if _HTML_START.match(head):
        return "text/html"
    if _XML_START.match(head):
        return "text/xml"
    if charset.mark(head)[0]:
        return "text/plain"
    return _magic(head) or (_OCTETS if _BINARY.search(head) else "text/plain")
