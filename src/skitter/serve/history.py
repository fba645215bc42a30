"""What happened to crawls: lists of events, and the stream of Server-Sent Events.

Events of a crawl have ids (places in its own log), so a client that was cut off, or whose server was restarted, goes on
behind the last one that it has. Progress has no id: what it has missed of that nobody needs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from skitter.control.history import Entry, read
from skitter.events import Stopped
from skitter.reporting.format import as_json, moment
from skitter.reporting.log import warnings
from skitter.serve.catalogue import Served
from skitter.serve.shapes import Happened

_EVERY = 1.0  # seconds between two looks
_AT_ONCE = 500  # events
_SIGN_OF_LIFE = 15  # looks without anything to say, after which a comment is sent


def history_of(served: Served, after: int, limit: int) -> list[Happened]:
    """Events of a crawl behind one that is known. A cluster's are not kept."""
    if served.path is None:
        return []
    return [_happened(entry) for entry in read(served.directory.history_file, after, limit)]


def _happened(entry: Entry) -> Happened:
    event = entry.happened.event
    words = f"ended: {event.why}" if isinstance(event, Stopped) else "; ".join(warnings(event))
    fields = msgspec.to_builtins(event, str_keys=True)
    return Happened(entry.id, moment(entry.happened.at), fields.pop("type").lower(), words, fields)


async def stream(served: Served, after: int) -> AsyncIterator[bytes]:
    """Events behind one that is known, and from then on as they come."""
    quiet = 0
    yield b"retry: 2000\n\n"
    while True:
        found = history_of(served, after, _AT_ONCE)
        for one in found:
            after = one.id
            yield _event(one.kind, as_json(msgspec.to_builtins(one)), one.id)
        quiet = 0 if found else quiet + 1
        if quiet and not quiet % _SIGN_OF_LIFE:
            yield b": still here\n\n"
        if len(found) < _AT_ONCE:
            await asyncio.sleep(_EVERY)


def _event(kind: str, text: str, number: int | None = None) -> bytes:
    """One event. The text has no line break: it is JSON."""
    id_line = "" if number is None else f"id: {number}\n"
    return f"{id_line}event: {kind}\ndata: {text}\n\n".encode()


async def changes(ask: Callable[[], Awaitable[str]], every: float = _EVERY) -> AsyncIterator[bytes]:
    """What a question is answered, whenever the answer has changed."""
    before = ""
    quiet = 0
    yield b"retry: 2000\n\n"
    while True:
        text = await ask()
        quiet = 0 if text != before else quiet + 1
        if text != before:
            before = text
            yield _event("crawls", text)
        elif not quiet % _SIGN_OF_LIFE:
            yield b": still here\n\n"
        await asyncio.sleep(every)
