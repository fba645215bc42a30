"""How a key normalises the parts of a URL; `urls` explains the two forms.

Nothing here parses: site, path and query come from a serialised URL. A key is never sent to a server.
"""

import re
from fnmatch import translate
from functools import lru_cache
from itertools import product
from operator import itemgetter
from string import ascii_letters, digits, hexdigits

from skitter.settings import UrlsSettings

_KEPT, _SESSION, _TRACKING = range(3)  # what happens to a query parameter

# RFC 3986 3.3: pchar and "/", without the escapes and the path parameters a key may lose.
CLEAN_PATH = re.compile(r"(?:/[\w\-.~!$&'()*+,=:@]+)*/?", re.ASCII)
# RFC 3986 6.2.2: what a key changes in path and query: escapes that are broken or in lower case, escapes of
# unreserved characters, and characters that neither a path nor a query may contain.
_ODD = re.compile(
    r"%(?![0-9A-F]{2})(?:[0-9A-Fa-f]{2})?|%(?:2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)"
    r"|[^\w\-.~!$&'()*+,;=:@/?%]",
    re.ASCII,
)
_CLEAN_QUERY = re.compile(r"[\w\-.~!$&'()*+,;=:@/?]*", re.ASCII)
_WWW = re.compile(r"(?<=://)(?:www\.)+(?=[^:]*\.)")
_PATH_PARAM = re.compile(r";([^/;=]+)=[^/;]*")
_DOT_SEGMENT = re.compile(r"/\.\.?(?:/|\Z)")
_SLASHES = re.compile(r"//+")


def known_site(site: str, rules: UrlsSettings) -> str:
    """Scheme, host and port as in the key."""
    if rules.fold_www:
        site = _WWW.sub("", site)
    if rules.fold_scheme and site.startswith("http:") and ":" not in site[5:].rpartition("]")[2]:
        site = "https" + site[4:]
    return site


def known_path(path: str, rules: UrlsSettings) -> str:
    """The path as in the key."""
    if CLEAN_PATH.fullmatch(path) is None:
        path = _SLASHES.sub("/", _without_session(_ODD.sub(_respell, path), rules))
    if rules.fold_trailing_slash and len(path) > 1:
        path = path.removesuffix("/")
    return path


def _without_session(path: str, rules: UrlsSettings) -> str:
    """Drop `;jsessionid=…`, but never so that "..;sid=1" becomes a dot segment and the key another page's."""
    if ";" not in path:
        return path
    bare = _PATH_PARAM.sub(lambda param: "" if _fates(rules)[param[1]] == _SESSION else param[0], path)
    return path if _DOT_SEGMENT.search(bare) else bare


class _Fates(dict[str, int]):
    """What happens to a parameter, by its name. Memoised: a crawl meets few names, often."""

    def __init__(self, rules: UrlsSettings) -> None:
        super().__init__()
        self._globs = ((_any_of(rules.tracking_params), _TRACKING), (_any_of(rules.session_params), _SESSION))

    def __missing__(self, name: str) -> int:
        fate = next((fate for globs, fate in self._globs if globs.match(name)), _KEPT)
        if len(self) < 4096 and len(name) <= 64:  # bounded, so that a hostile page cannot fill it
            self[name] = fate
        return fate


_fates = lru_cache(maxsize=8)(_Fates)


def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)", re.IGNORECASE)


def queries(query: str, rules: UrlsSettings) -> tuple[str, str]:
    """A query in its fetched form and its key form, each with its question mark if it needs one.

    The key sorts by name only: the order of equal names may have a meaning. Nameless parameters and the "="
    before an empty value have none (crawler-commons drops them too).
    """
    odd = _CLEAN_QUERY.fullmatch(query) is None
    fates = _fates(rules)
    pairs = query.split("&")
    kept: list[str] = []
    known: list[tuple[str, str]] = []
    for pair in pairs:
        normal = _ODD.sub(_respell, pair) if odd else pair
        name, _, value = normal.partition("=")
        fate = fates[name]
        if fate != _TRACKING:
            kept.append(pair)
            if name and fate == _KEPT:
                known.append((name, normal if value else name))
    if len(known) > 1:
        known.sort(key=itemgetter(0))
    # An unchanged query keeps even an empty "?": the fetched form changes nothing without need.
    fetched = query if len(kept) == len(pairs) else "&".join(kept)
    mark = "?" if fetched or len(kept) == len(pairs) else ""
    return mark + fetched, "?" + "&".join([pair for _, pair in known]) if known else ""


# Unreserved characters bare, every other escape in upper case, and a stray "%" escaped.
_UNRESERVED = frozenset(ascii_letters + digits + "-._~")
_RESPELT = {chr(code): f"%{code:02X}" for code in range(128)}
for _escape in map("".join, product("%", hexdigits, hexdigits)):
    _char = chr(int(_escape[1:], 16))
    _RESPELT[_escape] = _char if _char in _UNRESERVED else _escape.upper()


def _respell(match: re.Match[str]) -> str:
    return _RESPELT[match[0]]
