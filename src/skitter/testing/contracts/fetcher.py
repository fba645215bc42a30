"""The contract of ports.Fetcher, executable. Subclass it, say how yours is opened, and let pytest collect it:

    class TestMyFetcher(FetcherContract):
        def open(self, settings: FetchSettings) -> Fetcher:
            return MyFetcher(settings)

It talks to a small server on loopback, which the settings allow where a test wants to get through. A fetcher that makes
requests of its own accord (a browser does) may make more than one; what it reports must be about the one it was asked for.
"""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    Link,
    NotModified,
    Outcome,
    Redirected,
    Refused,
    Visit,
)
from skitter.ports import Fetcher
from skitter.settings import Bytes, FetchSettings, Seconds

T = TypeVar("T")
LOOPBACK = ("127.0.0.0/8",)
HTML = b"<!doctype html><title>contract</title><p>hello"


def visit(url: str) -> Visit:
    """A visit to a URL."""
    return Visit(Link(url=url, key=url, host="127.0.0.1"), 1, 0.0)


def answer(body: bytes = HTML, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer."""
    lines = (b"HTTP/1.1 " + status, b"Content-Type: text/html", *fields, b"Content-Length: %d" % len(body))
    return b"\r\n".join((*lines, b"", b"")) + body


class Listener:
    """A server that sends the same bytes to every client, then closes or goes on (`endless`), and counts."""

    def __init__(self, reply: bytes, *, endless: bytes = b"", stall: bool = False) -> None:
        self._reply = reply
        self._endless = endless
        self._stall = stall
        self._server: asyncio.Server | None = None
        self.connections = 0
        self.requests: list[bytes] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self._reply)
            while self._endless:
                writer.write(self._endless)
                await writer.drain()
                await asyncio.sleep(0)
            if self._stall:
                await reader.read()
            await writer.drain()
        except (OSError, EOFError):
            pass  # the fetcher hung up
        finally:
            writer.close()


class FetcherContract:
    """The promises of ports.Fetcher. Each test name contains the number of its invariant."""

    def open(self, settings: FetchSettings) -> Fetcher:
        """A fetcher with these settings. It is used on a running event loop and closed there."""
        raise NotImplementedError

    # -- 1: every end is an outcome --------------------------------------------------------------------------

    def test_1_whatever_a_server_says_there_is_an_outcome(self) -> None:
        """Broken, empty, binary and truncated answers, each reported as failed or as what it was."""
        replies = [
            b"",
            b"\0\1\2\3",
            b"no HTTP at all\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
            b"HTTP/1.1 200 OK\r\nContent-",
            answer(b"not gzip", b"Content-Encoding: gzip"),
            answer(status=b"599 Whatever"),
        ]
        for reply in replies:
            outcome, _ = self._fetch(reply)
            assert isinstance(outcome, Fetched | Failed)

    def test_1_a_port_where_nobody_listens_is_a_failure(self) -> None:
        """Nothing was received, and the outcome says so."""

        async def use(fetcher: Fetcher) -> Outcome:
            async with Listener(b"") as closed:
                url = closed.url
            return await fetcher.fetch(visit(url + "/"))

        outcome = self._run(use, self._allowing())
        assert isinstance(outcome, Failed)
        assert outcome.fault is Fault.CONNECT

    def test_1_statuses_become_outcomes(self) -> None:
        """200 and 404 are answers, 304 is not modified, 302 is a redirect with an absolute target."""
        assert isinstance(self._fetch(answer())[0], Fetched)
        assert isinstance(self._fetch(answer(status=b"404 Not Found"))[0], Fetched)
        assert isinstance(self._fetch(b"HTTP/1.1 304 Not Modified\r\n\r\n")[0], NotModified)
        moved, server = self._fetch(answer(b"", b"Location: /there?x#y", status=b"302 Found"))
        assert isinstance(moved, Redirected)
        assert moved.target == server.url + "/there?x"

    # -- 2: no connection to a refused address ---------------------------------------------------------------

    def test_2_nothing_private_is_connected_to_unless_allowed(self) -> None:
        """By address in several spellings, by name, and by a name that settings map there."""

        async def use(fetcher: Fetcher) -> tuple[list[Outcome], int]:
            async with Listener(answer()) as server:
                port = server.url.rpartition(":")[2]
                hosts = (
                    "127.0.0.1",
                    "127.1",
                    "0x7f000001",
                    "[::ffff:127.0.0.1]",
                    "localhost",
                    "inside.example",
                )
                return [
                    await fetcher.fetch(visit(f"http://{host}:{port}/")) for host in hosts
                ], server.connections

        outcomes, connections = self._run(use, FetchSettings(resolve=("inside.example:127.0.0.1",)))
        assert connections == 0
        assert all(isinstance(outcome, Refused) for outcome in outcomes)

    def test_2_what_is_no_web_address_is_refused(self) -> None:
        """Other schemes, and an empty URL."""

        async def use(fetcher: Fetcher) -> list[Outcome]:
            return [
                await fetcher.fetch(visit(url))
                for url in ("file:///etc/passwd", "ftp://127.0.0.1/", "data:,x", "")
            ]

        assert all(isinstance(outcome, Refused) for outcome in self._run(use))

    # -- 3: byte for byte, and one request -------------------------------------------------------------------

    def test_3_an_exchange_is_what_went_over_the_wire(self) -> None:
        """Request head, response head and body, still framed and encoded."""
        packed = gzip.compress(HTML)
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
        fields = b"X-Odd-Case:  spaced \r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        reply = b"HTTP/1.1 200 Fine\r\n" + fields + chunked
        outcome, server = self._fetch(reply)
        assert isinstance(outcome, Fetched)
        assert outcome.exchange.request in server.requests
        assert outcome.exchange.head + outcome.exchange.body == reply
        assert outcome.exchange.address == "127.0.0.1"
        assert outcome.exchange.started <= outcome.exchange.ended
        assert (outcome.payload, outcome.content) == (packed, HTML)
        assert ("x-odd-case", "spaced") in outcome.headers

    def test_3_redirects_are_not_followed(self) -> None:
        """The target of a redirect is not requested."""
        _, server = self._fetch(answer(b"", b"Location: /there", status=b"301 Moved"))
        assert not any(request.startswith(b"GET /there") for request in server.requests)

    def test_3_validators_are_sent(self) -> None:
        """And what would break the request head is not."""

        async def use(fetcher: Fetcher) -> bytes:
            async with Listener(answer()) as server:
                await fetcher.fetch(
                    visit(server.url + "/"), [("If-None-Match", '"a"'), ("If-Match", "x\r\nEvil: 1")]
                )
                return server.requests[0]

        request = self._run(use, self._allowing())
        assert b'\r\nIf-None-Match: "a"\r\n' in request
        assert b"Evil" not in request

    # -- 4: everything is bounded ----------------------------------------------------------------------------

    def test_4_a_body_has_a_limit_on_the_wire_and_once_decoded(self) -> None:
        """With a declared length, endless, and compressed."""
        limit = self._allowing(max_body=Bytes(10_000))
        assert self._fault(answer(bytes(20_000)), limit) is Fault.SIZE
        assert self._fault(b"HTTP/1.1 200 OK\r\n\r\n", limit, endless=bytes(5000)) is Fault.SIZE
        assert (
            self._fault(answer(gzip.compress(bytes(20_000)), b"Content-Encoding: gzip"), limit) is Fault.BOMB
        )

    def test_4_a_header_block_has_a_limit(self) -> None:
        """Endless header fields."""
        limit = self._allowing(max_headers=Bytes(10_000))
        assert (
            self._fault(b"HTTP/1.1 200 OK\r\n", limit, endless=b"X: " + b"y" * 1000 + b"\r\n")
            is Fault.HEADERS
        )

    def test_4_a_request_has_a_deadline_and_keeps_what_there_was(self) -> None:
        """A server that starts and never ends."""

        async def use(fetcher: Fetcher) -> Outcome:
            async with Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", stall=True) as server:
                return await fetcher.fetch(visit(server.url + "/"))

        outcome = self._run(use, self._allowing(deadline=Seconds(0.5)))
        assert isinstance(outcome, Failed)
        assert outcome.fault is Fault.TIMEOUT
        assert outcome.exchange is not None
        assert outcome.exchange.body == b"abc"

    def test_4_bodies_in_flight_have_a_limit_together(self) -> None:
        """One body that alone exceeds the limit for all."""
        limit = self._allowing(max_in_flight=Bytes(10_000))
        assert self._fault(answer(bytes(20_000)), limit) is Fault.BUSY

    # -- how -------------------------------------------------------------------------------------------------

    def _allowing(self, **settings: float) -> FetchSettings:
        return FetchSettings(allow_private=LOOPBACK, **settings)  # type: ignore[arg-type]

    def _fetch(self, reply: bytes) -> tuple[Outcome, Listener]:
        async def use(fetcher: Fetcher) -> tuple[Outcome, Listener]:
            async with Listener(reply) as server:
                return await fetcher.fetch(visit(server.url + "/")), server

        return self._run(use, self._allowing())

    def _fault(self, reply: bytes, settings: FetchSettings, endless: bytes = b"") -> Fault:
        async def use(fetcher: Fetcher) -> Outcome:
            async with Listener(reply, endless=endless) as server:
                return await fetcher.fetch(visit(server.url + "/"))

        outcome = self._run(use, settings)
        assert isinstance(outcome, Failed), outcome
        assert isinstance(outcome.exchange, Exchange)
        return outcome.fault

    def _run(self, use: Callable[[Fetcher], Awaitable[T]], settings: FetchSettings | None = None) -> T:
        async def main() -> T:
            fetcher = self.open(settings or FetchSettings())
            try:
                return await asyncio.wait_for(use(fetcher), 60)
            finally:
                await fetcher.close()

        return asyncio.run(main())
