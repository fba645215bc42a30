"""An HTTP/1.1 server for loopback that answers from a description and keeps its own log.

It uses a bare asyncio protocol, because it has to be faster than what it tests: the common answer is one
look-up and one write. Everything slow, endless or broken is played step by step in its own task. The write
buffer's high water mark is zero, so the transport hands bytes to the kernel at once and reports when the rest
has followed. The log takes the moment the last byte was handed over as the end of a response; the clock is
read before that, not after, because the client may have the answer and move on before a busy machine returns
to us.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec

from skitter.testing.web.log import Request
from skitter.testing.web.pages import RETRY_DATE, Pause, Repeat, Reply, Step

# Memory for rendered replies; beyond it they are rendered for each request.
CACHE_BYTES = 512 * 2**20
# Larger than any header block a client of ours sends.
MAX_REQUEST_HEAD = 64 * 2**10
# An endless answer ends here anyway, so that a client without limits fails its test instead of the machine.
MAX_ENDLESS = 2**31

# A request to this host flushes the log file, and is not logged itself.
FLUSH_HOST = "flush.invalid"

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n"
_encoder = msgspec.json.Encoder()


class Served(msgspec.Struct, frozen=True, gc=False):
    """What answers at a URL: its name in the log, and its replies, one per request, the last one repeated."""

    page: str
    replies: tuple[Reply, ...]


class Source(Protocol):
    """The source of answers."""

    def look_up(self, host: str, target: str, port: int) -> Served:
        """What answers at this path of this host."""
        ...


class Log:
    """The requests so far, in memory or, batch by batch, in a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._file: BinaryIO | None = file.open("ab") if file else None
        self._done: list[Request] = []
        self._waiting = False
        self.open: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        """Record a finished request. A file gets everything that finished in one turn of the loop in one write."""
        self._done.append(request)
        if self._file is not None and not self._waiting:
            self._waiting = True
            asyncio.get_running_loop().call_soon(self.flush)

    def all(self) -> list[Request]:
        """Every request held in memory, oldest first, including those in flight."""
        return sorted([*self._done, *self.open.values()], key=lambda request: request.start)

    def flush(self) -> None:
        """Write out what is not yet written."""
        self._waiting = False
        if self._file is not None and self._done:
            self._file.write(_encoder.encode_lines(self._done))
            self._file.flush()
            self._done.clear()

    def close(self) -> None:
        """Write the rest."""
        if self._file is not None:
            self._done += self.open.values()
            self.flush()
            self._file.close()
            self._file = None


class Desk:
    """State shared by all connections of a server."""

    def __init__(self, source: Source, log: Log, latency: float = 0.0) -> None:
        self.log = log
        self.latency = latency
        self.port = 0
        self.in_flight: defaultdict[str, int] = defaultdict(int)
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self._source = source
        self._cache: dict[tuple[str, str], Served] = {}
        self._cached_bytes = 0
        self._asked: defaultdict[tuple[str, str], int] = defaultdict(int)

    def reply(self, host: str, target: str) -> tuple[str, Reply]:
        """The page's name and its next reply."""
        served = self._cache.get((host, target))
        if served is None:
            served = self._source.look_up(host, target, self.port)
            size = sum(reply.size for reply in served.replies)
            if self._cached_bytes + size <= CACHE_BYTES:
                self._cache[host, target] = served
                self._cached_bytes += size
        replies = served.replies
        if len(replies) == 1:
            return served.page, replies[0]
        turn = self._asked[host, served.page]
        self._asked[host, served.page] = turn + 1
        return served.page, replies[min(turn, len(replies) - 1)]


def _field(head: bytes, name: bytes) -> str:
    """A header field's value, or nothing."""
    at = head.find(b"\r\n" + name + b": ")
    if at < 0:
        at = head.lower().find(b"\r\n" + name.lower() + b":")
        if at < 0:
            return ""
    start = at + len(name) + 3
    return head[start : head.find(b"\r\n", start)].strip().decode("latin-1")


def _is_current(head: bytes, reply: Reply) -> bool:
    """Whether the client's copy is valid. If-None-Match goes before If-Modified-Since (RFC 9110 13.1.3)."""
    known = _field(head, b"If-None-Match")
    if known:
        return reply.etag in known or known == "*"
    return bool(reply.modified) and _field(head, b"If-Modified-Since") == reply.modified


def _dated(steps: tuple[Step, ...], when: float) -> tuple[Step, ...]:
    """The steps with this date; rounded up, so that nobody is asked to return too early."""
    date = formatdate(math.ceil(when), usegmt=True).encode()
    return tuple(step.replace(RETRY_DATE, date) if isinstance(step, bytes) else step for step in steps)


