"""What is sent: the request target, the header fields, and the user agent.

Every byte of the request head is composed here and handed to libcurl field by field, so the head in the
archive is the head on the wire; a test compares the two against a recording server. Neither a page nor a
setting can inject a line: a target is printable ASCII by construction, and field values with control
characters are refused earlier.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

import skitter
from skitter import reasons
from skitter.model import Reason
from skitter.settings import FetchSettings, SettingsError
from skitter.urls import IPV4, resolve

# What the WHATWG parser would leave unchanged: a lower-case domain whose last label is not a number, or four
# of them, then a target of visible ASCII. All other URLs are parsed first, so that every odd spelling of an
# address is normalised.
_PLAIN = re.compile(
    rf"(https?)://((?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*|{IPV4})(?::([0-9]{{1,5}}))?(/[\x21\x22\x24-\x7e]*)"
)
# A serialised http URL whose host can be in DNS (RFC 1123 2.1, plus the underscore that is in use): the
# standard accepts more, libcurl does not. Credentials are skipped here: they are never sent.
_SERIALISED = re.compile(
    r"(https?)://(?:[^/?#@]*@)?(\[[0-9a-f:.]+\]|(?:[a-z0-9_~-]+\.)*[a-z0-9_~-]+)(?::([0-9]{1,5}))?"
    r"(/[\x21\x22\x24-\x7e]*)"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}

# https://fetch.spec.whatwg.org/#port-blocking: services that a request can be made to speak to by accident.
# fmt: off
BAD_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
    109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
    526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
    3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# fmt: on

# RFC 9110 5.6.2 and 5.5: a field name is a token; a value is visible ASCII, with spaces and tabs between.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
# RFC 9110 10.1.5: a user agent begins with a product; ours is also the token that robots.txt files name.
_USER_AGENT = re.compile(r"[A-Za-z0-9_.-]+(?:/[!-~]+)?(?: [\x20-\x7e]*[\x21-\x7e])?")
_EMAIL = re.compile(r"[^\s@()<>]+@[^\s@()<>]+")

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"


class Target(Struct, frozen=True):
    """The parts of a URL for sending: where to connect, the Host field, the request target."""

    scheme: str
    host: str  # without brackets
    port: int
    authority: str  # the Host field: the port only when it is not the default
    path: str  # the request target in origin form, exactly as it is sent


def target(url: str) -> Target | Reason:
    """Split a URL for sending, or say why it cannot be sent."""
    match = _PLAIN.fullmatch(url)
    if match is None:
        serialised = resolve(url, url)
        if serialised is None:
            return Reason(reasons.SCHEME, f"not an http or https URL: {url[:200]!r}")
        match = _SERIALISED.fullmatch(serialised)
        if match is None:
            return Reason(reasons.URL, f"cannot be sent as it is written: {url[:200]!r}")
    scheme, host, digits, path = match.groups()
    usual = _DEFAULT_PORTS[scheme]
    port = int(digits) if digits else usual
    if port in BAD_PORTS or port > 65535:
        return Reason(reasons.PORT, f"port {port} does not serve the web")
    authority = host if port == usual else f"{host}:{port}"
    return Target(scheme, host.strip("[]"), port, authority, path)


def user_agent(settings: FetchSettings) -> str:
    """The User-Agent header: as set, or the program with its version and the contact.

    A site owner who reads a log line should learn what this is and whom to write to, or that no contact is
    named. Whatever name an operator chooses, ours follows it: Skitter does not hide.
    """
    if settings.user_agent:
        agent = settings.user_agent
    elif settings.contact:
        agent = (
            f"Skitter/{skitter.__version__} ({'+' if '://' in settings.contact else ''}{settings.contact})"
        )
    else:
        agent = f"Skitter/{skitter.__version__} (web crawler; its operator gave no contact)"
    if not _USER_AGENT.fullmatch(agent):
        raise SettingsError(
            f"fetch.user_agent or fetch.contact: {agent!r} cannot be a User-Agent; begin with a name such as "
            "ExampleBot/1.0 and use printable ASCII"
        )
    return agent if "skitter" in agent.lower() else f"{agent} Skitter/{skitter.__version__}"


def identity(settings: FetchSettings) -> tuple[str, ...]:
    """The header lines of every request, in the order sent, after Host."""
    lines = [f"User-Agent: {user_agent(settings)}"]
    if _EMAIL.fullmatch(settings.contact) and settings.contact.isascii():
        lines.append(f"From: {settings.contact}")  # RFC 9110 10.1.2: a robot SHOULD name a contact
    lines.append(f"Accept: {ACCEPT}")
    if settings.accept_language:
        if not re.fullmatch(r"[A-Za-z0-9*,;=.\- ]+", settings.accept_language):
            raise SettingsError(
                f"fetch.accept_language: {settings.accept_language!r} is not a list such as 'en, de;q=0.5'"
            )
        lines.append(f"Accept-Language: {settings.accept_language}")
    lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}")
    return tuple(lines)


def fields(validators: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Conditional header fields as lines. Their values came from a server: invalid ones are left out."""
    return tuple(
        f"{name}: {value}" for name, value in validators if _TOKEN.fullmatch(name) and _VALUE.fullmatch(value)
    )


def head(where: Target, lines: Sequence[str]) -> bytes:
    """The request head as libcurl sends it for this target, Host and these lines."""
    text = "\r\n".join((f"GET {where.path} HTTP/1.1", f"Host: {where.authority}", *lines, "", ""))
    return text.encode("ascii")
