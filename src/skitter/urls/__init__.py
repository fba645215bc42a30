"""The only place that parses, resolves, canonicalises and fingerprints URLs; `keys` has the canonical half.

A URL has two forms here. What is *fetched* is the WHATWG serialisation of what the page said, without
fragment, credentials, tracking parameters and the trailing dot of a host name, and otherwise unchanged. The
*key* identifies the page: two spellings of one page should share it. It is never sent to a server, so it may
normalise more: it decodes, collapses and sorts, and drops session ids, which stay in the fetched form because
a server may insist on them.

ada parses (https://url.spec.whatwg.org/). Most links of a page are plain, though: `_PLAIN` recognises hrefs
that the standard would leave unchanged, and those are handled in Python, which is three times as fast.
Nothing here raises for any text: what is not an http or https URL is None (or "" from `host` and `origin`).
Everything takes time linear in its input, except for sorting query parameters.
"""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import xxhash
from ada_url import join_url, normalize_url

from skitter.settings import UrlsSettings
from skitter.urls import keys
from skitter.urls.suffixes import suffixes
from skitter.urls.surt import cdx_key, reordered

UrlRules = UrlsSettings
DEFAULT_RULES = UrlRules()


class Parts(NamedTuple):
    """The parts of a URL. The host is ASCII and lower case, IPv6 in brackets; the port is the effective one."""

    scheme: str
    host: str
    port: int
    path: str
    query: str


# Site, path and query of a serialised URL without fragment and credentials; None for no question mark.
_Pieces: TypeAlias = tuple[str, str, str | None]


class _Page(NamedTuple):
    """The base of links: the parts of the page's URL, its host and directory, and whether its key is spelt the same."""

    site: str
    host: str
    path: str
    query: str | None
    folder: str
    tidy: bool


# What parsing leaves unchanged, apart from dot segments: a lower-case ASCII domain whose last label is not a
# number, no default port, no empty path segments, and only characters outside every percent-encode set. A
# relative reference must not have a colon in its first segment. Plain paths may contain "%": `_is_plain`
# checks those again.
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"  # the one spelling that parsing leaves unchanged
_HOST = rf"(?:(?:[a-z0-9-]{{1,63}}\.){{,8}}[a-z]{{2,63}}|{IPV4})"
_PORT = r"(?::(?!80\b|443\b)(?:[1-5][0-9]{4}|[1-9][0-9]{0,3}))?"
_SEGMENT = r"[\w\-~!$&'()*+,=@%:.]+"
_PLAIN = re.compile(
    rf"(https?://{_HOST}{_PORT}(?=[/?#]|\Z))?"
    rf"((?:[\w\-~!$&'()*+,=@%.]+)?(?:/{_SEGMENT})*/?)"
    r"(?:\?([\w\-~!$&()*+,=@%:./?;]*))?"
    r"(?:#.*)?",
    re.ASCII | re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_HOST_PORT = re.compile(r"[^/?#:@\s]+:[0-9]{1,5}(?=[/?#]|\Z)")
_FOREIGN_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.\-]*:", re.IGNORECASE | re.ASCII)
_HEAD = re.compile(rf"(https?://({_HOST}){_PORT})")
_LONGEST_HOST = 253  # characters (RFC 1035 2.3.4: 255 octets, two of them for lengths)
_DOTS = frozenset((".", ".."))
# "a.test." is the host "a.test": the dot only says that the name is absolute (RFC 1034 3.1), and in a URL
# every name is. With two names it would have two politeness clocks, and certificates do not use the dot (RFC
# 6066 3). After another dot it stays: "1.." is a name, but "1." is an IPv4 address.
_ROOT_DOT = re.compile(r"(?<=[^./@])\.(?=(?::[0-9]+)?\Z)")


def whatwg(href: str, base: str | None = None) -> str | None:
    """Parse and serialise by the WHATWG standard, any scheme, with the fragment; None if parsing fails."""
    try:
        return normalize_url(_scalar(href)) if base is None else join_url(_scalar(base), _scalar(href))
    except ValueError:
        return None


