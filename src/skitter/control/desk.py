"""What a running crawl on one machine does with a request: it keeps the command, tells its shards, and says what happened."""

import asyncio
import shlex
import time
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from skitter import seeds, urls
from skitter.control.log import CommandLog
from skitter.control.orders import (
    Add,
    Answer,
    BadOrderError,
    Continue,
    Pause,
    Reload,
    Request,
    Stop,
    added_up,
    command_of,
    in_words,
)
from skitter.model import Link
from skitter.ports import Command, Obeyed
from skitter.reporting.format import counted, printable
from skitter.reporting.progress import Progress, Rate
from skitter.seeds import BadSeed

PATIENCE = 5.0  # seconds to wait for the shards before answering
_COMPLAINTS = 10  # shown of a request's seeds


class Told(Struct, frozen=True):
    """What the shards have said so far."""

    results: Sequence[Obeyed]
    whole: bool  # all have answered


class Running(Protocol):
    """A running crawl, as its desk sees it."""

    @property
    def ending(self) -> bool:
        """Whether it has begun to stop."""
        ...

    @property
    def in_flight(self) -> int:
        """Visits leased and not settled."""
        ...

    async def tell(self, command: Command) -> Told:
        """Bring a command that is kept to all shards. Waits for them, but not longer than PATIENCE."""
        ...

    async def add(self, some: Sequence[Link | BadSeed]) -> None:
        """Keep more seeds, and bring them to their shards. They are on the disk when this returns."""
        ...

    def stop(self) -> None:
        """Finish what is in flight, save, and end."""
        ...

    async def reload(self, settings: str) -> Answer:
        """Take over other settings. They are kept before anything depends on them."""
        ...

    def progress(self, rate: Rate) -> Progress:
        """Its progress now."""
        ...


def paused_words(directory: object) -> str:
    """What a crawl says that is started while it is paused."""
    where = shlex.quote(printable(str(directory)))
    return f"the crawl is paused, and nothing is fetched until it is told: skitter continue {where}"


class Desk:
    """Answers the requests of all clients."""

    def __init__(self, log: CommandLog, rules: urls.UrlRules, crawl: Running) -> None:
        self.log = log
        self.crawl = crawl
        self._rules = rules
        self._adding = asyncio.Lock()

    async def answer(self, request: Request) -> Answer:
        """Carry out a request. If that is not possible, the answer says why, and nothing was changed."""
        if self.crawl.ending:
            return Answer(error="the crawl is ending; nothing was changed")
        try:
            if isinstance(request, Add):
                return await self._add(request)
            if isinstance(request, Reload):
                return await self.crawl.reload(request.settings)
            return await self._command(request)
        except BadOrderError as problem:
            return Answer(error=str(problem))
        except OSError as problem:  # a full disk, mostly
            return Answer(error=f"the command could not be kept: {problem.strerror or problem}")

    async def _command(self, request: Request) -> Answer:
        if isinstance(request, Stop):
            self.crawl.stop()
            return Answer(said=f"stopping{_finishing(self.crawl.in_flight)}")
        command = command_of(request, self._rules, time.time())
        if isinstance(request, Pause) and self.log.paused:
            return Answer(said="paused already")
        if isinstance(request, Continue) and not self.log.paused:
            return Answer(said="it was not paused")
        # At once, and not in a thread: two commands are applied in the order of their lines. A sync takes milliseconds.
        command = self.log.append(command)
        told = await self.crawl.tell(command)
        if isinstance(request, Pause):
            more = "" if told.whole else "; not all workers have answered yet"
            return Answer(said=f"paused{_finishing(self.crawl.in_flight)}{more}")
        if isinstance(request, Continue):
            return Answer(said="continued")
        result = added_up(command.number, told.results)
        changed = result.changed if told.whole else None
        return Answer(said=in_words(command, result, whole=told.whole), changed=changed)

    async def _add(self, request: Add) -> Answer:
        some, complaints = [], []
        for number, text in enumerate(request.seeds, start=request.line):
            where = f"{request.name}:{number}" if request.name else f"argument {number}"
            seed = seeds.parsed(text.encode("utf-8", "surrogatepass"), where, self._rules)
            if isinstance(seed, BadSeed):
                complaints.append(seed.complaint)
            if seed is not None:
                some.append(seed)
        good = len(some) - len(complaints)
        if not request.name and complaints:  # named one by one: a typo is corrected before anything is added
            return Answer(error=complaints[0])
        if some:
            async with self._adding:
                await self.crawl.add(some)
        return Answer(
            said=f"{counted(good, 'seed')} added", changed=good, complaints=complaints[:_COMPLAINTS]
        )


def _finishing(in_flight: int) -> str:
    if not in_flight:
        return ""
    return f"; {counted(in_flight, 'request')} in flight {'is' if in_flight == 1 else 'are'} being finished"