def _heads(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The reply to HEAD."""
    return tuple(
        step.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" for step in steps[:1] if isinstance(step, bytes)
    )


class Connection(asyncio.Protocol):
    """One client connection. One request at a time; early ones wait."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._transport: asyncio.Transport
        self._number = desk.accepted = desk.accepted + 1
        self._address = ""
        self._early = b""
        self._request: Request | None = None
        self._close = False
        self._drained: Callable[[], None] | None = None
        self._handed_over = 0.0  # when the last bytes were
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._address = transport.get_extra_info("sockname")[0]
        self._transport.set_write_buffer_limits(high=0)
        self._desk.connections.add(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client left, or we closed."""
        self._desk.connections.discard(self)
        if self._task is not None:
            self._task.cancel()
        self._finish(whole=False)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request head. Bodies are not expected: crawlers send none."""
        data = self._early + data if self._early else data
        end = data.find(b"\r\n\r\n")
        if self._request is not None or end < 0:
            self._early = data
            if len(data) > MAX_REQUEST_HEAD:
                self._transport.write(_TOO_LARGE)
                self._transport.close()
            return
        self._early = data[end + 4 :]
        self._begin(data[: end + 2])

    def resume_writing(self) -> None:
        """The last byte so far was handed to the kernel."""
        if self._drained is not None:
            drained, self._drained, self._handed_over = self._drained, None, time.time()
            drained()

    def _begin(self, head: bytes) -> None:
        start = time.time()
        method, _, rest = head[: head.index(b"\r\n")].partition(b" ")
        target = rest.rpartition(b" ")[0].decode("latin-1")
        host = _field(head, b"Host").partition(":")[0].lower()
        desk = self._desk
        if host == FLUSH_HOST:
            desk.log.flush()
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            return
        page, reply = desk.reply(host, target)
        desk.in_flight[host] += 1
        self._request = Request(
            host, target, page, self._address, self._number, start, None, reply.status, _field(head, b"User-Agent"),
            desk.in_flight[host],
        )  # fmt: skip
        desk.log.open[self._number] = self._request
        self._close = reply.close or b"\r\nConnection: close" in head or rest.endswith(b"HTTP/1.0")
        steps = reply.steps
        if reply.unmodified and _is_current(head, reply):
            self._request.status = 304
            steps = (reply.unmodified,)
        elif reply.retry_in is not None:
            steps = _dated(steps, start + reply.retry_in)
        if method == b"HEAD":
            steps = _heads(steps)
        if desk.latency:
            steps = (Pause(desk.latency), *steps)
        if len(steps) == 1 and isinstance(steps[0], bytes):
            self._write(steps[0], self._finish)
        else:
            self._task = asyncio.get_running_loop().create_task(self._play(steps))
            desk.tasks.add(self._task)
            self._task.add_done_callback(desk.tasks.discard)

    def _write(self, data: bytes, then: Callable[[], None]) -> None:
        self._handed_over = time.time()
        self._transport.write(data)
        if self._transport.get_write_buffer_size() == 0:
            then()
        else:
            self._drained = then

    async def _play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Repeat(data, every):
                    for _ in range(MAX_ENDLESS // len(data)):
                        await self._send(data)
                        await asyncio.sleep(every)
                case bytes():
                    await self._send(step)
        self._task = None
        self._finish()

    async def _send(self, data: bytes) -> None:
        drained = asyncio.Event()
        self._write(data, drained.set)
        await drained.wait()

    def _finish(self, *, whole: bool = True) -> None:
        request = self._request
        if request is None:
            return
        self._request = None
        request.end = self._handed_over if whole else time.time()
        request.whole = whole
        desk = self._desk
        desk.in_flight[request.host] -= 1
        del desk.log.open[self._number]
        desk.log.add(request)
        if not whole:
            return
        if self._close:
            self._transport.close()
        elif self._early:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._request is None:
            early, self._early = self._early, b""
            self.data_received(early)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()


async def listen(desk: Desk, addresses: Sequence[str], port: int = 0) -> list[asyncio.Server]:
    """Listen on all these addresses, on one port; if it is 0, on one that is free on all of them."""
    loop = asyncio.get_running_loop()
    for attempt in range(10):
        servers: list[asyncio.Server] = []
        chosen = port
        try:
            for address in addresses:
                servers.append(
                    await loop.create_server(lambda: Connection(desk), address, chosen, backlog=1024)
                )
                chosen = servers[0].sockets[0].getsockname()[1]
        except OSError:
            for server in servers:
                server.close()
            if port or attempt == 9:
                raise
        else:
            desk.port = chosen
            break
    return servers
