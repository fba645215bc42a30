"""Typed events. The log, the request log, progress and reports all read this one stream."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

from msgspec import UNSET, Struct, UnsetType

from skitter.model import Counts, Exchange, Page, Reason, State, Visit


class Opened(Struct, frozen=True, tag=True):
    """A shard was opened. After a crash, `lost` visits were in flight and are pending again."""

    shard: int
    lost: int
    repaired: str = ""  # what had to be repaired, for people


class Requested(Struct, frozen=True, tag=True):
    """A request ended, successfully or not. The request log holds these, and politeness is checked against it."""

    url: str
    host: str
    address: str
    start: float
    end: float
    status: int  # 0: no answer
    bytes: int
    purpose: str  # page, redirect, retry or recrawl; else a Purpose that is no page: robots, probe, asset …
    attempt: int
    fault: str = ""
    retry_after: str | UnsetType = UNSET  # what a 429 or 5xx says about it, as sent
    origin: str | UnsetType = UNSET  # of a moved robots.txt: the origin that it is for


class Terms(Struct, frozen=True, tag=True):
    """What was promised from then on: the settings that say when, how often and what may be requested.

    The first line of every run in the request log, and of every change while it runs, so that `skitter audit` judges
    each request by the settings of its time.
    """

    at: float
    agent: str  # the token that robots.txt files address
    settings: dict[str, Any]  # by section


class Lost(Struct, frozen=True, tag=True):
    """A visit was in flight when the process died or was stopped at once.

    Its request may have been sent; it is pending again.
    """

    url: str
    host: str
    leased_at: float


class Deferred(Struct, frozen=True, tag=True):
    """The robots.txt of an origin could not be fetched; no page of it is fetched until it was tried again."""

    origin: str
    until: float
    wait: float
    problem: str


class SetAside(Struct, frozen=True, tag=True):
    """A page or a whole host was given up."""

    what: str
    reason: Reason


class ScopeWidened(Struct, frozen=True, tag=True):
    """A seed redirected elsewhere, and the scope was extended."""

    seed: str
    target: str


class RootsAdded(Struct, frozen=True, tag=True):
    """Seeds were added to the scope; other shards that check links need to know."""

    roots: Sequence[str]


class Settled(Struct, frozen=True, tag=True):
    """A visit is finished and durable."""

    visit: Visit
    page: Page | None
    state: State  # QUEUED: it will be retried
    reason: Reason | None
    exchange: Exchange | None


class Warned(Struct, frozen=True, tag=True):
    """A message for people, in one sentence. Of several with the same `once`, a fleet shows the first."""

    text: str
    once: str = ""


class Stopped(Struct, frozen=True, tag=True):
    """The crawl has ended; everything acknowledged is durable."""

    why: str  # done, limit, interrupted, disk
    counts: Counts


Event = (
    Opened
    | Requested
    | Terms
    | Lost
    | Deferred
    | SetAside
    | ScopeWidened
    | RootsAdded
    | Settled
    | Warned
    | Stopped
)
Reader = Callable[[Event], None]


class Events:
    """Delivers each event, in order, to the readers subscribed to its type."""

    def __init__(self, *readers: Reader) -> None:
        # By type. Some are emitted for every visit: look here first, and create none that nobody reads.
        self.readers: dict[type[Event], list[Reader]] = {kind: [] for kind in get_args(Event)}
        self._flushes: list[Callable[[], None]] = []
        self._syncs: list[Callable[[], None]] = []
        for reader in readers:
            self.subscribe(reader)

    def subscribe(self, reader: Reader, *kinds: type[Event]) -> None:
        """Subscribe a reader to these event types, or to all if none is named.

        A reader that buffers has a method `flush`, one that writes to disk a method `sync`.
        """
        for kind in kinds or self.readers:
            self.readers[kind].append(reader)
        if (flush := getattr(reader, "flush", None)) is not None:
            self._flushes.append(flush)
        if (sync := getattr(reader, "sync", None)) is not None:
            self._syncs.append(sync)

    def branch(self) -> "Events":
        """Events of a part: seen by its own readers and by the readers that the whole has now."""
        part = Events()
        for kind, readers in self.readers.items():
            for reader in readers:
                part.subscribe(reader, kind)
        return part

    def emit(self, event: Event) -> None:
        """Deliver to every reader."""
        for reader in self.readers[type(event)]:
            reader(event)

    def flush(self) -> None:
        """Wait until buffering readers have handled everything emitted."""
        for flush in self._flushes:
            flush()

    def sync(self) -> None:
        """Wait until everything flushed would survive a power loss. This may take a while."""
        for sync in self._syncs:
            sync()
