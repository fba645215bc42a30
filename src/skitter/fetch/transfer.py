"""One reusable libcurl handle: the request it sends, its options, its limits, and the answer it collects.

Every byte of the request head is handed to libcurl, the target from here and the fields from `request`, so
the head in the archive is the head on the wire; a test compares the two against a recording server. A target
is printable ASCII by construction: no URL can inject a line.

A handle is configured once; a request sets only what differs. libcurl delivers header fields and body as
received, with chunked framing and content coding; this counts the bytes as they arrive and aborts at the
first byte over a limit.
"""

import re
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache

import pycurl
from msgspec import Struct

from skitter import reasons
from skitter.fetch.trust import authorities
from skitter.model import Exchange, Fault, Reason
from skitter.settings import FetchSettings
from skitter.urls import IPV4, resolve

# Longer than the longest Crawl-delay that is accepted (300 s by default): the next visit finds the connection
# open if the server still has it. libcurl notices one that the server has closed before it is used.
_IDLE_CONNECTION = 330
# Larger reads mean fewer callbacks per body; the buffer is shared by all transfers of a CurlMulti.
_READ_BUFFER = 128 * 1024
# MAX_HTTP_RESP_HEADER_SIZE of libcurl: all header blocks of one transfer, including interim answers.
_HEAD_END = 300 * 1024
_NO_SOCKET: int = pycurl.SOCKET_BAD
_EMPTY_LINES = (b"\r\n", b"\n")

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


def head(where: Target, lines: Sequence[str]) -> bytes:
    """The request head as libcurl sends it for this target, Host and these lines."""
    text = "\r\n".join((f"GET {where.path} HTTP/1.1", f"Host: {where.authority}", *lines, "", ""))
    return text.encode("ascii")


