"""The seams: what the core needs from storage and network, and nothing else.

Each port is a few deep verbs with numbered invariants; `skitter.testing.contracts` holds one executable suite per port,
and a back end is supported when it passes. Back ends store numbers and keep order. They never know why: what is wanted,
when a host is free and when a URL is due again is decided above, in pure code.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from skitter.model import (
    Counts,
    Exchange,
    HostRecord,
    Link,
    Outcome,
    Page,
    Place,
    Reason,
    RobotsCopy,
    Settlement,
    UrlRecord,
    Visit,
)
from skitter.runtime.hiding import hidden

if TYPE_CHECKING:
    from skitter.search.text import Query, Results  # a crawl does not search

T = TypeVar("T")


class StateError(Exception):
    """The crawl's state cannot be used: in use, of another version, unreadable. Says what, where, and what to do."""


class EngineError(Exception):
    """An engine cannot be used as it is. Says which one, by which setting, and what to do, in one line."""

    def __init__(self, *words: object) -> None:
        super().__init__(*(hidden(word) if isinstance(word, str) else word for word in words))


class EngineAway(EngineError):  # noqa: N818  it is the engine that is away
    """An engine does not answer now. What was asked may be asked again (`skitter.engines.breaker.until_again` says when)."""

    again: Callable[[], Awaitable[None]] | None = None  # its breaker's word for it


class Unstorable(EngineError):  # noqa: N818  the engine is well
    """An engine refuses a value for good: too long, not text it can hold, too large a message. Nothing was written."""


class Fenced(Exception):  # noqa: N818  it is the worker that is fenced off; nothing has failed
    """Somebody else owns the shard by now: nothing was changed, and nothing will be under this epoch."""


class Clock(Protocol):
    """Time as an argument. `now` is persisted, `monotonic` measures intervals."""

    def now(self) -> float:
        """Wall-clock seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


# ------------------------------------------------------------------------------------------------ frontier


class Mark(Struct, frozen=True, array_like=True):
    """How far the archive is settled: its current file and the end of the last settled record in it."""

    file: str = ""
    end: int = 0


class Twin(Struct, frozen=True, array_like=True):
    """A stored page that another one repeats."""

    url: str
    fetched_at: float
    digest: str
    simhash: int | None
    place: Place | None = None


class Likeness(NamedTuple):
    """What a page is compared by, inside its domain."""

    domain: str
    digest: str
    simhash: int | None


class Opened(Struct, frozen=True):
    """What the frontier found when it was opened."""

    lost: Sequence[Visit] = ()  # visits that were open when the last owner died; pending again
    aside: Sequence[Visit] = ()  # visits given up because the process keeps dying with them
    mark: Mark = Mark()
    set_back: float = (
        0.0  # seconds by which the clock was set back since the last owner wrote; clocks of hosts follow
    )


Judge = Callable[[Link, Reason | None], Reason | None]
"""Why the settings in force do not want a link that waits, or that was refused for a reason; None: they do."""


class Judged(NamedTuple):
    """What other settings have changed of what is known."""

    came: int = 0  # URLs that earlier settings refused, and that wait now
    went: int = 0  # URLs that waited, and are refused now


class Records(Protocol):
    """The read side of a frontier: what is known. Anybody may hold it, also while the crawl runs."""

    async def close(self) -> None:
        """Let go of the store."""
        ...

    async def counts(self) -> Counts:
        """The crawl in numbers."""
        ...

    async def url(self, key: str, host: str) -> UrlRecord | None:
        """What is known of a URL."""
        ...

    async def page(self, key: str, host: str) -> Page | None:
        """The page stored for a URL (without text)."""
        ...

    async def host(self, name: str) -> HostRecord | None:
        """What is known of a host."""
        ...

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt, valid or not."""
        ...

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """A stored page of the domain with the same digest, else the nearest within the Hamming distance."""
        ...

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """The same for many pages at once."""
        ...

    def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL ever offered that has a record."""
        ...

    def pages(self) -> AsyncIterator[Page]:
        """Every stored page (without text)."""
        ...

    def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        ...

    def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link between a stored page and a URL with a record, as (source URL, target URL)."""
        ...

    def statistics(self) -> dict[str, dict[str, float]]:
        """Caches and filters in numbers, by name."""
        ...


