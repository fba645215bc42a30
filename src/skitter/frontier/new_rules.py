"""The verb that applies a changed robots.txt to the URLs of its origin, in writes of bounded size.

That it is not finished is stored with the shard, so a crash in between loses nothing: the next owner does not know which
origins are left, and judges the URLs of all of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing

from skitter import urls
from skitter.frontier import judging, prefetch
from skitter.frontier.commands import ROWS_AT_ONCE, CommandVerbs
from skitter.frontier.rows import UrlRow, Wanted
from skitter.frontier.shard import ALL_ORIGINS, NEW_RULES
from skitter.ports import Judged, RulesOf


class RulesVerbs(CommandVerbs):
    """What a robots.txt that has changed does to URLs that are known."""

    def has_new_rules(self) -> bool:
        """Whether a robots.txt has changed since URLs were judged by it."""
        return bool(self._open_shard.new_rules)

    async def judge_by_rules(
        self, rules: Callable[[Collection[str]], Awaitable[RulesOf]], now: float
    ) -> Judged:
        """Judge waiting and refused URLs by a robots.txt that has changed."""
        shard = self._open_shard
        changed, shard.new_rules = shard.new_rules, set()
        if not changed:
            return Judged()
        came = went = 0
        try:
            async with aclosing(self._of_origins(changed)) as found, aclosing(self._in_parts(found)) as parts:
                async for rows in parts:
                    in_force = await rules({urls.origin(row.url) for row in rows})
                    ids = [row.id for row in rows]
                    async with self._verb() as shard:
                        await self._fetch(Wanted(urls=ids, hosts=[row.host for row in rows]))
                        if self._at_hand is None:  # a redirect may have moved some since they were read
                            await self._until_known(
                                lambda ids=ids, shard=shard: prefetch.need_hosts_of_rows(shard, ids)  # type: ignore[misc]
                            )
                        some = judging.judge_by_rules(shard, ids, in_force)
                        await self._commit(now)
                    came, went = came + some[0], went + some[1]
                    await asyncio.sleep(0)  # other verbs want their turn
        except BaseException:
            shard.new_rules |= changed
            raise
        async with self._verb() as shard:
            if not shard.new_rules:
                shard.meta.positions[NEW_RULES] = "0"
                await self._commit(now)
        return Judged(came, went)

    async def _of_origins(self, origins: Collection[str]) -> AsyncGenerator[UrlRow, None]:
        """The URLs of some origins, or of all, that a robots.txt may let in or keep out."""
        read, rows = 0, self._store.urls()
        try:
            async for row in rows:
                read += 1
                if not read % ROWS_AT_ONCE:  # there may be millions, and few of them concerned
                    await asyncio.sleep(0)
                if judging.concerns_rules(row) and (
                    ALL_ORIGINS in origins or urls.origin(row.url) in origins
                ):
                    yield row
        finally:
            if isinstance(rows, AsyncGenerator):
                await rows.aclose()
