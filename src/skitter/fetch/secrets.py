"""The secrets file: logins, tokens, header fields and client certificates, each for the sites it names.

It is not part of the settings: what is in it never gets into crawl.toml, a message or the archive. A secret is bound to an
origin: its pattern means https and the usual port unless it names others, and must name a domain. So it is sent nowhere
else, whatever a page links or redirects to. Messages name places, never values.
"""

import base64
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from skitter import urls
from skitter.fetch.transfer import Certificate, Target
from skitter.settings import SettingsError
from skitter.settings.globs import Glob, SitePattern, site_pattern
from skitter.settings.places import line_of_entry
from skitter.settings.rules import header_line

_KEYS = ("match", "user", "password", "bearer", "headers", "certificate", "key", "key_password")
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750 2.1
_PORTS = {"http": 80, "https": 443}


class Secret(Struct, frozen=True):
    """One entry: where it is sent, and what."""

    pattern: SitePattern
    login: tuple[str, ...] = ()  # header lines
    headers: tuple[str, ...] = ()
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return "Secret(…)"  # no traceback or log may show it


class Secrets(Struct, frozen=True):
    """A secrets file."""

    sites: tuple[Secret, ...] = ()
    proxy: tuple[str, str] | None = None  # user and password

    def __repr__(self) -> str:
        return "Secrets(…)"

    def of(self, where: Target) -> tuple[tuple[str, ...], Certificate | None]:
        """The header lines and the certificate for a request. The first match wins, for each of the three kinds."""
        login: tuple[str, ...] = ()
        headers: tuple[str, ...] = ()
        certificate = None
        for secret in self.sites:
            if _matches(secret.pattern, where):
                login, headers = login or secret.login, headers or secret.headers
                certificate = certificate or secret.certificate
        return login + headers, certificate


def _matches(pattern: SitePattern, where: Target) -> bool:
    return pattern.matches_site(where.scheme, where.host, where.port) and (
        pattern.path is None or pattern.path.matches(where.path)
    )


def private_text(setting: str, file: str) -> str:
    """The content of a file that nobody else may read."""
    path = Path(file)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise SettingsError(f"{setting}: {file} is not a file; name a file")
        if about.st_mode & 0o077:
            raise SettingsError(
                f"{setting}: {file} can be read by others (mode {stat.S_IMODE(about.st_mode):04o}), and it holds secrets; run:"
                f" chmod 600 {file}"
            )
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as problem:
        raise SettingsError(f"{setting}: {file}: {problem.strerror}; name a readable file") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {file} is not UTF-8 text; save it as UTF-8") from None


