"""What a request to a site carries, and which way it goes, if settings say more than the crawl's identity.

Header fields and cookies of the settings, logins and certificates of the secrets file, a proxy, HTTP/2: all chosen by the URL
of this very request. A redirect is another visit, so it gets what its own target may have, and nothing else.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skitter.fetch import cookies, request, secrets
from skitter.fetch.transfer import Carried, Proxy, Target, Way
from skitter.settings import FetchSettings, Settings
from skitter.settings.sites import Sites

_REPLACEABLE = ("accept", "accept-language")


class _Own(Struct, frozen=True):
    """What the settings of some sites amount to."""

    lines: tuple[str, ...]
    keep: bool
    jar: cookies.Jar | None
    secrets: secrets.Secrets | None
    proxy: Proxy | None
    http2: bool


class Access:
    """Answers for every URL."""

    def __init__(self, settings: Settings, sites: Sites | None) -> None:
        self._settings = settings
        self._sites = sites
        self._owns: dict[FetchSettings, _Own] = {}
        self._jars: dict[str, cookies.Jar] = {}
        self._files: dict[str, secrets.Secrets] = {}
        self._signer = None
        if settings.fetch.identity:
            from skitter.fetch.signing import Signer  # noqa: PLC0415  few crawls sign their requests

            self._signer = Signer(settings.fetch.identity)
        self._ways: dict[Way, Way] = {}  # one object for each, so that a handle sees that nothing changes
        for tree in (settings, *(sites.each() if sites else ())):
            self._own(tree.fetch)  # every file is read before the first request, and refused if it is wrong

    def of(self, url: str, where: Target, now: float) -> Carried:
        """What a request carries."""
        own = self._own((self._settings if self._sites is None else self._sites.of(url)).fetch)
        hidden: list[str] = []
        certificate = None
        if own.jar is not None and (line := own.jar.line(where, now)):
            hidden.append(f"Cookie: {line}")
        if own.secrets is not None:
            lines, certificate = own.secrets.of(where)
            hidden += lines
        way = None
        if own.proxy or certificate or own.http2 != self._settings.fetch.http2:
            way = self._one(Way(own.http2, own.proxy, certificate))
        lines = own.lines
        if self._signer is not None:  # not secret: a signature is for everybody to read, and it ends soon
            lines += self._signer.lines(where.authority, now)
        return Carried(lines, tuple(hidden), way)

    def found(self, way: Way, address: str) -> Way:
        """The same way with the address of its proxy."""
        assert way.proxy is not None  # noqa: S101  only then is there an address
        return self._one(replace(way, proxy=replace(way.proxy, address=address)))

    def heard(self, url: str, where: Target, headers: Sequence[tuple[str, str]], now: float) -> None:
        """A host has answered: keep its cookies, if that is wanted."""
        own = self._own((self._settings if self._sites is None else self._sites.of(url)).fetch)
        if own.keep and own.jar is not None:
            own.jar.keep(where, headers, now)

    def _one(self, way: Way) -> Way:
        return self._ways.setdefault(way, way)

    def _own(self, fetch: FetchSettings) -> _Own:
        own = self._owns.get(fetch)
        if own is None:
            if fetch.secrets and fetch.secrets not in self._files:
                self._files[fetch.secrets] = secrets.read(fetch.secrets)
            known = self._files.get(fetch.secrets) if fetch.secrets else None
            own = self._owns[fetch] = _Own(
                lines=with_headers(request.identity(fetch), fetch.headers),
                keep=fetch.keep_cookies,
                jar=self._jar(fetch),
                secrets=known,
                proxy=_proxy(fetch.proxy, None if known is None else known.proxy),
                http2=fetch.http2,
            )
        return own

    def _jar(self, fetch: FetchSettings) -> cookies.Jar | None:
        """One jar for each file; what hosts set is kept beside the cookies of the file."""
        if not fetch.cookies and not fetch.keep_cookies:
            return None
        if fetch.cookies not in self._jars:
            self._jars[fetch.cookies] = cookies.Jar(cookies.read(fetch.cookies) if fetch.cookies else ())
        return self._jars[fetch.cookies]


def with_headers(lines: tuple[str, ...], headers: Sequence[str]) -> tuple[str, ...]:
    """The identity with fields of the settings; some of ours may be replaced."""
    names = {line.partition(":")[0].lower() for line in headers}
    kept = [
        line
        for line in lines
        if (name := line.partition(":")[0].lower()) not in names or name not in _REPLACEABLE
    ]
    spelt = (f"{name}: {value.strip()}" for name, _, value in (line.partition(":") for line in headers))
    return (*kept, *spelt)


def _proxy(address: str, login: tuple[str, str] | None) -> Proxy | None:
    if not address:
        return None
    kind, _, rest = address.rstrip("/").partition("://")
    host, _, port = rest.rpartition(":")
    return Proxy(kind, host.strip("[]"), int(port), login)
