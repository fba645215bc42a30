"""The fetcher against real servers on loopback, on both event loops."""

import asyncio
import errno
import gzip
import select
import socket
import threading
import time
from pathlib import Path

import pytest

from skitter.backends.memory import MemoryCache
from skitter.fetch.address import Answer
from skitter.fetch.http import HttpFetcher
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
)
from skitter.robots import MAX_SIZE
from skitter.runtime.clock import SystemClock
from skitter.runtime.metrics import ConnectionMetrics
from skitter.settings import Bytes, FetchSettings, Seconds, SettingsError
from skitter.testing.clock import VirtualClock
from skitter.testing.web import Server as WebServer
from skitter.testing.web import SyntheticWeb, serve
from tests.fetching import LOOPBACK, LOOPS, Server, answered, fetching, ok, once, run, serving, visit

BOTH_LOOPS = pytest.mark.parametrize("loop", LOOPS)


def loopback(**settings: object) -> FetchSettings:
    return FetchSettings(allow_private=LOOPBACK, **settings)  # type: ignore[arg-type]


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def fetched(outcome: Outcome) -> Fetched:
    assert isinstance(outcome, Fetched), outcome
    return outcome


def exchanged(outcome: Outcome) -> Exchange:
    assert not isinstance(outcome, Refused | NotNow)
    assert outcome.exchange is not None
    return outcome.exchange


# ------------------------------------------------------------------------------------------------ what is exchanged


@BOTH_LOOPS
def test_an_exchange_is_exactly_what_was_sent_and_received(loop: str):
    answer = ok(b"<p>hello", b"X-One:  a ", b"x-two: \xe9", b"X-One: b", status=b"200 Fine")

    async def main() -> None:
        async with serving(answer) as server, fetching() as fetcher:
            outcome = fetched(await fetcher.fetch(visit(server.url("/a/b?c=d%20e"))))
            exchange = outcome.exchange
            assert [exchange.request] == server.requests
            assert exchange.head + exchange.body == answer
            assert exchange.address == "127.0.0.1"
            assert exchange.url == server.url("/a/b?c=d%20e")
            assert outcome.status == 200
            assert outcome.headers == [
                ("x-one", "a"),
                ("x-two", "é"),
                ("x-one", "b"),
                ("content-length", "8"),
            ]
            assert outcome.payload == outcome.content == b"<p>hello"

    run(main(), loop)


PATHS = [
    "/",
    "/?",
    "/a/b.html?x=1&y=2",
    "/a//b///",
    "/%7Euser/%2e%2E/x",
    "/a|b^c`d{e}",
    "/;p=1,2:3@4!$&'()*+=~-._",
    "/?q='\"|\\^`{}[]",
    "/" + "a" * 4000,
    "/a/../b/./c",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:20])
@pytest.mark.parametrize("host", [None, "name.example", "with-dash.and_underscore.example"])
def test_the_request_head_in_the_exchange_is_the_one_on_the_wire(path: str, host: str | None):
    async def main() -> None:
        overrides = tuple(
            f"{name}:127.0.0.1" for name in ("name.example", "with-dash.and_underscore.example")
        )
        settings = loopback(resolve=overrides, contact="me@a.example", accept_language="en")
        async with serving(ok()) as server, fetching(settings) as fetcher:
            url = server.url(path, host)
            plain = exchanged(await fetcher.fetch(visit(url)))
            validators = [("If-None-Match", '"a"'), ("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT")]
            conditional = exchanged(await fetcher.fetch(visit(url), validators))
            assert [plain.request, conditional.request] == server.requests
            assert conditional.request.endswith(
                b'If-None-Match: "a"\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n'
            )
            if "/../" not in path and "%2e" not in path and not set(path) & set("|\\^`{}[]'\""):
                assert plain.request.startswith(f"GET {path} HTTP/1.1\r\nHost: ".encode())

    run(main())


def test_a_path_is_sent_as_it_is_written():
    async def main() -> bytes:
        async with serving(ok()) as server, fetching(loopback(resolve=("h.example:127.0.0.1",))) as fetcher:
            await fetcher.fetch(visit(server.url("/a/../b//%7e|{}?x=[]", "h.example")))
            return server.requests[0]

    assert run(main()).startswith(b"GET /a/../b//%7e|{}?x=[] HTTP/1.1\r\nHost: h.example:")