def read(file: str) -> Secrets:
    """Read a secrets file, or say where it is wrong."""
    text = private_text("fetch.secrets", file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        place = re.search(r"\(at (.*)\)\Z", str(problem))
        raise SettingsError(f"fetch.secrets: {file} is not TOML{f', {place[0]}' if place else ''}") from None
    others = [name for name in document if name not in ("site", "proxy")]
    if others:
        raise SettingsError(
            f"fetch.secrets: {file}:{line_of_entry(text, f'group {others[0]}', '')}: unknown section; a secrets file has"
            " [[site]] and [proxy]"
        )
    entries = document.get("site", [])
    if not isinstance(entries, list):
        raise SettingsError(
            f"fetch.secrets: {file}:{line_of_entry(text, 'site 1', '')}: write [[site]], with two brackets"
        )
    sites = []
    for number, entry in enumerate(entries, start=1):
        try:
            sites.append(_secret(entry, Path(file).parent))
        except _Wrong as wrong:
            line = line_of_entry(text, f"site {number}", wrong.key)
            key = f"{wrong.key}: " if wrong.key else ""
            raise SettingsError(f"fetch.secrets: {file}:{line}: site {number}: {key}{wrong}") from None
    return Secrets(tuple(sites), _proxy(document.get("proxy"), file))


class _Wrong(Exception):  # noqa: N818  becomes a SettingsError as soon as its line is known
    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def _secret(entry: Mapping[str, object], folder: Path) -> Secret:
    for name in entry:
        if name not in _KEYS:
            raise _Wrong(name, f"unknown key; an entry has {', '.join(_KEYS)}")
    headers = entry.get("headers", {})
    if not isinstance(headers, dict):
        raise _Wrong("headers", 'write a table, as in headers = {X-Api-Key = "…"}')
    made = Secret(
        pattern=_pattern(entry.get("match")),
        login=_login(entry),
        headers=tuple(_header(name, value) for name, value in headers.items()),
        certificate=_certificate(entry, folder),
    )
    if not (made.login or made.headers or made.certificate):
        raise _Wrong("", "it has no secret; write user and password, bearer, headers, or certificate")
    if made.certificate is not None and made.pattern.scheme != "https":
        raise _Wrong("certificate", "certificates are for https; write https:// in match")
    return made


def _pattern(match: object) -> SitePattern:
    if not isinstance(match, str):
        raise _Wrong("match", 'it names no site; write for example match = "intern.example.org"')
    try:
        given = site_pattern(match)
    except SettingsError as problem:
        raise _Wrong("match", str(problem)) from None
    if not _names_a_domain(given.host):
        raise _Wrong(
            "match",
            f"{match} is too wide for a secret; name a host, or all hosts of a domain, as in *.example.org",
        )
    scheme = given.scheme or "https"
    host = Glob((given.host.parts[0].strip("[]"),)) if len(given.host.parts) == 1 else given.host
    return SitePattern(host, scheme, given.port or _PORTS[scheme], given.path)


def _names_a_domain(host: Glob) -> bool:
    if len(host.parts) == 1:
        return True
    end = host.parts[-1]
    return end.startswith(".") and urls.registrable(end[1:]) is not None


def _login(entry: Mapping[str, object]) -> tuple[str, ...]:
    user, password, bearer = (_text(entry, name) for name in ("user", "password", "bearer"))
    if bearer is not None:
        if user is not None or password is not None:
            raise _Wrong("bearer", "a site has one login: either bearer, or user and password")
        if not _TOKEN.fullmatch(bearer):
            raise _Wrong(
                "bearer", "it is not a token (RFC 6750 2.1): letters, digits and -._~+/ with = at the end"
            )
        return (f"Authorization: Bearer {bearer}",)
    if user is None and password is None:
        return ()
    if user is None or password is None:
        raise _Wrong("user" if user is None else "password", "user and password belong together; write both")
    return (f"Authorization: Basic {basic(user, password)}",)


def basic(user: str, password: str) -> str:
    """User and password as sent (RFC 7617)."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value or any(letter < " " or letter == "\x7f" for letter in value):
        raise _Wrong(name, "it is not a line of text in quotes")
    if name == "user" and ":" in value:
        raise _Wrong(name, "a user name has no colon (RFC 7617 2)")
    return value


def _header(name: str, value: object) -> str:
    line = f"{name}: {value.strip()}" if isinstance(value, str) else ""
    try:
        header_line(line)
    except SettingsError as problem:
        raise _Wrong("headers", str(problem)) from None
    return line


def _certificate(entry: Mapping[str, object], folder: Path) -> Certificate | None:
    certificate, key, password = (_text(entry, name) for name in ("certificate", "key", "key_password"))
    if certificate is None:
        if key is not None or password is not None:
            raise _Wrong("key", "a key needs its certificate; write certificate = FILE as well")
        return None
    file = str(folder / Path(certificate).expanduser())
    key_file = str(folder / Path(key).expanduser()) if key else file
    try:
        private_text("key" if key else "certificate", key_file)
        _check_pair(file, key_file, password)
    except SettingsError as problem:
        raise _Wrong("", str(problem)) from None
    return Certificate(file, key_file, password or "")


def _check_pair(certificate: str, key: str, password: str | None) -> None:
    import ssl  # noqa: PLC0415  10 ms that few need

    def no_password() -> str:
        raise SettingsError(f"{key} is encrypted; write its key_password as well")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password or no_password)
    except OSError as problem:  # an SSLError is one, too
        raise SettingsError(
            f"{certificate} and {key} cannot be used ({problem.strerror or problem}); name PEM files of a certificate and its key"
        ) from None


def _proxy(table: object, file: str) -> tuple[str, str] | None:
    if table is None:
        return None
    if not isinstance(table, dict) or set(table) != {"user", "password"}:
        raise SettingsError(
            f"fetch.secrets: {file}: [proxy]: write user and password of the proxy, and nothing else"
        )
    try:
        user, password = _text(table, "user"), _text(table, "password")
    except _Wrong as wrong:
        raise SettingsError(f"fetch.secrets: {file}: [proxy]: {wrong}") from None
    assert user is not None  # noqa: S101  both are there
    assert password is not None  # noqa: S101
    return user, password
