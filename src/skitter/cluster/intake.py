"""Adds seeds to a cluster: each batch is safe with the engines before the next one is read.

The position in a file is stored on the engine, under the hash of its contents. After an interruption, run the same
command again: it continues after the last batch. An interrupted batch may be sent twice, which is harmless: a link is
added once. When a whole file is stored, its position is forgotten, and it may be added again like any other.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from skitter import seeds
from skitter.cluster.ports import Claims
from skitter.crawl.forwarding import owner_of
from skitter.engines.parts import in_parts
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import Link
from skitter.ports import Unstorable
from skitter.seeds import BadSeed
from skitter.settings import Settings
from skitter.settings.sites import sites_of

_BATCH = 2_000  # seeds
_PIECE = 2**20  # bytes copied or hashed at once
_SHOWN = 200  # characters of a URL shown in a warning


class Outbox(Protocol):
    """Sends links to the shards."""

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Send links to their shards, by number. Returns when they are safe."""
        ...


class Fed(Protocol):
    """What it needs from the engines."""

    shards: int

    @property
    def claims(self) -> Claims:
        """Roots, and positions in files."""
        ...

    @property
    def forwarding(self) -> Outbox:
        """The way to the shards."""
        ...


class Intake:
    """Adds seeds to a cluster, and knows how far it has got."""

    def __init__(self, engines: Fed, settings: Settings, complain: Callable[[str], None]) -> None:
        self.added = 0  # seeds that we have stored
        self.resumed = False  # some were stored before
        self.stopping: Callable[[], bool] = lambda: False  # told to end after the current batch
        self.far = ""  # the position, for the next run
        self._engines = engines
        self._rules = settings.urls
        self._judge = LinkJudge(settings, Scope(settings.scope, sites=sites_of(settings)))
        self._complain = complain

    async def bring(self, named: Iterable[Link | BadSeed]) -> None:
        """Seeds named one by one."""
        waiting = iter(named)
        while batch := list(islice(waiting, _BATCH)):
            await self._bring(batch)

    async def bring_file(self, path: Path, name: str) -> None:
        """Seeds from a file, after those already stored."""
        claims = self._engines.claims
        digest = await asyncio.to_thread(_digest, path)
        line = await claims.intake(digest)
        if line:
            self.resumed = True
            self._complain(f"{name}: lines 1 to {line} are in; going on behind them")
        self.far = f"{name}: lines 1 to {line} are in" if line else f"{name}: nothing of it is in"
        with path.open("rb") as file:
            waiting = seeds.numbered(file, name, self._rules, after=line)
            while batch := await asyncio.to_thread(list, islice(waiting, _BATCH)):
                if self.stopping():
                    raise asyncio.CancelledError
                await self._bring([seed for _, seed in batch])
                line = batch[-1][0]
                await claims.took_in(digest, line)
                self.far = f"{name}: lines 1 to {line} are in"
        await claims.took_in(digest, None)
        self.far = f"{name}: all of it is in"

    async def _bring(self, batch: Sequence[Link | BadSeed]) -> None:
        wanted: list[Link] = []
        for seed in batch:
            if isinstance(seed, BadSeed):
                self._complain(seed.complaint)
                continue
            link, reason = self._judge.seed(seed)
            if reason is None:
                wanted.append(link)
            else:
                self._complain(f"seed {link.url} is not crawled: {reason.detail or reason.code}")
        if wanted:
            self.added += len(wanted)
            await in_parts(wanted, self._send, self._refused)

    async def _send(self, links: Sequence[Link]) -> list[None]:
        """Roots first: a worker that finds links on a seed's page then knows that they are wanted."""
        owners: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            owners[owner_of(link.host, self._engines.shards)].append(link)
        await self._engines.claims.add_roots([link.url for link in links])
        await self._engines.forwarding.send(owners)
        return []

    async def _refused(self, link: Link, problem: Unstorable) -> None:
        self.added -= 1
        self._complain(f"seed {link.url[:_SHOWN]} is not crawled: {problem}")


def kept(pipe: BinaryIO, crawl: str, folder: Path) -> Path:
    """A copy of standard input, named after its contents: a pipe cannot be read twice."""
    digest = hashlib.sha256()
    part = folder / f"skitter-{crawl}-seeds.part"
    try:
        with part.open("wb") as copy:
            while piece := pipe.read(_PIECE):
                digest.update(piece)
                copy.write(piece)
        return part.replace(folder / f"skitter-{crawl}-seeds-{digest.hexdigest()[:12]}.txt")
    finally:
        part.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
