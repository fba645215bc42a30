"""The encoding of a body, and its characters.

The order is that of the HTML Standard (13.2.3.2): a byte order mark, then what HTTP says, then what the
document declares, then a guess. Labels mean what the Encoding Standard says, which is not what Python's codec
of the same name does: iso-8859-1 is windows-1252, gb2312 is gb18030, and utf-7 does not exist.
"""

import codecs
import re
from functools import cache

from skitter.parse import markup

UTF_8 = "utf-8"
FALLBACK = "windows-1252"
REPLACEMENT = "replacement"

# Encoding Standard, 4.2: the labels of each encoding, besides its own name.
_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i "
    "iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "iso_8859-7:1987 sun_eu_greek",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
    "iso_8859-8:1988 visual",
    "iso-8859-8-i": "csiso88598i logical",
    "iso-8859-10": "csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso8859-13 iso885913",
    "iso-8859-14": "iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "",
    "koi8-r": "cskoi8r koi koi8 koi8_r",
    "koi8-u": "koi8-ru",
    "macintosh": "csmacintosh mac x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "windows-1250": "cp1250 x-cp1250",
    "windows-1251": "cp1251 x-cp1251",
    "windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252",
    "windows-1253": "cp1253 x-cp1253",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "x-cp1254",
    "windows-1255": "cp1255 x-cp1255",
    "windows-1256": "cp1256 x-cp1256",
    "windows-1257": "cp1257 x-cp1257",
    "windows-1258": "cp1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "gb18030": "",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese x-euc-jp",
    "iso-2022-jp": "csiso2022jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "euc-kr": "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr",
    "utf-16be": "unicodefffe",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "x-user-defined": "",
}
_NAMES = {label: name for name, labels in _LABELS.items() for label in (name, *labels.split())}

# Python's name for the nearest codec, if it differs from ours.
_CODECS = {
    "ibm866": "cp866",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}
MULTI_BYTE = markup.names("utf-8 gbk gb18030 big5 euc-jp iso-2022-jp shift_jis euc-kr utf-16be utf-16le")
SINGLE_BYTE = frozenset(_LABELS) - MULTI_BYTE - {REPLACEMENT, "x-user-defined"}

_MARKS = ((b"\xef\xbb\xbf", UTF_8), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))


def named(label: str) -> str:
    """The encoding of a label, or "" (Encoding Standard, 4.2: get an encoding)."""
    return _NAMES.get(label.strip(markup.SPACE).lower(), "")


def mark(content: bytes) -> tuple[str, int]:
    """The encoding of a byte order mark, and the length of the mark."""
    for signature, name in _MARKS:
        if content.startswith(signature):
            return name, len(signature)
    return "", 0


def guess(content: bytes) -> str:
    """The encoding of a document without any declaration.

    Browsers must not look at the content here, lest pages come to depend on it. A crawler only wants the
    words, and bytes that are well-formed UTF-8 and not all ASCII are nothing else in practice.
    """
    if content.isascii():
        return FALLBACK
    try:
        codecs.utf_8_decode(content, "strict", False)  # noqa: FBT003  not final: the input may have been cut
    except UnicodeDecodeError:
        return FALLBACK
    return UTF_8


def of_html(content: bytes, http: str, default: str | None = None) -> str:
    """The encoding of an HTML document; `http` is the encoding named by its Content-Type, if any."""
    return mark(content)[0] or usable(http) or declared(content) or default or guess(content)


def usable(name: str) -> str:
    """An encoding declared from outside; x-user-defined is not text, so it counts as undeclared."""
    return "" if name == "x-user-defined" else name


def decode(content: bytes, name: str) -> str:
    """Decode to characters. Invalid bytes become U+FFFD; nothing raises."""
    _, skip = mark(content)
    content = content[skip:]
    if name in SINGLE_BYTE:
        return codecs.charmap_decode(content, "strict", _table(name))[0]
    if name == REPLACEMENT:
        return "\ufffd" if content else ""  # Encoding Standard, 14.1: encodings that were used for attacks
    return content.decode(codec(name), _EURO if name in _CHINESE else "replace")


