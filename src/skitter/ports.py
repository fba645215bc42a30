"""The ports: what the core needs from storage and network.

Each port has a few deep methods with numbered invariants; `skitter.testing.contracts` holds one executable
suite per port, and a back end is supported when it passes. Back ends store numbers and keep order. They
decide nothing: what is wanted, when a host is free and when a URL is due again is decided above, in pure
code.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from skitter.model import (
    Counts,
    Exchange,
    Fetched,
    HostRecord,
    Link,
    NotNow,
    Outcome,
    Page,
    Place,
    Reason,
    Rendering,
    RobotsCopy,
    Settlement,
    UrlRecord,
    Visit,
)
from skitter.runtime.hiding import hidden
from skitter.runtime.metrics import CacheMetrics, Metrics, RenderMetrics

if TYPE_CHECKING:
    from skitter.robots.in_force import Permissions
    from skitter.schedule.learning.learned import Learned
    from skitter.search.text import Query, Results  # a crawl does not load the search modules

T = TypeVar("T")


class StateError(Exception):
    """The crawl's state cannot be used: in use, of another version, unreadable.

    The message says what, where, and what to do.
    """


class EngineError(Exception):
    """An engine cannot be used as it is. The message names the engine, the setting and the fix, in one line."""

    def __init__(self, *words: object) -> None:
        super().__init__(*(hidden(word) if isinstance(word, str) else word for word in words))


class EngineAway(EngineError):  # noqa: N818  it is the engine that is away
    """An engine does not answer now.

    The call may be repeated (`skitter.engines.breaker.until_again` waits for the time).
    """

    again: Callable[[], Awaitable[None]] | None = None  # the breaker's estimate


class Unstorable(EngineError):  # noqa: N818  the engine is well
    """An engine will never accept a value: too long, invalid text, message too large. Nothing was written."""


class Fenced(Exception):  # noqa: N818  it is the worker that is fenced off; nothing has failed
    """Another worker owns the shard now: nothing was changed, and nothing will be under this epoch."""


class Clock(Protocol):
    """Time as an argument. `now` is persisted, `monotonic` measures intervals."""

    def now(self) -> float:
        """Wall-clock seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...


# ------------------------------------------------------------------------------------------------ frontier


class Mark(Struct, frozen=True, array_like=True):
    """The end of the settled part of the archive: its current file and the end of the last settled record."""

    file: str = ""
    end: int = 0


class Twin(Struct, frozen=True, array_like=True):
    """A stored page that a new one duplicates."""

    url: str
    fetched_at: float
    digest: str
    simhash: int | None
    place: Place | None = None


class Likeness(NamedTuple):
    """What a page is compared by, within its domain."""

    domain: str
    digest: str
    simhash: int | None


class Opened(Struct, frozen=True):
    """What was found when the frontier was opened."""

    lost: Sequence[Visit] = ()  # visits in flight when the last owner died; pending again
    aside: Sequence[Visit] = ()  # visits given up because they keep killing the process
    mark: Mark = Mark()
    set_back: float = (
        0.0  # seconds by which the clock was set back since the last owner wrote; clocks of hosts follow
    )


Judge = Callable[[Link, Reason | None], Reason | None]
"""Why the current settings refuse a link that is waiting, or was refused for this reason; None if they want it."""


RulesOf = Mapping[str, Callable[[str], Reason | None]]
"""By origin: why its robots.txt forbids a URL; None if it allows it. Origins are missing whose rules are not known."""


class Judged(NamedTuple):
    """How changed settings, or a changed robots.txt, affect known URLs."""

    came: int = 0  # URLs refused before that are waiting now
    went: int = 0  # URLs that were waiting and are refused now


class Do(StrEnum):
    """What a command says."""

    PAUSE = "pause"
    CONTINUE = "continue"
    BLOCK = "block"
    UNBLOCK = "unblock"
    RETRY = "retry"
    REFRESH = "refresh"  # every page answered before it was given is fetched once more


