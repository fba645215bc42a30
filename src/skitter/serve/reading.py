"""Crawls opened for reading. Opening one takes a while, so requests that come together share it.

What was opened shows the crawl as it was then. It is used for a moment, then closed when nobody reads it any more, and
opened again for the next request.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skitter.compose import open_source
from skitter.export.source import Source
from skitter.ports import EngineError, StateError
from skitter.serve.catalogue import Served
from skitter.serve.problems import ProblemError, conflict
from skitter.settings import SettingsError

FRESH = 1.0  # seconds for which what was opened is used for new requests


class _Opened:
    """A crawl that somebody reads."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.at = time.monotonic()
        self.readers = 0
        self.retired = False


class Reading:
    """Opens crawls, and closes them when nobody needs them."""

    def __init__(self) -> None:
        self._open: dict[str, _Opened] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def source(self, served: Served) -> AsyncIterator[Source]:
        """A crawl, as it was at most a moment ago. ProblemError if it cannot be read now."""
        opened = await self._take(served)
        try:
            yield opened.source
        except (StateError, FileNotFoundError) as problem:  # it was removed while it was read
            raise conflict(str(problem)) from None
        finally:
            opened.readers -= 1
            if opened.retired and not opened.readers:
                await opened.source.close()  # type: ignore[attr-defined]

    async def take(self, served: Served) -> _Opened:
        """The same for a reader that goes on after its request; it says when it is done with `give_back`."""
        return await self._take(served)

    async def give_back(self, opened: _Opened) -> None:
        """A reader is done."""
        opened.readers -= 1
        if opened.retired and not opened.readers:
            await opened.source.close()  # type: ignore[attr-defined]

    async def _take(self, served: Served) -> _Opened:
        lock = self._locks.setdefault(served.id, asyncio.Lock())
        async with lock:
            opened = self._open.get(served.id)
            if opened is None or time.monotonic() - opened.at > FRESH:
                if opened is not None:
                    del self._open[served.id]
                    await self._retire(opened)
                opened = self._open[served.id] = await _opened(served)
            opened.readers += 1
            return opened

    async def _retire(self, opened: _Opened) -> None:
        opened.retired = True
        if not opened.readers:
            await opened.source.close()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Close what is open."""
        for opened in self._open.values():
            await self._retire(opened)
        self._open.clear()


async def _opened(served: Served) -> _Opened:
    try:
        if served.path is not None:
            return _Opened(await open_source([served.path]))
        from skitter.cli.reading import cluster_settings  # noqa: PLC0415  engines' libraries are large

        if served.config is None:
            raise AssertionError(served)
        return _Opened(await open_source([], await cluster_settings(served.config)))
    except EngineError as problem:
        raise ProblemError(503, "An engine cannot be reached", str(problem), {"Retry-After": "5"}) from None
    except (StateError, SettingsError, OSError) as problem:
        raise conflict(str(problem)) from None
