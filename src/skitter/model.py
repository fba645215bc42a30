"""The values a URL passes through, in order.

    Link -> Visit -> Outcome -> Document -> Page -> Verdict -> Settlement

Everything here is frozen and has no behaviour: each stage takes one of these and returns the next. The web's
failures are values of the closed type `Outcome`; an exception means a bug or broken infrastructure. Times are
wall-clock seconds since the epoch, because they are persisted and read by later processes.

High-volume structs use `gc=False`: they cannot form cycles, so the garbage collector need not track them.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct, field

# ------------------------------------------------------------------------------------------------ why not


class Reason(Struct, frozen=True, array_like=True, gc=False):
    """Why something was not done. `code` is one of those in `skitter.reasons`, `detail` explains this case to a person."""

    code: str
    detail: str = ""


# ------------------------------------------------------------------------------------------------ link, visit


class Level(IntEnum):
    """Urgency of a link. Levels are drawn by weight, so none starves; within a level the score decides."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


class Purpose(StrEnum):
    """What a visit is for. All are leased, timed, logged, archived and settled alike; `handling` has the differences."""

    PAGE = "page"
    ROBOTS = "robots"
    SITEMAP = "sitemap"
    FEED = "feed"
    PROBE = "probe"  # is it there? what it contains does not matter
    ASSET = "asset"  # a file that belongs to a page, or that somebody wants in the archive


class Handling(Struct, frozen=True, kw_only=True):
    """What a purpose means. A new purpose is a line in this table, and changes no store."""

    asks_robots: bool = True  # the robots.txt of its origin must allow it
    counts: bool = False  # as a page: in the numbers, in page limits, and as a seed for the scope
    parsed: bool = False  # for its text and links
    compared: bool = False  # with other pages, so that the archive has an identical body once


_PAGE = Handling(counts=True, parsed=True, compared=True)
_HANDLING = {
    Purpose.ROBOTS: Handling(asks_robots=False),
    Purpose.SITEMAP: Handling(),
    Purpose.FEED: Handling(),
    Purpose.PROBE: Handling(),
    Purpose.ASSET: Handling(),
}


def handling(purpose: Purpose) -> Handling:
    """What a purpose means."""
    return _PAGE if purpose is Purpose.PAGE else _HANDLING[purpose]


class Hints(Struct, frozen=True, array_like=True, gc=False):
    """What was said about a URL where it was found: by a seed file, or by the anchor. New ones go to the end."""

    lastmod: float | None = None  # when it last changed
    priority: float | None = None  # between 0 and 1, compared with other URLs of its site
    rel: tuple[str, ...] = ()  # words of the anchor's rel attribute: "next", "author"; see `parse.findings`


class Link(Struct, frozen=True, array_like=True, kw_only=True, omit_defaults=True, gc=False):
    """A URL to crawl. `url` is what will be fetched, `key` identifies the page."""

    url: str
    key: str
    host: str  # whose politeness clock applies
    depth: int = 0
    parent: str = ""  # URL of the page it was found on; empty for a seed
    level: Level = Level.NORMAL
    score: float = 0.0  # higher is fetched first
    purpose: Purpose = Purpose.PAGE
    origin: str = ""  # ROBOTS only: the origin these rules are for
    requested: str = ""  # the URL first requested, if redirects led here
    hops: int = 0  # number of redirects that led here
    seed: bool = False
    meta: Mapping[str, Any] | None = None  # from the seed file; copied to the page record
    hints: Hints | None = None  # of the first link to it; few links have any


class Visit(Struct, frozen=True, array_like=True, gc=False):
    """Permission to make one request for a link, now. Every visit ends by being settled."""

    link: Link
    attempt: int  # 1 for the first request since the link was added
    leased_at: float
    alone: bool = False  # suspected of killing the process: runs with nothing else in flight
    host_pages: int = 0  # pages stored from this host plus visits in flight, for the page budget
    host_free: float = 0.0  # the host's clock when the visit was leased
    recrawl: bool = False  # it was answered before, so there may be a stored page to compare with


# ------------------------------------------------------------------------------------------------ outcome


class Exchange(Struct, frozen=True):
    """Exactly what was sent and received: the archive and the request log are made from this."""

    url: str
    address: str  # the address of the connection
    started: float
    ended: float
    request: bytes  # the request head as sent
    head: bytes  # status line and header fields as received, including the empty line
    body: bytes  # as received: still chunked and content-encoded
    cut: bool = False  # reading stopped at our limit; this is only the beginning