class Command(Struct, frozen=True, omit_defaults=True):
    """What a person told a running crawl, numbered from 1 in the order of the crawl's log."""

    number: int
    do: Do
    hosts: Sequence[str] = ()  # BLOCK, UNBLOCK; RETRY: everything that failed there
    urls: Sequence[tuple[str, str]] = ()  # RETRY: these, each as (key, host)
    failed: bool = False  # RETRY: everything that failed
    at: float = 0.0  # when it was given


class Obeyed(NamedTuple):
    """What a command has changed in a shard."""

    number: int
    changed: int = 0  # hosts or URLs
    same: int = 0  # hosts that were as the command wants them


class Records(Protocol):
    """The read side of a frontier. Anybody may use it, even while the crawl runs."""

    async def close(self) -> None:
        """Release the store."""
        ...

    async def counts(self) -> Counts:
        """The crawl's counters."""
        ...

    async def url(self, key: str, host: str) -> UrlRecord | None:
        """Everything known about a URL."""
        ...

    async def page(self, key: str, host: str) -> Page | None:
        """The page stored for a URL (without text)."""
        ...

    async def host(self, name: str) -> HostRecord | None:
        """Everything known about a host."""
        ...

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The stored copy of an origin's robots.txt, valid or expired."""
        ...

    async def learned(self, name: str) -> "Learned | None":
        """What was learned of a host, or of all hosts of a domain (`learned.of_domain`)."""
        ...

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """A stored page of the domain with the same digest, or else the nearest within the Hamming distance."""
        ...

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """`twin` for many pages at once."""
        ...

    def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL with a record."""
        ...

    def pages(self) -> AsyncIterator[Page]:
        """Every stored page (without text)."""
        ...

    def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        ...

    def all_learned(self) -> AsyncIterator["Learned"]:
        """Everything that was learned of hosts."""
        ...

    def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link between a stored page and a URL with a record, as (source URL, target URL)."""
        ...

    def assets(self) -> AsyncIterator[tuple[str, str]]:
        """Everything that a stored page, or an asset of one, needs to be shown, as (its URL, URL of the asset)."""
        ...

    def metrics(self) -> Metrics:
        """Caches, filters and queues in numbers."""
        ...


