"""What the shards of a worker ask of the database at about the same moment travels in one round trip.

The shards of a worker settle together (see `skitter.crawl.batching`), so they come one close behind the other. Whoever asks first
waits a moment for those that are to be expected, and not at all when they are there. Each has an answer of its own. One
whose epoch is over is told so while the others' writes succeed. When the connection is lost on the way, each learns that
its own write may or may not have happened.
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

# Seconds for the others. Shards that settle together begin to load in about the same turn of the event loop. Who has loaded
# will write, and before that some have more to load than others, and Kafka acknowledges their messages one by one.
_LOADS_WAIT, _WRITES_WAIT = 0.002, 0.03
_SOON = 0.2  # seconds between loading and writing, if it is to be written at all
_MOST = 4_000  # rows of one statement. More are no cheaper together, and a statement must end long before its timeout
_NAMED = 16  # shards that the text of a load names


class _Journey(Generic[Q, A]):
    def __init__(self, travel: Callable[["_Journey[Q, A]"], Coroutine[None, None, Sequence[A]]]) -> None:
        self.asked: list[Q] = []
        self.leave = asyncio.Event()
        self.back = asyncio.create_task(travel(self))
        self.back.add_done_callback(_heard)
        self._awaited = 0

    async def returned(self) -> None:
        """Wait for it. Who goes away meanwhile leaves the others to it; the last one breaks it off."""
        self._awaited += 1
        try:
            await asyncio.wait([self.back])
        finally:
            self._awaited -= 1
            if not self._awaited:
                self.back.cancel()  # which does nothing when it is back


def _heard(back: "asyncio.Task[Sequence[A]]") -> None:
    """What goes wrong when all who asked have gone away is nobody's business."""
    if not back.cancelled():
        back.exception()


class Together(Generic[Q, A]):
    """Questions that travel together; `carry` brings an answer to each back, in their order."""

    def __init__(
        self, carry: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], wait: float, *, once_each: bool = False
    ) -> None:
        """The first waits so many seconds for the others. `once_each`: of a shard there is one at a time."""
        self._carry, self._wait, self._once_each = carry, wait, once_each
        self._boarding: _Journey[Q, A] | None = None

    async def ask(self, question: Q, expected: Collection[int]) -> A:
        """The answer, or what went wrong on the way. These shards are likely to ask, too."""
        journey = self._boarding
        if journey is None or not self._fits(journey, question):
            if journey is not None:
                journey.leave.set()
            journey = self._boarding = _Journey(self._travel)
        place = len(journey.asked)
        journey.asked.append(question)
        if {each.shard for each in journey.asked}.issuperset(expected):
            journey.leave.set()
        await journey.returned()
        return journey.back.result()[place]

    def _fits(self, journey: _Journey[Q, A], question: Q) -> bool:
        if journey.back.cancelling() or (
            self._once_each and any(each.shard == question.shard for each in journey.asked)
        ):
            return False
        return sum(each.rows() for each in journey.asked) + question.rows() <= _MOST

    async def _travel(self, journey: _Journey[Q, A]) -> Sequence[A]:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                await journey.leave.wait()
        if self._boarding is journey:
            self._boarding = None
        return await self._carry(journey.asked)


class Journeys:
    """The round trips of the shards that have joined."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._texts = Texts(pool.schema)
        self._shards: list[int] = []
        self._loaded: dict[int, float] = {}  # shards that have loaded and not written since, and when
        self._writes: Together[Entry, bool | Unstorable] = Together(
            self._carry_writes, _WRITES_WAIT, once_each=True
        )
        # By the first of the shards that are named together: a statement that named hundreds of them would be slow to plan, and too long to be kept.
        self._loads: defaultdict[int, Together[Question, Found]] = defaultdict(
            lambda: Together(self._carry_loads, _LOADS_WAIT)
        )

    def join(self, shard: int) -> None:
        """From now on the others wait for this one."""
        self._shards = sorted({*self._shards, shard})

    def leave(self, shard: int) -> None:
        """Nobody waits for it any more."""
        self._shards = [other for other in self._shards if other != shard]
        self._loaded.pop(shard, None)

    async def write(self, shard: int, epoch: int, batch: Batch) -> bool:
        """All of a batch, or nothing: False when the shard has another epoch. Unstorable when the database refuses it."""
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

    async def _carry_writes(self, entries: Sequence[Entry]) -> list[bool | Unstorable]:
        """One statement. If the database refuses a value in it, each goes alone: only the one who brought it is told so."""
        try:
            return [*await self._write(entries)]
        except Unstorable as refused:
            if len(entries) == 1:
                return [refused]
        return [answer for entry in entries for answer in await self._carry_writes([entry])]

    async def _write(self, entries: Sequence[Entry]) -> list[bool]:
        # In the order of their numbers, as a sign of life locks them, too: nobody waits for somebody who waits for them.
        pieces, values = writing.describe(sorted(entries, key=lambda entry: entry.shard))
        rows = await self.pool.rows(self._texts.write(pieces), values)
        ours = {row["shard"] for row in rows}
        return [entry.shard in ours for entry in entries]

    async def _carry_loads(self, asked: Sequence[Question]) -> list[Found]:
        """The text names one shard, or all that might have asked: few texts, each planned once on a connection."""
        asking = {question.shard for question in asked}
        shards = sorted(asking if len(asking) == 1 else asking.union(*map(self._named, asking)))
        names, values = loading.questions(asked, shards)
        return loading.answers(asked, await self.pool.rows(self._texts.load(shards, names), values))

    def _named(self, shard: int) -> Sequence[int]:
        """The shards whose loads travel with those of this one."""
        if shard not in self._shards:
            return [shard]
        first = self._shards.index(shard) // _NAMED * _NAMED
        return self._shards[first : first + _NAMED]
