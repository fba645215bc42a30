"""Keeps a cluster worker within the limits of the whole crawl: `crawl.max_pages`, `max_bytes` and `max_time`.

Every worker checks for itself, as often as it renews its leases: the counts of all shards, and the quota, which says
when the crawl started and how many pages each shard may store (see `quota`). A worker that sees a limit reached
leaves. The page limit is exact. Bytes count settled visits, so what is in flight at the last check comes on top.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from skitter.cluster.ports import Claims, Standing
from skitter.cluster.quota import Quota, Wish, allowances, read, written
from skitter.cluster.worker import ClusterWorker
from skitter.crawl.limits import has_limit, limit_reached, may_complete
from skitter.crawl.shard import Shard
from skitter.model import Counts
from skitter.ports import Clock, EngineAway
from skitter.reporting.report import total
from skitter.settings import Settings

_FEW = 8  # pages that a shard asks for while its speed is unknown


class LimitWatch:
    """Keeps one worker within the limits of the whole crawl."""

    def __init__(self, worker: ClusterWorker, claims: Claims, clock: Clock, settings: Settings) -> None:
        self._worker = worker
        self._held = worker.held
        self._claims = claims
        self._clock = clock
        self._limits = settings.crawl
        self._every = float(settings.cluster.renew)
        self._counts = Counts()  # of the whole crawl, at the last check
        self._began: float | None = None  # by our own monotonic clock
        self._paces: dict[Shard, _Pace] = {}
        self._refused = False  # a shard needed more, and nothing was left
        if self._limits.max_pages is not None:
            self._held.allowed = {}

    async def reached(self) -> str:
        """Check once; returns the limit that is reached. While the engine is away, the last counts are used."""
        with suppress(EngineAway):
            await self._look()
        return limit_reached(
            self._limits, pages=self._counts.pages, received=self._counts.bytes, elapsed=self._elapsed
        )

    @property
    def _elapsed(self) -> float:
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    async def may_complete(self) -> bool:
        """Whether what the stored pages need may be fetched: there are enough of them, and no other limit is reached."""
        with suppress(EngineAway):
            self._counts = total([shard.counts for shard in await self._claims.standing()])
        most, elapsed = self._limits.max_pages, self._elapsed
        enough = most is not None and self._counts.pages >= most
        return enough and may_complete(self._limits, received=self._counts.bytes, elapsed=elapsed)

    async def watch(self) -> str:
        """Check repeatedly; returns the limit when it is reached. Without limits, nothing is checked."""
        if not has_limit(self._limits):
            await asyncio.Event().wait()
        while not (why := await self.reached()):
            await self._pause()
        return why

    async def _pause(self) -> None:
        """Wait for the next check, or until a shard could go on with a larger allowance."""
        wait = self._every
        if self._limits.max_time is not None and self._began is not None:
            wait = min(wait, max(0.0, self._began + self._limits.max_time - self._clock.monotonic()))
        if self._refused:  # others may have given some back by then
            await asyncio.sleep(wait)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._held.short.wait()
        self._held.short.clear()

    async def _look(self) -> None:
        asked = self._clock.monotonic()
        standing = await self._claims.standing()
        self._counts = total([shard.counts for shard in standing])
        now = standing[0].now
        quota = await self._settle_accounts(standing, now)
        self._began = asked - (now - quota.began)

    # -- pages -------------------------------------------------------------------------------------------------

    async def _settle_accounts(self, standing: Sequence[Standing], now: float) -> Quota:
        """Give back what we do not need, and take what we do. Nothing is used before the engine has agreed."""
        asking = self._wishes() if self._held.allowed is not None else {}
        wishes = {shard.number: wish for shard, wish in asking.items()}
        stored = {shard.shard: shard.counts.pages for shard in standing}
        words = await self._claims.swap("", "")
        while True:
            quota = read(words) or Quota(now)
            if self._limits.max_pages is not None:
                allowed = allowances(quota, self._limits.max_pages, wishes, stored)
                quota = Quota(quota.began, quota.writes, allowed)
            if quota == read(words):
                break
            wanted = written(quota)
            words = await self._claims.swap(words, wanted)
            if words == wanted:
                break
        if self._held.allowed is not None:
            self._apply(asking, quota)
        return quota

    def _wishes(self) -> dict[Shard, Wish]:
        """What each of our shards wants. What it will give back is no longer used from here on."""
        wishes, allowed = {}, {}
        soon = self._clock.now() + self._every
        for shard, epoch in self._worker.held_under():
            used = shard.counts.pages + shard.in_flight + shard.taking
            left = self._allowed(shard) - used
            pace = self._paces.setdefault(shard, _Pace(used))
            pages = used
            if shard.due is not None and shard.due <= soon:
                pages += max(1 if left > 0 else _FEW, 2 * pace.of(used))
            wishes[shard] = Wish(epoch, used, pages)
            allowed[shard] = min(used + max(left, 0), pages)
        self._held.allowed = allowed
        self._paces = {shard: self._paces[shard] for shard in wishes}
        return wishes

    def _apply(self, asking: dict[Shard, Wish], quota: Quota) -> None:
        """Use what the quota allows."""
        self._refused = False
        for shard, wish in asking.items():
            granted = quota.allowed[shard.number]
            if granted.epoch != wish.epoch or self._held.allowed is None:
                continue  # it has another owner, and will learn it
            self._refused = self._refused or granted.pages == wish.used < wish.pages
            if granted.pages > self._allowed(shard):
                self._held.allowed[shard] = granted.pages
                shard.wake()

    def _allowed(self, shard: Shard) -> int:
        return (self._held.allowed or {}).get(shard, 0)


class _Pace:
    """How many pages a shard has used between two checks, the last or the one before."""

    def __init__(self, used: int) -> None:
        self._used, self._before = used, 0

    def of(self, used: int) -> int:
        growth, self._used = max(0, used - self._used), used
        pace, self._before = max(growth, self._before), growth
        return pace