class Frontier(Records, Protocol):
    """The queue, the seen set, host clocks, leases and records of one shard.

    1. A URL is accepted once, however often it is added, also after it was settled. Adding a waiting URL
       again with a better level or score moves it forward, never back. A seed that is named again gets
       another chance: if it was refused or failed, or is named for another purpose, it waits again as if it
       were new, and a host that was set aside because it could not or would not answer for a while (no
       robots.txt, Retry-After, Crawl-delay) is taken back with its waiting URLs. Its clock still applies.
    2. A host has at most `per_host` visits in flight, and none before the time set by its last verdict
       (`host_free`). If several may be in flight, they start a delay apart (`host_delay`). The robots.txt of
       an origin comes before any of its pages: while no copy is valid at `now`, the visit handed out is for
       the robots.txt, and no other visit of that host is handed out until it is settled.
    3. A visit that its owner can no longer settle is handed out again; a late settlement is rejected and
       changes nothing.
    4. `settle` makes links durable before, or together with, closing the visit.
    5. What `settle` acknowledged survives `kill -9`, together with the archive mark it was called with.
    6. A lease is durable before `lease` returns. Opening the frontier after a crash finds every open lease:
       those hosts are free only after their delay counted from the opening, and the visits are pending with
       one more attempt.
    7. A visit found open in three crashes, or in hand in one (see `in_hand`), is handed out alone: nothing
       else is in flight. One that was in hand in three crashes, or alone in ten, is set aside with the
       reason.
    8. Links for other shards are kept in the outbox, durable with the settlement that found them, until
       `forwarded`.
    9. Levels are drawn by weight among the free hosts and within a host, so that none starves; within a level
       the better score comes first, then the older link.
    10. Each command is applied once, in the order of the numbers: how far a shard has come is stored in the write
        that completes a command. No visit of a blocked host is handed out; what waits there, and what is added,
        waits until it is unblocked, and nothing else takes the host back.
    """

    async def open(self, now: float) -> Opened:
        """Take the shard: recover open leases, report them, and be ready to lease."""
        ...

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Add links; returns how many were new."""
        ...

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Lease at most `limit` visits that may start now."""
        ...

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits, each with its page, links, clocks and robots copy, in one atomic step with the archive mark.

        Returns False for a late settlement: its visit is no longer open under this lease.
        """
        ...

    async def next_due(self, now: float) -> float | None:
        """When `lease` may next return something new; None when nothing is waiting (apart from visits in flight)."""
        ...

    async def lease_assets_only(self, now: float, *, only: bool = True) -> None:
        """From now on lease nothing but assets (and each robots.txt they need), or everything again.

        `next_due` then is about assets that wait; their retries do not count. It ends when the shard is opened again.
        """
        ...

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """Links for other shards that are not forwarded yet, oldest first, after the id `after`."""
        ...

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Remove links from the outbox: their owners have them."""
        ...

    def in_hand(self, visit: Visit | None) -> None:
        """Set the crash mark: the visit whose bytes are being processed, readable after the process has died."""
        ...

    async def reopen(self, mark: Mark, now: float) -> int:
        """The archive ends at `mark`, before what was settled: make the pages after it pending again; returns
        how many.
        """
        ...

    async def judge_again(self, judge: Judge, settings: str, now: float) -> Judged:
        """Judge waiting URLs, and those refused by settings, again if that was last done with other settings.

        `settings` identifies everything that decides about links. If interrupted, it starts over when the shard is next opened.
        """
        ...

    def has_new_rules(self) -> bool:
        """Whether a robots.txt has changed, and `judge_by_rules` has not been called since."""
        ...

    async def judge_by_rules(
        self, rules: Callable[[Collection[str]], Awaitable[RulesOf]], now: float
    ) -> Judged:
        """Judge the URLs of every origin whose robots.txt has changed, a bounded number at a time.

        What waits and is forbidden now is refused; what a robots.txt refused before and allows now waits again. If
        interrupted, the next owner judges the URLs of all origins.
        """
        ...

    async def obey(self, commands: Sequence[Command], now: float) -> list[Obeyed]:
        """Apply the commands that this shard has not applied yet; returns what each of those has changed.

        Hosts and URLs of other shards are passed over. If interrupted, a command is applied again from its beginning,
        which changes nothing twice.
        """
        ...

    def obeyed(self) -> int:
        """The number of the last command that was applied; 0 if none was."""
        ...

    async def sync(self) -> None:
        """Make everything acknowledged survive a power loss."""
        ...

    async def close(self, now: float = 0.0) -> None:
        """Release the shard. Open visits become pending for the next owner, without counting as a crash.

        Their requests may have been sent anyway: those hosts are free a delay after `now`.
        """
        ...


# ------------------------------------------------------------------------------------------------ fetcher