class Fetched(Struct, frozen=True):
    """A final answer from the server, whatever its status."""

    exchange: Exchange
    status: int
    headers: Sequence[tuple[str, str]]  # names lower-cased, in order
    payload: bytes  # the entity: transfer coding removed, content coding still on
    content: bytes  # the entity with all content codings removed


class NotModified(Struct, frozen=True):
    """Not modified (304): our stored copy is still valid."""

    exchange: Exchange
    headers: Sequence[tuple[str, str]]


class Redirected(Struct, frozen=True):
    """A redirect. `target` is absolute and WHATWG-serialised, or empty if it is not an http URL."""

    exchange: Exchange
    status: int
    headers: Sequence[tuple[str, str]]
    target: str
    location: str  # as sent


class Refused(Struct, frozen=True):
    """Not requested: refused by the address guard, robots.txt or a budget."""

    reason: Reason


class Fault(StrEnum):
    """How a request can fail. The names appear in reports and reasons."""

    DNS = "dns"  # no answer from DNS
    NXDOMAIN = "nxdomain"  # the name does not exist, or has no address
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"  # closed or reset before the answer was complete
    REUSE = "reuse"  # a reused connection was closed on our request, before any byte of an answer
    PROTOCOL = "protocol"  # not HTTP, or malformed
    HEADERS = "headers"  # header block over the limit
    SIZE = "size"  # body over the limit on the wire
    BOMB = "bomb"  # body over the limit after decoding
    BUSY = "busy"  # our own limit: all bodies in flight together were too large, or the shard's lease ended, so the request was aborted
    PARSER = "parser"  # our parser raised, crashed, hung or took too much memory, which fails this one page


class Failed(Struct, frozen=True):
    """No usable answer. `exchange` holds what there was, so that the request is still logged and timed."""

    fault: Fault
    detail: str
    exchange: Exchange | None  # None when nothing was sent


class NotNow(Struct, frozen=True):
    """Not requested: it may not be sent yet. It is neither a refusal nor a failure, and nothing is counted."""

    reason: Reason
    until: float  # when to try again


Outcome = Fetched | NotModified | Redirected | Refused | Failed | NotNow

# ------------------------------------------------------------------------------------------------ document, page


class Directives(Struct, frozen=True, array_like=True):
    """What the page asks of robots (meta robots and X-Robots-Tag). `ai` holds usage preferences as sent."""

    index: bool = True
    follow: bool = True
    ai: Mapping[str, str] | None = None


class Document(Struct, frozen=True, omit_defaults=True):
    """What the parser extracted from a body. `links` and `nofollow` are hrefs as written, relative to `base`."""

    media_type: str = ""
    charset: str = ""
    base: str = ""
    title: str = ""
    description: str = ""
    author: str = ""
    keywords: str = ""
    language: str = ""
    text: str = ""
    canonical: str = ""  # as written
    directives: Directives = Directives()
    links: Sequence[str] = ()
    nofollow: Sequence[str] = ()
    ignored: str = ""  # why a parsed body does not count as content: its markers are missing
    rels: Mapping[str, tuple[str, ...]] | None = (
        None  # of those few hrefs whose rel says something about them
    )


class Place(Struct, frozen=True, array_like=True):
    """The place of a record in the archive."""

    file: str
    offset: int
    length: int


class Page(Struct, frozen=True, array_like=True, kw_only=True):
    """The record of one answered visit.

    `text` is for the current caller; stores drop it, since the archive can give it back.
    """

    url: str
    requested_url: str
    key: str
    host: str
    domain: str
    status: int
    fetched_at: float
    depth: int = 0
    parent: str = ""
    content_type: str = ""
    charset: str = ""
    headers: Sequence[tuple[str, str]] = ()
    size: int = 0  # of the decoded content
    title: str = ""
    description: str = ""
    author: str = ""
    keywords: str = ""
    language: str = ""
    text: str = ""
    digest: str = ""  # of the payload, as in the archive: "sha1:…"
    simhash: int | None = None
    duplicate_of: str = ""  # URL of the page it duplicates
    identical: bool = False  # the payload is identical to that of `duplicate_of`
    canonical: str = ""
    robots: Directives = Directives()
    etag: str = ""
    last_modified: str = ""
    links_count: int = 0
    ignored: str = ""
    meta: Mapping[str, Any] | None = None
    archive: Place | None = None
    purpose: Purpose = Purpose.PAGE


# ------------------------------------------------------------------------------------------------ verdict, settlement


