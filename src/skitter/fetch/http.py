"""The Fetcher: one visit in, one outcome out, with libcurl on the event loop.

Read `fetch` first. The order provides the safety: the URL is split, its host resolved, every address checked,
a permit asked for, and only then is a connection opened, pinned to the checked address; the socket callback
checks the actual address once more. libcurl resolves nothing, follows nothing, decodes nothing, repeats nothing and ignores the
environment. A visit is one request: a retry is another visit, after the host's delay.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pycurl
from msgspec.structs import replace

from skitter import reasons, urls
from skitter.fetch import request, response
from skitter.fetch.address import Guard, Names, spelt
from skitter.fetch.keys import Keys
from skitter.fetch.multi import Multi
from skitter.fetch.transfer import Carried, Flight, Order, Target, Transfer, Way, target
from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    NotModified,
    NotNow,
    Outcome,
    Purpose,
    Reason,
    Redirected,
    Refused,
    Visit,
)
from skitter.ports import Cache, Clock, Permits
from skitter.robots import MAX_SIZE
from skitter.runtime.metrics import BodyMetrics, ConnectionMetrics, Metrics, PermitMetrics
from skitter.settings import FetchSettings

if TYPE_CHECKING:
    from skitter.fetch.access import Access

_FAULTS = {
    pycurl.E_UNSUPPORTED_PROTOCOL: Fault.PROTOCOL,  # HTTP/0.9, an unknown version
    pycurl.E_COULDNT_CONNECT: Fault.CONNECT,
    pycurl.E_OPERATION_TIMEDOUT: Fault.TIMEOUT,
    pycurl.E_PARTIAL_FILE: Fault.RESET,
    pycurl.E_GOT_NOTHING: Fault.RESET,
    pycurl.E_SEND_ERROR: Fault.RESET,
    pycurl.E_ABORTED_BY_CALLBACK: Fault.RESET,  # the fetcher was closed
    pycurl.E_RECV_ERROR: Fault.RESET,
    pycurl.E_FILESIZE_EXCEEDED: Fault.SIZE,
    pycurl.E_OUT_OF_MEMORY: Fault.BUSY,
    pycurl.E_SSL_CONNECT_ERROR: Fault.TLS,
    pycurl.E_SSL_CERTPROBLEM: Fault.TLS,
    pycurl.E_SSL_CIPHER: Fault.TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: Fault.TLS,
    pycurl.E_SSL_CACERT_BADFILE: Fault.TLS,
    pycurl.E_SSL_SHUTDOWN_FAILED: Fault.TLS,
    pycurl.E_SSL_ISSUER_ERROR: Fault.TLS,
    pycurl.E_SSL_INVALIDCERTSTATUS: Fault.TLS,
    100: Fault.HEADERS,  # CURLE_TOO_LARGE: a line over 100 KiB, a block over 300 KiB, over 5,000 fields
}
# Messages for our own limits.
_LIMITS = {
    Fault.HEADERS: "the header fields are larger than allowed",
    Fault.SIZE: "the body is larger than allowed",
    Fault.BUSY: "all bodies in flight together are larger than allowed",
}
_E_PROXY = 97  # CURLE_PROXY
# What a SOCKS server says about the host and not about itself (RFC 1928 6): CURLPX_REPLY_CONNECTION_REFUSED,
# _GENERAL_SERVER_FAILURE, _HOST_UNREACHABLE, _NETWORK_UNREACHABLE and _TTL_EXPIRED; and that it is not allowed.
_SOCKS_HOST_FAILED = frozenset((19, 20, 21, 22, 24))
_SOCKS_NOT_ALLOWED = 23
_NO_PROXY = 10.0  # seconds until a proxy that cannot be used is tried again
# How many addresses of a host are tried for one visit; they share the connect timeout.
_MAX_ADDRESSES = 3
# Seconds until a host is tried again that could not be reached at one address and got no permit for another.
_UNREACHED = 1.0
# RFC 9309 2.5: of an oversized robots.txt the beginning counts, at least 500 KiB. Framing and coding come on
# top.
_ROBOTS_BODY = 2 * MAX_SIZE
_LARGE = 256 * 1024  # bytes of a body that is decoded at once: at most 30 ms, even in chunks of one byte
# How many hosts are remembered for closing reused connections, or for refusing HTTP/2. The oldest is dropped first, and noticed
# again.
_MAX_CLOSERS = 50_000


class HttpFetcher:
    """Fetches by HTTP/1.1, or HTTP/2 where a server offers it. Implements `skitter.ports.Fetcher`."""

    def __init__(
        self,
        settings: FetchSettings,
        cache: Cache,
        clock: Clock,
        permits: Permits | None = None,
        access: "Access | None" = None,
        keys: Keys | None = None,
    ) -> None:
        """Any number of requests may go to one address without `permits`, and to one domain or group without `keys`.

        Without `access`, all carry the same.
        """
        self._settings = settings
        self._permits = permits
        self._keys = keys
        self._is_limited = permits is not None or keys is not None
        self._access = access
        self._clock = clock
        self._usual = Carried(request.identity(settings))
        self._guard = Guard(settings.allow_private)
        self._names = Names(settings, cache)
        self._flight = Flight(settings.max_in_flight)
        # One handle is created at once, so that invalid settings fail here.
        self._spare = [Transfer(settings, self._guard.refusal, self._flight)]
        self._others: dict[Way, list[Transfer]] = {}  # handles for other ways; none ever changes its way
        self._multi: Multi | None = None
        # Hosts that closed a reused connection instead of answering: each of their requests gets a new
        # connection.
        self._closers: dict[str, None] = {}
        self._refusers: dict[str, None] = {}  # those that refused a request of HTTP/2 get HTTP/1.1
        self._opened = 0
        self._requests = 0
        self._put_off = 0

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        """Make the one request that the visit permits."""
        where = target(visit.link.url)
        if isinstance(where, Reason):
            return Refused(where)
        begun = self._clock.monotonic()
        answer = await self._names.lookup(where.host)
        if answer.problem:
            fault = Fault.NXDOMAIN if answer.definite else Fault.DNS
            return Failed(fault, f"{where.host}: {answer.problem}", None)
        allowed = [address for address in answer.addresses if self._guard.refusal(address) is None]
        if not allowed:
            local = self._guard.refusal("127.0.0.1") if urls.is_localhost(where.host) else None
            return Refused(local or self._guard.refusal(answer.addresses[0]) or Reason(reasons.ADDRESS))
        carried = self._usual
        if self._access is not None:
            found = await self._carried(self._access, visit.link.url, where)
            if isinstance(found, NotNow):
                return found
            carried = found
        if self._refusers and where.host in self._refusers:
            carried = replace(carried, way=replace(carried.way or Way(http2=False), http2=False))
        if validators:
            carried = replace(carried, lines=(*carried.lines, *request.fields(validators)))
        if visit.sends is not None:
            carried = replace(carried, lines=request.with_fields(carried.lines, visit.sends))
        outcome = await self._reach(visit, where, allowed[:_MAX_ADDRESSES], carried, begun)
        if self._access is not None and isinstance(outcome, Fetched | Redirected | NotModified):
            self._access.heard(visit.link.url, where, outcome.headers, self._clock.now())
        return outcome

    async def _carried(self, access: "Access", url: str, where: Target) -> Carried | NotNow:
        """What a request carries; the proxy's address is looked up like any other, but it is not judged: we named it."""
        carried = access.of(url, where, self._clock.now())
        if carried.way is None or carried.way.proxy is None:
            return carried
        answer = await self._names.lookup(carried.way.proxy.host)
        if answer.problem:
            return self._no_proxy(f"{carried.way.proxy.host}: {answer.problem}")
        return replace(carried, way=access.found(carried.way, answer.addresses[0]))

    def _no_proxy(self, problem: str) -> NotNow:
        """Nothing was sent to the host, and it is not to blame: the page waits."""
        return NotNow(
            Reason(reasons.PROXY, f"the proxy cannot be used: {problem}"), self._clock.now() + _NO_PROXY
        )

    def metrics(self) -> Metrics:
        """Names, connections, bodies and permits in numbers."""
        reused = max(0, self._requests - self._opened)
        return Metrics(
            dns=self._names.metrics(),
            connections=ConnectionMetrics(self._requests, self._opened, reused),
            bodies=BodyMetrics(self._flight.held, self._flight.peak, self._flight.limit),
            permits=PermitMetrics(self._put_off),
        )

    async def close(self) -> None:
        """Close every connection."""
        for transfer in (*self._spare, *chain.from_iterable(self._others.values())):
            transfer.curl.close()
        self._spare.clear()
        self._others.clear()
        if self._multi is not None:
            self._multi.close()
            self._multi = None
        await self._names.close()
        if self._permits is not None:
            await self._permits.close()
        if self._keys is not None:
            await self._keys.close()

    async def _reach(
        self,
        visit: Visit,
        where: Target,
        addresses: Sequence[str],
        carried: Carried,
        begun: float,
    ) -> Outcome:
        """Make the request to the first address that may be sent to and accepts a connection."""
        outcome: Outcome | None = None
        busy: NotNow | None = None
        for left in range(len(addresses), 0, -1):
            spent = self._clock.monotonic() - begun
            connect = (self._settings.connect_timeout - spent) / left
            purpose = visit.link.purpose
            listing = purpose is Purpose.SITEMAP or purpose is Purpose.FEED
            whole = purpose is not Purpose.ROBOTS and not listing
            order = Order(
                target=where,
                address=addresses[-left],
                lines=carried.lines,
                deadline=self._settings.deadline - spent,
                connect=connect,
                limit=self._settings.max_body
                if whole
                else self._settings.max_sitemap
                if listing
                else _ROBOTS_BODY,
                whole=whole,
                kept=where.host not in self._closers,
                hidden=carried.hidden,
                way=carried.way,
                in_memory=self._settings.max_body if listing else 0,
            )
            if visit.sends is not None:
                order = replace(order, method=visit.sends.method, body=visit.sends.body)
            if not self._is_limited:
                outcome = await self._carry(visit, order)
            else:
                sent = await self._permitted(visit, order)
                if isinstance(sent, NotNow):
                    busy = sent if busy is None or sent.until < busy.until else busy
                    continue
                outcome = sent
            if not _unreached(outcome):
                return outcome
        if busy is None:
            assert outcome is not None  # noqa: S101  there is at least one address
            return outcome
        self._put_off += 1
        if outcome is None:
            return busy
        # The page may be at the other address: giving it up would be wrong, trying again at once impolite.
        return NotNow(busy.reason, max(busy.until, self._clock.now() + _UNREACHED))

    async def _permitted(self, visit: Visit, order: Order) -> Outcome:
        """Make one request to one address, if there is a permit for it now."""
        if self._keys is not None or self._permits is None:
            return await self._permitted_by_all(visit, order)
        permits, address = self._permits, spelt(order.address)
        refusal = await permits.ask(address)
        if refusal is not None:
            return refusal
        since = self._clock.monotonic()
        try:
            return await self._carry(visit, order)
        finally:
            permits.give_back(address, self._clock.monotonic() - since)

    async def _permitted_by_all(self, visit: Visit, order: Order) -> Outcome:
        """The same if there is a permit of each of its keys: address, domain, groups."""
        permits = [] if self._permits is None else [(self._permits, spelt(order.address))]
        permits += () if self._keys is None else self._keys.of(visit.link.host)
        granted: list[tuple[Permits, str]] = []
        since: float | None = None
        try:
            for each, key in permits:
                refusal = await each.ask(key)
                if refusal is not None:
                    return refusal
                granted.append((each, key))
            since = self._clock.monotonic()
            return await self._carry(visit, order)
        finally:
            for each, key in granted:
                each.give_back(key, None if since is None else self._clock.monotonic() - since)

    def begin(self) -> None:
        """Somebody else may have sent requests a moment ago: whoever had the shards of this process before."""
        if self._permits is not None:
            self._permits.begin()
        if self._keys is not None:
            self._keys.begin()

    async def _carry(self, visit: Visit, order: Order) -> Outcome:
        """Make one request to one address."""
        if self._multi is None:
            self._multi = Multi(asyncio.get_running_loop(), self._settings.keep_connections)
        spare = self._spare if order.way is None else self._others.setdefault(order.way, [])
        transfer = (
            spare.pop() if spare else Transfer(self._settings, self._guard.refusal, self._flight, order.way)
        )
        transfer.prepare(order)
        started = self._clock.now()
        try:
            code, message = await self._multi.perform(transfer.curl, transfer.peer, fresh=not order.kept)
            if transfer.refused is not None:
                return Refused(transfer.refused)
            self._requests += 1
            self._opened += transfer.curl.getinfo(pycurl.NUM_CONNECTS)
            exchange = transfer.exchange(visit.link.url, order, started, self._clock.now())
            if transfer.repeated:
                unused = self._refused if transfer.fresh else self._closed_on_reuse
                return unused(order.target.host, exchange)
            if (code and not transfer.is_enough(order)) or transfer.fault is Fault.HEADERS:
                if order.way is not None and order.way.proxy is not None and not exchange.request:
                    return self._not_through(transfer.curl, code, message, exchange)
                return failure(transfer, code, message, exchange)
            if len(exchange.body) > _LARGE:  # hostile framing takes a second to undo
                outcome = await asyncio.to_thread(response.outcome, exchange, order.limit, visit.link.purpose)
            else:
                outcome = response.outcome(exchange, order.limit, visit.link.purpose)
            if exchange.rest is not None:
                transfer.is_read = isinstance(outcome, Fetched) and outcome.status < 400
            return outcome
        finally:
            transfer.clear()
            spare.append(transfer)

    def _not_through(self, curl: pycurl.Curl, code: int, message: str, exchange: Exchange) -> Outcome:
        """The proxy made no connection: is it the proxy itself, its will, or the host?"""
        status = curl.getinfo(pycurl.HTTP_CONNECTCODE)
        socks = curl.getinfo(pycurl.PROXY_ERROR) if code == _E_PROXY else 0
        if socks in _SOCKS_HOST_FAILED or status >= 500:
            return Failed(Fault.CONNECT, f"the proxy could not connect there: {_told(message)}", exchange)
        if status == 407:
            return self._no_proxy("it asks for a login, which belongs into [proxy] of the secrets file")
        if socks == _SOCKS_NOT_ALLOWED or 400 <= status < 500:
            return Failed(Fault.PROXY, f"the proxy refuses to connect there: {_told(message)}", exchange)
        late = code == pycurl.E_OPERATION_TIMEDOUT and not curl.getinfo(pycurl.CONNECT_TIME)
        if late or (code in (pycurl.E_COULDNT_CONNECT, _E_PROXY) and not status):
            return self._no_proxy(_told(message))
        return Failed(_FAULTS.get(code, Fault.PROTOCOL), _told(message), exchange)

    def _closed_on_reuse(self, host: str, exchange: Exchange) -> Failed:
        _remember(self._closers, host)
        return Failed(Fault.REUSE, "the server closed a kept connection when it was used again", exchange)

    def _refused(self, host: str, exchange: Exchange) -> Failed:
        """A server of HTTP/2 may refuse a request, or ask for HTTP/1.1 (RFC 9113 7): that is a failure like any other."""
        _remember(self._refusers, host)
        return Failed(Fault.RESET, "the server refused the request on a new connection", exchange)


