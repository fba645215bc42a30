"""A small HTTP/1.1 server on loopback: GET and HEAD, one answer after the other on a connection, and limits on everything.

It serves one person, who runs it. Whatever else reaches a loopback port (another user, a page in the same browser, a name
that a stranger's DNS maps to 127.0.0.1) gets nothing: the Host of a request must be ours.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

MOST_CLIENTS = 200
_LONGEST_HEAD = 64 * 1024
_IDLE = 60.0  # seconds without a whole request
_SLOW = 120.0  # seconds in which a client must take a piece of an answer
_PIECE = 1 << 18
_REQUEST = re.compile(r"(GET|HEAD|[A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Request(Struct, frozen=True):
    """What was asked."""

    method: str
    path: str  # with its query, as sent
    headers: Mapping[str, str]  # by lower-case name


class FilePart(NamedTuple):
    """A file as a body."""

    path: Path
    size: int


class Answer(Struct, frozen=True, kw_only=True):
    """What is sent."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | FilePart = b""
    ranges: bool = False  # a part of it may be asked for


Route = Callable[[Request], Awaitable[Answer]]


class LoopbackServer:
    """Serves a route at an address of this machine."""

    def __init__(self, address: str, port: int = 0) -> None:
        """OSError if the port is taken, or the address is not one of this machine's."""
        self._listening = socket.create_server((address, port), reuse_port=False)
        self.address = address
        self.port: int = self._listening.getsockname()[1]
        self._hosts = {f"{address}:{self.port}"} | (
            {f"localhost:{self.port}"} if address == "127.0.0.1" else set()
        )
        self._route: Route | None = None
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def origin(self) -> str:
        """How a browser names it."""
        return f"http://{self.address}:{self.port}"

    async def start(self, route: Route) -> None:
        """Answer requests from now on."""
        self._route = route
        self._server = await asyncio.start_server(self._connected, sock=self._listening, limit=_LONGEST_HEAD)

    async def close(self) -> None:
        """Disconnect everybody."""
        if self._server is not None:
            self._server.close()
        self._listening.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            writer.close()
            return
        client = asyncio.ensure_future(self._serve(reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                async with asyncio.timeout(_IDLE):
                    head = await reader.readuntil(b"\r\n\r\n")
                request = _read(head)
                answer = await self._answer(request)
                last = (
                    request is None
                    or "content-length" in request.headers
                    or "transfer-encoding" in request.headers
                )
                await _send(writer, request, answer, last=last)
                if last or (request is not None and request.headers.get("connection", "").lower() == "close"):
                    return
        except asyncio.LimitOverrunError:
            with suppress(OSError, TimeoutError):
                await _send(writer, None, plain(431, "the head of the request is too long"), last=True)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request | None) -> Answer:
        if request is None:
            return plain(400, "that is no request")
        if request.headers.get("host", "").lower() not in self._hosts:
            return plain(421, "this server answers to its own address only")
        if request.method not in ("GET", "HEAD"):
            return plain(405, "an archive can only be read")
        assert self._route is not None  # noqa: S101  set before anybody can connect
        return await self._route(request)


def plain(status: int, text: str) -> Answer:
    """A short answer."""
    return Answer(
        status=status, headers=(("Content-Type", "text/plain; charset=utf-8"),), body=f"{text}\n".encode()
    )


def _read(head: bytes) -> Request | None:
    first, *lines = head.decode("latin-1").split("\r\n")
    asked = _REQUEST.fullmatch(first)
    if asked is None:
        return None
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    return Request(asked[1], asked[2], headers)


async def _send(writer: asyncio.StreamWriter, request: Request | None, answer: Answer, *, last: bool) -> None:
    size = answer.body.size if isinstance(answer.body, FilePart) else len(answer.body)
    part = _part(request, size) if answer.ranges and answer.status == 200 else range(size)
    status, extra = answer.status, list[tuple[str, str]]()
    if answer.ranges:
        extra.append(("Accept-Ranges", "bytes"))
    if part is None:
        status, part = 416, range(0)
        extra.append(("Content-Range", f"bytes */{size}"))
    elif len(part) != size:
        status = 206
        extra.append(("Content-Range", f"bytes {part.start}-{part.stop - 1}/{size}"))
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Archived"
    fields = [*answer.headers, *extra, ("Content-Length", str(len(part)))]
    if last:
        fields.append(("Connection", "close"))
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {_on_one_line(value)}" for name, value in fields)]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
    if request is None or request.method != "HEAD":
        await _write(writer, answer.body, part)
    await _drained(writer)


def _part(request: Request | None, size: int) -> range | None:
    """The octets asked for (RFC 9110 14.1.2); all, if it is not one simple range; None if there are none."""
    asked = _RANGE.fullmatch(request.headers.get("range", "")) if request is not None else None
    if asked is None or not (asked[1] or asked[2]):
        return range(size)
    if not asked[1]:
        length = int(asked[2])  # the last so many; more than there are is all
        return range(max(0, size - length), size) if length and size else None
    start = int(asked[1])
    stop = min(size, int(asked[2]) + 1) if asked[2] else size
    return range(start, stop) if start < stop else None


async def _write(writer: asyncio.StreamWriter, body: bytes | FilePart, part: range) -> None:
    if isinstance(body, bytes):
        for at in range(part.start, part.stop, _PIECE):
            writer.write(body[at : min(at + _PIECE, part.stop)])
            await _drained(writer)
        return
    with body.path.open("rb") as file:
        file.seek(part.start)
        left = len(part)
        while left and (piece := file.read(min(left, _PIECE))):
            left -= len(piece)
            writer.write(piece)
            await _drained(writer)
    if left:
        raise OSError(f"{body.path} is shorter than it was")


async def _drained(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_SLOW):
        await writer.drain()


def _on_one_line(value: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", value)
