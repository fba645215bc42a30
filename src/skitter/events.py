"""What happened, as typed events. The log, the request log, progress and reports are readers of this one stream."""

from collections.abc import Callable, Sequence
from typing import get_args

from msgspec import Struct

from skitter.model import Counts, Exchange, Page, Reason, State, Visit


class Opened(Struct, frozen=True, tag=True):
    """A shard was taken. After a crash, `lost` visits were open and are pending again."""

    shard: int
    lost: int
    repaired: str = ""  # what had to be mended, for people


class Requested(Struct, frozen=True, tag=True):
    """A request to a server has ended, however. This is what the request log holds, and politeness is judged by it."""

    url: str
    host: str
    address: str
    start: float
    end: float
    status: int  # 0: no answer
    bytes: int
    purpose: str  # page, robots, redirect, retry
    attempt: int
    fault: str = ""


class Lost(Struct, frozen=True, tag=True):
    """A visit was open when the process died or was stopped at once. Its request may have been made; it is pending again."""

    url: str
    host: str
    leased_at: float


class Deferred(Struct, frozen=True, tag=True):
    """The robots.txt of an origin could not be had; nothing is fetched from it before it is asked again."""

    origin: str
    until: float
    wait: float
    problem: str


class SetAside(Struct, frozen=True, tag=True):
    """A page or a whole host is given up."""

    what: str
    reason: Reason


class ScopeWidened(Struct, frozen=True, tag=True):
    """A seed redirected elsewhere and took the scope along."""

    seed: str
    target: str


class RootsAdded(Struct, frozen=True, tag=True):
    """Seeds were taken into the scope; whoever judges links elsewhere has to know."""

    roots: Sequence[str]


class Settled(Struct, frozen=True, tag=True):
    """A visit is over and durable."""

    visit: Visit
    page: Page | None
    state: State  # QUEUED: it is tried again
    reason: Reason | None
    exchange: Exchange | None


class Warned(Struct, frozen=True, tag=True):
    """Something a person should know, in one sentence."""

    text: str


class Stopped(Struct, frozen=True, tag=True):
    """The crawl has ended; all that was acknowledged is durable."""

    why: str  # done, limit, interrupted, disk
    counts: Counts


Event = (
    Opened | Requested | Lost | Deferred | SetAside | ScopeWidened | RootsAdded | Settled | Warned | Stopped
)
Reader = Callable[[Event], None]


class Events:
    """Hands each event to every reader that wants its kind, in order."""

    def __init__(self, *readers: Reader) -> None:
        # By kind. Whoever has an event for every visit may look here first: none need be made for nobody.
        self.readers: dict[type[Event], list[Reader]] = {kind: [] for kind in get_args(Event)}
        self._flushes: list[Callable[[], None]] = []
        self._syncs: list[Callable[[], None]] = []
        for reader in readers:
            self.subscribe(reader)

    def subscribe(self, reader: Reader, *kinds: type[Event]) -> None:
        """Add a reader of these kinds, of all if none is named.

        One that gathers what it is told has a method `flush`, one that keeps it on the disk a method `sync`.
        """
        for kind in kinds or self.readers:
            self.readers[kind].append(reader)
        if (flush := getattr(reader, "flush", None)) is not None:
            self._flushes.append(flush)
        if (sync := getattr(reader, "sync", None)) is not None:
            self._syncs.append(sync)

    def branch(self) -> "Events":
        """Events of a part: its own readers hear them, and so do the readers that the whole has now."""
        part = Events()
        for kind, readers in self.readers.items():
            for reader in readers:
                part.subscribe(reader, kind)
        return part

    def emit(self, event: Event) -> None:
        """Tell every reader."""
        for reader in self.readers[type(event)]:
            reader(event)

    def flush(self) -> None:
        """Return when the readers that gather are done with everything that was emitted."""
        for flush in self._flushes:
            flush()

    def sync(self) -> None:
        """Return when everything that was flushed would survive a loss of power. This may take a while."""
        for sync in self._syncs:
            sync()
