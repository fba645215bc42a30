"""A worker of a fleet: some shards in their own process, and a line to the parent.

It does what the parent says and decides nothing about the whole. If the parent is gone, it saves what it has and
exits.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from skitter import plugins
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.limits import pages_left
from skitter.crawl.local_shards import LocalShards, PausedBy
from skitter.events import (
    Deferred,
    Event,
    Events,
    Opened,
    Requested,
    RootsAdded,
    ScopeWidened,
    SetAside,
    Warned,
)
from skitter.fleet.messages import (
    Account,
    Again,
    Applied,
    Ask,
    Carried,
    Carry,
    Commands,
    Ended,
    Go,
    Halt,
    Heard,
    Idle,
    Importing,
    Line,
    Ready,
    Roots,
    Seeded,
    Seeds,
    Start,
)
from skitter.model import Link, Stop
from skitter.ports import Command
from skitter.settings import Settings

_links = msgspec.msgpack.Decoder(list[Link])
_TOLD = (Opened, Deferred, SetAside, ScopeWidened, Warned)

OpenShards = Callable[
    [CrawlDirectory, Sequence[int], Settings, Events], AbstractAsyncContextManager[LocalShards]
]
"""Opens some shards of a crawl in this process."""


class Worker:
    """Some shards under the orders of a parent."""

    def __init__(self, line: Line, start: Start, open_shards: OpenShards) -> None:
        self._line = line
        self._open_shards = open_shards
        self._start = start
        self._number = start.life << 32  # numbers of the links it sends; no other life has used these
        self._unacknowledged: dict[int, tuple[Carry, asyncio.Future[None]]] = {}
        self._receiving: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        """Open the shards, crawl until told to stop, and report."""
        directory = CrawlDirectory(Path(self._start.directory))
        settings = _share(directory.read_settings(), self._start.workers)
        await self._import_plugins(settings)
        async with self._open_shards(directory, self._start.shards, settings, self._events()) as shards:
            shards.when_idle = lambda: self._line.say(Idle())
            shards.elsewhere = self._send
            if shards.max_pages is not None:
                shards.max_pages = 0  # until the parent allows more
            if self._start.held:
                shards.pause(PausedBy.SEEDS)
            judged = shards.metrics().links
            self._line.say(
                Ready(shards.counts, shards.heard, shards.obeyed_when_opened, judged.dropped, judged.returned)
            )
            why = await self._crawl(shards)
            self._line.say(
                Ended(
                    why,
                    shards.counts,
                    await shards.top_hosts(),
                    shards.metrics(),
                    shards.in_flight > 0 or not await shards.nothing_due(),
                    {} if shards.counts.bytes else shards.failed,
                )
            )

    async def _import_plugins(self, settings: Settings) -> None:
        """Import user code; the parent knows which, should that end this process."""
        if not plugins.used(settings):
            return
        self._line.say(Importing(", ".join(settings.crawl.plugins) or settings.schedule.strategy))
        await self._line.sent()
        with plugins.deadline():
            plugins.load(settings)
        self._line.say(Importing(""))

    async def _crawl(self, shards: LocalShards) -> Stop:
        async with asyncio.TaskGroup() as tasks:
            crawling = tasks.create_task(shards.run())
            listening = tasks.create_task(self._listen(shards, crawling, tasks))
            await asyncio.wait([crawling])
            for task in (listening, *self._receiving):
                task.cancel()
        return Stop.INTERRUPTED if crawling.cancelled() else crawling.result()

    # -- listening -------------------------------------------------------------------------------------------

    async def _listen(  # noqa: C901, PLR0912  one arm per message
        self, shards: LocalShards, crawling: asyncio.Task[Stop], tasks: asyncio.TaskGroup
    ) -> None:
        while (message := await self._line.hear()) is not None:
            match message:
                case Carry():
                    self._begin(tasks, self._receive(shards, message))
                case Carried(_, number):
                    if (sent := self._unacknowledged.get(number)) and not sent[1].done():
                        sent[1].set_result(None)
                case Seeds():
                    self._begin(tasks, self._add_seeds(shards, message))
                case Go():
                    shards.go_on(PausedBy.SEEDS)
                case Commands(commands):
                    shards.hear(commands)  # at once: a pause does not wait for its turn
                    self._begin(tasks, self._obey(shards, commands))
                case Ask():
                    await self._answer(shards, message)
                case Again(renewed):
                    for carry, _ in self._unacknowledged.values():
                        if carry.to in renewed:
                            self._line.say(carry)
                case Roots(roots):
                    shards.widen(roots)
                case Halt(why, at_once):
                    shards.stop(why)
                    if at_once:
                        crawling.cancel()
                case _:
                    raise AssertionError(message)
        crawling.cancel()  # the parent is gone

    def _begin(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Run something that takes a while, and keep listening."""
        task = tasks.create_task(work)
        self._receiving.add(task)
        task.add_done_callback(self._receiving.discard)

    async def _receive(self, shards: LocalShards, message: Carry) -> None:
        await shards.deliver(message.to, _links.decode(message.links))
        self._line.say(Carried(message.sender, message.number))

    async def _add_seeds(self, shards: LocalShards, message: Seeds) -> None:
        await shards.add_seed_batch([*message.seeds, *message.bad])
        await shards.synced()
        self._line.say(Seeded(message.number))

    async def _obey(self, shards: LocalShards, commands: Sequence[Command]) -> None:
        results = await shards.obey(commands)
        self._line.say(Applied(commands[-1].number, results))

    async def _answer(self, shards: LocalShards, question: Ask) -> None:
        if question.complete:
            await shards.complete()
        now = await shards.activity()
        wants = False
        if question.max_pages is not None:
            shards.allow_pages(max(question.max_pages, now.counts.pages + now.in_flight))
            wants = not now.idle and pages_left(shards.max_pages, now.counts.pages, now.in_flight) <= 0
        self._line.say(
            Account(
                question.round,
                now.counts,
                now.in_flight,
                now.idle,
                shards.max_pages,
                wants,
                shards.metrics(),
                shards.waiting(),
                now.hopeless,
            )
        )

    # -- telling ---------------------------------------------------------------------------------------------

    async def _send(self, owner: int, links: Sequence[Link]) -> None:
        """Send links to a shard of another worker; returns when they are safe there."""
        self._number += 1
        packed = msgspec.Raw(msgspec.msgpack.encode(links))
        carry = Carry(owner, self._start.shards[0], self._number, len(links), packed)
        safe = asyncio.get_running_loop().create_future()
        self._unacknowledged[carry.number] = (carry, safe)
        self._line.say(carry)
        try:
            await safe
        finally:
            del self._unacknowledged[carry.number]

    def _events(self) -> Events:
        events = Events()
        events.subscribe(self._tell, RootsAdded, *_TOLD)
        if self._start.tell_requests:
            events.subscribe(self._tell, Requested)
        return events

    def _tell(self, event: Event) -> None:
        if isinstance(event, RootsAdded):
            self._line.say(Roots(event.roots))
        elif isinstance(event, (Requested, *_TOLD)):
            self._line.say(Heard(event))


def _share(settings: Settings, workers: int) -> Settings:
    """A worker's part of what the settings allow in all. Limits of the whole are up to the parent."""
    return replace(
        settings,
        crawl=replace(
            settings.crawl,
            concurrency=-(-settings.crawl.concurrency // workers),
            max_time=None,
            max_bytes=None,
        ),
        fetch=replace(
            settings.fetch,
            max_in_flight=type(settings.fetch.max_in_flight)(settings.fetch.max_in_flight // workers),
            keep_connections=-(-settings.fetch.keep_connections // workers),
            dns_cache=-(-settings.fetch.dns_cache // workers),
        ),
    )
