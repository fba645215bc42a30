"""The Fetcher: one visit in, one outcome out, with libcurl on the event loop.

Read `fetch` first. The order provides the safety: the URL is split, its host resolved, every address checked,
a permit asked for, and only then is a connection opened, pinned to the checked address; the socket callback
checks the actual address once more. libcurl resolves nothing, follows nothing, decodes nothing, repeats nothing and ignores the
environment. A visit is one request: a retry is another visit, after the host's delay.
"""

import asyncio
from collections.abc import Sequence

import pycurl

from skitter import reasons, urls
from skitter.fetch import request, response
from skitter.fetch.address import Guard, Names, spelt
from skitter.fetch.multi import Multi
from skitter.fetch.transfer import Flight, Order, Target, Transfer, target
from skitter.metrics import BodyMetrics, ConnectionMetrics, Metrics, PermitMetrics
from skitter.model import Exchange, Failed, Fault, NotNow, Outcome, Purpose, Reason, Refused, Visit
from skitter.ports import Cache, Clock, Permits
from skitter.robots import MAX_SIZE
from skitter.settings import FetchSettings

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
# How many addresses of a host are tried for one visit; they share the connect timeout.
_MAX_ADDRESSES = 3
# Seconds until a host is tried again that could not be reached at one address and got no permit for another.
_UNREACHED = 1.0
# RFC 9309 2.5: of an oversized robots.txt the beginning counts, at least 500 KiB. Framing and coding come on
# top.
_ROBOTS_BODY = 2 * MAX_SIZE
_LARGE = 256 * 1024  # bytes of a body that is decoded at once: at most 30 ms, even in chunks of one byte
# How many hosts are remembered for closing reused connections. The oldest is dropped first, and noticed
# again.
_MAX_CLOSERS = 50_000


class HttpFetcher:
    """Fetches by HTTP/1.1. Implements `skitter.ports.Fetcher`."""

    def __init__(
        self, settings: FetchSettings, cache: Cache, clock: Clock, permits: Permits | None = None
    ) -> None:
        """Without `permits`, any number of requests may go to one address."""
        self._settings = settings
        self._permits = permits
        self._clock = clock
        self._identity = request.identity(settings)
        self._guard = Guard(settings.allow_private)
        self._names = Names(settings, cache)
        self._flight = Flight(settings.max_in_flight)
        # One handle is created at once, so that invalid settings fail here.
        self._spare = [Transfer(settings, self._guard.refusal, self._flight)]
        self._multi: Multi | None = None
        # Hosts that closed a reused connection instead of answering: each of their requests gets a new
        # connection.
        self._closers: dict[str, None] = {}
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
        lines = (*self._identity, *request.fields(validators)) if validators else self._identity
        return await self._reach(visit, where, allowed[:_MAX_ADDRESSES], lines, begun)

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
        for transfer in self._spare:
            transfer.curl.close()
        self._spare.clear()
        if self._multi is not None:
            self._multi.close()
            self._multi = None
        await self._names.close()
        if self._permits is not None:
            await self._permits.close()

    async def _reach(
        self,
        visit: Visit,
        where: Target,
        addresses: Sequence[str],
        lines: tuple[str, ...],
        begun: float,
    ) -> Outcome:
        """Make the request to the first address that may be sent to and accepts a connection."""
        outcome: Outcome | None = None
        busy: NotNow | None = None
        for left in range(len(addresses), 0, -1):
            spent = self._clock.monotonic() - begun
            connect = (self._settings.connect_timeout - spent) / left
            whole = visit.link.purpose is not Purpose.ROBOTS
            order = Order(
                target=where,
                address=addresses[-left],
                lines=lines,
                deadline=self._settings.deadline - spent,
                connect=connect,
                limit=self._settings.max_body if whole else _ROBOTS_BODY,
                whole=whole,
                kept=where.host not in self._closers,
            )
            if self._permits is None:
                outcome = await self._carry(visit, order)
            else:
                sent = await self._permitted(visit, order, self._permits)
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

    async def _permitted(self, visit: Visit, order: Order, permits: Permits) -> Outcome:
        """Make one request to one address, if there is a permit for it now."""
        address = spelt(order.address)
        refusal = await permits.ask(address)
        if refusal is not None:
            return refusal
        since = self._clock.monotonic()
        try:
            return await self._carry(visit, order)
        finally:
            permits.give_back(address, self._clock.monotonic() - since)

    async def _carry(self, visit: Visit, order: Order) -> Outcome:
        """Make one request to one address."""
        if self._multi is None:
            self._multi = Multi(asyncio.get_running_loop(), self._settings.keep_connections)
        transfer = (
            self._spare.pop() if self._spare else Transfer(self._settings, self._guard.refusal, self._flight)
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
                return self._closed_on_reuse(order.target.host, exchange)
            if (code and not exchange.cut) or transfer.fault is Fault.HEADERS:
                return failure(transfer, code, message, exchange)
            if len(exchange.body) > _LARGE:  # hostile framing takes a second to undo
                return await asyncio.to_thread(response.outcome, exchange, order.limit, visit.link.purpose)
            return response.outcome(exchange, order.limit, visit.link.purpose)
        finally:
            transfer.clear()
            self._spare.append(transfer)

    def _closed_on_reuse(self, host: str, exchange: Exchange) -> Failed:
        if len(self._closers) >= _MAX_CLOSERS:
            del self._closers[next(iter(self._closers))]
        self._closers[host] = None
        return Failed(Fault.REUSE, "the server closed a kept connection when it was used again", exchange)


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
