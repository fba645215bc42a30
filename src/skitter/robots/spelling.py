"""One normal form for paths, so that `%70rivate`, `/a/../private` and `/private` are the same (RFC 9309 2.2.2).

Escaped letters, digits and `-._~` are unescaped, everything not allowed in a URL is escaped, hexadecimal
digits are upper case. Reserved characters stay as written: `%2F` is not a slash. Bytes are handled as Latin-1
text, one character each, until they are escaped.
"""

import re
from collections.abc import Sequence

WHITE = " \t\n\v\f\r"  # C isspace(); str.strip() would also strip bytes 0x85 and 0xA0

# Characters that stand for themselves in a path. Not `'`, which WHATWG escapes in queries; and not `*` and
# `$`, which are literals in a URL but special in a rule.
_PLAIN = r"A-Za-z0-9\-._~/?&=+,;:@!()\[\]"
# Escapes that change: lower-case hexadecimal digits, and what RFC 3986 2.3 calls unreserved.
_ESCAPE = r"%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3\d|4[1-9A-F]|5[\dAF]|6[1-9A-F]|7[\dAE])"
_ODD = re.compile(rf"{_ESCAPE}|[^{_PLAIN}%]", re.ASCII)
_ODD_IN_RULES = re.compile(rf"{_ESCAPE}|\$(?!\n|\Z)|[^{_PLAIN}%*$\n]", re.ASCII)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_PLAIN_URL = re.compile(rf"https?://[^/?;#\\]*(/[{_PLAIN}]*)\Z")
_ANY_URL = re.compile(r"(?://)?(?:[^/?;#\\]*://)?[^/?;#\\]*([^#]*)")
_AS_IN_PATHS = str.maketrans("\\", "/", "\t\n\r")  # what WHATWG does with these in the path of an http URL

_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
_VALID_TOKEN = re.compile(r"[A-Za-z_-]+")


def product_token(user_agent: str) -> str:
    """The product token of a user agent: "Skitter/0.1 (+https://…)" gives "skitter".

    RFC 9309 2.2.1 allows only letters, `_` and `-`. Digits are accepted anyway, or "MJ12bot" would be
    anybody's "mj".
    """
    found = _TOKEN.match(user_agent.lstrip(WHITE))
    return found[0].lower() if found else ""


def valid_product_token(token: str) -> bool:
    """Whether a crawler may use this product token (RFC 9309 2.2.1)."""
    return _VALID_TOKEN.fullmatch(token) is not None


def path_of(url: str) -> str:
    """The path and query that rules are matched with. Where the path of an odd URL begins is decided as Google does."""
    plain = _PLAIN_URL.match(url)
    if plain and "/." not in plain[1]:
        return plain[1]
    found = _ANY_URL.match(url)
    path, question, query = (found[1] if found else "").partition("?")
    path = path.translate(_AS_IN_PATHS) + question + query
    if not path.startswith("/"):
        path = "/" + path
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    path = _ODD.sub(_respell, path)
    return _without_dots(path) if "/." in path else path


def normal_rules(values: Sequence[str]) -> list[str]:
    """Normalise the paths of rules, none containing a line end, in one pass. `*` and a final `$` stay special.

    No rules come out as one empty rule, the result of joining and splitting nothing.
    """
    return _ODD_IN_RULES.sub(_respell, "\n".join(values)).split("\n")


def _respell(odd: re.Match[str]) -> str:
    text = odd[0]
    if len(text) == 1:
        return f"%{ord(text):02X}"
    octet = chr(int(text[1:], 16))
    return octet if octet in _UNRESERVED else text.upper()


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` (RFC 3986 5.2.4), as a client does before it sends a request."""
    path, question, query = path.partition("?")
    kept: list[str] = []
    *names, last = path.split("/")[1:]
    for name in names:
        if name == "..":
            del kept[-1:]
        elif name != ".":
            kept.append(name)
    if last == "..":
        del kept[-1:]
    kept.append("" if last in {".", ".."} else last)
    return "/" + "/".join(kept) + question + query
