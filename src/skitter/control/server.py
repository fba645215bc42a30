"""The control socket of a crawl directory: one request a line, one answer a line, or a stream of lines to follow.

It belongs to the process that holds the lock of the directory, and only its own user may connect. Nobody waits for a
client: what one does not read is kept up to a bound, and then it is dropped.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from skitter.control.address import address_of
from skitter.control.desk import Desk
from skitter.control.orders import Answer, BadOrderError, Follow, request_of
from skitter.events import Deferred, Event, Events, Opened, ScopeWidened, SetAside, Stopped, Warned
from skitter.reporting.progress import Rate

FOLLOWED = (Opened, Deferred, SetAside, ScopeWidened, Warned, Stopped)
LONGEST = 8 << 20  # bytes of a request; a seed may be a megabyte, and escapes make it longer
MOST_CLIENTS = 32
_MOST_UNREAD = 1 << 20  # bytes that a client has not read yet
_IDLE = 60.0  # seconds without a request
_LAST = 1.0  # seconds for the last lines of a crawl
_EVERY = 1.0  # seconds between two samples of the progress

_encode = msgspec.json.Encoder().encode


class ControlServer:
    """The socket, and everybody connected to it."""

    def __init__(self, events: Events) -> None:
        """Make it before shards are opened: those report to the listeners of that moment."""
        self._events = events
        events.subscribe(self.tell, *FOLLOWED)
        self._clients: set[asyncio.Task[None]] = set()
        self._followers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def serving(self, path: Path, desk: Desk) -> AsyncIterator[None]:
        """Listen at a path while the crawl runs. If no socket can be made there, the crawl warns and runs without."""
        try:
            await self.open(path, desk)
        except OSError as problem:
            text = f"this crawl cannot be controlled while it runs: {path}: {problem.strerror or problem}"
            self._events.emit(Warned(text))
            yield
            return
        try:
            yield
        finally:
            await self.close()
            _remove(path)

    async def open(self, path: Path, desk: Desk) -> None:
        """Make the socket. One that a crash has left is replaced: we hold the lock."""
        _remove(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_of(path) as address, _private(listening):
                listening.bind(address)
            serve = partial(self._connected, desk)
            self._server = await asyncio.start_unix_server(serve, sock=listening, limit=LONGEST)
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """Disconnect everybody. Those that follow get a moment to read the last lines."""
        if self._server is not None:
            self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                for writer in list(self._followers):
                    with suppress(OSError):
                        await writer.drain()
                    writer.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def tell(self, event: Event) -> None:
        """Send an event to everybody who follows."""
        if self._followers:
            line = _encode(event) + b"\n"
            for writer in list(self._followers):
                self._write(writer, line)

    def _write(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        """Never waits. A client that does not read is dropped."""
        if writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            self._followers.discard(writer)
            writer.transport.abort()
        else:
            writer.write(line)

    # -- one client --------------------------------------------------------------------------------------------

    def _connected(self, desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        problem = ""
        if _user_of(writer) not in (None, os.geteuid()):
            problem = "this is the crawl of another user"
        elif len(self._clients) >= MOST_CLIENTS:
            problem = f"{MOST_CLIENTS} others are connected; try again later"
        if problem:
            writer.write(_encode(Answer(error=problem)) + b"\n")
            writer.close()
            return
        client = asyncio.ensure_future(self._serve(desk, reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                async with asyncio.timeout(_IDLE):
                    line = await reader.readline()
                if not line:
                    return
                try:
                    request = request_of(line)
                except BadOrderError as problem:
                    answer = Answer(error=str(problem))
                else:
                    if isinstance(request, Follow):
                        await self._follow(desk, reader, writer)
                        return
                    answer = await desk.answer(request)
                self._write(writer, _encode(answer) + b"\n")
                async with asyncio.timeout(_IDLE):
                    await writer.drain()
        except ValueError:  # how a stream says that a line is too long
            self._write(writer, _encode(Answer(error=f"a request is at most {LONGEST} bytes long")) + b"\n")
        except (OSError, TimeoutError):
            pass
        finally:
            self._followers.discard(writer)
            writer.close()

    async def _follow(self, desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Progress every second, until the client hangs up. Events come in between, from `tell`."""
        self._followers.add(writer)
        gone = asyncio.ensure_future(_hung_up(reader))
        rate = Rate()
        try:
            while not gone.done() and not writer.is_closing():
                self._write(writer, _encode(desk.crawl.progress(rate)) + b"\n")
                await asyncio.wait([gone], timeout=_EVERY)
        finally:
            gone.cancel()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


@contextmanager
def _private(listening: socket.socket) -> Iterator[None]:
    """A socket bound in this block can be connected to by its owner only, from the first moment on."""
    try:
        os.fchmod(listening.fileno(), 0o600)
    except OSError:  # only Linux passes it on to the file
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
    else:
        yield


async def _hung_up(reader: asyncio.StreamReader) -> None:
    """Returns when the other end is closed. What it sends meanwhile is ignored."""
    with suppress(OSError):
        while await reader.read(1 << 16):
            pass


def _user_of(writer: asyncio.StreamWriter) -> int | None:
    """The user of the other end; None if the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    packed = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return int(struct.unpack("3i", packed)[1])
