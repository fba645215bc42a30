"""What a style sheet refers to: the sheets that it imports, and the fonts and images that it embeds.

One regular expression finds the few tokens that matter (CSS Syntax 3, 4.3). Every repetition in it is possessive and
every alternative ends by itself, so that nothing is read twice, whatever the input.
"""

import re
from collections.abc import Callable, Iterator

from skitter.parse import charset

_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_GAP = rf"(?:[\t\n\f\r ]++|{_COMMENT})*+"
_ESCAPED = r"\\(?:[0-9a-fA-F]{1,6}+(?:\r\n|[\t\n\f\r ])?+|\r\n|[\s\S])?+"
# A string without its end quote ends with its line.
_STRING = rf"""(?:"(?:[^"\\\n\f\r]++|{_ESCAPED})*+"?+|'(?:[^'\\\n\f\r]++|{_ESCAPED})*+'?+)"""
_BARE = rf"""(?:[^"'()\\\t\n\f\r ]++|{_ESCAPED})*+"""
_URL = rf"url\([\t\n\f\r ]*+(?:{_STRING}|{_BARE})[\t\n\f\r ]*+\)?+"
_TOKEN = re.compile(
    rf"""(?=[/"'@uUiI\-\\])(?:
        {_COMMENT}
      | {_STRING}
      | \\(?:\r\n|[\s\S])?+
      | @import{_GAP}(?P<sheet>{_STRING}|{_URL})?+
      | @(?:namespace|(?:-moz-)?document)(?![\w\-])[^;{{}}]*+
      | (?<![\w\-])(?P<url>{_URL})
      | (?<![\w\-])(?:-webkit-)?image-set\(
        (?P<set>(?:{_URL}|{_STRING}|[\w\-]++\([^()]*+\)?+|[^()"';{{}}\w\-]++|[\w\-]++)*+)\)?+
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_IN_A_SET = re.compile(rf"({_URL})|({_STRING})|[\w\-]++\([^()]*+\)?+", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6}+)(?:\r\n|[\t\n\f\r ])?+|(\r\n|[\n\f\r])|([\s\S])|\Z)")
_SPECIAL = re.compile(r'["\\\n\f\r]')
# CSS Syntax 3, 3.2: exactly these bytes at the start.
_CHARSET = re.compile(rb'@charset "([^"\n]{1,100})";')


def decoded(content: bytes, http_charset: str) -> tuple[str, str]:
    """A style sheet as text, and its encoding: by its mark, its Content-Type, or its own rule (CSS Syntax 3, 3.2)."""
    marked, _ = charset.mark(content)
    rule = _CHARSET.match(content)
    own = charset.named(rule[1].decode("ascii", "replace")) if rule else ""
    if own.startswith("utf-16"):  # the rule was read as ASCII, so it cannot be
        own = charset.UTF_8
    encoding = marked or charset.usable(http_charset) or charset.usable(own) or charset.UTF_8
    return charset.decode(content, encoding), encoding


def hrefs(text: str) -> Iterator[tuple[str, bool]]:
    """What a style sheet, a style element or a style attribute refers to, and whether it is another sheet."""
    for token, _, sheet in _references(text):
        yield _href(token), sheet


def rewritten(text: str, change: Callable[[str], str]) -> str:
    """The same CSS with other hrefs. What does not change stays as it is written."""
    out: list[str] = []
    done = 0
    for token, start, _ in _references(text):
        href = _href(token)
        new = change(href)
        if new != href:
            out += (text[done:start], f"url({_quoted(new)})" if token[0] not in "\"'" else _quoted(new))
            done = start + len(token)
    return "".join([*out, text[done:]])


def _references(text: str) -> Iterator[tuple[str, int, bool]]:
    """Each url() and string that refers to something, where it begins, and whether that is another sheet."""
    for token in _TOKEN.finditer(text):
        sheet, url, several = token.group("sheet", "url", "set")
        if sheet:
            yield sheet, token.start("sheet"), True
        elif url:
            yield url, token.start("url"), False
        elif several:
            for each in _IN_A_SET.finditer(several):
                if each[1] or each[2]:
                    yield each[1] or each[2], token.start("set") + each.start(), False


def _quoted(href: str) -> str:
    return '"' + _SPECIAL.sub(lambda found: f"\\{ord(found[0]):x} ", href) + '"'


def _href(token: str) -> str:
    """The href of a url() or a string."""
    if token[0] not in "\"'":
        token = token[4:].strip("\t\n\f\r )")
        if token[:1] not in ("'", '"'):
            return _unescaped(token)
    quote = token[0]
    return _unescaped(token[1:].removesuffix(quote)).strip("\t\n\f\r ")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    digits, line_end, other = match.groups()
    if digits:
        number = int(digits, 16)
        return "\ufffd" if not number or number > 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)
    return "" if line_end else other or ""
