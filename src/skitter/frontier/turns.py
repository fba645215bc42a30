"""The turns and round trips of a shard's owner: one verb at a time, at most one load, and one write that nothing overtakes.

A verb that is cancelled while it writes has its write finished all the same, before the next begins. What the engine refuses
to store was decided in memory all the same, so memory is then read again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from msgspec.structs import replace

from skitter.frontier import adding, recovery
from skitter.frontier.held import Lease
from skitter.frontier.loading import take_in
from skitter.frontier.mail import Mail
from skitter.frontier.names import Names
from skitter.frontier.patience import patiently
from skitter.frontier.reading import RemoteReader
from skitter.frontier.rows import Batch, Wanted
from skitter.frontier.shard import Shard
from skitter.frontier.store import Store
from skitter.model import Link
from skitter.ports import StateError
from skitter.settings import Settings

T = TypeVar("T")
_LEAST_WINDOW = 500  # hosts of a shard, however many shards there are


class Hand(Protocol):
    """Where word is left of the visit whose bytes are worked on, readable after the process has died."""

    def read(self) -> bytes:
        """The id that stands there; zeros for none."""
        ...

    def write(self, id16: bytes | None) -> None:
        """Take one, or put it down."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Turns(RemoteReader):
    """What is in memory of a shard, and how it comes there and into the store."""

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        *,
        shard: int = 0,
        shards: int = 1,
        mail: Mail | None = None,
        grace: float = 0.0,
        hand: Hand | None = None,
    ) -> None:
        super().__init__(store)
        self._settings = _shared_out(settings or Settings(), shards)
        self._names = Names(shard, shards, self._settings.frontier.window)
        self._mail, self._grace, self._hand = mail, grace, hand
        self._shard: Shard | None = None
        self._turn = asyncio.Lock()
        self._delivery: asyncio.Future[None] | None = None
        self._clock = 0.0
        self._refill_at = 0.0  # when visits are taken out ahead again
        self._handed = 0  # visits handed out since they were
        self.complain: Callable[[str], None] = lambda _text: None  # of links that the engine refuses

    # -- turns and round trips ---------------------------------------------------------------------------------

    @property
    def _open_shard(self) -> Shard:
        if self._shard is None:
            raise StateError("the frontier is not open")
        return self._shard

    @asynccontextmanager
    async def _verb(self) -> AsyncIterator[Shard]:
        """One verb at a time, and none before what was decided earlier is written."""
        async with self._turn:
            await self._delivered()
            yield self._open_shard

    async def _delivered(self) -> None:
        delivery = self._delivery
        if delivery is not None:
            await asyncio.shield(delivery)
            if self._delivery is delivery:  # else the next one is under way
                self._delivery = None

    async def _fetch(self, wanted: Wanted | None) -> None:
        """Into memory with what is missing, if anything is."""
        if wanted is not None and wanted:
            wanted.urls = list(dict.fromkeys(wanted.urls))
            wanted.hosts = list(dict.fromkeys(wanted.hosts))
            wanted.robots = list(dict.fromkeys(wanted.robots))
            take_in(self._open_shard, wanted, await self._load(wanted))

    async def _until_known(self, step: Callable[[], T | Wanted]) -> T:
        """Take a step that may have to ask for something first."""
        while isinstance(answer := step(), Wanted):
            await self._fetch(answer)
        return answer

    async def _commit(self, now: float) -> None:
        """All that was decided becomes durable together. Links for other shards are safe before."""
        shard = self._open_shard
        await self._until_known(lambda: adding.find_heads(shard))
        batch, letters = shard.seal(now)
        self._delivery = asyncio.ensure_future(self._deliver(batch, letters))
        await self._delivered()

    async def _read_again(self, now: float, closed: Mapping[bytes, Lease] | None = None) -> None:
        """Memory as the engine has it, after it has refused what was decided.

        Visits that are out stay out, and those that were `closed` by what it refused are out again.
        """
        old, self._delivery = self._open_shard, None
        opening = await patiently(self._store.open)
        shard = self._shard = Shard(opening, self._settings, self._names, by_mail=self._mail is not None)
        shard.follow(old)
        out = {id16: lease for id16, lease in old.leases.items() if lease.handed} | dict(closed or {})
        await self._fetch(recovery.need_lost(shard, opening.leases))
        recovery.resume(shard, opening.leases, out)
        await self._commit(now)

    async def _deliver(self, batch: Batch, letters: list[Link]) -> None:
        mail = self._mail
        if letters and mail is not None:
            by_shard: dict[int, list[Link]] = {}
            for link in letters:
                by_shard.setdefault(self._names.host(link.host).owner, []).append(link)
            await patiently(lambda: mail.send(by_shard))
        await patiently(lambda: self._store.write(batch))


def _shared_out(settings: Settings, shards: int) -> Settings:
    """What is held in memory is bounded by the window, and a worker may have every shard: each has its part of it."""
    whole = settings.frontier.window
    part = max(whole // shards, min(whole, _LEAST_WINDOW))
    return replace(settings, frontier=replace(settings.frontier, window=part))