class Frontier(Records, Protocol):
    """The queue, the seen set, host clocks, leases and the records of one shard.

    1. A URL is accepted once, however often it is added, also after it was settled. Adding a waiting URL again with a
       better level or score moves it forward, never back. A seed that is named again gets another chance: refused or
       failed, it waits again as if it were new, and a host that was set aside because it could not or would not answer
       for a while (no robots.txt, Retry-After, Crawl-delay) is taken back with what waits there. Its clock still holds.
    2. A host has at most `per_host` visits in flight, and none before the time its last verdict named (`host_free`).
       Where several may be in flight, they begin a delay apart (`host_delay`).
       The robots.txt of an origin comes before any page of it: while no copy is valid at `now`, the visit handed out is
       for the robots.txt, and no other visit of that host is handed out until it is settled.
    3. A visit that its owner can no longer settle is handed out again; a late settler is told so and changes nothing.
    4. `settle` makes links safe before, or together with, closing the visit.
    5. What `settle` acknowledged survives `kill -9`, together with the mark of the archive it was called with.
    6. A lease is durable before `lease` returns. Whoever opens the frontier after a crash finds every open lease: those
       hosts are free only after their delay counted from the opening, and the visits are pending with one more attempt.
    7. A visit found open in three crashes, or in hand in one (see `in_hand`), is handed out alone: nothing else is in
       flight. One that was in hand in three crashes, or alone in ten, is set aside with the reason.
    8. Links for other shards are kept in the outbox, durable with the settlement that found them, until `forwarded`.
    9. Levels are drawn by weight among the hosts that are free and inside a host, so that no level starves; inside a
       level the better score comes first, then the older link.
    """

    async def open(self, now: float) -> Opened:
        """Take the shard: recover open leases, report them, be ready to lease."""
        ...

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Accept links; say how many were new."""
        ...

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out at most `limit` visits that may be made now."""
        ...

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits, each with its page, links, clocks and robots copy, in one atomic step with the mark.

        False for a settlement that came too late: its visit is no longer open under this lease.
        """
        ...

    async def next_due(self, now: float) -> float | None:
        """When `lease` may give something that it does not give now; None when nothing waits (in flight aside)."""
        ...

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """Links for other shards that are not forwarded yet, oldest first, those behind the id `after`."""
        ...

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Their owners have them."""
        ...

    def in_hand(self, visit: Visit | None) -> None:
        """Leave word of the visit whose bytes are worked on right now, readable after the process has died."""
        ...

    async def reopen(self, mark: Mark, now: float) -> int:
        """The archive ends at `mark`, before what was settled: make the pages behind it pending again; say how many."""
        ...

    async def judge_again(self, judge: Judge, settings: str, now: float) -> Judged:
        """Judge what waits, and what settings refused, if that was last done by other settings than these.

        `settings` stands for all that decides about links. Broken off anywhere, it is done again by whoever opens next.
        """
        ...

    async def sync(self) -> None:
        """Make everything acknowledged survive a loss of power."""
        ...

    async def close(self, now: float = 0.0) -> None:
        """Give the shard back. Open visits are pending for whoever opens it next, without a mark against them.

        Their requests may have been made all the same: those hosts are free a delay after `now`.
        """
        ...


# ------------------------------------------------------------------------------------------------ fetcher