class Flight:
    """Bytes of bodies held by all transfers together."""

    __slots__ = ("held", "limit", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0

    def hold(self, size: int) -> None:
        """Add to the count; a negative size subtracts."""
        self.held += size
        self.peak = max(self.peak, self.held)


class Order(Struct, frozen=True):
    """The parameters of one transfer."""

    target: Target
    address: str
    lines: tuple[str, ...]
    deadline: float  # seconds from now
    connect: float
    limit: int  # maximum number of body bytes read
    whole: bool = True  # whether an answer over the limit is useless; False: keep its beginning
    kept: bool = True  # whether a connection may be reused, and kept afterwards


class _Route(Struct, frozen=True):
    """How a peer is reached, in libcurl's terms."""

    url: str  # only names the peer: the request is REQUEST_TARGET, byte for byte
    fields: list[str]
    connect_to: list[str]  # libcurl connects here whatever the host is; certificate and SNI use the name


@lru_cache(maxsize=4096)
def _route(scheme: str, host: str, port: int, authority: str, address: str, lines: tuple[str, ...]) -> _Route:
    numeric = f"[{address}]" if ":" in address else address
    name = f"[{host}]" if ":" in host else host
    return _Route(f"{scheme}://{name}:{port}/", [f"Host: {authority}", *lines], [f"::{numeric}:{port}"])


class Transfer:
    """A Curl handle with buffers for one answer."""

    def __init__(
        self, settings: FetchSettings, guard: Callable[[str], Reason | None], flight: Flight
    ) -> None:
        self.curl = pycurl.Curl()
        self.fault: Fault | None = None  # our limit that ended the transfer
        self.trouble = ""  # what this machine lacked
        self.peer = ""  # the other end of the connection
        self.refused: Reason | None = None  # why the guard refused the connection
        self.repeated = False  # libcurl wanted to repeat the request, and was not allowed to
        self._guard = guard
        self._flight = flight
        self._max_body = int(settings.max_body)
        self._max_headers = min(settings.max_headers, _HEAD_END)
        self._lines: list[bytes] = []
        self._chunks: list[bytes] = []
        self._received = 0
        self._asked = False  # the request is being or was sent
        self._keeps = settings.keep_connections > 0
        self._route: _Route | None = None  # the options of the last request
        self._limits: tuple[int, bool, int, int] | None = None
        self._configure(settings)

    def _configure(self, settings: FetchSettings) -> None:
        put = self.curl.setopt
        put(pycurl.NOSIGNAL, 1)
        put(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        put(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        put(pycurl.FOLLOWLOCATION, 0)
        put(pycurl.PROXY, "")  # a proxy from the environment would connect where the guard cannot check
        put(pycurl.NOPROXY, "*")
        put(pycurl.NETRC, pycurl.NETRC_IGNORED)
        put(pycurl.HTTP_TRANSFER_DECODING, 0)
        put(pycurl.HTTP_CONTENT_DECODING, 0)
        put(pycurl.DNS_CACHE_TIMEOUT, 0)
        put(pycurl.OPENSOCKETFUNCTION, self._open)
        put(pycurl.PREREQFUNCTION, self._ask)
        put(pycurl.HEADERFUNCTION, self._lines.append)
        put(pycurl.WRITEFUNCTION, self._take)
        put(pycurl.BUFFERSIZE, _READ_BUFFER)
        put(pycurl.MAXAGE_CONN, _IDLE_CONNECTION)
        # Idle timeout, in whole seconds. libcurl averages over the last few: after some data it triggers up
        # to 6 s late.
        put(pycurl.LOW_SPEED_LIMIT, 1)
        put(pycurl.LOW_SPEED_TIME, max(1, round(settings.idle_timeout)))
        put(pycurl.SSL_VERIFYPEER, 1)
        put(pycurl.SSL_VERIFYHOST, 2)
        trusted = authorities(settings.ca_file)
        if trusted:
            put(pycurl.CAINFO, trusted)

    def prepare(self, order: Order) -> None:
        """Prepare the handle for one request. Unchanged options are not set again: saves 5 of 8 µs."""
        put, where = self.curl.setopt, order.target
        route = _route(where.scheme, where.host, where.port, where.authority, order.address, order.lines)
        if route is not self._route:
            self._route = route
            self.peer = route.url + order.address
            put(pycurl.URL, route.url)
            put(pycurl.HTTPHEADER, route.fields)
            put(pycurl.CONNECT_TO, route.connect_to)
        put(pycurl.REQUEST_TARGET, where.path)
        self._max_body = order.limit
        limits = (
            # With a limit, libcurl ends a transfer by its Content-Length, before any of the body arrives.
            order.limit if order.whole else 0,
            order.kept and self._keeps,
            max(1, int(order.deadline * 1000)),
            max(1, int(order.connect * 1000)),
        )
        if limits != self._limits:
            self._limits = limits
            put(pycurl.MAXFILESIZE_LARGE, limits[0])
            put(pycurl.FORBID_REUSE, not limits[1])
            put(pycurl.TIMEOUT_MS, limits[2])
            put(pycurl.CONNECTTIMEOUT_MS, limits[3])

    def exchange(self, url: str, order: Order, started: float, ended: float) -> Exchange:
        """What was sent and received so far. Sets `fault` if the header block was too long."""
        self._check_head()
        sent = self.curl.getinfo(pycurl.REQUEST_SIZE)
        return Exchange(
            url=url,
            address=self.curl.getinfo(pycurl.PRIMARY_IP) or order.address,
            started=started,
            ended=ended,
            request=head(order.target, order.lines) if sent else b"",
            head=self._head(),
            body=b"".join(self._chunks),
            cut=self.fault is Fault.SIZE and not order.whole,
        )

    def _head(self) -> bytes:
        """The header block of the final answer as received, without interim answers (RFC 9110 15.2)."""
        lines = self._lines
        if lines.count(b"\r\n") + lines.count(b"\n") > 1:
            ends = [at for at, line in enumerate(lines[:-1]) if line in _EMPTY_LINES]
            lines = lines[ends[-1] + 1 :]
        return b"".join(lines)

    def clear(self) -> None:
        """Drop the answer."""
        self._flight.hold(-self._received)
        self._received = 0
        self._lines.clear()
        self._chunks.clear()
        self.fault = None
        self.refused = None
        self.trouble = ""
        self.repeated = self._asked = False

    def _ask(self, *_ends: object) -> int:
        """libcurl's callback before it sends a request: allows one request per transfer.

        libcurl repeats a request by itself when a reused connection is closed on it before a byte arrived
        (RFC 9112 9.3.1 allows that). The host would get two requests in a row, and the log would have one.
        """
        self.repeated = self._asked
        self._asked = True
        return int(pycurl.PREREQFUNC_ABORT if self.repeated else pycurl.PREREQFUNC_OK)

    def _take(self, chunk: bytes) -> int | None:
        """libcurl's body callback. Any result but None ends the transfer."""
        if not self._received:
            self._check_head()
            if self.fault is not None:
                return -1
        room = self._max_body - self._received
        if len(chunk) > room:
            self.fault = Fault.SIZE
            chunk = chunk[:room]
        elif self._flight.held + len(chunk) > self._flight.limit:
            self.fault = Fault.BUSY
            return -1
        self._chunks.append(chunk)
        self._received += len(chunk)
        self._flight.hold(len(chunk))
        return None if self.fault is None else -1

    def _check_head(self) -> None:
        """Check that the header block is within its limit; libcurl stops it at `_HEAD_END` at the latest."""
        if sum(map(len, self._lines)) > self._max_headers:
            self.fault = Fault.HEADERS

    def _open(
        self, _purpose: int, peer: tuple[int, int, int, tuple[bytes | str, int]]
    ) -> socket.socket | int:
        """libcurl's socket callback, the second check: the actual address is checked here, whatever was asked for.

        A connection that libcurl wants after the request was sent could only be for repeating it (see
        `_ask`).
        """
        if self._asked:
            self.repeated = True
            return _NO_SOCKET
        family, kind, protocol, (address, *_) = peer
        name = address.decode() if isinstance(address, bytes) else address
        self.refused = self._guard(name)
        if self.refused is not None:
            return _NO_SOCKET
        try:
            return _Socket(family, kind, protocol)
        except OSError as problem:
            self.trouble = f"no socket available: {problem.strerror}"
            return _NO_SOCKET


class _Socket(socket.socket):
    """A socket that lives until pycurl has duplicated it."""

    def __del__(self) -> None:
        self.close()
