"""What came back: raw bytes in, an Outcome out. Pure.

The header block is read leniently, as browsers do; the archive keeps the block itself. libcurl has already
refused what is not HTTP.
"""

from collections.abc import Sequence

from skitter.fetch.decode import Flaw, decode, decode_transfer
from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    NotModified,
    Outcome,
    Purpose,
    Redirected,
)
from skitter.urls import resolve

Headers = Sequence[tuple[str, str]]

# RFC 9110 15.4: the statuses whose Location is the new place. 300 leaves the choice to a person.
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_CODED = ("content-encoding", "transfer-encoding")
_BLANK = " \t\r"


def outcome(exchange: Exchange, limit: int, purpose: Purpose = Purpose.PAGE) -> Outcome:
    """The outcome of a complete answer. `limit` bounds the decoded content."""
    status, headers = read_head(exchange.head)
    wrong = _unusable(exchange, status)
    if wrong is not None:
        return wrong
    if status == 304:
        return NotModified(exchange, headers)
    location = first(headers, "location") if status in _REDIRECTS else ""
    if location:
        return Redirected(exchange, status, headers, resolve(location, exchange.url) or "", location)
    if not any(name in _CODED for name, _ in headers):
        return Fetched(exchange, status, headers, exchange.body, exchange.body)
    transferred = decode_transfer(exchange.body, codings(headers, "transfer-encoding"), limit)
    decoded = decode(transferred.content, codings(headers, "content-encoding"), limit)
    # RFC 9309 2.5: what exceeds the limit of a robots.txt is not read, the rest is in force.
    if Flaw.OVERSIZE in (transferred.flaw, decoded.flaw) and purpose is not Purpose.ROBOTS:
        return Failed(Fault.BOMB, f"more than {limit} bytes once decoded", exchange)
    return Fetched(exchange, status, headers, transferred.content, decoded.content)


def _unusable(exchange: Exchange, status: int) -> Failed | None:
    """What libcurl accepts and we do not."""
    if not exchange.head.endswith((b"\n\r\n", b"\n\n")):
        return Failed(Fault.RESET, "the connection ended in the middle of the header fields", exchange)
    if status < 200:
        return Failed(Fault.PROTOCOL, f"status {status} is no final answer", exchange)
    return None


def read_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    """Status and header fields of a raw block: names lower-cased, in order, values on one line."""
    try:
        text = head.decode()
    except UnicodeDecodeError:
        text = "\n".join(_text(line) for line in head.split(b"\n"))
    status, *lines = text.split("\n")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.strip(_BLANK).lower(), value.strip(_BLANK).replace("\r", " ")))
    return _status(status), headers


def _text(raw: bytes) -> str:
    """RFC 9110 5.5: fields are ASCII; otherwise UTF-8 is likelier than Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _status(line: str) -> int:
    """The code of a status line (RFC 9112 4); 0 if there is none."""
    words = line.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0


def first(headers: Headers, name: str) -> str:
    """The value of the first field of that name, or ""."""
    for key, value in headers:
        if key == name:
            return value
    return ""


def codings(headers: Headers, name: str) -> list[str]:
    """The codings a field lists, in the order they were applied; the field may appear several times."""
    return [word for key, value in headers if key == name for word in value.lower().replace(",", " ").split()]