class Fetcher(Protocol):
    """The only access to the network.

    1. It never raises for what a server does: every result is an Outcome.
    2. No connection is opened to an address that the guard refuses, on any hop, whatever DNS answers when.
    3. An outcome's exchange is exactly what was sent and received; redirects are not followed.
    4. Time, header size, body size (on the wire and decoded) and the sum of bodies in flight are bounded.
    """

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        """Make the one request that the visit permits. `validators` are conditional header fields."""
        ...

    def metrics(self) -> Metrics:
        """Names, connections and bodies in numbers."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class Renderer(Protocol):
    """Pages as they are after their scripts have run.

    1. It never raises for what a page or a browser does: every result is a Rendering, or None if the page needs none.
    2. The browser has no network. Every request that a page makes is made by the Fetcher, after robots.txt and in its
       turn, and is in the result.
    3. Time, memory, requests and bytes of a page are bounded; a browser that hangs or dies costs one page its rendering.
    """

    async def render(self, visit: Visit, answer: Fetched) -> Rendering | None:
        """Show the answer to a visit in a browser."""
        ...


class Renderers(Protocol):
    """The browsers of a process, which its shards share."""

    def of(
        self, fetcher: Fetcher, frontier: Frontier, archive: "Archive", rules: "Permissions", shard: int
    ) -> Renderer:
        """The renderer of one shard, which sends through this fetcher."""
        ...

    def metrics(self) -> RenderMetrics:
        """What was rendered, in numbers."""
        ...

    async def close(self) -> None:
        """End every browser."""
        ...


class PermitTerms(Struct, frozen=True):
    """What limits the requests of one key, and why somebody has to wait for it."""

    limit: float  # requests in flight; infinite for no limit
    delay: float  # seconds between the starts of two requests
    busy: Reason
    too_soon: Reason


class Permits(Protocol):
    """Permits to send to an IP address, to the hosts of a domain, or to those of a group: a key, in any case.

    They are asked for when the name is looked up and nothing is sent yet.

    1. At no time are more permits of an address out than the limit, over all processes that share it, and no two are
       granted closer together than its delay. An IPv4 address has one spelling, wherever it was found.
    2. `ask` never waits for a permit of somebody else. Whoever gets none is told when to ask again: in the future, and
       each a little later than the one before, so that they return one by one.
    3. Every permit is given back, however its request ended. Those of a process that died come back without it.
    4. Nobody who keeps asking is refused for ever, and no address takes anything from another.
    5. What is kept does not grow with the number of addresses ever asked for.
    6. After `begin`, no key is used before its delay has passed, whoever used it last and when.
    """

    def begin(self) -> None:
        """Keys may have been used a moment ago, by somebody who did not say so."""
        ...

    async def ask(self, address: str) -> NotNow | None:
        """Ask for one permit; None: it is granted, and must be given back."""
        ...

    def give_back(self, address: str, used: float | None) -> None:
        """The request has ended, `used` seconds after its permit was granted; None: nothing was sent after all."""
        ...

    async def close(self) -> None:
        """Leave what is left to others."""
        ...


class Account(NamedTuple):
    """What a shard has used of the budget of a group, its visits in flight, and what it has set aside (`politeness.shares`)."""

    pages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    day: int = 0  # of the last request
    requests: int = 0  # on that day
    out: int = 0
    share: int = 0  # visits
    share_bytes: int = 0
    share_seconds: float = 0.0


class Accounts(Protocol):
    """The accounts of all shards, for budgets that they share.

    1. `exchange` returns what every other shard has written last, as of a moment after the own account was written.
    2. It returns None if that is not known now, and never waits for long.
    3. What one shard writes is seen in the order in which it was written.
    """

    may_be_away: bool  # whether others may be out of reach for long

    async def exchange(self, group: str, shard: int, own: Account) -> Sequence[Account] | None:
        """Write the account of a shard, whose owner we are; returns those of the others."""
        ...

    async def close(self) -> None:
        """Leave everything to others."""
        ...


# ------------------------------------------------------------------------------------------------ archive


class Packed(Struct, frozen=True):
    """Archive records of one visit, as `append` takes them. `main` is the index of the one with the answer."""

    records: Sequence[bytes]
    main: int
    beside: int = 0  # so many records right behind it were made of it


class Archive(Protocol):
    """The archive of answers, byte for byte.

    1. `append` writes exactly the given records, in order, and returns the place of each visit's main record.
    2. What was appended can be read back at its place once `append` has returned.
    3. `cut` removes everything after a mark; a file that ends before its mark is reported, never padded.
    4. After `sync`, everything appended survives a power loss.
    5. Only what `settled` has confirmed may leave this machine, so that what a crash left unsettled can still
       be cut.
    """

    def pack(
        self, exchange: Exchange, page: Page | None, twin: Twin | None, rendering: Rendering | None = None
    ) -> Packed:
        """Build the records of one exchange. With a twin, an identical payload, or one not modified, is not stored again.

        What a rendering requested comes before it; what became of the page is right behind it.
        """
        ...

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Compress records and append them; returns one place per pack."""
        ...

    def mark(self) -> Mark:
        """The current end of the archive."""
        ...

    def settled(self) -> None:
        """Confirm that everything appended so far is settled, up to the current mark."""
        ...

    async def sync(self) -> None:
        """Make everything appended survive a power loss."""
        ...

    async def cut(self, mark: Mark) -> Mark:
        """Drop everything after the mark.

        Returns the new end of the archive: before the mark if something is missing.
        """
        ...

    def read(self, place: Place) -> bytes:
        """The HTTP message (head and body as received) at a place. For a revisit, only its head."""
        ...

    async def close(self) -> None:
        """Close the current file."""
        ...


