"""Long lists, a page at a time: a cursor says where the next page begins.

The reader of a list that is being paged through is kept open for a while, so that the next page costs only itself and
shows the crawl as the first page did. If it is gone (a restart, or a long pause), the list is read again from its beginning up
to the cursor.
"""

import asyncio
import base64
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from skitter.serve.problems import bad_request

MOST = 1000  # rows of a page
_KEPT = 64  # open readers
_PATIENCE = 60.0  # seconds for which one is kept
_TURN = 256  # rows after which others get a turn

Row = TypeVar("Row")
Close = Callable[[], Awaitable[None]]


class _Reader(Generic[Row]):
    def __init__(self, rows: AsyncGenerator[Row, None], close: Close) -> None:
        self.rows = rows
        self.close = close
        self.until = time.monotonic() + _PATIENCE


class Lists:
    """Open readers by cursor."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, _Reader[object]] = OrderedDict()

    async def page(
        self,
        what: str,
        cursor: str,
        limit: int,
        begin: Callable[[], Awaitable[tuple[AsyncIterator[Row], Close]]],
    ) -> tuple[list[Row], str]:
        """The next rows of a list, and the cursor after them; empty at the end. `what` identifies the list and its filters."""
        await self._tidy()
        reader = self._readers.pop(cursor, None) if cursor else None
        skip = 0
        if reader is None:
            skip = _position(cursor, what) if cursor else 0
            rows, close = await begin()
            reader = _Reader(_turned(rows), close)
        found, past = await _take(reader.rows, skip, limit)
        if len(found) < limit:
            await _end(reader)
            return found, ""  # type: ignore[return-value]
        following = _cursor(what, (past if skip or not cursor else _position(cursor, what) + past))
        reader.until = time.monotonic() + _PATIENCE
        self._readers[following] = reader
        return found, following  # type: ignore[return-value]

    async def _tidy(self) -> None:
        now = time.monotonic()
        while self._readers:
            cursor, reader = next(iter(self._readers.items()))
            if len(self._readers) <= _KEPT and reader.until > now:
                return
            del self._readers[cursor]
            await _end(reader)

    async def close(self) -> None:
        """Close every reader."""
        while self._readers:
            await _end(self._readers.popitem()[1])


async def _turned(rows: AsyncIterator[Row]) -> AsyncGenerator[object, None]:
    number = 0
    async for row in rows:
        number += 1
        if not number % _TURN:
            await asyncio.sleep(0)
        yield row


async def _take(rows: AsyncGenerator[object, None], skip: int, limit: int) -> tuple[list[object], int]:
    found: list[object] = []
    past = 0
    if not limit:
        return found, past
    async for row in rows:
        past += 1
        if past > skip:
            found.append(row)
            if len(found) == limit:
                break
    return found, past


async def _end(reader: _Reader[object]) -> None:
    await reader.rows.aclose()
    await reader.close()


def _cursor(what: str, position: int) -> str:
    """Opaque to clients: a position in this very list."""
    return base64.urlsafe_b64encode(f"{_mark(what)}.{position}".encode()).decode().rstrip("=")


def _position(cursor: str, what: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    mark, _, position = text.partition(".")
    if mark != _mark(what) or not position.isdigit() or len(position) > 15:
        raise bad_request("cursor: this is no cursor of this list; begin without one")
    return int(position)


def _mark(what: str) -> str:
    return hashlib.blake2b(what.encode(), digest_size=6).hexdigest()
