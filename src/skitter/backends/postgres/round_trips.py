"""Group commit: what the shards of a worker ask of the database at about the same time shares one round trip.

The shards of a worker settle together (see `skitter.crawl.completing`), so their questions come close together. The first
one waits a moment for the shards that are expected to follow, and not at all once they have asked. Each question gets
its own answer: a write under an old epoch is rejected while the others succeed. If the connection is lost, each caller
learns that its own write may or may not have happened.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from skitter.backends.postgres import loading, writing
from skitter.backends.postgres.loading import Question
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.statements import Texts
from skitter.backends.postgres.writing import Entry
from skitter.frontier.rows import Batch, Found, Wanted
from skitter.ports import Unstorable

Q = TypeVar("Q", bound=Question | Entry)
A = TypeVar("A")

# Seconds to wait for the others. Shards that settle together start to load in about the same turn of the event loop. A
# shard that has loaded will write; until then, some load more than others, and Kafka acknowledges their messages one by one.
_LOADS_WAIT, _WRITES_WAIT = 0.002, 0.03
_SOON = 0.2  # seconds between a load and its write, if there is one
_MOST = 4_000  # rows per statement. More are no cheaper, and a statement must end long before its timeout
_NAMED = 16  # shards named in the text of a load


class _RoundTrip(Generic[Q, A]):
    def __init__(self, run: Callable[["_RoundTrip[Q, A]"], Coroutine[None, None, Sequence[A]]]) -> None:
        self.asked: list[Q] = []
        self.complete = asyncio.Event()
        self.task = asyncio.create_task(run(self))
        self.task.add_done_callback(_retrieve)
        self._waiters = 0

    async def finished(self) -> None:
        """Wait for the answers. A cancelled waiter leaves the round trip running; the last one cancels it."""
        self._waiters += 1
        try:
            await asyncio.wait([self.task])
        finally:
            self._waiters -= 1
            if not self._waiters:
                self.task.cancel()  # does nothing if it has finished


def _retrieve(task: "asyncio.Task[Sequence[A]]") -> None:
    """Mark a failure as seen: if every caller was cancelled, nobody needs it."""
    if not task.cancelled():
        task.exception()


class Shared(Generic[Q, A]):
    """Questions that share round trips; `send` returns their answers in the same order."""

    def __init__(
        self, send: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], wait: float, *, once_each: bool = False
    ) -> None:
        """The first question waits up to `wait` seconds for others. `once_each`: at most one question per shard."""
        self._send, self._wait, self._once_each = send, wait, once_each
        self._next: _RoundTrip[Q, A] | None = None

    async def ask(self, question: Q, expected: Collection[int]) -> A:
        """The answer, or the failure of the round trip. The `expected` shards are likely to ask, too."""
        trip = self._next
        if trip is None or not self._fits(trip, question):
            if trip is not None:
                trip.complete.set()
            trip = self._next = _RoundTrip(self._run)
        place = len(trip.asked)
        trip.asked.append(question)
        if {each.shard for each in trip.asked}.issuperset(expected):
            trip.complete.set()
        await trip.finished()
        return trip.task.result()[place]

    def _fits(self, trip: _RoundTrip[Q, A], question: Q) -> bool:
        if trip.task.cancelling() or (
            self._once_each and any(each.shard == question.shard for each in trip.asked)
        ):
            return False
        return sum(each.rows() for each in trip.asked) + question.rows() <= _MOST

    async def _run(self, trip: _RoundTrip[Q, A]) -> Sequence[A]:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                await trip.complete.wait()
        if self._next is trip:
            self._next = None
        return await self._send(trip.asked)


class RoundTrips:
    """The round trips that the shards of a worker share."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._texts = Texts(pool.schema)
        self._shards: list[int] = []
        self._loaded: dict[int, float] = {}  # shards that have loaded and not written since, and when
        self._writes: Shared[Entry, bool | Unstorable] = Shared(
            self._send_writes, _WRITES_WAIT, once_each=True
        )
        # By the first shard of each group that one statement names: naming hundreds would be slow to plan, and too long
        # to be cached.
        self._loads: defaultdict[int, Shared[Question, Found]] = defaultdict(
            lambda: Shared(self._send_loads, _LOADS_WAIT)
        )

    def join(self, shard: int) -> None:
        """From now on, the other shards wait for this one."""
        self._shards = sorted({*self._shards, shard})

    def leave(self, shard: int) -> None:
        """The others no longer wait for this shard."""
        self._shards = [other for other in self._shards if other != shard]
        self._loaded.pop(shard, None)

    async def write(self, shard: int, epoch: int, batch: Batch) -> bool:
        """Write all of a batch or nothing: False if the shard has another epoch, Unstorable if the database refuses it."""
        self._loaded.pop(shard, None)
        lately = asyncio.get_running_loop().time() - _SOON
        expected = [other for other, when in self._loaded.items() if when > lately]
        answer = await self._writes.ask(Entry(shard, epoch, batch), expected)
        if isinstance(answer, Unstorable):
            raise answer
        return answer

    async def load(self, shard: int, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        named = self._named(shard)
        found = await self._loads[named[0]].ask(Question(shard, wanted), named)
        if shard in self._shards:
            self._loaded[shard] = asyncio.get_running_loop().time()
        return found

    async def _send_writes(self, entries: Sequence[Entry]) -> list[bool | Unstorable]:
        """One statement. If the database refuses a value, each batch is written alone, and only the bad one fails."""
        try:
            return [*await self._write(entries)]
        except Unstorable as refused:
            if len(entries) == 1:
                return [refused]
        return [answer for entry in entries for answer in await self._send_writes([entry])]

    async def _write(self, entries: Sequence[Entry]) -> list[bool]:
        # In the order of shard numbers, in which heartbeats lock them, too: no deadlock.
        pieces, values = writing.describe(sorted(entries, key=lambda entry: entry.shard))
        rows = await self.pool.rows(self._texts.write(pieces), values)
        ours = {row["shard"] for row in rows}
        return [entry.shard in ours for entry in entries]

    async def _send_loads(self, asked: Sequence[Question]) -> list[Found]:
        """The text names one shard, or all that may ask: few texts, each planned once per connection."""
        asking = {question.shard for question in asked}
        shards = sorted(asking if len(asking) == 1 else asking.union(*map(self._named, asking)))
        names, values = loading.questions(asked, shards)
        return loading.answers(asked, await self.pool.rows(self._texts.load(shards, names), values))

    def _named(self, shard: int) -> Sequence[int]:
        """The shards whose loads share a statement with this one's."""
        if shard not in self._shards:
            return [shard]
        first = self._shards.index(shard) // _NAMED * _NAMED
        return self._shards[first : first + _NAMED]