def codec(name: str) -> str:
    """Python's name for the nearest codec."""
    return _CODECS.get(name, name)


def query_bytes(text: str, name: str) -> bytes:
    """Characters of a URL's query in the page's encoding (WHATWG URL, 1.3: percent-encode after encoding)."""
    return text.encode(codec(name), _REFERENCE)


_EURO, _REFERENCE = "skitter.euro", "skitter.reference"
_CHINESE = frozenset(("gbk", "gb18030"))


def _euro(error: UnicodeError) -> tuple[str, int]:
    """Encoding Standard, 10.2.1: byte 0x80 is the euro sign, which Python's gb18030 does not know."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return ("€" if error.object[error.start] == 0x80 else "\ufffd"), error.end


def _reference(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(f"%26%23{ord(char)}%3B" for char in error.object[error.start : error.end]), error.end


codecs.register_error(_EURO, _euro)
codecs.register_error(_REFERENCE, _reference)


@cache
def _table(name: str) -> str:
    """The 256 characters of a single-byte encoding.

    Bytes 0x80 to 0x9F that Python leaves undefined are control characters.
    """
    known = [bytes([byte]).decode(codec(name), "ignore") for byte in range(256)]
    return "".join(
        char or (chr(byte) if 0x80 <= byte < 0xA0 else "\ufffd") for byte, char in enumerate(known)
    )


# ------------------------------------------------------------------------------------------------ inside the document

# HTML Standard 4.2.5.4: declarations are in the first 1024 bytes. Browsers read on to the end of the head.
_PRESCAN = 1024
_LOOK_AT = 64 * 1024
_DECLARES = re.compile(rb"charset|encoding", re.IGNORECASE)
_XML = re.compile(rb"""<\?xml[^>]*?encoding[\t\n\r ]*=[\t\n\r ]*["']([^"'>]*)""")
_HEAD = markup.names(
    "base basefont bgsound head html link meta noframes noscript script style template title"
)
_CHARSET = re.compile(r"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+", re.IGNORECASE | re.ASCII)
_LABEL = re.compile(r""""([^"]*+)"|'([^']*+)'|([^\t\n\f\r ;"'][^\t\n\f\r ;]*+)""")


def declared(content: bytes) -> str:
    """What the document declares: a meta element, or else the XML declaration.

    The standard's prescan ignores scripts and so believes a declaration inside one; browsers do not, nor do
    we.
    """
    head = content[:_LOOK_AT]
    if not _DECLARES.search(head):
        return ""
    return _in_meta(head) or _in_xml(head)


def _in_meta(head: bytes) -> str:
    in_head, templates = True, 0
    for tag in markup.tags(head.decode("latin-1")):
        if tag.text.strip(markup.SPACE):
            in_head = False
        late = tag.start >= _PRESCAN
        if late and not in_head:
            break
        if tag.name == "meta" and not tag.end and not (late and templates):
            if name := _of_meta(markup.attributes(tag.written)):
                return name
        elif tag.name == "template":
            templates = max(0, templates + (-1 if tag.end else 1))
        in_head = in_head and not _ends_head(tag)
    return ""


def _ends_head(tag: markup.Tag) -> bool:
    if tag.end:
        return tag.name in {"head", "body", "html", "br"}
    return tag.name not in _HEAD and tag.name != ""


def _of_meta(attributes: markup.Attributes) -> str:
    """HTML Standard, 13.2.6.4.4, a start tag whose tag name is meta."""
    name = named(attributes.get("charset") or "")
    if not name and (attributes.get("http-equiv") or "").lower() == "content-type":
        content = attributes.get("content") or ""
        found = _CHARSET.search(content)
        label = _LABEL.match(content, found.end()) if found else None
        name = named(label[1] or label[2] or label[3] or "") if label else ""
    if name in {"utf-16be", "utf-16le"}:
        return UTF_8  # otherwise we could not have read this
    return FALLBACK if name == "x-user-defined" else name


def _in_xml(head: bytes) -> str:
    found = _XML.match(head)
    name = named(found[1].decode("latin-1")) if found else ""
    return UTF_8 if name in {"utf-16be", "utf-16le"} else usable(name)