def test_credentials_in_a_url_are_never_sent():
    async def main() -> bytes:
        async with serving(ok()) as server, fetching() as fetcher:
            url = server.url().replace("//", "//user:secret@")
            fetched(await fetcher.fetch(visit(url)))
            return server.requests[0]

    sent = run(main())
    assert b"secret" not in sent
    assert b"uthorization" not in sent


def test_an_ipv6_host_is_reached_and_named_in_brackets():
    async def main() -> None:
        async with serving(ok(), host="::1") as server, fetching() as fetcher:
            exchange = exchanged(await fetcher.fetch(visit(server.url())))
            assert exchange.address == "::1"
            assert [exchange.request] == server.requests
            assert f"Host: [::1]:{server.port}\r\n".encode() in exchange.request

    run(main())


def test_times_are_those_of_the_clock_that_was_given():
    async def main() -> None:
        clock = VirtualClock(start=1000.0)

        async def slow(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.hear(reader)
            clock.advance(5)
            writer.write(ok())

        async with serving(slow) as server, fetching(clock=clock) as fetcher:
            exchange = exchanged(await fetcher.fetch(visit(server.url())))
            assert (exchange.started, exchange.ended) == (1000.0, 1005.0)

    run(main())


@BOTH_LOOPS
def test_interim_answers_are_left_out_and_the_final_head_is_kept(loop: str):
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    outcome = fetched(run(answered(early + b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"x")), loop))
    assert outcome.exchange.head == b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
    assert outcome.status == 200


def test_chunked_framing_is_kept_raw_and_removed_from_the_payload():
    packed = gzip.compress(b"content " * 100)
    frame = b"%x;ext=1\r\n%b\r\n" % (10, packed[:10]) + b"%X\r\n%b\r\n" % (len(packed) - 10, packed[10:])
    body = frame + b"0\r\nTrailer: x\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"

    async def main() -> None:
        async with serving(head + body) as server, fetching() as fetcher:
            for _ in range(2):  # the end of the chunks is found: the connection is used again
                outcome = fetched(await fetcher.fetch(visit(server.url())))
                assert outcome.exchange.head + outcome.exchange.body == head + body
                assert outcome.payload == packed
                assert outcome.content == b"content " * 100
            assert server.connections == 1

    run(main())


def test_a_body_in_many_small_pieces_is_put_together():
    pieces = [b"piece %d " % number for number in range(20)]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(b"".join(pieces))
    outcome = fetched(run(answered(once(head[:10], head[10:], *pieces, pause=0.001))))
    assert outcome.content == b"".join(pieces)
    assert outcome.exchange.head == head


def test_an_odd_version_stays_as_it_was_sent():
    outcome = fetched(run(answered(once(b"HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nbody"))))
    assert outcome.exchange.head.startswith(b"HTTP/2.0 200 OK\r\n")
    assert outcome.exchange.protocol == ""


def test_an_answer_without_length_ends_with_the_connection():
    outcome = fetched(run(answered(once(b"HTTP/1.0 200 OK\r\n\r\nbody"))))
    assert outcome.content == b"body"


def test_a_folded_header_field_is_one_field():
    # libcurl joins the lines before it hands them over (RFC 9112 5.2), so here the head is not byte for byte.
    outcome = fetched(run(answered(b"HTTP/1.1 200 OK\r\nX-A: one\r\n  two\r\nContent-Length: 0\r\n\r\n")))
    assert outcome.headers[0] == ("x-a", "one two")


# ------------------------------------------------------------------------------------------------ outcomes


def test_redirects_are_not_followed():
    async def main() -> None:
        answer = ok(b"over there", b"Location: /elsewhere", status=b"301 Moved")
        async with serving(answer) as server, fetching() as fetcher:
            outcome = await fetcher.fetch(visit(server.url("/dir/")))
            assert isinstance(outcome, Redirected)
            assert outcome.target == server.url("/elsewhere")
            assert outcome.exchange.body == b"over there"
            assert len(server.requests) == 1

    run(main())


