"""What happened, as typed events. The log, the request log, progress and reports are readers of this one stream."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from skitter.model import Counts, Page, Reason, Visit


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
    status: int
    reason: Reason | None


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
    """Hands each event to every reader, in order."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = list(readers)

    def subscribe(self, reader: Reader) -> None:
        """Add a reader."""
        self._readers.append(reader)

    def emit(self, event: Event) -> None:
        """Tell every reader."""
        for reader in self._readers:
            reader(event)
