"""What one keep-alive request costs: CPU microseconds of this process per fetch(), loopback server in another one.

    python benchmarks/fetch.py [--requests 20000] [--hosts 50] [--coding identity|gzip|chunked] [--loop uvloop|asyncio]

Prints the best of five rounds (others use this machine too), and beside it a bare libcurl loop with the same answers (no bridge, no outcome), so
that the figure can be read on any machine.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import TypeVar, cast

import pycurl
import uvloop

from skitter.fetch.http import HttpFetcher
from skitter.model import Fetched, Link, Visit
from skitter.settings import FetchSettings

T = TypeVar("T")
ROUNDS = 5
WORDS = b"<p>the quick brown fox jumps over the lazy dog and links to <a href='/page/%d'>another</a></p>\n"
BODY = b"".join(WORDS % number for number in range(190))  # about 18 KB
FIELDS = (
    b"HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: bench\r\nContent-Type: text/html\r\n"
    b'Cache-Control: max-age=60\r\nETag: "abc"\r\nVary: Accept-Encoding\r\n'
)


def answer(coding: str) -> bytes:
    if coding == "chunked":
        pieces = (BODY[at : at + 4096] for at in range(0, len(BODY), 4096))
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        return FIELDS + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    body = gzip.compress(BODY) if coding == "gzip" else BODY
    extra = b"Content-Encoding: gzip\r\n" if coding == "gzip" else b""
    return FIELDS + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Server(asyncio.Protocol):
    reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\r\n\r\n")):
            self.transport.write(self.reply)


def serve(coding: str, port: Connection) -> None:
    async def run() -> None:
        Server.reply = answer(coding)
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class NoCache:
    """The hosts here are fixed by settings, so no name is ever looked up."""

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        raise LookupError(f"{key} is not among the fixed hosts: {fetch}")

    async def forget(self, key: str) -> None:
        raise LookupError(key)

    def statistics(self) -> dict[str, float]:
        return {}


async def through_fetch(port: int, requests: int, hosts: int) -> float:
    names = [f"host{number}.example" for number in range(hosts)]
    settings = FetchSettings(
        allow_private=("127.0.0.0/8",), resolve=tuple(f"{name}:127.0.0.1" for name in names)
    )
    fetcher = HttpFetcher(settings, NoCache(), SystemClock())

    async def one_host(name: str, count: int) -> None:
        for number in range(count):
            url = f"http://{name}:{port}/section/page-{number}?view=full"
            outcome = await fetcher.fetch(Visit(Link(url=url, key=url, host=name), 1, 0.0))
            assert isinstance(outcome, Fetched), outcome
            assert len(outcome.content) == len(BODY)

    await asyncio.gather(*(one_host(name, 2) for name in names))  # open the connections
    begun = time.process_time()
    await asyncio.gather(*(one_host(name, requests // hosts) for name in names))
    spent = time.process_time() - begun
    await fetcher.close()
    return spent / (requests // hosts * hosts) * 1e6


def bare(port: int, requests: int) -> float:
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{port}/section/page?view=full")
    chunks: list[bytes] = []
    curl.setopt(pycurl.WRITEFUNCTION, chunks.append)
    begun = time.process_time()
    for _ in range(requests):
        curl.perform()
        chunks.clear()
    return (time.process_time() - begun) / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--coding", choices=("identity", "gzip", "chunked"), default="identity")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(options.coding, theirs), daemon=True
    )
    server.start()
    port = ours.recv()
    run = uvloop.run if options.loop == "uvloop" else asyncio.run
    try:
        rounds = [
            (run(through_fetch(port, options.requests, options.hosts)), bare(port, options.requests))
            for _ in range(ROUNDS)
        ]
    finally:
        server.terminate()
        server.join()
    fetch, floor = (min(figures) for figures in zip(*rounds, strict=True))
    print(f"fetch() {fetch:.0f} µs CPU per request, bare libcurl {floor:.0f} µs, ratio {fetch / floor:.1f}")
    print(
        f"({len(BODY)} byte bodies, {options.coding}, {options.hosts} hosts, {options.loop}, {pycurl.version.split()[1]})"
    )


if __name__ == "__main__":
    main()
