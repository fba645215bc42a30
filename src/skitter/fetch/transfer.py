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
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import BinaryIO

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
_SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_…; pycurl has no name for it
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


HIDDEN = "(not archived)"


def head(where: Target, lines: Sequence[str], hidden: Sequence[str] = (), method: str = "GET") -> bytes:
    """The request head as libcurl sends it for this target, Host and these lines; of those to hide, the names."""
    if hidden:
        lines = (*lines, *(f"{line.partition(':')[0]}: {HIDDEN}" for line in hidden))
    text = "\r\n".join((f"{method} {where.path} HTTP/1.1", f"Host: {where.authority}", *lines, "", ""))
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


class Certificate(Struct, frozen=True):
    """A client certificate: PEM files, and the password of the key if it has one."""

    file: str
    key: str
    password: str = ""

    def __repr__(self) -> str:
        return f"Certificate({self.file})"


class Proxy(Struct, frozen=True):
    """A proxy, and the login for it."""

    kind: str  # http or socks5
    host: str
    port: int
    login: tuple[str, str] | None = None
    address: str = ""  # of its host, as looked up

    def __repr__(self) -> str:
        return f"Proxy({self.kind}://{self.host}:{self.port})"


class Way(Struct, frozen=True):
    """How a request travels, if not as those of the whole crawl do."""

    http2: bool
    proxy: Proxy | None = None
    certificate: Certificate | None = None


