"""Markup as a stream of tags, without a tree: linear in its input, whatever the input.

The tokenizer of the HTML Standard (13.2.5) in one regular expression. Every repetition in it is possessive,
so that nothing backtracks, and every alternative ends by itself at the end of the input. It differs from the
standard in two places that only matter to scripts: the escaped states of <script>, and CDATA sections, which
are read as comments.
"""

import re
from collections.abc import Iterator
from html.entities import html5
from itertools import islice

from msgspec import Struct

Attributes = dict[str, str | None]

SPACE = " \t\n\f\r"  # ASCII white space of the standards; str.strip() alone strips many more
_MAX_WRITTEN = 64 * 1024  # characters of a tag that are examined: longer ones hold data, not addresses

# 13.2.5.32 to 13.2.5.39, in verbose syntax. An unclosed quote extends to the end of the document.
_GAP_CHARACTERS = SPACE + "/"
_GAP = r"[\t\n\f\r\ /]*+"
_NAME = r"[^\t\n\f\r\ />][^\t\n\f\r\ />=]*+"
_EQUALS = r"[\t\n\f\r\ ]*+=[\t\n\f\r\ ]*+"
_ATTRIBUTES = rf"""(?:{_GAP}{_NAME}(?:{_EQUALS}(?:"[^"]*+"?+|'[^']*+'?+|[^\t\n\f\r\ >]*+))?+)*+{_GAP}"""
_PARTS = re.compile(
    rf"""{_GAP}({_NAME})(?:{_EQUALS}(?:"([^"]*+)|'([^']*+)|([^\t\n\f\r\ >]*+))["']?)?""", re.VERBOSE
)


# The same for bytes, without the blanks of the verbose syntax.
ATTRIBUTES_BYTES = _ATTRIBUTES.replace("\\ ", " ").encode()


def names(text: str) -> frozenset[str]:
    """A set of names from a space-separated string."""
    return frozenset(text.split())


# Elements whose content is text up to their own end tag (13.2.6.2 and its callers, scripting enabled).
RAW = names("iframe noembed noframes noscript script style textarea title xmp")
RAW_LETTERS = "".join(sorted({letter for name in RAW for letter in (name[0], name[0].upper())}))
_TOKEN = re.compile(
    rf"""<(?:
        (?=[{RAW_LETTERS}])
        (?P<raw> (?i: {"|".join(sorted(RAW))} ) ) (?=[\t\n\f\r\ />]) ({_ATTRIBUTES}) >
        ( (?: [^<]++ | <(?! / (?i:(?P=raw)) [\t\n\f\r\ />] ) )*+ )
      | ( /? ) ( [a-zA-Z] [^\t\n\f\r\ />]*+ ) ({_ATTRIBUTES}) ( >?+ )
      | !-- (?: -?> | (?: [^-]++ | -(?! -!?> ) )*+ (?: --!?> )?+ )
      | [!?/] [^>]*+ >?+
    )""",
    re.VERBOSE | re.ASCII,
)


class Tag(Struct, gc=False):
    """One tag of the source. `text` is the text before it; `content` is the content of a raw text element."""

    text: str
    name: str
    end: bool = False
    written: str = ""  # the attributes, as in the source
    content: str = ""
    start: int = 0


def tags(source: str) -> Iterator[Tag]:
    """The tags in order; the last one has no name and holds the text at the end."""
    done = 0
    for token in _TOKEN.finditer(source):
        start = token.start()
        text = source[done:start]
        done = token.end()
        raw, raw_attributes, content, end, name, written, closed = token.groups()
        if closed:
            yield Tag(text, name.lower(), bool(end), written, "", start)
        elif raw:
            yield Tag(text, raw.lower(), written=raw_attributes, content=content, start=start)
        elif text:  # before a comment, or before an incomplete tag at the end of the file, which does not count (13.2.5.8)
            yield Tag(text, "", start=start)
    yield Tag(source[done:], "", start=len(source))


def attributes(written: str) -> Attributes:
    """Attributes by their lower-case names; of duplicates the first counts."""
    found: Attributes = {}
    for name, value, _, _ in placed(written):
        found.setdefault(name, value)
    return found


def placed(written: str) -> Iterator[tuple[str, str, int, int]]:
    """Each attribute of a tag with its place in the source: lower-case name, value, start and end."""
    written = written[:_MAX_WRITTEN]
    tidy = written.rstrip(_GAP_CHARACTERS)
    # Without a gap at the end there is a name after every gap, so that no gap is scanned twice.
    for part in _PARTS.finditer(tidy):
        value, end = part[2] or part[3] or part[4] or "", part.end()
        if end == len(tidy) and part[4] is not None:  # slashes belong to a value without quotes (13.2.5.38)
            while written[end : end + 1] == "/":
                end += 1
            value += written[len(tidy) : end]
        yield part[1].lower(), unescape(value, attribute=True), part.start(1), end


def many(written: str, most: int) -> bool:
    """Whether there are more attributes than this, duplicates included."""
    found = _PARTS.finditer(written.rstrip(_GAP_CHARACTERS))
    return next(islice(found, most, None), None) is not None


_RAW_TAG = re.compile(
    rf"<((?i:{'|'.join(sorted(RAW))}))(?=[\t\n\f\r\ />])({_ATTRIBUTES})>?+", re.VERBOSE | re.ASCII
)


def spelt_out(source: str) -> str:
    """XHTML in which <script/> is <script></script>: HTML has no such tag and would read the rest as a script."""
    return _RAW_TAG.sub(
        lambda tag: f"<{tag[1]}{tag[2]}></{tag[1]}>" if tag[2].endswith("/") else tag[0], source
    )


# ------------------------------------------------------------------------------------------------ character references

_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?|([a-zA-Z][a-zA-Z0-9]*+);?)")
_LONGEST_NAME = max(map(len, html5))
_UNTERMINATED = frozenset(name for name in html5 if not name.endswith(";"))
_SHORTEST, _LONGEST = min(map(len, _UNTERMINATED)), max(map(len, _UNTERMINATED))


def unescape(text: str, *, attribute: bool = False) -> str:
    """Replace character references as the tokenizer does (13.2.5.72 and on); in attributes it is stricter."""
    if "&" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        hexadecimal, decimal, name = match.groups()
        if name is None:
            return _numbered(hexadecimal or decimal, 16 if hexadecimal else 10)
        written = match[0]
        found = html5.get(written[1:]) if written.endswith(";") and len(name) < _LONGEST_NAME else None
        return found or _unterminated(written, text[match.end() : match.end() + 1], attribute=attribute)

    return _REFERENCE.sub(character, text)


def _unterminated(written: str, following: str, *, attribute: bool) -> str:
    """A name without its semicolon, of which the longest known prefix counts: '&notit;' is '¬it;'."""
    name = written[1:]
    for length in range(min(len(name), _LONGEST), _SHORTEST - 1, -1):
        if name[:length] in _UNTERMINATED:
            after = name[length : length + 1] or following
            if attribute and (after == "=" or (after.isascii() and after.isalnum())):
                return written  # because of href="?a=1&copy=2"
            return html5[name[:length]] + name[length:]
    return written


def _numbered(digits: str, radix: int) -> str:
    """13.2.5.80: what browsers have always done with numbers that are not characters."""
    digits = digits.lstrip("0")
    number = int(digits, radix) if 0 < len(digits) <= 7 else 0 if not digits else 0x110000
    if 0x80 <= number < 0xA0:
        return bytes([number]).decode("cp1252", "ignore") or chr(number)
    if number == 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        return "\ufffd"
    return chr(number)
