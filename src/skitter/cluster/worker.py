"""One worker of a cluster: it renews its leases, takes its share of the shards, runs them, and hands them over.

A shard that has another owner is dropped without writing: the store would reject it (Fenced). The new owner repeats
what was in flight. An engine that is away stops nothing: what is in flight is finished and held, nothing new starts,
and work continues when the engine is back, unless another worker has the shard by then.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from typing import Any

from skitter.cluster.balance import plan
from skitter.cluster.clock import EngineClock
from skitter.cluster.held_shards import HeldShards
from skitter.cluster.incoming import IncomingLinks, WorkerParts
from skitter.cluster.lease import ShardLeases
from skitter.cluster.orders import all_commands
from skitter.cluster.ports import Claim, Claims, Renewal
from skitter.control.orders import is_paused
from skitter.crawl.shard import Shard
from skitter.engines.breaker import until_again
from skitter.events import Events, Warned
from skitter.ports import Command, EngineAway, Fenced, Obeyed
from skitter.runtime.process import unwrapped
from skitter.settings import Settings

_ROOTS = 5_000  # roots read at once: some 50 ms
PAUSED = "the crawl is paused, and nothing is fetched until it is told: skitter continue"
_RESULTS = 16  # commands whose results are reported


class ClusterWorker:
    """A worker from joining to leaving."""

    def __init__(
        self, name: str, claims: Claims, clock: EngineClock, settings: Settings, events: Events
    ) -> None:
        """`name` must be unique, also among former workers."""
        self.name = name
        self.held = HeldShards(settings.crawl.concurrency)
        self.leases = ShardLeases(settings.cluster.lease, clock.monotonic)
        self.widen: Callable[[Sequence[str]], None] = lambda _roots: None
        self.version: int | None = None  # version of the settings we use; None: any
        self.outdated: Callable[[], None] = lambda: None  # they have changed
        self.says: Callable[[], dict[str, Any]] = dict
        self.colleagues = 1  # workers of the cluster at the last heartbeat, with this one
        self._claims = claims
        self._clock = clock
        self._renew_every = settings.cluster.renew
        self._events = events
        self._epochs: dict[int, int] = {}
        self._opened: dict[int, int] = {}  # shards, under these epochs
        self._holding: dict[int, asyncio.Task[None]] = {}
        self._leaving = asyncio.Event()
        self._incoming = IncomingLinks(self.held, self.leases, clock, self._lose)
        self._away: EngineAway | None = None  # why the claims' engine last could not be reached
        self._lease = settings.cluster.lease
        self._roots = 0  # the position of the last root that we know
        self._commands: list[Command] = []  # all that we know, in order
        self._obeying: dict[int, asyncio.Task[None]] = {}  # shards that are applying commands
        self._results: dict[int, Obeyed] = {}  # what the last commands have changed in our shards
        self._renewed_at = inf  # by our own clock
        self._blind_until = -inf

    # -- joining and leaving -----------------------------------------------------------------------------------

    async def run(self, parts: WorkerParts) -> None:
        """Work until told to leave. However it ends, its shards are free for others at once, if the engine can be
        told.
        """
        try:
            await unwrapped(self._run(parts))
        finally:
            # Requests of the last owner may still need one that was not opened yet: its lease expires by
            # itself.
            opened = {
                shard: epoch for shard, epoch in self._epochs.items() if self._opened.get(shard) == epoch
            }
            with suppress(EngineAway):
                await self._claims.release(opened)
                await self._claims.leave()

    def leave(self) -> None:
        """Finish what is in flight, hand every shard over, and let `run` return."""
        self._leaving.set()

    async def _run(self, parts: WorkerParts) -> None:
        async with asyncio.TaskGroup() as tasks:
            receiving = tasks.create_task(self._incoming.run(parts))
            while not self._leaving.is_set():
                all_known = True
                with self._patience():
                    all_known = await self._turn(tasks, parts)
                if all_known:
                    await self._rest(self._leaving.wait())
            renewing = tasks.create_task(self._keep_what_we_have())
            await self._hand_over(list(self._holding))
            for task in (receiving, renewing):
                task.cancel()

    def held_under(self) -> list[tuple[Shard, int]]:
        """The running shards, each with our epoch."""
        shards = self.held.shards.items()
        return [(shard, self._epochs[number]) for number, shard in shards if number in self._epochs]

    async def _rest(self, *sooner: Awaitable[object]) -> None:
        """Wait for the next heartbeat; less if something happens, or an engine that was away may be tried again."""
        rests: list[Awaitable[object]] = [asyncio.sleep(self._renew_every), *sooner]
        if self._away is not None:
            rests.append(until_again(self._away))
        waits = [asyncio.ensure_future(rest) for rest in rests]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # -- claims ------------------------------------------------------------------------------------------------

    async def _turn(self, tasks: asyncio.TaskGroup, parts: WorkerParts) -> bool:
        """Heartbeat: renew, see who has what, and rebalance. False: there is more to read first."""
        seen = await self._renew()
        if self.version not in (None, seen.settings):
            self.outdated()
            return True
        if not await self._follow_roots(seen.roots):
            return False
        await self._follow_commands(seen.commands, tasks)
        take, give = plan(self.name, seen.workers, seen.owners)
        for shard in give:
            if shard in self.held.shards:
                self.held.shards[shard].stop()
        take = [shard for shard in take if shard not in self._holding]
        if take and self._clock.monotonic() >= self._blind_until:
            asked = self._clock.monotonic()
            for claim in await self._claims.take(take, len(take), self.version):
                self._epochs[claim.shard] = claim.epoch
                self.leases.renewed([claim.shard], asked)
                self._holding[claim.shard] = tasks.create_task(self._hold(claim, parts))
        return True

    async def _follow_roots(self, last: int) -> bool:
        """Add new roots to the scope, before anything is judged by it. False if a heartbeat is due first."""
        until = self._clock.monotonic() + self._renew_every
        while self._roots < last:
            if self._clock.monotonic() >= until:
                return False
            roots, at = await self._claims.roots(self._roots, _ROOTS)
            self.widen(roots)
            self._roots = at if roots else last
        return True

    # -- commands ----------------------------------------------------------------------------------------------

    async def _follow_commands(self, last: int, tasks: asyncio.TaskGroup) -> None:
        """Pause or go on at once, and let the held shards apply what is new. Shards that are opened later do it then."""
        if self.followed >= last:
            return
        self._commands += await all_commands(self._claims, self.followed)
        paused = is_paused(self._commands)
        if paused != self.held.paused:
            self._events.emit(Warned(PAUSED if paused else "the crawl continues"))
            self.held.pause(paused)
        for shard in self.held.shards.values():
            before = self._obeying.get(shard.number)
            self._obeying[shard.number] = tasks.create_task(self._obey_after(before, shard))

    async def _obey_after(self, before: asyncio.Task[None] | None, shard: Shard) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._obey(shard)
        except Fenced:
            self._lose(shard.number)

    async def _obey(self, shard: Shard) -> None:
        """Apply the commands that a shard has not applied yet."""
        if not self._commands or shard.frontier.obeyed() >= self.followed:
            return
        for each in await shard.obey(self._commands):
            known = self._results.get(each.number, Obeyed(each.number))
            self._results[each.number] = Obeyed(
                each.number, known.changed + each.changed, known.same + each.same
            )
        while len(self._results) > _RESULTS:
            del self._results[min(self._results)]

    @property
    def followed(self) -> int:
        """The number of the last command that we know."""
        return self._commands[-1].number if self._commands else 0

    def obeyed(self) -> dict[str, Any]:
        """For the heartbeat: how far all held shards have come, and what the last commands have changed."""
        shards = self.held.shards.values() if self._commands else ()
        return {
            "commands": min((self.followed, *(shard.frontier.obeyed() for shard in shards))),
            "obeyed": {str(number): [each.changed, each.same] for number, each in self._results.items()},
        }

    # -- leases ------------------------------------------------------------------------------------------------

    async def _renew(self) -> Renewal:
        epochs, asked = dict(self._epochs), self._clock.monotonic()
        seen = await self._claims.renew(epochs, self.says())
        answered = self._clock.monotonic()
        self._clock.heard(seen.now, asked, answered)
        away = self._away is not None or answered - asked > self._lease
        if away and answered - self._renewed_at > self._lease:
            # All leases have expired together, and their owners are about to renew them: the first that
            # renews must not take what the others are working on.
            self._blind_until = answered + self._lease
        self._renewed_at = answered
        self.colleagues = max(1, len(seen.workers))
        self.leases.renewed(seen.held & self._epochs.keys(), asked)
        for shard in epochs.keys() - seen.held:
            if self._epochs.get(shard) == epochs[shard]:  # and not given back meanwhile
                self._lose(shard)
        return seen

    async def _keep_what_we_have(self) -> None:
        """Keep renewing while the last visits are finished."""
        while True:
            with self._patience():
                await self._renew()
            await self._rest()

    def _lose(self, shard: int) -> None:
        """Another worker has the shard. Its work here ends now."""
        if self._epochs.pop(shard, None) is None:
            return  # that is known
        self.leases.ended(shard)
        holding = self._holding.get(shard)
        if holding is not None and holding is not asyncio.current_task():
            holding.cancel()
        self._events.emit(
            Warned(f"shard {shard} has another owner; what was in flight is theirs to do again")
        )

    async def _hand_over(self, shards: Sequence[int]) -> None:
        for shard in shards:
            if shard in self.held.shards:
                self.held.shards[shard].stop()
        await asyncio.gather(*(self._holding[shard] for shard in shards), return_exceptions=True)

    async def _hold(self, claim: Claim, parts: WorkerParts) -> None:
        """Run a shard until it is given back or lost."""
        shard = claim.shard
        try:
            async with parts.shard(claim) as opened, self._at_work(opened, parts):
                self._opened[shard] = claim.epoch
                await self._obey(opened)
                await unwrapped(opened.run(self.held))
        except Fenced:
            self._lose(shard)
        except asyncio.CancelledError:
            if shard in self._epochs:  # else it was lost, and there is nobody to tell
                raise
        else:
            self._epochs.pop(shard, None)
            self.leases.ended(shard)
            with suppress(EngineAway):
                await self._claims.release({shard: claim.epoch})
        finally:
            del self._holding[shard]

    @asynccontextmanager
    async def _at_work(self, shard: Shard, parts: WorkerParts) -> AsyncIterator[None]:
        """Hold a shard and receive its links."""
        number = shard.number
        self.held.shards[number] = shard
        try:
            await self._incoming.begin(shard, parts)
            if self._leaving.is_set():
                shard.stop()
            yield
        finally:
            if (obeying := self._obeying.pop(number, None)) is not None:
                obeying.cancel()  # its next owner applies what is left
                await asyncio.wait([obeying])
            del self.held.shards[number]
            self.held.committed(shard)  # its visits in flight leave room for others
            await self._incoming.end(number, parts)

    # -- engines that are away ---------------------------------------------------------------------------------

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """An engine that is away is tried again in the next turn; its breaker reports it."""
        try:
            yield
        except EngineAway as away:
            self._away = away
        else:
            self._away = None


def worker_name() -> str:
    """A unique worker name, for good: the machine, the process, and its start time."""
    return f"{socket.gethostname().split('.')[0][:40]}-{os.getpid()}-{int(time.time() * 1000) & 0xFFFFFF:x}"