class Carried(Struct, frozen=True):
    """What one request carries besides its target."""

    lines: tuple[str, ...]
    hidden: tuple[str, ...] = ()  # secrets
    way: Way | None = None

    def __repr__(self) -> str:
        return "Carried(…)"


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
    hidden: tuple[str, ...] = ()  # header lines with secrets: sent, but only their names are archived
    way: Way | None = None
    in_memory: int = 0  # what follows so many bytes goes to a temporary file; 0: all are held in memory
    method: str = "GET"
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Order({self.target})"  # no traceback or log may show what is hidden


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
        self,
        settings: FetchSettings,
        guard: Callable[[str], Reason | None],
        flight: Flight,
        way: Way | None = None,
    ) -> None:
        self.curl = pycurl.Curl()
        self.fault: Fault | None = None  # our limit that ended the transfer
        self.trouble = ""  # what this machine lacked
        self.peer = ""  # the other end of the connection
        self.refused: Reason | None = None  # why the guard refused the connection
        self.repeated = False  # libcurl wanted to repeat the request, and was not allowed to
        self.fresh = False  # a connection was opened for it
        self._guard = guard
        self._flight = flight
        self._max_body = int(settings.max_body)
        self._max_headers = min(settings.max_headers, _HEAD_END)
        self._lines: list[bytes] = []
        self._chunks: list[bytes] = []
        self._received = 0
        self._in_memory = 0  # most bytes of them; 0 for all
        self._spool: BinaryIO | None = None  # what follows
        self.is_read = False  # somebody reads and closes that
        self._spooled = 0
        self._asked = False  # the request is being or was sent
        self._keeps = settings.keep_connections > 0
        self._http2 = settings.http2
        self._way = way
        self._via = way.proxy.address if way is not None and way.proxy is not None else ""
        self._how = "" if way is None else repr(way)
        self._route: _Route | None = None  # the options of the last request
        self._limits: tuple[int, bool, int, int] | None = None
        self._method = "GET"
        self._configure(settings)

    def _configure(self, settings: FetchSettings) -> None:
        put = self.curl.setopt
        put(pycurl.NOSIGNAL, 1)
        put(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        put(pycurl.FOLLOWLOCATION, 0)
        put(_SUPPRESS_CONNECT_HEADERS, 1)
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
        self._travel(self._way)

    def _travel(self, way: Way | None) -> None:
        """Set how the requests travel. A tunnel leads to the checked address, whatever the scheme."""
        put = self.curl.setopt
        http2 = self._http2 if way is None else way.http2
        put(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if http2 else pycurl.CURL_HTTP_VERSION_1_1)
        if way is None or way.proxy is None:
            put(pycurl.PROXY, "")  # a proxy from the environment would connect where the guard cannot check
            put(pycurl.NOPROXY, "*")
        else:
            proxy = way.proxy
            numeric = f"[{proxy.address}]" if ":" in proxy.address else proxy.address
            put(pycurl.PROXY, f"{proxy.kind}://{numeric}:{proxy.port}")
            put(pycurl.NOPROXY, "")
            put(pycurl.HTTPPROXYTUNNEL, 1)
            if proxy.login is not None:
                put(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
                put(pycurl.PROXYUSERNAME, proxy.login[0])
                put(pycurl.PROXYPASSWORD, proxy.login[1])
        if way is not None and way.certificate is not None:
            put(pycurl.SSLCERT, way.certificate.file)
            put(pycurl.SSLKEY, way.certificate.key)
            put(pycurl.KEYPASSWD, way.certificate.password)

    def prepare(self, order: Order) -> None:
        """Prepare the handle for one request. Unchanged options are not set again: saves 5 of 8 µs."""
        put, where = self.curl.setopt, order.target
        lines = order.lines + order.hidden if order.hidden else order.lines
        route = _route(where.scheme, where.host, where.port, where.authority, order.address, lines)
        if route is not self._route:
            self._route = route
            self.peer = route.url + order.address + self._how
            put(pycurl.URL, route.url)
            put(pycurl.HTTPHEADER, route.fields)
            put(pycurl.CONNECT_TO, route.connect_to)
        put(pycurl.REQUEST_TARGET, where.path)
        if order.method != "GET" or self._method != "GET":
            self._set_method(order)
        self._max_body = order.limit
        self._in_memory = order.in_memory
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

    def _set_method(self, order: Order) -> None:
        """Only a rendered page asks for anything but GET."""
        put, self._method = self.curl.setopt, order.method
        put(pycurl.NOBODY, 0)
        if order.method == "POST":
            put(pycurl.POST, 1)
            put(pycurl.POSTFIELDS, order.body)
        elif order.method == "HEAD":
            put(pycurl.NOBODY, 1)
        else:
            put(pycurl.HTTPGET, 1)

    def exchange(self, url: str, order: Order, started: float, ended: float) -> Exchange:
        """What was sent and received so far. Sets `fault` if the header block was too long."""
        self._check_head()
        # Through a proxy there may have been a request to the proxy alone, and the address is the proxy's.
        sent = self._asked if self._via else self.curl.getinfo(pycurl.REQUEST_SIZE)
        answer = self._head()
        is_http2 = answer.startswith(b"HTTP/2 ")  # as libcurl writes it; HTTP/2.0 is what an odd server wrote
        return Exchange(
            url=url,
            address=(not self._via and self.curl.getinfo(pycurl.PRIMARY_IP)) or order.address,
            started=started,
            ended=ended,
            request=head(order.target, order.lines, order.hidden, order.method) + order.body if sent else b"",
            head=b"HTTP/1.1" + answer[len(b"HTTP/2") :] if is_http2 else answer,
            body=b"".join(self._chunks),
            cut=self.is_enough(order) or self._spool is not None,
            protocol="h2" if is_http2 else "",
            rest=self._spool,
            beyond=self._spooled,
        )

    def is_enough(self, order: Order) -> bool:
        """Whether the transfer was ended at our limit, and the beginning is all that is wanted."""
        return self.fault is Fault.SIZE and not order.whole

    def _head(self) -> bytes:
        """The header block of the final answer as received, without interim answers (RFC 9110 15.2).

        Of HTTP/2, libcurl delivers trailers as well; they are behind the block, like those of a chunked body.
        """
        lines = self._lines
        empty = lines.count(b"\r\n") + lines.count(b"\n")
        if empty > 1 or (empty and lines[-1] not in _EMPTY_LINES):
            ends = [-1, *(at for at, line in enumerate(lines) if line in _EMPTY_LINES)]
            starts = [at + 1 for at in ends if lines[at + 1 : at + 2] and lines[at + 1].startswith(b"HTTP/")]
            end = next((at for at in ends if at >= starts[-1]), len(lines)) if starts else len(lines)
            lines = lines[starts[-1] if starts else 0 : end + 1]
        return b"".join(lines)

    def clear(self) -> None:
        """Drop the answer."""
        self._flight.hold(self._spooled - self._received)
        self._received = self._spooled = 0
        if self._spool is not None and not self.is_read:
            self._spool.close()
        self._spool, self.is_read = None, False  # it belongs to the exchange
        self._lines.clear()
        self._chunks.clear()
        self.fault = None
        self.refused = None
        self.trouble = ""
        self.repeated = self.fresh = self._asked = False

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
        if self._in_memory and self._received >= self._in_memory:
            stored = self._put_aside(chunk)
            return stored if self.fault is None else -1
        if self.fault is None and self._flight.held + len(chunk) > self._flight.limit:
            self.fault = Fault.BUSY
            return -1
        self._chunks.append(chunk)
        self._received += len(chunk)
        self._flight.hold(len(chunk))
        return None if self.fault is None else -1

    def _put_aside(self, chunk: bytes) -> int | None:
        try:
            if self._spool is None:
                self._spool = tempfile.TemporaryFile()  # noqa: SIM115  closed by whoever reads it
            self._spool.write(chunk)
        except OSError as problem:
            self.trouble = f"no room for a large body: {problem.strerror}"
            return -1
        self._received += len(chunk)
        self._spooled += len(chunk)
        return None

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
        self.refused = self._guard(name) if name != self._via else None
        if self.refused is not None:
            return _NO_SOCKET
        self.fresh = True
        try:
            return _Socket(family, kind, protocol)
        except OSError as problem:
            self.trouble = f"no socket available: {problem.strerror}"
            return _NO_SOCKET


class _Socket(socket.socket):
    """A socket that lives until pycurl has duplicated it."""

    def __del__(self) -> None:
        self.close()
