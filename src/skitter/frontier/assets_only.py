"""The verb by which a shard leases nothing but assets: a crawl has all the pages it may have, and completes them.

Hosts without a waiting asset have no place in the agenda meanwhile. That it is so is stored with the shard, so a crash in
between loses nothing: whoever opens the shard next puts every host back into its place first.
"""

import asyncio

from skitter.frontier.commands import ROWS_AT_ONCE
from skitter.frontier.new_rules import RulesVerbs
from skitter.frontier.rows import Wanted
from skitter.frontier.shard import ONLY_ASSETS
from skitter.politeness.budgets import is_tally


class AssetVerbs(RulesVerbs):
    """Assets alone, or everything again."""

    async def lease_assets_only(self, now: float, *, only: bool = True) -> None:
        """From now on lease assets alone, or everything again."""
        if self._open_shard.only_assets != only:
            await self._switch(now, only=only)

    async def _place_all(self, now: float) -> None:
        """Whoever had the shard before leased assets alone until the end."""
        if self._open_shard.meta.positions.get(ONLY_ASSETS) == "1":
            await self._switch(now, only=False)

    async def _switch(self, now: float, *, only: bool) -> None:
        async with self._verb() as shard:
            shard.only_assets = only
            if only:
                shard.meta.positions[ONLY_ASSETS] = "1"
            for name in list(shard.reserve.hosts):
                shard.put_back(name)
            await self._commit(now)
        names = [row.name async for row in self._store.hosts() if not is_tally(row.name)]
        for at in range(0, len(names), ROWS_AT_ONCE):
            some = names[at : at + ROWS_AT_ONCE]
            async with self._verb() as shard:
                await self._fetch(Wanted(hosts=some))
                for name in some:
                    shard.touch(shard.host(name))
                await self._commit(now)
            await asyncio.sleep(0)  # other verbs want their turn
        if not only:
            async with self._verb() as shard:
                shard.meta.positions[ONLY_ASSETS] = "0"
                await self._commit(now)
