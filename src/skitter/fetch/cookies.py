"""Cookies: those of a Netscape file, and on request those that hosts set. RFC 6265, as far as a crawler needs it.

A jar per host: a cookie is sent to the host that it belongs to and nowhere else (or to the hosts below its domain, if it says
so), by its path, and only over TLS if it is secure. What hosts set is kept in memory alone and is bounded.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from skitter import urls
from skitter.fetch.secrets import private_text
from skitter.fetch.transfer import Target
from skitter.runtime import dates
from skitter.settings import SettingsError

_MAX_HOSTS = 10_000  # whose cookies are kept; then the one that set its first cookie longest ago is forgotten
_MAX_COOKIES = 50  # of a host (RFC 6265 6.1 asks for at least that many)
_MAX_SIZE = 4096  # characters of name and value
_LONGEST_PATH = 1024  # characters of a path that a host sets (RFC 6265bis 5.6: what is longer is not there)
_EXPIRY = re.compile(r"-?[0-9]{1,15}")
_SESSION = float("inf")


class Cookie(Struct, frozen=True):
    """One cookie, and where it is sent."""

    name: str
    value: str
    domain: str
    below: bool  # also to hosts below the domain
    path: str = "/"
    secure: bool = False
    expires: float = _SESSION

    def __repr__(self) -> str:
        return f"Cookie({self.name}=…)"  # no traceback or log may show its value

    def fits(self, where: Target, now: float) -> bool:
        """Whether it is sent with a request."""
        return (
            self.expires > now
            and (where.scheme == "https" or not self.secure)
            and (where.host == self.domain or (self.below and where.host.endswith(f".{self.domain}")))
            and _path_fits(self.path, where.path.partition("?")[0])
        )


def _path_fits(given: str, path: str) -> bool:
    """RFC 6265 5.1.4."""
    return path == given or (path.startswith(given) and (given.endswith("/") or path[len(given)] == "/"))


def read(file: str) -> list[Cookie]:
    """The cookies of a Netscape file, or where it is wrong."""
    found = []
    for number, line in enumerate(private_text("fetch.cookies", file).splitlines(), start=1):
        text = line.removeprefix("#HttpOnly_")
        if not text.strip() or text.startswith("#"):
            continue
        fields = text.split("\t")
        if len(fields) != 7 or not fields[5] or not _is_clean(f"{fields[5]}={fields[6]}"):
            raise SettingsError(
                f"fetch.cookies: {file}:{number}: not a cookie; a line has seven fields with a tab between: domain, subdomains"
                " (TRUE or FALSE), path, secure (TRUE or FALSE), expiry, name, value"
            )
        domain, below, path, secure, expiry, name, value = fields
        host = urls.host(f"http://{domain.lstrip('.')}/")
        if not host or not _EXPIRY.fullmatch(expiry):
            raise SettingsError(
                f"fetch.cookies: {file}:{number}: no host name, or no expiry in seconds; write 0 for a session"
            )
        if below.upper() == "TRUE" and urls.registrable(host) is None and urls.address(host) is None:
            raise SettingsError(
                f"fetch.cookies: {file}:{number}: {host} is not one site; a cookie belongs to a host or a domain"
            )
        expires = float(expiry) if int(expiry) > 0 else _SESSION
        found.append(
            Cookie(name, value, host, below.upper() == "TRUE", path or "/", secure.upper() == "TRUE", expires)
        )
    return found


class Jar:
    """The cookies of a file by domain, and those that hosts set, by host."""

    def __init__(self, cookies: Iterable[Cookie]) -> None:
        self._given: dict[str, list[Cookie]] = {}
        for cookie in cookies:
            self._given.setdefault(cookie.domain, []).append(cookie)
        self._set: dict[str, dict[tuple[str, str, str], Cookie]] = {}

    def line(self, where: Target, now: float) -> str:
        """The Cookie field of a request; empty without cookies. Longer paths first; what a host set replaces what was given."""
        found: dict[tuple[str, str, str], Cookie] = {}
        for domain in _upwards(where.host):
            for cookie in self._given.get(domain, ()):
                if cookie.fits(where, now):
                    found[cookie.name, cookie.domain, cookie.path] = cookie
            for key, cookie in self._set.get(domain, {}).items():
                found.pop(key, None)
                if cookie.fits(where, now):
                    found[key] = cookie
        ordered = sorted(found.values(), key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in ordered)

    def keep(self, where: Target, headers: Sequence[tuple[str, str]], now: float) -> None:
        """Keep what a host set (RFC 6265 5.2, 5.3). What it must not set is ignored."""
        for name, value in headers:
            cookie = _cookie(value, where, now) if name == "set-cookie" else None
            if cookie is None:
                continue
            if cookie.domain not in self._set and len(self._set) >= _MAX_HOSTS:
                del self._set[next(iter(self._set))]
            own = self._set.setdefault(cookie.domain, {})
            key = cookie.name, cookie.domain, cookie.path
            if key in own or len(own) < _MAX_COOKIES:
                own[key] = cookie


def _upwards(host: str) -> list[str]:
    """A host and the domains above it."""
    labels = host.split(".")
    return [".".join(labels[at:]) for at in range(len(labels))] if urls.address(host) is None else [host]


def _cookie(text: str, where: Target, now: float) -> Cookie | None:
    """A Set-Cookie field; None if it sets nothing that we keep."""
    pair, *attributes = text.split(";")
    name, equals, value = pair.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name or len(pair) > _MAX_SIZE or not _is_clean(f"{name}={value}"):
        return None
    said: dict[str, str] = {}
    for attribute in attributes:
        key, _, word = attribute.partition("=")
        said[key.strip().lower()] = word.strip()
    domain = said.get("domain", "").lstrip(".").lower()
    if domain and domain != where.host and not _may_set_for(where.host, domain):
        return None
    path = said.get("path", "")
    if not path.startswith("/") or len(path) > _LONGEST_PATH:
        path = where.path.partition("?")[0].rpartition("/")[0] or "/"
    if "secure" in said and where.scheme != "https":
        return None
    below = bool(domain) and _is_one_site(
        domain
    )  # RFC 6265 5.3, 5: that of a public suffix is its host's alone
    return Cookie(name, value, domain or where.host, below, path, "secure" in said, _expiry(said, now))


def _may_set_for(host: str, domain: str) -> bool:
    """Whether a host may set a cookie for a whole domain: it is below it, and the domain is one site's."""
    return host.endswith(f".{domain}") and _is_one_site(domain) and urls.address(host) is None


def _is_one_site(domain: str) -> bool:
    """Whether the hosts below a domain belong to one owner, as those below co.uk do not."""
    return urls.registrable(domain) is not None and urls.address(domain) is None


def _expiry(said: dict[str, str], now: float) -> float:
    age = said.get("max-age", "")
    if age.lstrip("-").isdigit() and age.isascii():
        return now + min(int(age[:12]), 10**10) if not age.startswith("-") else 0.0
    until = (
        dates.http(said["expires"].replace("-", " ")) if "expires" in said else None
    )  # 01-May-2024 is usual
    return _SESSION if until is None else until


def _is_clean(text: str) -> bool:
    """RFC 6265 4.1.1, and what servers really use: printable ASCII without a semicolon."""
    return text.isascii() and text.isprintable() and ";" not in text
