"""Serves such a web on loopback, with a name server that knows every name below its domain: there is no list of them."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import uvloop

from skitter.testing.web.log import Request
from skitter.testing.web.server import Desk, Log, Served, listen

ADDRESS = "127.0.0.1"
_A = 1  # RFC 1035 3.2.2: the only type of record there is here
_TTL = 3600
_NAME_ERROR = 3


class Web(Protocol):
    """What is served."""

    @property
    def domain(self) -> str:
        """Every name in it has an address."""
        ...

    def look_up(self, host: str, target: str, port: int) -> Served:
        """What answers at this path of this host."""
        ...

    def seeds(self, port: int) -> list[str]:
        """Where a crawl starts."""
        ...


@dataclass(frozen=True)
class Serving:
    """A web that is being served. Its log can still be read after it has stopped."""

    port: int
    nameserver: str  # ADDRESS:PORT
    seeds: list[str]
    _read: Callable[[], list[Request]]

    def log(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._read()


class NameServer(asyncio.DatagramProtocol):
    """Answers that every name of a domain is on loopback, and that no other exists."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It listens."""
        self._transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """One question (RFC 1035 4.1)."""
        name, at = _name(data)
        (kind,) = struct.unpack_from("!H", data, at)
        known = name == self._domain or name.endswith(f".{self._domain}")
        answer = b""
        if known and kind == _A:
            answer = struct.pack("!HHHIH", 0xC00C, _A, 1, _TTL, 4) + socket.inet_aton(ADDRESS)
        flags = 0x8180 | (0 if known else _NAME_ERROR)
        head = data[:2] + struct.pack("!HHHHH", flags, 1, bool(answer), 0, 0)
        self._transport.sendto(head + data[12 : at + 4] + answer, addr)


def _name(question: bytes) -> tuple[str, int]:
    """The name asked for, and where it ends."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1"))
        at += 1 + question[at]
    return ".".join(labels).lower(), at + 1


@contextlib.contextmanager
def serving(web: Web) -> Iterator[Serving]:
    """Serve in a thread with its own loop."""
    started: Future[tuple[Desk, int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        desk, stop, loop = Desk(web, Log()), asyncio.Event(), asyncio.get_running_loop()
        servers = await listen(desk, (ADDRESS,))
        names, _ = await loop.create_datagram_endpoint(lambda: NameServer(web.domain), (ADDRESS, 0))
        started.set_result((desk, names.get_extra_info("sockname")[1], loop, stop))
        await stop.wait()
        names.close()
        for server in servers:
            server.close()
        for connection in list(desk.connections):
            connection.abort()
        for server in servers:
            await server.wait_closed()

    thread = threading.Thread(target=_main, args=(run, started), name="learnable-web")
    thread.start()
    desk, name_port, loop, stop = started.result()

    async def snapshot() -> list[Request]:
        return desk.log.all()

    def read() -> list[Request]:
        # On the server's own loop: a client has its answer before the server has logged the end of it.
        return desk.log.all() if stopped else asyncio.run_coroutine_threadsafe(snapshot(), loop).result()

    stopped: list[bool] = []
    try:
        yield Serving(desk.port, f"{ADDRESS}:{name_port}", web.seeds(desk.port), read)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        stopped.append(True)


def _main(run: Callable[[], object], started: "Future[object]") -> None:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())  # type: ignore[arg-type]
    except OSError as error:
        if started.done():
            raise
        started.set_exception(error)
