"""Small real servers for tests of the fetch layer: a scripted HTTP server and a DNS server."""

import asyncio
import ipaddress
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvloop

from skitter.backends.memory import MemoryCache
from skitter.fetch.http import HttpFetcher
from skitter.model import Link, Outcome, Purpose, Visit
from skitter.ports import Clock
from skitter.runtime.clock import SystemClock
from skitter.settings import FetchSettings

T = TypeVar("T")
LOOPBACK = ("127.0.0.0/8", "::1/128")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run(main: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run to the end, with a limit that only a hanging test meets."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(main, 60))


def ok(body: bytes = b"hello", *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with its length."""
    lines = (b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Server:
    """Answers every request on a connection with the same bytes, or lets a function talk. Remembers what it heard."""

    def __init__(self, answer: "bytes | Talk") -> None:
        self.answer = answer
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0
        self.host = "127.0.0.1"
        self.scheme = "http"
        self._writers: set[asyncio.StreamWriter] = set()

    def url(self, path: str = "/", host: str | None = None) -> str:
        name = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{self.scheme}://{name}:{self.port}{path}"

    async def hear(self, reader: asyncio.StreamReader) -> bytes:
        """One request head, empty at the end of the connection."""
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self.requests.append(request)
        return request

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            if isinstance(self.answer, bytes):
                while await self.hear(reader):
                    writer.write(self.answer)
                    await writer.drain()
            else:
                await self.answer(self, reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the fetcher hung up, as many tests want it to, or the test is over
        finally:
            self._writers.discard(writer)
            writer.close()

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()


Talk = Callable[[Server, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(
    answer: bytes | Talk, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await asyncio.start_server(server.talk, host, port, ssl=tls, limit=2**20)
    server.port, server.host = listener.sockets[0].getsockname()[1], host
    server.scheme = "https" if tls else "http"
    before = asyncio.all_tasks()
    try:
        yield server
    finally:
        listener.close()
        server.drop_connections()
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def once(answer: bytes, *later: bytes, pause: float = 0.02) -> Talk:
    """Hear one request, send the answer (in pieces, if there are more) and close."""

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(answer)
        for piece in later:
            await writer.drain()
            await asyncio.sleep(pause)
            writer.write(piece)
        await writer.drain()

    return talk


@asynccontextmanager
async def fetching(
    settings: FetchSettings | None = None, clock: Clock | None = None
) -> AsyncIterator[HttpFetcher]:
    settings = settings or FetchSettings(allow_private=LOOPBACK)
    clock = clock or SystemClock()
    fetcher = HttpFetcher(settings, MemoryCache(settings.dns_cache, clock), clock)
    try:
        yield fetcher
    finally:
        await fetcher.close()


def visit(url: str, purpose: Purpose = Purpose.PAGE) -> Visit:
    return Visit(Link(url=url, key=url, host="", purpose=purpose), 1, 0.0)


async def answered(answer: bytes | Talk, settings: FetchSettings | None = None, path: str = "/") -> Outcome:
    """The outcome of one fetch from a server that answers so."""
    async with serving(answer) as server, fetching(settings) as fetcher:
        return await fetcher.fetch(visit(server.url(path)))


# ------------------------------------------------------------------------------------------------ DNS

A, AAAA = 1, 28
NXDOMAIN = 3
Records = list[tuple[str, int]]  # (address, TTL)


class NameServer(asyncio.DatagramProtocol):
    """RFC 1035, as much as one question needs. `zone` is asked (name, type) and gives records, or an rcode."""

    def __init__(self, zone: Callable[[str, int], "Records | int"]) -> None:
        self.zone = zone
        self.questions: list[tuple[str, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, kind = ".".join(labels).lower(), struct.unpack_from("!H", data, at + 1)[0]
        self.questions.append((name, kind))
        found = self.zone(name, kind)
        rcode, records = (found, []) if isinstance(found, int) else (0, found)
        answers = [
            struct.pack("!HHHIH", 0xC00C, kind, 1, ttl, len(packed)) + packed
            for address, ttl in records
            for packed in (ipaddress.ip_address(address).packed,)
        ]
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | rcode, 1, len(answers), 0, 0)
        self.transport.sendto(head + data[12 : at + 5] + b"".join(answers), addr)


@asynccontextmanager
async def naming(
    zone: Callable[[str, int], Records | int], host: str = "127.0.0.1"
) -> AsyncIterator[tuple[NameServer, str]]:
    """A DNS server on loopback; gives it and what to write into the settings."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: NameServer(zone), local_addr=(host, 0))
    port = transport.get_extra_info("sockname")[1]
    try:
        yield server, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    finally:
        transport.close()
