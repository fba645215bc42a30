"""The browser's debugging protocol (CDP) over two pipes: JSON messages, each ended by a zero byte.

A pipe has no port that a page, or somebody else on this machine, could find.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Event = Callable[[Mapping[str, Any], str], None]
"""What happened, and the session (the page) in which it did."""

_END = b"\0"


class BrowserGone(Exception):  # noqa: N818  it is the browser that is gone
    """The browser has hung up, was killed, or says something that makes no sense."""


class Unwilling(Exception):  # noqa: N818  it is the browser that is unwilling
    """The browser answered a command with an error: what it was about is gone, mostly."""


class Pipe:
    """Our ends of the two pipes."""

    def __init__(self, longest: int) -> None:
        """A message of the browser is at most `longest` bytes."""
        self._longest = longest
        self._number = 0
        self._answers: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._events: dict[str, Event] = {}
        self._reader: asyncio.StreamReader | None = None
        self._reading: asyncio.Task[None] | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._writer: asyncio.WriteTransport | None = None
        self.gone = asyncio.Event()

    async def open(self, read: int, write: int) -> None:
        """Use these descriptors, and close them at the end."""
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=self._longest)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(read, "rb", 0))
        self._transports.append(transport)
        self._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write, "wb", 0))
        self._transports.append(self._writer)
        self._reading = asyncio.create_task(self._read(self._reader))

    def on(self, event: str, what: Event | None) -> None:
        """Call this whenever the event happens; None: nobody cares any more."""
        if what is None:
            self._events.pop(event, None)
        else:
            self._events[event] = what

    async def ask(self, method: str, session: str = "", **parameters: object) -> Mapping[str, Any]:
        """Give a command, and wait for its result. Raises BrowserGone, or Unwilling if it cannot be done."""
        if self.gone.is_set() or self._writer is None:
            raise BrowserGone("the browser is gone")
        self._number += 1
        number = self._number
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.tell(method, session, number, **parameters)
        try:
            return await answer
        finally:
            self._answers.pop(number, None)

    def tell(self, method: str, session: str = "", number: int = 0, **parameters: object) -> None:
        """Give a command whose result does not matter."""
        if self._writer is None or self._writer.is_closing():
            return
        if not number:
            self._number += 1
            number = self._number
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writer.write(msgspec.json.encode(message) + _END)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                text = await reader.readuntil(_END)
                self._take(msgspec.json.decode(text[:-1]))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, msgspec.DecodeError):
            pass
        finally:
            self._hang_up()

    def _take(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        if number is None:
            event = self._events.get(message.get("method", ""))
            if event is not None:
                event(message.get("params", {}), message.get("sessionId", ""))
            return
        answer = self._answers.get(number)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(Unwilling(str(message["error"].get("message", ""))[:200]))
        else:
            answer.set_result(message.get("result", {}))

    def _hang_up(self) -> None:
        self.gone.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(BrowserGone("the browser is gone"))

    async def close(self) -> None:
        """Close both ends."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        for transport in self._transports:
            transport.close()
        self._hang_up()