# ------------------------------------------------------------------------------------------------ cache


class Cache(Protocol):
    """A bounded cache with expiry.

    1. Concurrent requests for one missing key cause one fetch, and all get its answer (single flight).
    2. It is bounded in entries (least recently used goes first) and in time (each value has its own time to
       live).
    3. A fetch that raises leaves nothing behind; every waiter sees the exception.
    """

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached value, or the result of `fetch`: (value, time to live in seconds)."""
        ...

    async def forget(self, key: str) -> None:
        """Drop a key."""
        ...

    def metrics(self) -> CacheMetrics:
        """How well it works."""
        ...


# ------------------------------------------------------------------------------------------------ search


class Entry(Struct, frozen=True):
    """A page to be indexed, with its text and links."""

    page: Page
    links: Sequence[str] = ()
    unwanted: str = ""  # why it must not be in an index, if the page itself does not say so


class Rejected(Struct, frozen=True):
    """A page that an index will never accept, with the reason. Retrying is useless."""

    url: str
    reason: str


class SearchIndex(Protocol):
    """A full-text index of pages.

    1. A page is identified by its key. Indexing it again replaces it, and the version fetched last wins, in
       whatever order they arrive. The same holds for deletions: a deleted page may come back with a later
       version.
    2. `index` returns the pages that are refused for good; all others are in. Temporary failures are retried,
       within bounds, before EngineAway; after that, the same pages may be offered again.
    3. What was acknowledged is found after `refresh`, and survives `kill -9` of the caller.
    4. A page is found when each term is in its title or its text. Case does not matter, nor do accents on
       Latin letters. Each Han character and Hiragana is a word, so they are found inside text without spaces.
    5. A term in the title counts more than one in the text. Hits with equal scores are ordered by URL.
       `offset` pages through one order; there are no hits after number `SEARCH_DEPTH`.
    6. Any text can be searched for, and no text is interpreted as a command. A snippet contains only text of
       the page.
    """

    async def open(self) -> None:
        """Create what is missing, and connect. EngineError if the engine cannot be used."""
        ...

    async def index(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Add pages; returns those that are refused."""
        ...

    async def delete(self, gone: Mapping[str, float]) -> None:
        """Remove pages by key, unless they were fetched after the given time; unknown keys are fine."""
        ...

    async def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """When the indexed pages of these keys were fetched, without waiting for a refresh."""
        ...

    async def search(self, query: "Query", limit: int = 10, offset: int = 0) -> "Results":
        """Search. Without terms nothing is found."""
        ...

    async def refresh(self) -> None:
        """Make everything acknowledged searchable."""
        ...

    async def count(self) -> int:
        """Number of searchable pages."""
        ...

    async def close(self) -> None:
        """Disconnect from the engine."""
        ...


SEARCH_DEPTH = 10_000
"""How far one can leaf through results: what engines allow without being told otherwise (index.max_result_window)."""
