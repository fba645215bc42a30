"""The shards of one process: they share its connections, its limits, and the decision that nothing is left.

Alone, they are a whole crawl. In a fleet they are the shards of one worker: links for shards of other workers go to
`elsewhere`, and the parent, which sees every worker, decides when all is done (see `fleet`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from enum import Enum, auto
from heapq import heappush, heappushpop
from time import process_time

from msgspec.structs import replace

from skitter import urls
from skitter.control import log
from skitter.control.orders import is_paused
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.done import Activity, Snapshot, hopeless, why_it_ended, why_over
from skitter.crawl.forwarding import Deliver, Forwarding, owner_of
from skitter.crawl.limits import grace_is_over, limit_reached, may_complete, pages_left
from skitter.crawl.shard import Shard
from skitter.events import Events, Stopped, Warned
from skitter.links import Judged
from skitter.model import Counts, HostRecord, Link, Purpose, Reason, State, Stop
from skitter.ports import Command, Obeyed, StateError
from skitter.reporting.report import TOP_HOSTS, link_remarks, total
from skitter.reporting.waiting import Waiting, together
from skitter.runtime import resident
from skitter.runtime.metrics import Metrics, ProcessMetrics, added_up
from skitter.runtime.process import unwrapped
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.visit import Shared

_SOON = 0.01  # seconds


class PausedBy(Enum):
    """Who may pause the shards of a process. They go on when nobody does any more."""

    READER = auto()  # a slow reader of pages, until it has caught up
    SEEDS = auto()  # until the first seeds of an earlier run are stored
    COMMAND = auto()  # a person, until told to continue


class ShardSet:
    """Shards by number, counted together."""

    def __init__(self) -> None:
        self.shards: dict[int, Shard] = {}

    @property
    def counts(self) -> Counts:
        """The counts of all shards together."""
        return total([shard.counts for shard in self.shards.values()])

    @property
    def in_flight(self) -> int:
        """Visits leased and not settled."""
        return sum(shard.in_flight for shard in self.shards.values())

    @property
    def put_off(self) -> int:
        """Those of them that sent nothing and wait again."""
        return sum(shard.put_off for shard in self.shards.values())

    @property
    def failed(self) -> dict[str, str]:
        """Origins whose robots.txt could not be fetched since their shards were opened, and why."""
        return {origin: why for shard in self.shards.values() for origin, why in shard.failed.items()}

    def waiting(self) -> Waiting:
        """What the crawl is waiting for."""
        return together([shard.waiting() for shard in self.shards.values()])


class LocalShards(ShardSet):
    """`skitter.crawl.shard.ShardGroup`: runs the shards of one process from opening to the last commit."""

    def __init__(
        self, shards: Sequence[Shard], at: Shared, events: Events, directory: CrawlDirectory
    ) -> None:
        """`at` holds what the shards share: fetcher, scope, links, clock."""
        super().__init__()
        self.shards = {shard.number: shard for shard in shards}
        self.max_pages = at.settings.crawl.max_pages
        # Set by a worker: its parent decides when all is done, and forwards links to other workers' shards.
        self.when_idle: Callable[[], None] | None = None
        self.elsewhere: Deliver | None = None
        self._at = at
        self._events = events
        self._directory = directory
        self._limits = at.settings.crawl
        self._total = max(at.settings.crawl.shards, len(shards))
        self._began = at.clock.monotonic()
        self._stop: Stop | None = None
        self._completes = at.links.assets.wanted  # at the page limit, the assets of stored pages still come
        self._completing = False  # they come now, and nothing else
        self._starved = False  # a shard wanted more visits than there was room for
        self._look = asyncio.Event()
        self._working: Sequence[asyncio.Task[None]] = ()
        self._paused_by: set[PausedBy] = set()
        self._taking_in = 0  # seeds are being added; the crawl is not over
        self._commands: list[Command] = []  # all of them, in order
        self._obeying = asyncio.Lock()
        self.obeyed_when_opened: Sequence[Obeyed] = ()
        self._forwarding = {
            number: Forwarding(shard.frontier, self._total, self.deliver, self._arrived)
            for number, shard in self.shards.items()
            if self._total > 1
        }

    # -- from opening to closing ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open every shard."""
        for shard in self.shards.values():
            await shard.open()
        self.obeyed_when_opened = await self.obey(log.read(self._directory.commands_file))
        if self.counts.added and not self._directory.roots():
            raise StateError(
                f"{self._directory.roots_file} is empty or gone, and without it every further link would be out of scope; "
                "bring it back (one URL a line: the seeds), or start another crawl with -o"
            )

    async def take_in(self, intake: Intake) -> int:
        """Offer the seeds kept in the crawl directory; what `stop` leaves is there for the next run.

        The scope is measured from the wanted ones. Returns how many were new.
        """
        had = self.counts.added
        self._taking_in += 1
        try:
            await self._take_in(intake)
        finally:
            self._taking_in -= 1
            self._look.set()
        return self.counts.added - had

    async def _take_in(self, intake: Intake) -> None:
        async with aclosing(intake.batches()) as batches:
            async for batch in batches:
                await self.add_seed_batch(batch.seeds)
                await self.synced()
                intake.stored(batch)
                if self._stop:
                    intake.close()
                    return
        intake.finish()

    async def synced(self) -> None:
        """Return when everything stored so far would survive a power loss."""
        await asyncio.gather(*(shard.synced() for shard in self.shards.values()))

    async def add_seed_batch(self, batch: Sequence[Link | BadSeed]) -> None:
        """Each seed to its shard, directly: a seed that is named again must reach it again."""
        refused: list[tuple[Link, Reason]] = []
        owners: dict[int, list[Link]] = defaultdict(list)
        for seed in batch:
            judged = _unusable(seed) if isinstance(seed, BadSeed) else self._at.links.seed(seed)
            link, reason = judged
            if reason is None:
                owners[owner_of(link.host, self._total)].append(link)
            else:
                refused.append((link, reason))
                self._events.emit(Warned(f"seed {link.url} is not crawled: {reason.detail or reason.code}"))
        if refused:  # recorded by the shard that refuses
            await next(iter(self.shards.values())).add((), refused)
        await asyncio.gather(*(self._add_seeds_of(owner, links) for owner, links in owners.items()))

    async def _add_seeds_of(self, owner: int, links: Sequence[Link]) -> None:
        if owner in self.shards:
            await self.shards[owner].add(links)
            self._wake_forwarding(self.shards[owner])
        else:
            await self.deliver(owner, links)

    async def deliver(self, owner: int, links: Sequence[Link]) -> None:
        """Bring links to the shard that owns them; returns when they would survive a power loss there."""
        shard = self.shards.get(owner)
        if shard is not None:
            await shard.add(*self._judged(links))
            self._wake_forwarding(shard)
            await shard.synced()
        elif self.elsewhere is not None:
            await self.elsewhere(owner, links)

    def _judged(self, links: Sequence[Link]) -> tuple[Sequence[Link], Sequence[tuple[Link, Reason]]]:
        """Links of another shard, wanted and refused. They may have been found under other settings."""
        if not self._at.judge_again:
            return links, ()
        judge = self._at.links.refusal
        judged = [(link, None if link.purpose is Purpose.ROBOTS else judge(link)) for link in links]
        wanted = [link for link, reason in judged if reason is None]
        return wanted, [(link, reason) for link, reason in judged if reason is not None]

    async def run(self) -> Stop:
        """Crawl until nothing is left, a limit is reached, or `stop` is called. Cancelling loses nothing either."""
        self._began = self._at.clock.monotonic()
        await unwrapped(self._run())
        if self._completing:
            for shard in self.shards.values():
                await shard.frontier.lease_assets_only(self._at.clock.now(), only=False)
        await self.fresh_counts()
        self._write_statistics()
        if self.when_idle is None:  # else the parent decides for all
            for text in link_remarks(self._at.links.metrics()):
                self._events.emit(Warned(text))
        why = why_it_ended(self._stop, work_left=bool(self.in_flight) or not await self.nothing_due())
        self._events.emit(Stopped(why.value, self.counts))
        return why

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(each.run()) for each in self._forwarding.values()]
            helpers += [
                tasks.create_task(self._take_care()),
                tasks.create_task(self._look_whether_it_is_over()),
            ]
            self._working = [tasks.create_task(shard.run(self)) for shard in self.shards.values()]
            await asyncio.wait(self._working)
            for helper in helpers:
                helper.cancel()

    def stop(self, why: Stop) -> None:
        """Lease nothing more; what is in flight is finished and saved. The first reason counts."""
        self._stop = self._stop or why
        for shard in self.shards.values():
            shard.stop()

    def pause(self, by: PausedBy = PausedBy.READER) -> None:
        """Lease nothing until the same one says `go_on`."""
        self._paused_by.add(by)
        for shard in self.shards.values():
            shard.paused = True

    def go_on(self, by: PausedBy = PausedBy.READER) -> None:
        """Lease again, unless somebody else has paused."""
        self._paused_by.discard(by)
        for shard in self.shards.values():
            shard.paused = bool(self._paused_by)
            shard.wake()
        self._look.set()

    @property
    def paused(self) -> bool:
        """Whether a person has paused the crawl."""
        return PausedBy.COMMAND in self._paused_by

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop is not None

    # -- commands ----------------------------------------------------------------------------------------------

    def hear(self, commands: Sequence[Command]) -> None:
        """Take note of commands, and pause or go on at once; `obey` applies them to the shards."""
        self._commands += [command for command in commands if command.number > self.heard]
        if is_paused(self._commands):
            self.pause(PausedBy.COMMAND)
        elif self.paused:
            self.go_on(PausedBy.COMMAND)

    @property
    def heard(self) -> int:
        """The number of the last command that is known here."""
        return self._commands[-1].number if self._commands else 0

    async def obey(self, commands: Sequence[Command]) -> list[Obeyed]:
        """Apply commands to every shard that has not; returns what they have changed."""
        if not commands:
            return []
        self.hear(commands)
        last = commands[-1].number
        async with self._obeying:
            told = await asyncio.gather(
                *(
                    shard.obey(self._commands[shard.frontier.obeyed() : last])
                    for shard in self.shards.values()
                )
            )
        self._look.set()
        return [each for results in told for each in results]

    async def close(self) -> None:
        """Close every shard, whatever happens to the others."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._at.fetcher.close)
            for shard in self.shards.values():
                stack.push_async_callback(shard.close)

    def widen(self, roots: Iterable[str]) -> None:
        """Another process has added roots to the scope."""
        for root in roots:
            self._at.links.widen(root)

    # -- the whole, in numbers -------------------------------------------------------------------------------

    async def fresh_counts(self) -> Counts:
        """The counts, read again: links that other shards have acknowledged are no longer in the outbox."""
        for shard in self.shards.values():
            shard.counts = await shard.frontier.counts()
        return self.counts

    async def nothing_due(self) -> bool:
        """Whether nothing waits, apart from visits in flight."""
        return not any([await shard.next_due() is not None for shard in self.shards.values()])

    async def activity(self) -> Activity:
        """The work left here; `crawl.done` decides from it whether the crawl is over."""
        counts, idle = await self.fresh_counts(), await self.nothing_due()
        hope_is_gone = not idle and await self._hopeless()
        return Activity(counts, idle, self.in_flight, hope_is_gone)

    async def _hopeless(self) -> bool:
        received, failed = self._bytes(), self.failed
        if received or not failed or self.in_flight:
            return False
        waiting = {
            urls.origin(record.url)
            for shard in self.shards.values()
            async for record in shard.frontier.urls()
            if record.state is State.QUEUED
        }
        return hopeless(received=received, in_flight=self.in_flight, waiting=waiting, failed=failed)

    def metrics(self) -> Metrics:
        """What this process measures."""
        return measured(self._at, self.shards.values())

    async def top_hosts(self) -> list[HostRecord]:
        """The hosts with the most pages."""
        top: list[tuple[int, int, str, HostRecord]] = []
        for shard in self.shards.values():
            async for host in shard.frontier.hosts():
                (heappush if len(top) < TOP_HOSTS else heappushpop)(
                    top, (host.pages, host.requests, host.host, host)
                )
        return [host for *_, host in sorted(top, reverse=True)]

    # -- what the shards ask and tell ------------------------------------------------------------------------

    def room(self, _shard: Shard) -> int:
        """How many visits any shard may lease now. Each may become a page, so a page limit counts it as one.

        Visits that only wait to be settled hold no connection, but memory, so their number is limited as well.
        """
        in_flight, limits = self.in_flight, self._limits
        under_way = sum(shard.under_way for shard in self.shards.values())
        room = limits.concurrency - max(under_way, in_flight - limits.commit_visits)
        if self.max_pages is not None or limits.max_bytes is not None:
            pages = self._pages()
            self._stop_at_a_limit(pages)
            if not self._completing:
                room = min(room, pages_left(self.max_pages, pages, in_flight))
        self._starved = self._starved or room <= 0
        return 0 if self._stop else room

    def _stop_at_a_limit(self, pages: int) -> None:
        """In a fleet the parent decides, because it sees every worker."""
        if self.when_idle is not None:
            return
        received, elapsed = self._bytes(), self._at.clock.monotonic() - self._began
        if not limit_reached(self._limits, pages=pages, received=received, elapsed=elapsed):
            return
        if not self._completes or not may_complete(self._limits, received=received, elapsed=elapsed):
            self.stop(Stop.LIMIT)
        elif not self._completing:
            self._look.set()  # it takes a while

    async def complete(self) -> None:
        """There are enough pages: from now on, lease only what they need to be shown."""
        if self._completing or self._stop is not None:
            return
        for shard in self.shards.values():
            await shard.frontier.lease_assets_only(self._at.clock.now())
        self._completing = True
        for shard in self.shards.values():
            shard.wake()

    def _pages(self) -> int:
        return sum(shard.counts.pages for shard in self.shards.values())

    def allow_pages(self, number: int) -> None:
        """Set how many pages may be stored in all, by order of the parent."""
        grown = self.max_pages is None or number > self.max_pages
        self.max_pages = number
        for shard in (
            self.shards.values() if grown else ()
        ):  # one without work would say so, and be told again at once
            shard.wake()

    def idle(self) -> None:
        """A shard has nothing to do: maybe none has."""
        self._look.set()
        if not self.in_flight:
            for forwarding in self._forwarding.values():
                forwarding.hurry()

    def _arrived(self) -> None:
        """Links have reached their owners, which may have been the last work left."""
        if not self.in_flight:
            self._look.set()

    def took(self) -> None:
        """A local frontier answers at once: nobody has asked for room meanwhile."""

    def committed(self, shard: Shard) -> None:
        """Wake shards that had no room, and forwarding."""
        if self._starved and len(self.shards) > 1:
            self._starved = False
            for other in self.shards.values():
                other.wake()
        self._wake_forwarding(shard)
        if shard.failed and not shard.counts.bytes:
            self._look.set()

    def _wake_forwarding(self, shard: Shard) -> None:
        if shard.counts.outbox and shard.number in self._forwarding:
            self._forwarding[shard.number].wake()

    def _bytes(self) -> int:
        return sum(shard.counts.bytes for shard in self.shards.values())

    # -- is it over? ------------------------------------------------------------------------------------

    async def _look_whether_it_is_over(self) -> None:
        """Check whether the crawl is over whenever it may be."""
        while True:
            await self._look.wait()
            self._look.clear()
            if self.when_idle is not None:
                self.when_idle()
                continue
            enough = self.max_pages is not None and self._pages() >= self.max_pages
            if enough and self._completes:
                await self.complete()
            if not self.in_flight and not self.paused and (self._completing or not self._taking_in):
                now = Snapshot({0: await self.activity()}, one_moment=True)
                if why := why_over(None, now):
                    self.stop(Stop.LIMIT if self._completing and why is Stop.DONE else why)
                elif now.only_links_left:  # between two shards; the owner soon says when they are safe
                    await asyncio.sleep(_SOON)
                    self._look.set()

    async def _take_care(self) -> None:
        while True:
            await asyncio.sleep(self._limits.sync_interval)
            self._look_at_limits()
            self._write_statistics()

    def _write_statistics(self) -> None:
        if self.when_idle is None:  # else the parent writes one file for all
            with suppress(OSError):  # a full disk must not fail the crawl over numbers
                self._directory.write_statistics(self.metrics())

    def _look_at_limits(self) -> None:
        self._stop_at_a_limit(self._pages())
        elapsed = self._at.clock.monotonic() - self._began
        if grace_is_over(self._limits, elapsed):  # what is in flight is pending again
            working, self._working = self._working, ()  # once: they save what has finished
            for work in working:
                work.cancel()
        short = self._directory.shortage(self._limits.min_free_disk)
        if short and self._stop is None:
            self._events.emit(Warned(f"{short}; stopping, all is safe"))
            self.stop(Stop.DISK)


# ------------------------------------------------------------------------------------------------ small questions


def measured(at: Shared, shards: Iterable[Shard]) -> Metrics:
    """What the shards of a process, and what they share, measure together."""
    return added_up([shared(at), *(shard.metrics() for shard in shards)])


def shared(at: Shared) -> Metrics:
    """What the shards of a process share."""
    parts = replace(
        at.fetcher.metrics(),
        links=at.links.metrics(),
        process=ProcessMetrics(process_time(), resident.used()),
    )
    if at.renderers is not None:
        parts = replace(parts, render=at.renderers.metrics())
    return added_up([parts, at.measuring.metrics()])


def _unusable(seed: BadSeed) -> Judged:
    """A seed that is not a URL has no key and no host, but it has a record, so that `why` can explain it."""
    return Link(url=seed.text, key=seed.text, host="", seed=True), seed.reason