def test_not_modified_is_a_separate_outcome():
    answer = b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 99999999999\r\n\r\n'
    outcome = run(answered(answer))
    assert isinstance(outcome, NotModified)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"", Fault.RESET),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", Fault.RESET),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Fault.RESET),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", Fault.RESET),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nab", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nab", Fault.PROTOCOL),
        (b"hello, this is no HTTP", Fault.PROTOCOL),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/2 200 OK\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\nxx", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nabc", Fault.SIZE),
        (b"\x16\x03\x01\x00\x05hello", Fault.PROTOCOL),
        (b"\0" * 100, Fault.PROTOCOL),
    ],
)
def test_a_broken_answer_is_a_failure_that_keeps_what_arrived(answer: bytes, fault: Fault):
    async def main() -> None:
        async with serving(once(answer)) as server, fetching() as fetcher:
            outcome = failed(await fetcher.fetch(visit(server.url())))
            exchange = exchanged(outcome)
            assert (outcome.fault, bool(outcome.detail)) == (fault, True)
            assert [exchange.request] == server.requests
            assert answer.startswith(exchange.head)

    run(main())


def test_a_reset_connection_is_a_failure():
    async def slam(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        await writer.drain()
        await asyncio.sleep(0.05)
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    outcome = failed(run(answered(slam)))
    assert outcome.fault is Fault.RESET
    assert exchanged(outcome).body == b"abc"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_refused_connection_was_timed_but_sent_nothing():
    async def main() -> None:
        async with fetching() as fetcher:
            outcome = failed(await fetcher.fetch(visit(f"http://127.0.0.1:{free_port()}/")))
            assert outcome.fault is Fault.CONNECT
            exchange = exchanged(outcome)
            assert (exchange.request, exchange.head, exchange.body) == (b"", b"", b"")
            assert exchange.started <= exchange.ended

    run(main())


def test_a_name_that_does_not_resolve_sent_nothing_at_all():
    async def main() -> None:
        async with fetching(loopback(nameservers=(f"127.0.0.1:{free_port()}",))) as fetcher:
            outcome = failed(await fetcher.fetch(visit("http://name.example/")))
            assert outcome.fault is Fault.DNS
            assert outcome.exchange is None
            assert "name.example" in outcome.detail

    run(main())


def test_the_next_address_is_tried_when_one_does_not_let_us_connect():
    async def main() -> None:
        overrides = ("h.example:127.0.0.2", "h.example:127.0.0.3", "h.example:127.0.0.1")
        async with serving(ok()) as server, fetching(loopback(resolve=overrides)) as fetcher:
            outcome = fetched(await fetcher.fetch(visit(server.url(host="h.example"))))
            assert outcome.exchange.address == "127.0.0.1"
            assert server.connections == 1

    run(main())


def test_once_a_request_has_left_no_other_address_is_tried():
    async def main() -> None:
        async with (
            serving(once(b"")) as broken,
            serving(ok(), host="127.0.0.2", port=broken.port) as sound,
            fetching(loopback(resolve=("h.example:127.0.0.1", "h.example:127.0.0.2"))) as fetcher,
        ):
            outcome = failed(await fetcher.fetch(visit(broken.url(host="h.example"))))
            assert outcome.fault is Fault.RESET
            assert (len(broken.requests), len(sound.requests)) == (1, 0)

    run(main())


class Few:
    """Permits of which only some addresses have any, and a list of what was asked and given back."""

    until = 4e9

    def __init__(self, *busy: str) -> None:
        self.busy, self.said = busy, list[str]()

    def begin(self) -> None:
        self.said.append("begin")

    async def ask(self, address: str) -> NotNow | None:
        self.said.append(f"ask {address}")
        return NotNow(Reason("address.busy"), self.until) if address in self.busy else None

    def give_back(self, address: str, used: float | None) -> None:
        assert used is not None
        assert used >= 0
        self.said.append(f"back {address}")

    async def close(self) -> None:
        self.said.append("close")


async def with_permits(permits: Few, url: str, *resolve: str, **settings: object) -> Outcome:
    names = tuple(f"h.example:{address}" for address in resolve)
    options = FetchSettings(**{"allow_private": LOOPBACK, "resolve": names} | settings)  # type: ignore[arg-type]
    clock = SystemClock()
    fetcher = HttpFetcher(options, MemoryCache(10, clock), clock, permits)
    try:
        return await fetcher.fetch(visit(url))
    finally:
        await fetcher.close()


def test_a_permit_is_held_for_as_long_as_the_request_takes():
    async def main() -> None:
        permits = Few()

        async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.hear(reader)
            assert permits.said == ["ask 127.0.0.1"]
            writer.write(ok(b"the whole answer"))

        async with serving(talk) as server:
            fetched(await with_permits(permits, server.url(host="h.example"), "127.0.0.1"))
        assert permits.said == ["ask 127.0.0.1", "back 127.0.0.1", "close"]

    run(main())


def test_without_a_permit_nothing_is_sent():
    async def main() -> None:
        permits = Few("127.0.0.1")
        async with serving(ok()) as server:
            outcome = await with_permits(permits, server.url(host="h.example"), "127.0.0.1")
            assert outcome == NotNow(Reason("address.busy"), 4e9)
            assert server.connections == 0
        assert permits.said == ["ask 127.0.0.1", "close"]

    run(main())


def test_an_address_mapped_into_ipv6_is_its_ipv4_address():
    async def main() -> None:
        permits = Few("127.0.0.1")
        url = f"http://h.example:{free_port()}/"
        mapped = (*LOOPBACK, "::ffff:0:0/96")
        assert isinstance(await with_permits(permits, url, "[::ffff:7f00:1]", allow_private=mapped), NotNow)
        assert permits.said == ["ask 127.0.0.1", "close"]

    run(main())


def test_another_address_is_used_when_the_first_has_no_permit():
    async def main() -> None:
        permits = Few("127.0.0.2")
        async with serving(ok()) as server:
            outcome = fetched(
                await with_permits(permits, server.url(host="h.example"), "127.0.0.2", "127.0.0.1")
            )
            assert outcome.exchange.address == "127.0.0.1"
        assert permits.said == ["ask 127.0.0.2", "ask 127.0.0.1", "back 127.0.0.1", "close"]

    run(main())


def test_an_address_that_cannot_be_reached_gives_its_permit_back_and_the_next_needs_its_own():
    async def main() -> None:
        permits, url = Few(), f"http://h.example:{free_port()}/"
        failed(await with_permits(permits, url, "127.0.0.2", "127.0.0.3"))
        assert permits.said == [
            "ask 127.0.0.2",
            "back 127.0.0.2",
            "ask 127.0.0.3",
            "back 127.0.0.3",
            "close",
        ]
        begun = time.time()
        permits = Few("127.0.0.3")
        permits.until = begun
        outcome = await with_permits(permits, url, "127.0.0.2", "127.0.0.3")
        assert isinstance(outcome, NotNow)  # the page may be there: it has not failed
        assert outcome.until >= begun + 1  # and the first address is not tried again at once

    run(main())


def test_a_cancelled_request_gives_its_permit_back():
    async def main() -> None:
        permits = Few()

        async def silent(server: Server, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await server.hear(reader)
            await asyncio.sleep(600)

        async with serving(silent) as server:
            asking = asyncio.create_task(with_permits(permits, server.url(host="h.example"), "127.0.0.1"))
            while not server.requests:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])
        assert permits.said == ["ask 127.0.0.1", "back 127.0.0.1", "close"]

    run(main())