def _scalar(text: str) -> str:
    """Text as the standard sees it, in scalar values: a lone surrogate becomes U+FFFD before parsing."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def resolve(href: str, base: str) -> str | None:
    """The http or https URL that href refers to on the page base, without fragment; None if there is none."""
    return _web(whatwg(href, base))


def fetched_form(url: str, rules: UrlRules = DEFAULT_RULES) -> str | None:
    """The form sent to the server: serialised, without fragment, credentials and tracking parameters."""
    pieces = _pieces(url)
    return None if pieces is None else _forms(*pieces, rules)[0]


def key(url: str, rules: UrlRules = DEFAULT_RULES) -> str | None:
    """The key of a page. key(key(x)) == key(x)."""
    pieces = _pieces(url)
    return None if pieces is None else _forms(*pieces, rules)[1]


def canonical(url: str, rules: UrlRules = DEFAULT_RULES) -> str | None:
    """The key of a URL typed by a person, possibly with white space around it; None unless it is http or https."""
    return key(url.strip(), rules)


_ASSET = "asset "


def asset_key(url: str) -> str:
    """The key of what a page needs to be shown, by its fetched form. No page has such a key, whatever its URL."""
    return _ASSET + url


def is_asset_key(key: str) -> bool:
    """Whether a key is that of an asset."""
    return key.startswith(_ASSET)


def too_long(host: str) -> bool:
    """Whether no host can have this name, so that no store has to hold it."""
    return len(host) > _LONGEST_HOST


def link(href: str, base: str, rules: UrlRules = DEFAULT_RULES) -> tuple[str, str, str] | None:
    """The fetched form, the key and the host of a link on the page base: `resolve` and the other steps in one pass.

    None if it is not a web URL, or its host is impossible.
    """
    plain = _PLAIN.fullmatch(href)
    page = _page(base)
    if plain is None or page is None or plain.end(1) > _LONGEST_HOST:
        return None if _FOREIGN_SCHEME.match(href) else _parsed_link(href, base, rules)
    site, path, query = plain.groups()
    if site is None:
        site, name = page.site, page.host
        if not path:
            return *_forms(site, page.path, page.query if query is None else query, rules), name
        if path[0] != "/":
            path = page.folder + path
    else:
        name = host(site)
        path = path or "/"
    if "/." in path and "%" not in path:  # "%2e" may be a dot
        path = _without_dots(path)
    if "%" in path or "xn--" in site or not page.tidy or _folds(rules):
        if "/." in path or not _is_plain(site, path):
            return _parsed_link(href, base, rules)
        return *_forms(site, path, query, rules), name
    stem = site + path
    if query is None:
        return stem, stem, name
    kept, known = keys.queries(query, rules)
    return stem + kept, stem + known, name


def _without_dots(path: str) -> str:
    """A plain path without dot segments (WHATWG URL 4.4, path state): half the cost of having it parsed."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in _DOTS:
        kept.append("")
    return "/" + "/".join(kept)


def _parsed_link(href: str, base: str, rules: UrlRules) -> tuple[str, str, str] | None:
    url = resolve(href, base)
    if url is None or too_long(name := host(url)):
        return None
    return *_forms(*_cut(url), rules), name


def seed(text: str, rules: UrlRules = DEFAULT_RULES) -> str | None:
    """The fetched form of what a person types: https unless a scheme is given; `localhost:8000` is a host."""
    text = text.strip()
    if text.startswith("//"):
        text = "https:" + text
    elif _HOST_PORT.match(text) or not _SCHEME.match(text):
        # "https://" + "/file" would name the host "file", and "./file" the host ".".
        if text.startswith(("/", "\\", ".")):
            return None
        text = "https://" + text
    return fetched_form(text, rules)


def is_localhost(host: str) -> bool:
    """Whether a name means this machine, whatever DNS says (RFC 6761 6.3)."""
    return host == "localhost" or host.endswith(".localhost")


def split(url: str) -> Parts | None:
    """The parts of an http or https URL, without credentials and fragment."""
    pieces = _pieces(url)
    if pieces is None:
        return None
    site, path, query = pieces
    scheme, _, authority = site.partition("://")
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        return Parts(scheme, authority, 443 if scheme == "https" else 80, path, query or "")
    return Parts(scheme, name, int(port), path, query or "")


def host(url: str) -> str:
    """The host of an http or https URL, "" for anything else."""
    head = _head(url)
    if head is not None:
        return head[1]
    parts = split(url)
    return "" if parts is None else parts.host


def origin(url: str) -> str:
    """Scheme, host and port (if not the default) of an http or https URL, "" for anything else."""
    head = _head(url)
    if head is not None:
        return head[0]
    pieces = _pieces(url)
    return "" if pieces is None else pieces[0]


def _head(url: str) -> tuple[str, str] | None:
    """Origin and host of a plain URL: 0.2 µs where a full split costs 0.5, and every visit asks several times."""
    slash = url.find("/", 8)  # after "https://", or the first letter of the host after "http://"
    site = url[:slash] if slash > 0 else url
    return _cached_head(site) if len(site) < 300 else None


