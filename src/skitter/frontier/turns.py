"""The turns of a shard's owner: one verb at a time, and one write at its end that nothing overtakes.

A store at hand is written to at once. Behind a network a verb that is cancelled while it writes has its write finished all the
same, before the next begins, and what the engine refuses to store was decided in memory all the same, so memory is then
read again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from msgspec.structs import replace

from skitter.frontier import nearby, prefetch, recovery
from skitter.frontier.held import Lease
from skitter.frontier.names import Names
from skitter.frontier.nearby import Nearby
from skitter.frontier.patience import patiently
from skitter.frontier.reading import ShardReader
from skitter.frontier.rows import Batch, Opening, Wanted
from skitter.frontier.seen import LatelySeen
from skitter.frontier.shard import Shard
from skitter.frontier.store import AtHand, Forwarding, Seen, Source, Store
from skitter.frontier.through import Far, Lacking
from skitter.model import Link
from skitter.ports import StateError
from skitter.settings import Settings

T = TypeVar("T")
_LEAST_WINDOW = 500  # hosts of a shard, however many shards there are
_SEEN = 7  # URLs that are remembered, for each host in the window


class InHand(Protocol):
    """Where the visit is noted whose bytes are worked on, readable after the process has died."""

    def read(self) -> bytes:
        """The id that stands there; zeros for none."""
        ...

    def write(self, id16: bytes | None) -> None:
        """Take one, or put it down."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Turns(ShardReader):
    """What is in memory of a shard, and how it comes there and into the store."""

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        *,
        shard: int = 0,
        shards: int = 1,
        at_hand: AtHand | None = None,
        forwarding: Forwarding | None = None,
        grace: float = 0.0,
        in_hand: InHand | None = None,
    ) -> None:
        super().__init__(store)
        self._at_hand = at_hand
        settings = settings or Settings()
        self._settings = settings if at_hand is not None else _shared_out(settings, shards)
        self._names = Names(store.id_of, shard, shards, self._settings.frontier.window)
        self._forwarding, self._grace, self._hand = forwarding, grace, in_hand
        self._shard: Shard | None = None
        self._turn = asyncio.Lock()
        self._delivery: asyncio.Future[None] | None = None
        self._broken = False  # a write has failed: memory is ahead of the store
        self._clock = 0.0
        self._refill_at = 0.0  # when visits are taken out ahead again
        self._handed = 0  # visits handed out since they were
        self.complain: Callable[[str], None] = lambda _text: None  # of links that the engine refuses

    # -- turns and round trips ---------------------------------------------------------------------------------

    def _new_shard(self, opening: Opening) -> Shard:
        window = self._settings.frontier.window
        source: Source = Far()
        seen: Seen = LatelySeen(_SEEN * window)
        near = Nearby(nearby.FAR)
        if self._at_hand is not None:
            source, seen, near = self._at_hand, self._at_hand.seen, Nearby(nearby.AT_HAND)
        by_message = self._forwarding is not None
        shard = Shard(opening, self._settings, self._names, source, seen, near, by_message=by_message)
        if self._at_hand is None:
            shard.ahead = float(self._settings.cluster.lease_ahead)
        return shard

    @property
    def _open_shard(self) -> Shard:
        if self._shard is None:
            raise StateError("the frontier is not open")
        return self._shard

    @asynccontextmanager
    async def _verb(self) -> AsyncIterator[Shard]:
        """One verb at a time, and none before what was decided earlier is written."""
        async with self._turn:
            if self._delivery is not None:
                await self._delivered()
            if self._broken:
                raise StateError("a write has failed; open the crawl again, what was settled is safe")
            shard = self._open_shard
            self._broken = self._at_hand is not None  # until all that is decided now is written
            yield shard
            self._broken = False

    async def _delivered(self) -> None:
        delivery = self._delivery
        if delivery is not None:
            await asyncio.shield(delivery)
            if self._delivery is delivery:  # else the next one is under way
                self._delivery = None

    async def _fetch(self, wanted: Wanted) -> None:
        """Load what is missing, if anything is. A store at hand is read when it is needed."""
        if self._at_hand is None and wanted:
            wanted.urls = list(dict.fromkeys(wanted.urls))
            wanted.hosts = list(dict.fromkeys(wanted.hosts))
            wanted.robots = list(dict.fromkeys(wanted.robots))
            prefetch.take_in(self._open_shard, wanted, await self._load(wanted))

    async def _until_known(
        self, step: Callable[[], T], more: Callable[[Wanted], Wanted] = lambda wanted: wanted
    ) -> T:
        """Take a step that may have to be given something first; `more` adds what it will need besides."""
        while True:
            try:
                return step()
            except Lacking as lacking:
                wanted = more(lacking.wanted)
            await self._fetch(wanted)

    async def _commit(self, now: float, *, last: bool = False) -> None:
        """All that was decided becomes durable together. Links for other shards are safe before."""
        shard = self._open_shard
        if shard.headless:
            await self._until_known(shard.find_heads)
        batch, messages = shard.seal(now)
        batch.last = last
        if self._at_hand is not None:
            await self._store.write(batch)
        else:
            self._delivery = asyncio.ensure_future(self._deliver(batch, messages))
            await self._delivered()

    async def _commit_changes(self, shard: Shard, now: float) -> None:
        if shard.has_changes:
            await self._commit(now)

    async def _read_again(self, now: float, closed: Mapping[bytes, Lease] | None = None) -> None:
        """Memory as the engine has it, after it has refused what was decided.

        Visits that are out stay out, and those that were `closed` by what it refused are out again.
        """
        old, self._delivery = self._open_shard, None
        opening = await patiently(self._store.open)
        shard = self._shard = self._new_shard(opening)
        shard.follow(old)
        out = {id16: lease for id16, lease in old.leases.items() if lease.handed} | dict(closed or {})
        await self._fetch(prefetch.need_leases(shard, opening.leases))
        recovery.resume(shard, opening.leases, out)
        await self._commit(now)

    async def _deliver(self, batch: Batch, messages: list[Link]) -> None:
        forwarding = self._forwarding
        if messages and forwarding is not None:
            by_shard: dict[int, list[Link]] = {}
            for link in messages:
                by_shard.setdefault(self._names.host(link.host).owner, []).append(link)
            await patiently(lambda: forwarding.send(by_shard))
        await patiently(lambda: self._store.write(batch))


def _shared_out(settings: Settings, shards: int) -> Settings:
    """What is held in memory is bounded by the window, and a worker may have every shard: each has its part of it."""
    whole = settings.frontier.window
    part = max(whole // shards, min(whole, _LEAST_WINDOW))
    return replace(settings, frontier=replace(settings.frontier, window=part))
