"""A connection between a worker and its engine that can be cut and restored."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Relay:
    """Passes octets on between a port of its own and an engine. While it is cut they wait, in both directions."""

    def __init__(self, host: str, port: int) -> None:
        self._engine = (host, port)
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._last = b""
        self._wires: set[asyncio.Task[Any]] = set()
        self.port = 0

    def cut_before(self, octets: bytes) -> None:
        """Nothing passes any more, from the moment that the worker sends these."""
        self._last = octets

    @property
    def is_cut(self) -> bool:
        """Whether that has happened."""
        return not self._whole.is_set()

    def mend(self) -> None:
        """What waited passes, and whatever comes."""
        self._loop.call_soon_threadsafe(self._whole.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        there_reader, there_writer = await asyncio.open_connection(*self._engine)
        self._wires |= {
            asyncio.ensure_future(self._pass(reader, there_writer, sent=True)),
            asyncio.ensure_future(self._pass(there_reader, writer)),
        }

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, sent: bool = False
    ) -> None:
        with suppress(OSError):
            while octets := await reader.read(1 << 16):
                if sent and self._last and self._last in octets:
                    self._whole.clear()
                    self._last = b""
                await self._whole.wait()
                writer.write(octets)
                await writer.drain()
        writer.close()

    async def _serve(self, ready: threading.Event, done: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await done.wait()
        server.close()
        for wire in self._wires:
            wire.cancel()

    @contextmanager
    def running(self) -> Iterator["Relay"]:
        """For a while, in a thread of its own."""
        ready, done = threading.Event(), asyncio.Event()
        thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve(ready, done)])
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(done.set)
            thread.join()
            self._loop.close()
