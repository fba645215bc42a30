"""The verb that applies the commands of a person, with what it has to load for it.

What they change is in `obeying`; here each command becomes a few writes of bounded size, the last of which stores that
it is applied.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from skitter.frontier import obeying, prefetch
from skitter.frontier.rows import UrlRow
from skitter.frontier.shard import Shard
from skitter.frontier.verbs import Verbs
from skitter.ports import Command, Do, Obeyed, Unstorable

T = TypeVar("T")
ROWS_AT_ONCE = 500

Step = Callable[[Shard], Awaitable[tuple[int, int]]]
"""A part of a command; returns what it has changed, and what was so before."""


class CommandVerbs(Verbs):
    """Commands, applied once each."""

    def obeyed(self) -> int:
        """The number of the last applied command."""
        return int(self._open_shard.meta.positions.get(obeying.SOURCE, "0"))

    async def obey(self, commands: Sequence[Command], now: float) -> list[Obeyed]:
        """Apply the commands that are new here, one after the other."""
        async with self._obeying:
            told = []
            for command in commands:
                if command.number > self.obeyed():
                    try:
                        told.append(await self._obey(command, now))
                    except Unstorable as problem:  # it would be refused again and again
                        self.complain(f"{command.do} could not be applied: {problem}")
                        await self._step(_nothing, now, command.number)
            return told

    async def _obey(self, command: Command, now: float) -> Obeyed:
        """The position is stored in the write that completes the command."""
        hosts = [name for name in command.hosts if not self._names.host(name).foreign]
        ids = [self._id(key, host) for key, host in command.urls if not self._names.host(host).foreign]
        owners = {host for _, host in command.urls if not self._names.host(host).foreign}
        changed = same = 0
        steps: list[Step] = []
        if command.do is Do.BLOCK:
            steps = [partial(self._block, names, now) for names in _parts(hosts)]
        elif command.do is Do.UNBLOCK:
            steps = [partial(self._unblock, names) for names in _parts(hosts)]
        elif command.do is Do.RETRY:
            for names in _parts([*hosts, *(owners - set(hosts))]):
                await self._step(partial(self._give_another_chance, names), now)
            if command.failed or hosts:
                changed = await self._retry_failed(None if command.failed else frozenset(hosts), now)
            steps = [partial(self._retry, some, named=True) for some in _parts(ids)]
        elif command.do is Do.REFRESH:
            changed = await self._refresh_all(command.at, now)
        for step in steps[:-1]:
            some = await self._step(step, now)
            changed, same = changed + some[0], same + some[1]
        some = await self._step(steps[-1] if steps else _nothing, now, command.number)
        return Obeyed(command.number, changed + some[0], same + some[1])

    async def _step(self, step: Step, now: float, completes: int | None = None) -> tuple[int, int]:
        """One write; the last one of a command stores that the command is applied."""
        async with self._verb() as shard:
            some = await step(shard)
            if completes is not None:
                shard.meta.positions[obeying.SOURCE] = str(completes)
            try:
                await self._commit(now)
            except Unstorable:
                await self._read_again(now)
                raise
        return some

    async def _block(self, names: Sequence[str], now: float, shard: Shard) -> tuple[int, int]:
        await self._until_known(lambda: self._needed(prefetch.need_blocking, shard, names))
        return obeying.block(shard, names, now)

    async def _unblock(self, names: Sequence[str], shard: Shard) -> tuple[int, int]:
        await self._until_known(lambda: self._needed(prefetch.need_taking_back, shard, names))
        return obeying.unblock(shard, names)

    async def _give_another_chance(self, names: Sequence[str], shard: Shard) -> tuple[int, int]:
        await self._until_known(lambda: self._needed(prefetch.need_taking_back, shard, names))
        obeying.give_another_chance(shard, names)
        return 0, 0

    async def _retry(self, ids: Sequence[bytes], shard: Shard, *, named: bool) -> tuple[int, int]:
        await self._until_known(lambda: self._needed(prefetch.need_retries, shard, ids))
        return obeying.retry(shard, ids, named=named), 0

    def _needed(self, need: Callable[[Shard, Sequence[T]], None], shard: Shard, what: Sequence[T]) -> None:
        if self._at_hand is None:
            need(shard, what)

    async def _retry_failed(self, hosts: frozenset[str] | None, now: float) -> int:
        """Retry everything that failed, on these hosts or on all, a bounded number at a time."""
        again = 0
        # Closed at once if the sweep is broken off: a store cannot be closed while it is read.
        async with aclosing(self._failed(hosts)) as failed, aclosing(self._in_parts(failed)) as parts:
            async for ids in parts:
                again += (await self._step(partial(self._retry, ids, named=False), now))[0]
                await asyncio.sleep(0)  # other verbs want their turn
        return again

    async def _refresh_all(self, before: float, now: float) -> int:
        """Everything that was answered before is due again, a bounded number at a time."""
        again = 0
        chosen = self._chosen(lambda row: obeying.is_answered(row, before))
        async with aclosing(chosen) as rows, aclosing(self._in_parts(rows)) as parts:
            async for ids in parts:
                again += (await self._step(partial(self._refresh, ids, before, now), now))[0]
                await asyncio.sleep(0)  # other verbs want their turn
        return again

    async def _refresh(
        self, ids: Sequence[bytes], before: float, now: float, shard: Shard
    ) -> tuple[int, int]:
        await self._until_known(lambda: self._needed(prefetch.need_retries, shard, ids))
        return obeying.refresh(shard, ids, before, now), 0

    def _failed(self, hosts: frozenset[str] | None) -> AsyncGenerator[bytes, None]:
        return self._chosen(
            lambda row: obeying.has_failed(row, named=False) and (hosts is None or row.host in hosts)
        )

    async def _chosen(self, chosen: Callable[[UrlRow], bool]) -> AsyncGenerator[bytes, None]:
        read, rows = 0, self._store.urls()
        try:
            async for row in rows:
                read += 1
                if not read % ROWS_AT_ONCE:  # there may be millions, and few of them chosen
                    await asyncio.sleep(0)
                if chosen(row):
                    yield row.id
        finally:
            if isinstance(rows, AsyncGenerator):
                await rows.aclose()

    async def _in_parts(self, rows: AsyncIterator[T]) -> AsyncGenerator[list[T], None]:
        """A bounded number at a time."""
        some: list[T] = []
        async for row in rows:
            some.append(row)
            if len(some) == ROWS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some


async def _nothing(_shard: Shard) -> tuple[int, int]:
    return 0, 0


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[at : at + ROWS_AT_ONCE] for at in range(0, len(items), ROWS_AT_ONCE)]
