"""The values a URL passes through, in order.

    Link -> Visit -> Outcome -> Document -> Page -> Verdict -> Settlement

Everything here is frozen and has no behaviour: each stage takes one of these and returns the next. The web's
failures are values of the closed type `Outcome`; an exception means a bug or broken infrastructure. Times are
wall-clock seconds since the epoch, because they are persisted and read by later processes.

High-volume structs use `gc=False`: they cannot form cycles, so the garbage collector need not track them.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, BinaryIO, Self

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


ASSET_SCORE = 1e9
"""Of what pages need to be shown, which waits at the level BACKGROUND: the frontier tells it from pages by that."""


class Handling(Struct, frozen=True, kw_only=True):
    """What a purpose means."""

    asks_robots: bool = True  # the robots.txt of its origin must allow it
    counts: bool = False  # as a page: in the numbers, in page limits, and as a seed for the scope
    parsed: bool = False  # for its text and links
    compared: bool = False  # with other pages, so that the archive has an identical body once
    lists: bool = False  # URLs to crawl: read as a stream, and a seed for the scope


class Purpose(StrEnum):
    """What a visit is for. All are leased, timed, logged, archived and settled alike; `handling` has the differences.

    A new purpose is a line in this table, and changes no store.
    """

    _value_: str
    handling: Handling

    PAGE = "page", Handling(counts=True, parsed=True, compared=True)
    ROBOTS = "robots", Handling(asks_robots=False)
    SITEMAP = "sitemap", Handling(lists=True)
    FEED = "feed", Handling(lists=True)
    PROBE = "probe", Handling()  # is it there? what it contains does not matter
    ASSET = "asset", Handling()  # what a page needs to be shown, or a file that somebody wants in the archive
    TERMS = "terms", Handling()  # of an origin: how its pages may be used (tdmrep.json, an RSL licence)

    def __new__(cls, name: str, handling: Handling) -> Self:
        """A line of the table: the value that is stored, and what it means."""
        purpose = str.__new__(cls, name)
        purpose._value_ = name
        purpose.handling = handling
        return purpose


class Hints(Struct, frozen=True, array_like=True, gc=False):
    """What was said about a URL where it was found: by a seed file, a sitemap or the anchor. New ones go to the end."""

    lastmod: float | None = None  # when it last changed
    priority: float | None = None  # between 0 and 1, compared with other URLs of its site
    rel: tuple[str, ...] = ()  # words of the anchor's rel attribute: "next", "author"; see `parse.findings`
    changefreq: str = ""  # how often it changes, in the words of sitemaps.org
    source: str = ""  # what listed it: "sitemap" or "feed"; of a sitemap itself "robots", "index" or "guess"; of an asset its kind
    site: str = ""  # of a sitemap: the host it speaks for; empty if a person named it; of an asset: its page, if that is not its parent
    nested: int = 0  # of a sitemap: how many indexes led to it; of an asset: how many other assets did
    given: tuple[int, float] | None = (
        None  # of a link on its way: the shard it comes from, and the cash its pages gave so far (`Cash`)
    )


TRUST = -1
"""Instead of the number of a shard: given by nobody else, because a URL is a seed, or a sitemap lists it."""


class Cash(Struct, frozen=True, array_like=True, gc=False):
    """What a URL got from the pages that link to it (strategy opic). New fields go to the end."""

    received: float = 0.0  # in all
    passed: float = 0.0  # of that: divided over its links when it was fetched, but for what stays
    given: dict[int, float] | None = None  # of that: by other shards, and at the start (`TRUST`)


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


class Spent(Struct, frozen=True, array_like=True, gc=False):
    """What a budget says about a visit: it may not be made, or not before a time."""

    reason: Reason
    until: float = 0.0  # 0: not before the budget is raised


class Sends(Struct, frozen=True, array_like=True, gc=False):
    """What a request sends that is not an ordinary GET: one that a rendered page makes."""

    method: str = "GET"  # or HEAD or POST
    fields: tuple[str, ...] = ()  # header lines, each instead of ours of the same name
    body: bytes = b""


class Visit(Struct, frozen=True, array_like=True, gc=False):
    """Permission to make one request for a link, now. Every visit ends by being settled."""

    link: Link
    attempt: int  # 1 for the first request since the link was added
    leased_at: float
    alone: bool = False  # suspected of killing the process: runs with nothing else in flight
    host_pages: int = 0  # pages stored from this host plus visits in flight, for the page budget
    host_free: float = 0.0  # the host's clock when the visit was leased
    recrawl: bool = False  # it was answered before, so there may be a stored page to compare with
    spent: Spent | None = None  # why nothing may be sent after all; looked at when it is handed out
    sends: Sends | None = None  # what the request of a rendered page sends besides its URL; never stored


# ------------------------------------------------------------------------------------------------ outcome


class Exchange(Struct, frozen=True):
    """Exactly what was sent and received: the archive and the request log are made from this."""

    url: str
    address: str  # the address of the connection
    started: float
    ended: float
    request: bytes  # the request head as sent; of a secret only the name of its field
    head: bytes  # status line and header fields as received, including the empty line
    body: bytes  # as received: still chunked and content-encoded
    cut: bool = False  # reading stopped at our limit; this is only the beginning
    protocol: str = ""  # "h2": the messages were HTTP/2, and are kept in the form of HTTP/1.1
    rest: BinaryIO | None = (
        None  # of a large sitemap: what follows `body`, in a temporary file; never archived
    )
    beyond: int = 0  # bytes in `rest`

    @property
    def received(self) -> int:
        """Bytes that came."""
        return len(self.head) + len(self.body) + self.beyond


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
    PROXY = "proxy"  # our proxy could not be used, or refuses to connect there
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
    whole_host: bool = True  # its host's other pages would be put off as well


Outcome = Fetched | NotModified | Redirected | Refused | Failed | NotNow

# ------------------------------------------------------------------------------------------------ rendering


class SubRequest(Struct, frozen=True):
    """A request that was sent because a page asked for it while it was rendered. It is settled with that page."""

    link: Link
    exchange: Exchange
    status: int = 0  # 0: no answer
    fault: str = ""
    delay: float = 0.0  # that its host is owed for it
    asked: float | None = None  # seconds of Retry-After


class Rendering(Struct, frozen=True):
    """What became of a page in a browser."""

    html: bytes = b""  # of its elements after its scripts have run, in UTF-8; empty if that failed
    requests: Sequence[SubRequest] = ()  # in the order of their ends
    hrefs: Sequence[str] = ()  # where its scripts wanted to go
    screenshot: bytes = b""  # PNG
    problem: str = ""


# ------------------------------------------------------------------------------------------------ document, page


class Directives(Struct, frozen=True, array_like=True):
    """What the page asks of robots (meta robots and X-Robots-Tag). New ones go to the end."""

    index: bool = True
    follow: bool = True
    ai: Mapping[str, str] | None = None  # only of pages stored by version 0.1; see `Page.statements`
    archive: bool = True  # False: no copy of it may be shown (noarchive)
    snippet: int = -1  # the most characters of its text that may be shown; -1: as many as you like
    unavailable_after: float | None = None  # from then on it must not be in an index
    rules: tuple[str, ...] = ()  # all of them as sent, in lower case


class Statement(Struct, frozen=True, array_like=True):
    """What is said in one place about the uses of a page. What it does not say stays unknown."""

    source: str  # where: one of those in `skitter.robots.usage`
    raw: str  # as written; the beginning of it if it is long
    uses: Mapping[str, str] = {}  # by use ("train-ai", "search", …): "y" or "n"
    at: float = 0.0  # when it was read


class Content(Struct, frozen=True, array_like=True):
    """What a page is about, without its boilerplate (menus, footers, advertisements). New fields go to the end."""

    main: str = ""  # as plain text
    markdown: str = ""
    published: str = ""  # dates as ISO 8601, as precise as the page is
    modified: str = ""
    structured: Mapping[str, Any] | None = None  # what it says to programs: JSON-LD, OpenGraph, microdata


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
    canonical: str = ""  # absolute, if it is a URL
    directives: Directives = Directives()
    links: Sequence[str] = ()
    nofollow: Sequence[str] = ()
    ignored: str = ""  # why a parsed body does not count as content: its markers are missing
    rels: Mapping[str, tuple[str, ...]] | None = (
        None  # of those few hrefs whose rel says something about them
    )
    statements: tuple[Statement, ...] = ()  # about the uses of the page
    alternates: Mapping[str, str] | None = None  # by language (hreflang): hrefs as written
    licences: tuple[str, ...] = ()  # hrefs of RSL licences, as written
    media: Mapping[str, Any] | None = (
        None  # what only this kind of document has: pages of a PDF, width of an image
    )
    content: Content | None = None  # only if settings ask for it
    assets: Sequence[str] = ()  # hrefs of what is needed to show it; only if settings ask for them
    asset_kinds: Mapping[str, str] | None = (
        None  # of those that may need something themselves (`parse.assets`)
    )
    anchors: Mapping[str, str] | None = None  # by href: texts of links, only if the strategy asks for words


class Place(Struct, frozen=True, array_like=True):
    """The place of a record in the archive."""

    file: str
    offset: int
    length: int
    beside: tuple[
        int, ...
    ] = ()  # lengths of the records behind it that were made of it: the rendered page, a screenshot

    def behind(self, number: int) -> "Place | None":
        """The place of one of the records made of it; None if there is none."""
        if number >= len(self.beside):
            return None
        start = self.offset + self.length + sum(self.beside[:number])
        return Place(self.file, start, self.beside[number])


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
    statements: tuple[Statement, ...] = ()  # about its uses, of all places that were read with it
    alternates: Mapping[str, str] | None = None  # the same in other languages (hreflang): URLs by language
    media: Mapping[str, Any] | None = (
        None  # what only this kind of document has: pages of a PDF, width of an image
    )
    content: Content | None = None  # of those crawls that extract it at once; the archive can give it back


# ------------------------------------------------------------------------------------------------ verdict, settlement


class State(StrEnum):
    """State of a URL."""

    QUEUED = "queued"  # waiting, possibly until a later time
    LEASED = "leased"  # being visited
    CRAWLED = "crawled"  # answered, for good or until it is due again
    FAILED = "failed"  # given up after retries, or set aside
    REFUSED = "refused"  # not wanted or not allowed


class Heard(Struct, frozen=True, gc=False):
    """What one request told about the health of its host (see `politeness.listening`)."""

    started: float
    ended: float
    sign: str = ""  # of trouble: a status (429, 5xx), a fault, or "error" for other answers without a page
    chance: float = 0.0  # between 0 and 1, for the jitter
    again: bool = False  # the page has failed before
    parks: bool = True  # whether a failure counts towards parking the host; a robots.txt has waits of its own


class Verdict(Struct, frozen=True, kw_only=True):
    """What an outcome means: when this URL is due again, and when its host is free again."""

    state: State  # QUEUED with `due` set is a retry
    reason: Reason | None = None
    due: float | None = None
    attempted: bool = True  # False: nothing was tried, the visit is only postponed
    host_free: float | None = None  # None: nothing was sent, the clock does not change
    host_delay: float | None = (
        None  # least delay after every response; what was learnt of the host may make it longer
    )
    host_aside: Reason | None = None  # set the host aside (ROBOTS: the origin's host)
    host_held: float | None = None  # no page of the host is tried before; its clock does not change
    heard: Heard | None = None  # None: nothing is learnt of the host (politeness.adaptive)


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
    changed: bool = False  # it allows something else than the copy before; not kept


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
    beside: Sequence[SubRequest] = ()  # what was sent besides, because the page was rendered


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
    cash: Cash | None = None


class Pace(Struct, frozen=True, array_like=True, gc=False):
    """How a host answers, and the delay learnt from that (see `politeness.listening`). New fields go to the end."""

    wait: float = 0.0  # seconds between requests since something went wrong; 0: nothing did
    latency: float = 0.0  # how long a whole request takes, smoothed
    baseline: float = 0.0  # the same over a long time
    samples: int = 0  # answers in them, counted while there are few
    successes: int = 0  # since `wait` last changed
    doubled: int = 0  # how often `wait` doubled
    cause: str = ""  # why it last did: "429", "503", "timeout", "reset" or "slow"
    changed: float = 0.0  # when it last did
    failures: int = 0  # in a row
    parked: int = 0  # pauses since it last answered well


class Usage(Struct, frozen=True, array_like=True, gc=False):
    """What is counted of a host or domain that has a budget, besides pages, requests and bytes. New fields go to the end."""

    seconds: float = 0.0  # of all its requests
    day: int = 0  # of the last request, in days of UTC since the epoch
    requests: int = 0  # on that day


class Linked(Struct, frozen=True, array_like=True, gc=False):
    """Which other domains link to a domain, and which of its hosts wait until more do: a queue, each names the next one."""

    bits: bytes = b""  # a bitmap of them (see `politeness.linked`); empty if there are none
    first: str = ""
    last: str = ""


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
    usage: Usage | None = None  # of its budget, if it has one
    held: float = 0.0  # until then its pages wait: for a window, the next day, or a robots.txt
    pace: Pace | None = None
    linked: Linked | None = None  # of a domain, if its pages are limited by links from others
    lined_up: int = 0  # of those queued: the ones that wait for this host alone


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
    levels: dict[int, int] = field(default_factory=dict)  # URLs in the queues, by level
    others: dict[str, int] = field(default_factory=dict)  # stored answers that count as no page, by purpose
    cash_given: float = 0.0  # to seeds and listed pages (strategy opic)
    cash_kept: float = 0.0  # of what fetched pages received: what they do not pass on
    cash_sunk: float = 0.0  # passed on to nobody: to refused links, or by pages without links
    parked: int = 0  # of queued: their pattern is parked