def test_every_fault_of_libcurl_that_is_known_has_its_place():
    from skitter.fetch.http import _FAULTS  # noqa: PLC0415

    assert set(_FAULTS.values()) >= {
        Fault.CONNECT,
        Fault.TLS,
        Fault.TIMEOUT,
        Fault.RESET,
        Fault.PROTOCOL,
        Fault.SIZE,
    }


# ------------------------------------------------------------------------------------------------ limits


def test_a_body_over_the_limit_is_cut_there():
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    outcome = failed(run(answered(once(head + b"a" * 5000), loopback(max_body=Bytes(1000)))))
    assert outcome.fault is Fault.SIZE
    assert exchanged(outcome).body == b"a" * 1000


def test_a_body_of_exactly_the_limit_is_complete():
    settings = loopback(max_body=Bytes(1000))
    assert fetched(run(answered(ok(b"a" * 1000), settings))).content == b"a" * 1000
    assert (
        fetched(run(answered(once(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 1000), settings))).content
        == b"a" * 1000
    )


def test_a_body_that_announces_too_much_is_not_waited_for():
    async def main() -> None:
        async def announce(
            server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await server.hear(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
            await reader.read()  # ends when the fetcher hangs up

        async with serving(announce) as server, fetching(loopback(max_body=Bytes(1000))) as fetcher:
            assert failed(await fetcher.fetch(visit(server.url()))).fault is Fault.SIZE

    run(main())


def test_a_header_block_over_the_limit_fails_with_or_without_a_body():
    fields = [b"X-Long: " + b"a" * 200] * 10
    settings = loopback(max_headers=Bytes(1000))
    for answer in (
        ok(b"body", *fields),
        ok(b"", *fields),
        ok(b"", *fields, b"Location: /x", status=b"302 Found"),
    ):
        assert failed(run(answered(answer, settings))).fault is Fault.HEADERS
    assert fetched(run(answered(ok(b"body", *fields[:3]), settings))).content == b"body"


def test_bodies_in_flight_share_one_limit_and_give_it_back():
    async def main() -> None:
        gate = asyncio.Event()

        async def half(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await server.hear(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b"a" * 600)
            if b"/slow" in request:
                await gate.wait()
            writer.write(b"a" * 300)

        async with serving(half) as server, fetching(loopback(max_in_flight=Bytes(2000))) as fetcher:
            slow = [asyncio.create_task(fetcher.fetch(visit(server.url(f"/slow/{n}")))) for n in range(2)]
            while fetcher.metrics().bodies.held < 1200:
                await asyncio.sleep(0.005)
            assert failed(await fetcher.fetch(visit(server.url("/third")))).fault is Fault.BUSY
            gate.set()
            assert [fetched(outcome).content for outcome in await asyncio.gather(*slow)] == [b"a" * 900] * 2
            assert fetcher.metrics().bodies.held == 0
            assert fetcher.metrics().bodies.peak <= 2000
            assert fetched(await fetcher.fetch(visit(server.url("/fourth")))).content == b"a" * 900

    run(main())


def stall(first: bytes = b""):
    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(first)
        await reader.read()

    return talk


@BOTH_LOOPS
@pytest.mark.parametrize(
    "first", [b"", b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]
)
def test_the_deadline_ends_a_request_at_any_stage(first: bytes, loop: str):
    outcome = failed(
        run(answered(stall(first), loopback(deadline=Seconds(0.3), idle_timeout=Seconds(1000.0))), loop)
    )
    assert outcome.fault is Fault.TIMEOUT
    assert exchanged(outcome).request != b""


def test_a_server_that_drips_forever_meets_the_deadline():
    async def drip(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\na\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    outcome = failed(run(answered(drip, loopback(deadline=Seconds(0.5), idle_timeout=Seconds(10.0)))))
    assert outcome.fault is Fault.TIMEOUT
    assert exchanged(outcome).body.startswith(b"1\r\na\r\n")


def test_silence_ends_a_request_long_before_the_deadline():
    outcome = failed(run(answered(stall(), loopback(deadline=Seconds(1000.0), idle_timeout=Seconds(1.0)))))
    assert outcome.fault is Fault.TIMEOUT


def test_a_peer_that_never_finishes_the_handshake_meets_the_connect_timeout():
    async def mute(_server: Server, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        settings = loopback(connect_timeout=Seconds(0.3), deadline=Seconds(50.0))
        async with serving(mute) as server, fetching(settings) as fetcher:
            url = server.url().replace("http:", "https:")
            outcome = failed(await fetcher.fetch(visit(url)))
            assert outcome.fault is Fault.TIMEOUT
            assert exchanged(outcome).request == b""

    run(main())


# ------------------------------------------------------------------------------------------------ connections


@BOTH_LOOPS
def test_a_connection_is_kept_for_the_next_visit_of_its_host_and_no_other(loop: str):
    async def main() -> None:
        settings = loopback(resolve=("a.example:127.0.0.1", "b.example:127.0.0.1"))
        async with serving(ok()) as server, fetching(settings) as fetcher:
            for host in ("a.example", "b.example") * 3:
                fetched(await fetcher.fetch(visit(server.url(host=host))))
            assert server.connections == 2
            assert fetcher.metrics().connections == ConnectionMetrics(requests=6, opened=2, reused=4)

    run(main(), loop)


@BOTH_LOOPS
def test_parallel_visits_of_a_host_share_their_connections(loop: str):
    """The answers of some arrive while others end: that is no talk on a connection that should be silent."""
    web = SyntheticWeb(hosts=1, pages_per_host=1)
    settings = loopback(resolve=tuple(f"{host}:{address}" for host, address in web.resolve_map().items()))

    async def main(server: WebServer) -> None:
        async with fetching(settings) as fetcher:

            async def one_after_the_other() -> None:
                for _ in range(40):
                    fetched(await fetcher.fetch(visit(server.url())))
                    time.sleep(0.001)  # a page is parsed; meanwhile the server, in a thread, goes on

            await asyncio.gather(*(one_after_the_other() for _ in range(10)))
            assert fetcher.metrics().connections.opened == 10

    with serve(web) as server:
        run(main(server), loop)


def test_no_connection_is_kept_when_none_is_to_be_kept():
    async def main() -> None:
        async with serving(ok()) as server, fetching(loopback(keep_connections=0)) as fetcher:
            for _ in range(3):
                fetched(await fetcher.fetch(visit(server.url())))
            assert server.connections == 3

    run(main())


def test_no_more_connections_are_kept_than_allowed():
    async def main() -> None:
        hosts = [f"h{number}.example" for number in range(6)]
        settings = loopback(keep_connections=2, resolve=tuple(f"{host}:127.0.0.1" for host in hosts))
        async with serving(ok()) as server, fetching(settings) as fetcher:
            for host in hosts:
                fetched(await fetcher.fetch(visit(server.url(host=host))))
            await asyncio.sleep(0.05)
            assert server.open_connections <= 2
            fetched(await fetcher.fetch(visit(server.url(host=hosts[-1]))))
            assert server.connections == 6

    run(main())


def test_a_kept_connection_that_the_server_closed_meanwhile_costs_nothing():
    async def main() -> None:
        async with serving(once(ok())) as server, fetching() as fetcher:
            for _ in range(3):
                fetched(await fetcher.fetch(visit(server.url())))
                await asyncio.sleep(0.05)  # the server's end of the connection arrives
            assert (server.connections, len(server.requests)) == (3, 3)

    run(main())


async def closing_on_the_second(
    server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request, hear another and hang up on it, as a server does whose idle timer fires just then."""
    await server.hear(reader)
    writer.write(ok())
    await server.hear(reader)


def paths(server: Server) -> list[bytes]:
    return [request.split()[1] for request in server.requests]


@BOTH_LOOPS
def test_a_kept_connection_that_dies_on_our_request_is_a_failure_and_nothing_is_sent_twice(loop: str):
    async def main() -> None:
        async with serving(closing_on_the_second) as server, fetching() as fetcher:
            fetched(await fetcher.fetch(visit(server.url("/first"))))
            outcome = failed(await fetcher.fetch(visit(server.url("/second"))))
            assert outcome.fault is Fault.REUSE
            assert exchanged(outcome).request == server.requests[-1]
            assert paths(server) == [b"/first", b"/second"]
            assert server.connections == 1

    run(main(), loop)


def test_only_a_host_that_closed_a_reused_connection_gets_new_ones():
    async def main() -> None:
        settings = loopback(resolve=("a.test:127.0.0.1", "b.test:127.0.0.1"))
        async with serving(closing_on_the_second) as server, fetching(settings) as fetcher:
            for number in range(2):
                await fetcher.fetch(visit(server.url(f"/{number}", "a.test")))
            for number in range(2, 6):
                fetched(await fetcher.fetch(visit(server.url(f"/{number}", "a.test"))))
                await asyncio.sleep(0.02)  # our end of the connection arrives
                assert server.open_connections == 0
            assert server.connections == 5
            fetched(await fetcher.fetch(visit(server.url("/", "b.test"))))
            assert failed(await fetcher.fetch(visit(server.url("/", "b.test")))).fault is Fault.REUSE
            assert (server.connections, len(server.requests)) == (6, 8)

    run(main())


def test_a_request_is_not_repeated_on_another_kept_connection_either():
    """libcurl takes any idle connection for that, and opens a new one only when there is none."""

    async def main() -> None:
        async with serving(closing_on_the_second) as server, fetching() as fetcher:
            urls = [server.url(f"/{number}") for number in range(3)]
            await asyncio.gather(*(fetcher.fetch(visit(url)) for url in urls))
            assert server.connections == 3
            assert failed(await fetcher.fetch(visit(server.url("/more")))).fault is Fault.REUSE
            assert paths(server).count(b"/more") == 1

    run(main())


def test_a_fresh_connection_that_dies_on_our_request_is_not_replaced():
    async def main() -> None:
        async with serving(once(b"")) as server, fetching() as fetcher:
            assert failed(await fetcher.fetch(visit(server.url()))).fault is Fault.RESET
            assert len(server.requests) == 1

    run(main())


def test_a_host_that_moves_is_reached_at_its_new_address():
    async def main() -> None:
        async with (
            serving(ok(b"old")) as old,
            serving(ok(b"new"), host="127.0.0.2", port=old.port) as new,
        ):
            addresses = iter(("127.0.0.1", "127.0.0.2"))
            async with fetching() as fetcher:
                for expected in (b"old", b"new"):
                    fetcher._names._fixed["h.example"] = Answer((next(addresses),))
                    assert fetched(await fetcher.fetch(visit(old.url(host="h.example")))).content == expected
            assert (old.connections, new.connections) == (1, 1)

    run(main())


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        async with serving(ok(b"proxy")) as proxy, serving(ok(b"origin")) as origin:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
                monkeypatch.setenv(name, proxy.url())
            monkeypatch.setenv("no_proxy", "")
            async with fetching(loopback(resolve=("h.example:127.0.0.1",))) as fetcher:
                assert fetched(await fetcher.fetch(visit(origin.url(host="h.example")))).content == b"origin"
            assert proxy.connections == 0

    run(main())


def test_no_cookie_is_ever_sent_back():
    async def main() -> None:
        async with serving(ok(b"", b"Set-Cookie: a=b")) as server, fetching() as fetcher:
            for _ in range(2):
                fetched(await fetcher.fetch(visit(server.url())))
            assert b"ookie" not in server.requests[1]

    run(main())


@BOTH_LOOPS
def test_many_transfers_at_once_do_not_mix(loop: str):
    async def main() -> None:
        async def echo(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while request := await server.hear(reader):
                writer.write(ok(request.split()[1] * 3000))
                await writer.drain()

        async with serving(echo) as server, fetching() as fetcher:
            paths = [f"/{number}" for number in range(200)]
            outcomes = await asyncio.gather(*(fetcher.fetch(visit(server.url(path))) for path in paths))
            for path, outcome in zip(paths, outcomes, strict=True):
                assert fetched(outcome).content == path.encode() * 3000
                assert fetched(outcome).exchange.url == server.url(path)

    run(main(), loop)


@BOTH_LOOPS
def test_without_epoll_the_loop_watches_the_sockets(loop: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(select, "epoll")
    test_many_transfers_at_once_do_not_mix(loop)
    test_parallel_visits_of_a_host_share_their_connections(loop)
    test_the_deadline_ends_a_request_at_any_stage(b"", loop)
    test_nothing_is_left_open_after_close(loop)


# ------------------------------------------------------------------------------------------------ ends


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@BOTH_LOOPS
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files by /proc")
def test_nothing_is_left_open_after_close(loop: str):
    async def use() -> None:
        async with serving(ok()) as server, fetching() as fetcher:
            await asyncio.gather(*(fetcher.fetch(visit(server.url(f"/{n}"))) for n in range(10)))
            await fetcher.fetch(visit(f"http://127.0.0.1:{free_port()}/"))

    async def main() -> tuple[int, int]:
        await use()
        before = open_files()
        for _ in range(3):
            await use()
        await asyncio.sleep(0.05)
        return before, open_files()

    threads = threading.active_count()
    before, after = run(main(), loop)
    assert after <= before
    assert threading.active_count() == threads


@BOTH_LOOPS
def test_a_cancelled_fetch_hangs_up_and_leaves_the_fetcher_usable(loop: str):
    async def main() -> None:
        hung_up = asyncio.Event()

        async def wait(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if b"/wait" in await server.hear(reader):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
                await reader.read()
                hung_up.set()
            else:
                writer.write(ok(b"fine"))

        async with serving(wait) as server, fetching() as fetcher:
            task = asyncio.create_task(fetcher.fetch(visit(server.url("/wait"))))
            while fetcher.metrics().bodies.held == 0:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await hung_up.wait()
            assert fetcher.metrics().bodies.held == 0
            assert fetched(await fetcher.fetch(visit(server.url("/next")))).content == b"fine"

    run(main(), loop)


@BOTH_LOOPS
def test_closing_fails_requests_in_flight(loop: str):
    async def main() -> None:
        async with serving(stall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as server:
            async with fetching() as fetcher:
                task = asyncio.create_task(fetcher.fetch(visit(server.url())))
                while fetcher.metrics().bodies.held == 0:
                    await asyncio.sleep(0.005)
            outcome = failed(await task)
            assert outcome.fault is Fault.RESET
            assert exchanged(outcome).body == b"abc"

    run(main(), loop)


def test_a_machine_out_of_sockets_is_busy_and_the_host_is_not_to_blame(monkeypatch: pytest.MonkeyPatch):
    def exhausted(*_: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("skitter.fetch.transfer._Socket", exhausted)
    outcome = failed(run(answered(ok())))
    assert outcome.fault is Fault.BUSY
    assert "Too many open files" in outcome.detail


def test_a_robots_txt_that_is_a_bomb_is_read_up_to_its_own_limit():
    async def main() -> bytes:
        answer = ok(gzip.compress(b"User-agent: *\n" + b"#" * 5_000_000), b"Content-Encoding: gzip")
        async with serving(answer) as server, fetching(loopback(max_body=Bytes(5000))) as fetcher:
            assert failed(await fetcher.fetch(visit(server.url()))).fault is Fault.BOMB
            return fetched(await fetcher.fetch(visit(server.url("/robots.txt"), Purpose.ROBOTS))).content

    content = run(main())
    assert content.startswith(b"User-agent: *\n")
    assert MAX_SIZE <= len(content) < 5_000_000


LARGE_ROBOTS = b"User-agent: *\nDisallow: /private/\n" + b"# noise\n" * 300_000


@pytest.mark.parametrize(
    "answer",
    [
        ok(LARGE_ROBOTS),
        b"HTTP/1.1 200 OK\r\n\r\n" + LARGE_ROBOTS,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        % (len(LARGE_ROBOTS), LARGE_ROBOTS),
    ],
    ids=["with its length", "until the connection ends", "chunked"],
)
@pytest.mark.parametrize("max_body", [5000, 10 * 2**20])
def test_of_a_robots_txt_that_is_too_large_the_beginning_is_read(answer: bytes, max_body: int):
    async def main() -> Outcome:
        settings = loopback(max_body=Bytes(max_body))
        async with serving(once(answer)) as server, fetching(settings) as fetcher:
            return await fetcher.fetch(visit(server.url("/robots.txt"), Purpose.ROBOTS))

    outcome = fetched(run(main()))
    assert LARGE_ROBOTS.startswith(outcome.content)
    assert len(outcome.content) >= MAX_SIZE
    assert outcome.exchange.cut
    assert len(outcome.exchange.body) < len(LARGE_ROBOTS)


def test_a_robots_txt_below_its_limit_is_complete_whatever_the_page_limit():
    async def main() -> Outcome:
        settings = loopback(max_body=Bytes(5000))
        async with serving(ok(LARGE_ROBOTS[:400_000])) as server, fetching(settings) as fetcher:
            return await fetcher.fetch(visit(server.url("/robots.txt"), Purpose.ROBOTS))

    outcome = fetched(run(main()))
    assert (len(outcome.content), outcome.exchange.cut) == (400_000, False)


@pytest.mark.parametrize(
    "settings",
    [
        FetchSettings(user_agent="a\r\nb"),
        FetchSettings(allow_private=("nonsense",)),
        FetchSettings(resolve=("nonsense",)),
        FetchSettings(nameservers=("nonsense",)),
        FetchSettings(ca_file="/nowhere/to/be/found.pem"),
        FetchSettings(ca_file=__file__),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_first_request(settings: FetchSettings):
    async def main() -> HttpFetcher:
        async with fetching(settings) as fetcher:
            return fetcher

    with pytest.raises(SettingsError, match=r"fetch\."):
        run(main())