def _remember(hosts: dict[str, None], host: str) -> None:
    if len(hosts) >= _MAX_CLOSERS:
        del hosts[next(iter(hosts))]
    hosts[host] = None


def failure(transfer: Transfer, code: int, message: str, exchange: Exchange) -> Failed:
    """What it means that a transfer ended with this libcurl code, or at one of our own limits."""
    if transfer.trouble:
        return Failed(Fault.BUSY, transfer.trouble, exchange)
    if transfer.fault is not None:
        return Failed(transfer.fault, _LIMITS[transfer.fault], exchange)
    fault = _FAULTS.get(code, Fault.PROTOCOL)
    if code == pycurl.E_RECV_ERROR and "chunk" in message:
        fault = Fault.PROTOCOL  # libcurl reports bad chunked framing like a broken connection
    return Failed(fault, _told(message), exchange)


def _told(message: str) -> str:
    """A libcurl message as clean text; it may quote the server (a certificate's name, for one), cut anywhere."""
    return "".join(letter if letter.isprintable() else "?" for letter in message)


def _unreached(outcome: Outcome) -> bool:
    """Whether another address may be tried: there was no connection, so nothing was sent."""
    if not isinstance(outcome, Failed) or outcome.fault not in (Fault.CONNECT, Fault.TIMEOUT):
        return False
    return outcome.exchange is not None and not outcome.exchange.request
