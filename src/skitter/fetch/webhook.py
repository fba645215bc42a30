"""Webhooks: a JSON object sent to a URL that somebody has named, through the address guard, signed.

    Skitter-Delivery: news-20261118T020000Z         the same for every attempt
    Skitter-Timestamp: 1795053600
    Skitter-Signature: sha256=…                     HMAC-SHA256 of the timestamp, a dot and the body

A receiver computes the signature from what it got, and refuses timestamps that are old. Redirects are not followed: the one who named
the URL has not named where it leads. No proxy from the environment is used, because it would connect where the guard cannot look.
"""

import hashlib
import hmac
import socket
from urllib.parse import urlsplit

import pycurl
from msgspec import Struct

from skitter.fetch.address import Guard
from skitter.fetch.trust import authorities


class Delivery(Struct, frozen=True):
    """What is sent, and where."""

    url: str
    body: bytes  # JSON
    id: str
    at: float  # seconds since the epoch
    secret: bytes = b""  # nothing is signed without


def signature(secret: bytes, at: float, body: bytes) -> str:
    """The value of the header Skitter-Signature."""
    return "sha256=" + hmac.new(secret, f"{int(at)}.".encode() + body, hashlib.sha256).hexdigest()


def problem_of(url: str) -> str:
    """Why nothing can be sent to this URL; empty if something can."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or not url.isascii() or not url.isprintable() or " " in url:
        return "not an http or https URL"
    return "user name and password in the URL would be shown; use a signature" if "@" in parts.netloc else ""


def deliver(delivery: Delivery, guard: Guard, timeout: float = 15.0) -> str:
    """Send it, and wait for the answer; returns what went wrong, or nothing. Blocks."""
    if wrong := problem_of(delivery.url):
        return wrong
    curl, connections = pycurl.Curl(), _Connections(guard)
    try:
        _prepare(curl, delivery, timeout)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, connections.open)
        curl.perform()
        status = curl.getinfo(pycurl.RESPONSE_CODE)
    except pycurl.error as problem:
        return connections.refused or str(problem.args[-1])
    finally:
        curl.close()
        connections.close()
    return "" if 200 <= status < 300 else f"status {status}"


def _prepare(curl: pycurl.Curl, delivery: Delivery, timeout: float) -> None:
    fields = [
        "Content-Type: application/json",
        "User-Agent: skitter",
        "Expect:",
        f"Skitter-Delivery: {delivery.id}",
        f"Skitter-Timestamp: {int(delivery.at)}",
    ]
    if delivery.secret:
        fields.append(f"Skitter-Signature: {signature(delivery.secret, delivery.at, delivery.body)}")
    put = curl.setopt
    put(pycurl.URL, delivery.url)
    put(pycurl.NOSIGNAL, 1)
    put(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    put(pycurl.FOLLOWLOCATION, 0)
    put(pycurl.NETRC, pycurl.NETRC_IGNORED)
    put(pycurl.PROXY, "")
    put(pycurl.NOPROXY, "*")
    put(pycurl.TIMEOUT_MS, int(timeout * 1000))
    put(pycurl.HTTPHEADER, fields)
    put(pycurl.POST, 1)
    put(pycurl.POSTFIELDS, delivery.body)
    put(pycurl.WRITEFUNCTION, len)  # nobody reads the answer
    if trusted := authorities(""):
        put(pycurl.CAINFO, trusted)


class _Connections:
    """Opens sockets where the guard allows it: it sees the address that is connected to, whatever the name meant before."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._sockets: list[socket.socket] = []
        self.refused = ""

    def open(self, _purpose: int, peer: tuple[int, int, int, tuple[bytes | str, int]]) -> socket.socket | int:
        """libcurl's socket callback."""
        family, kind, protocol, (address, *_) = peer
        reason = self._guard.refusal(address.decode() if isinstance(address, bytes) else address)
        if reason is not None:
            self.refused = f"{reason.code}: {reason.detail}"
            return int(pycurl.SOCKET_BAD)
        self._sockets.append(socket.socket(family, kind, protocol))
        return self._sockets[-1]

    def close(self) -> None:
        """libcurl has used copies."""
        for each in self._sockets:
            each.close()
