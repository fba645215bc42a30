"""The key of a CDX or CDXJ line: the Sort-friendly URI Reordering Transform (SURT) that web archives use.

`com,example)/path?query`: the host reversed, so that a domain's pages sort together, and normalised exactly
as the Wayback Machine does, because replay tools compute the same key from what a reader types. It folds more
than the crawl's own key (case, www, trailing slash) and is only used to find archived pages. `skitter.urls`
parses; call its `surt`.
"""

import re
from string import hexdigits
from urllib.parse import unquote_to_bytes

_WWW = re.compile(r"\Awww[0-9]*\.")
_SLASHES = re.compile(r"//+")
# Session ids as the Wayback Machine recognises them: a known name with a value of the usual length.
_SESSION_PAIR = re.compile(
    r"(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}|(?:cfid|cftoken)=.+", re.DOTALL
)
_SESSION_SUFFIX = re.compile(r";jsessionid=[0-9a-z]{32}\Z")
_SESSION_SEGMENT = re.compile(r"/(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|[0-9a-z]{24})(?=/)")


def reordered(host: str) -> str:
    """`www.example.com` as `com,example,www`; an IPv6 address loses its brackets and keeps its order."""
    if host.startswith("["):
        return host[1:-1]
    return ",".join(reversed(host.removesuffix(".").split(".")))


def cdx_key(scheme: str, host: str, port: int, path: str, query: str) -> str:
    """The key for the parts of a serialised URL. The scheme only decides which port is the default."""
    name = reordered(_WWW.sub("", host))
    place = f"{name})" if port == (443 if scheme == "https" else 80) else f"{name}:{port})"
    query = _query(_bare(query).lower()) if query else ""
    return f"{place}{_path(_bare(path).lower())}{query}"


def _path(path: str) -> str:
    path = _SESSION_SUFFIX.sub("", _SLASHES.sub("/", path))
    page = path.rfind(".aspx")
    if page != -1:
        path = _SESSION_SEGMENT.sub("", path[:page], count=1) + path[page:]
    return path.removesuffix("/") or "/"


def _query(query: str) -> str:
    pairs = [pair for pair in query.split("&") if not _SESSION_PAIR.fullmatch(pair)]
    pairs.sort(key=lambda pair: pair.split("=", 1))
    return "?" + "&".join(pairs) if any(pairs) else ""


def _bare(text: str) -> str:
    """Decode escapes until none is left, then escape only what must be (Safe Browsing's canonical form).

    One pass with a stack: an escape can only be completed by the byte that was just pushed, so "%252525…"
    takes linear time; decoding in rounds would take quadratic time.
    """
    raw = unquote_to_bytes(text)
    if b"%" in raw:
        stack = bytearray()
        for byte in raw:
            stack.append(byte)
            while stack[-3:-2] == b"%" and (escaped := _HEX.get(bytes(stack[-2:]))) is not None:
                stack[-3:] = escaped
        raw = bytes(stack)
    return _UNSAFE.sub(lambda char: f"%{ord(char[0]):02x}", raw.decode("latin-1"))


_HEX = {(high + low).encode(): bytes.fromhex(high + low) for high in hexdigits for low in hexdigits}
_UNSAFE = re.compile(r"[\x00-\x20#%\x7f-\xff]")