class State(StrEnum):
    """State of a URL."""

    QUEUED = "queued"  # waiting, possibly until a later time
    LEASED = "leased"  # being visited
    CRAWLED = "crawled"  # answered, for good or until it is due again
    FAILED = "failed"  # given up after retries, or set aside
    REFUSED = "refused"  # not wanted or not allowed


class Verdict(Struct, frozen=True, kw_only=True):
    """What an outcome means: when this URL is due again, and when its host is free again."""

    state: State  # QUEUED with `due` set is a retry
    reason: Reason | None = None
    due: float | None = None
    attempted: bool = True  # False: nothing was tried, the visit is only postponed
    host_free: float | None = None  # None: nothing was sent, the clock does not change
    host_delay: float | None = None  # delay after every response, stored for recovery after a crash
    host_aside: Reason | None = None  # set the host aside (ROBOTS: the origin's host)
    host_held: float | None = None  # no page of the host is tried before; its clock does not change


class RobotsCopy(Struct, frozen=True, array_like=True, kw_only=True):
    """What an origin's robots.txt said, and how long that is valid."""

    origin: str
    status: int = 0  # 0: no answer
    body: bytes = b""
    access: str = "rules"  # rules | all | none: how to interpret the body or its absence
    fetched_at: float = 0.0  # 0: not requested, because nothing of its origin was wanted
    expires: float = 0.0  # after this, it must be fetched again before any page
    held: float = 0.0  # its pages wait until then, when it is fetched again
    tries: int = 0  # failed requests in a row
    problem: str = ""  # the last problem, for `why`


class Settlement(Struct, frozen=True, kw_only=True):
    """The end of a visit: everything that must become durable together."""

    visit: Visit
    verdict: Verdict
    page: Page | None = None
    links: Sequence[Link] = ()  # links to follow
    refused: Sequence[tuple[Link, Reason]] = ()  # links not to follow, with the reason
    again: Link | None = (
        None  # the same record with a new fetched form: a redirect to its own key, or a robots.txt hop
    )
    robots: RobotsCopy | None = None
    exchange: Exchange | None = None
    status: int = 0  # of the answer; 0 without one


def is_put_off(settlement: Settlement) -> bool:
    """Whether nothing was sent, and the URL waits again."""
    verdict = settlement.verdict
    return verdict.state is State.QUEUED and not verdict.attempted and settlement.exchange is None


# ------------------------------------------------------------------------------------------------ what can be read back


class UrlRecord(Struct, frozen=True, kw_only=True):
    """Everything known about one URL."""

    url: str
    key: str
    state: State
    reason: Reason | None = None
    depth: int = 0
    parent: str = ""
    level: Level = Level.NORMAL
    score: float = 0.0
    attempts: int = 0  # requests since the last answer
    crashes: int = 0  # how often the process died while it was being visited
    crawl_count: int = 0
    status: int = 0  # of the last answer
    first_seen: float = 0.0
    last_crawl: float | None = None
    next_crawl: float | None = None
    hints: Hints | None = None
    purpose: Purpose = Purpose.PAGE


class HostRecord(Struct, frozen=True, kw_only=True):
    """Everything known about one host."""

    host: str
    domain: str
    free_at: float = 0.0
    delay: float = 0.0
    queued: int = 0
    in_flight: int = 0
    pages: int = 0  # stored with a 2xx status
    requests: int = 0
    errors: int = (
        0  # attempts without a usable answer (network failure, 429, 5xx), each counted; including robots.txt
    )
    bytes: int = 0
    aside: Reason | None = None


class Stop(StrEnum):
    """Why a crawl ended."""

    DONE = "done"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    DISK = "disk"
    UNREACHABLE = "unreachable"  # no host has ever answered, and everything tried has failed


class Counts(Struct, kw_only=True):
    """The crawl's counters, committed with every settlement, so that every reader sees the same numbers."""

    seen: int = 0  # links offered
    added: int = 0  # of seen: new and wanted
    known: int = 0  # of seen: already known
    queued: int = 0
    leased: int = 0
    crawled: int = 0
    failed: int = 0  # given up: retries failed, or would be useless
    outbox: int = 0
    pages: int = 0  # stored with a 2xx status
    processed: int = 0  # of pages: with content
    not_found: int = 0  # 404 and 410
    requests: int = 0
    bytes: int = 0  # received
    duplicates: int = 0  # pages that duplicate another, exactly or nearly
    lost: int = 0  # visits that were in flight when the process died
    hosts: int = 0
    hosts_aside: int = 0
    elapsed: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)  # by reason code
    failures: dict[str, int] = field(default_factory=dict)  # by reason code
    statuses: dict[int, int] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)  # stored answers that count as no page, by purpose