class Fetcher(Protocol):
    """The only way out to the network.

    1. It never raises for what a server does: every end is an Outcome.
    2. No connection is opened to an address that the guard refuses, on any hop, whatever DNS answers when.
    3. An outcome's exchange is byte for byte what was sent and received; redirects are not followed.
    4. Time, header size, body size (on the wire and decoded) and the sum of bodies in flight are bounded.
    """

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        """Make the one request that the visit permits. `validators` are conditional header fields."""
        ...

    def statistics(self) -> dict[str, dict[str, float]]:
        """Caches and connections in numbers, by name."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...


# ------------------------------------------------------------------------------------------------ archive


class Packed(Struct, frozen=True):
    """Archive records of one visit, as `append` takes them. `main` is the index of the one that holds the answer."""

    records: Sequence[bytes]
    main: int


class Archive(Protocol):
    """Where answers are kept, byte for byte.

    1. `append` writes exactly the given records, in order, and returns where each visit's main record lies.
    2. What was appended can be read back at its place once `append` has returned.
    3. `cut` removes everything behind a mark; a file that ends before its mark is reported, never padded.
    4. After `sync`, everything appended survives a loss of power.
    5. Only what `settled` has spoken of may leave this machine, so that what a crash left unsettled can still be cut.
    """

    def pack(self, exchange: Exchange, page: Page | None, twin: Twin | None) -> Packed:
        """Render the records of one exchange. With a twin, an identical payload is not stored again."""
        ...

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Compress records and write them out at the end; one place per pack."""
        ...

    def mark(self) -> Mark:
        """Where the archive ends now."""
        ...

    def settled(self) -> None:
        """Everything appended so far is settled, with the mark of now."""
        ...

    async def sync(self) -> None:
        """Make everything appended survive a loss of power."""
        ...

    async def cut(self, mark: Mark) -> Mark:
        """Drop what lies behind the mark. Returns where the archive ends: before the mark if something is missing."""
        ...

    def read(self, place: Place) -> bytes:
        """The HTTP message (head and body as received) at a place. For a revisit, its head alone."""
        ...

    async def close(self) -> None:
        """Finish the current file."""
        ...


# ------------------------------------------------------------------------------------------------ cache


class Cache(Protocol):
    """Answers worth keeping for a while.

    1. Many askers for one missing key cause one fetch, and all get its answer (single flight).
    2. It is bounded in entries (least recently used goes first) and in time (each value brings its time to live).
    3. A fetch that raises leaves nothing behind; every waiting asker sees the exception.
    """

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached value, or what `fetch` returns: (value, time to live in seconds)."""
        ...

    async def forget(self, key: str) -> None:
        """Drop a key."""
        ...

    def statistics(self) -> dict[str, float]:
        """entries, capacity, hits, misses, evictions, expirations."""
        ...


# ------------------------------------------------------------------------------------------------ search


class Entry(Struct, frozen=True):
    """A page as an index takes it: with its text, and where it leads."""

    page: Page
    links: Sequence[str] = ()


class Rejected(Struct, frozen=True):
    """A page that an index will never take, and why. To offer it again is of no use."""

    url: str
    reason: str


class SearchIndex(Protocol):
    """Pages, to be found by their words.

    1. A page is known by its key. To index it again replaces it, and the version that was fetched last stays, in
       whatever order they come. So does a page that was fetched after it was found gone; what is deleted may come back
       with a later version.
    2. `index` names the pages that are refused for good; all others are in. What goes by is tried again, within bounds,
       before EngineAway; after that, the same pages may be offered again.
    3. What was acknowledged is found after `refresh`, and survives `kill -9` of whoever offered it.
    4. A page is found when each term is in its title or its text. Case does not matter, nor do accents on Latin letters.
       Han characters and Hiragana are words of their own, so they are found inside text without spaces.
    5. A term in the title is worth more than one in the text. Hits of one score are in the order of their URLs.
       `offset` leafs through one order; behind the hit number `SEARCH_DEPTH` there are none.
    6. Any text can be looked for, and no text is taken for a command. A snippet has nothing but text of the page.
    """

    async def open(self) -> None:
        """Make what is missing, and be ready. EngineError when the engine cannot be used."""
        ...

    async def index(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Take pages in; says which are refused."""
        ...

    async def delete(self, gone: Mapping[str, float]) -> None:
        """Take pages out, by key, unless they were fetched later than the time given; unknown keys are fine."""
        ...

    async def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """When the pages of these keys that are in the index were fetched, without waiting for a refresh."""
        ...

    async def search(self, query: "Query", limit: int = 10, offset: int = 0) -> "Results":
        """Find pages. Without terms nothing is found."""
        ...

    async def refresh(self) -> None:
        """Let everything acknowledged be found."""
        ...

    async def count(self) -> int:
        """How many pages can be found."""
        ...

    async def close(self) -> None:
        """Let go of the engine."""
        ...


SEARCH_DEPTH = 10_000
"""How far one can leaf through results: what engines allow without being told otherwise (index.max_result_window)."""