@lru_cache(maxsize=4096)
def _cached_head(text: str) -> tuple[str, str] | None:
    head = _HEAD.fullmatch(text)
    return None if head is None or "xn--" in head[2] else (head[1], head[2])


def _web(url: str | None) -> str | None:
    """A serialised http or https URL in our form: without fragment, and without the trailing dot of its host."""
    if url is None or not url.startswith(("https://", "http://")):
        return None
    url = url.partition("#")[0]
    slash = url.find("/", 8)  # after "https://", or the first letter of the host after "http://"
    if url[slash - 1] == "." or ".:" in url[:slash]:
        return _ROOT_DOT.sub("", url[:slash]) + url[slash:]
    return url


def _cut(url: str) -> _Pieces:
    """Split a serialised http URL; it always has a path, and its only "@" before that ends the credentials."""
    start = url.index("//") + 2
    slash = url.index("/", start)
    site = url[:slash]
    if "@" in site:
        site = url[:start] + site.rpartition("@")[2]
    path, mark, query = url[slash:].partition("?")
    return site, path, query if mark else None


def _pieces(url: str) -> _Pieces | None:
    plain = _PLAIN.fullmatch(url)
    if plain is not None:
        site, path, query = plain.groups()
        if site is not None and "/." not in path and _is_plain(site, path):
            return site, path or "/", query
    serialised = _web(whatwg(url))
    return None if serialised is None else _cut(serialised)


def _is_plain(site: str, path: str) -> bool:
    """What `_PLAIN` cannot check: Punycode may be invalid, and "%2e" may be a dot segment."""
    return "xn--" not in site and ("%" not in path or "%2e" not in path.lower())


@lru_cache(maxsize=16)  # the links of a page are resolved in a row
def _page(base: str) -> _Page | None:
    pieces, name = _pieces(base), host(base)
    if pieces is None or too_long(name):
        return None
    site, path, query = pieces
    folder = path[: path.rindex("/") + 1]
    tidy = keys.CLEAN_PATH.fullmatch(folder) is not None
    return _Page(site, name, path, query, folder, tidy)


def _forms(site: str, path: str, query: str | None, rules: UrlRules) -> tuple[str, str]:
    """Both forms of a URL: fetched form, key."""
    kept, known = ("", "") if query is None else keys.queries(query, rules)
    fetched = f"{site}{path}{kept}"
    known = f"{keys.known_site(site, rules)}{keys.known_path(path, rules)}{known}"
    return fetched, fetched if known == fetched else known  # one string if both forms are the same


def _folds(rules: UrlRules) -> bool:
    return rules.fold_trailing_slash or rules.fold_www or rules.fold_scheme


def address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address of a serialised host; odd spellings of IPv4 were normalised when it was parsed."""
    try:
        if name.endswith("]"):
            return ipaddress.IPv6Address(name[1:-1])
        return ipaddress.IPv4Address(name) if name[-1:].isdigit() else None
    except ipaddress.AddressValueError:
        return None


def registrable(name: str) -> str | None:
    """The registrable domain of a host name; None for addresses and public suffixes."""
    # Nobody registers names under .local (RFC 6762 section 3), and the list takes 17 ms to read.
    if "." not in name or address(name) is not None or name.endswith((".local", ".local.")):
        return None
    return suffixes().registrable(name.removesuffix(".").lower())


def registrable_domain(name: str) -> str:
    """The registrable domain of a host, or the host itself if it has none."""
    # RFC 1035 2.3.4: no longer name exists, and invented ones must not fill the cache.
    return _cached_domain(name) if len(name) <= 254 else name


@lru_cache(maxsize=65536)
def _cached_domain(name: str) -> str:
    return registrable(name) or name.removesuffix(".")


def fingerprint(text: str, secret: int) -> int:
    """64 bits for the seen set, keyed with the crawl's secret, so that nobody can publish colliding URLs."""
    return xxhash.xxh3_64_intdigest(text.encode(), secret)


def shard(domain: str, shards: int) -> int:
    """The shard that owns a registrable domain: the same in every process and on every machine."""
    return xxhash.xxh3_64_intdigest(domain.encode()) % shards


def surt(url: str) -> str:
    """The SURT key of a URL's lines in a CDXJ index; "-" for nothing, and a URL that is not http is its own key."""
    if not url:
        return "-"
    if url.startswith("dns:"):
        return reordered(url[4:]) + ")"
    parts = split(url if _SCHEME.match(url) else "http://" + url)
    return url if parts is None else cdx_key(*parts)
