"""The values a URL turns into on its way, in the order it meets them.

    Link -> Visit -> Outcome -> Document -> Page -> Verdict -> Settlement

Everything here is frozen and without behaviour: stations take one of these and return the next. The failures of the web
are values of the closed type `Outcome`; an exception means a bug or broken infrastructure. Times are wall-clock seconds
since the epoch, because they are persisted and must make sense to the process that opens the crawl next.

What there are very many of is out of the garbage collector's sight (`gc=False`): it can be part of no cycle.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct, field

# ------------------------------------------------------------------------------------------------ why not


class Reason(Struct, frozen=True, array_like=True, gc=False):
    """Why something was not done. `code` is one of those in `skitter.reasons`, `detail` says what was special this time."""

    code: str
    detail: str = ""


# ------------------------------------------------------------------------------------------------ link, visit


class Level(IntEnum):
    """How urgent a link is. Levels are drawn by weight, so that no level starves; inside a level the score orders."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


class Purpose(StrEnum):
    """What a visit is for. A robots.txt is a visit like any other: leased, timed, logged, archived, settled."""

    PAGE = "page"
    ROBOTS = "robots"


class Link(Struct, frozen=True, array_like=True, kw_only=True, omit_defaults=True, gc=False):
    """A URL somebody wants. `url` is what will be fetched, `key` is what it is known by."""

    url: str
    key: str
    host: str  # whose politeness clock it meets
    depth: int = 0
    parent: str = ""  # URL of the page it was found on; empty for a seed
    level: Level = Level.NORMAL
    score: float = 0.0  # larger is sooner
    purpose: Purpose = Purpose.PAGE
    origin: str = ""  # ROBOTS only: the origin whose rules this answer will be
    requested: str = ""  # the URL first asked for, when redirects led here
    hops: int = 0  # redirects that led here
    seed: bool = False
    meta: Mapping[str, Any] | None = None  # what the seed file said; reaches the page record


class Visit(Struct, frozen=True, array_like=True, gc=False):
    """Permission to make one request for a link, now. It ends by being settled."""

    link: Link
    attempt: int  # 1 for the first request since the link was added
    leased_at: float
    alone: bool = False  # it is suspected of killing the process: nothing else is in flight
    host_pages: int = 0  # pages stored from this host so far, and visits in flight, for budgets
    host_free: float = 0.0  # what the host's clock said when the visit was leased


# ------------------------------------------------------------------------------------------------ outcome


class Exchange(Struct, frozen=True):
    """What went over the wire, byte for byte: the archive and the request log are made from this."""

    url: str
    address: str  # the numeric address that was connected to
    started: float
    ended: float
    request: bytes  # the request head as sent
    head: bytes  # status line and header fields as received, with the empty line
    body: bytes  # as received: chunked framing and content coding still on
    cut: bool = False  # we stopped reading at our limit; what is here is the beginning


class Fetched(Struct, frozen=True):
    """The server gave a final answer, whatever its status."""

    exchange: Exchange
    status: int
    headers: Sequence[tuple[str, str]]  # names lower-cased, in order
    payload: bytes  # the entity: transfer coding off, content coding still on
    content: bytes  # the entity with every content coding undone


class NotModified(Struct, frozen=True):
    """The copy we have is still good (304)."""

    exchange: Exchange
    headers: Sequence[tuple[str, str]]


class Redirected(Struct, frozen=True):
    """The server named another place. `target` is absolute and WHATWG-serialised, or empty when it is no http URL."""

    exchange: Exchange
    status: int
    headers: Sequence[tuple[str, str]]
    target: str
    location: str  # as sent


class Refused(Struct, frozen=True):
    """We said no, and sent nothing: address guard, robots, budget."""

    reason: Reason


class Fault(StrEnum):
    """How a request can go wrong. The names appear in reports and reasons."""

    DNS = "dns"  # no answer from DNS
    NXDOMAIN = "nxdomain"  # the name does not exist, or has no address
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"  # closed or cut before the answer was whole
    REUSE = "reuse"  # a kept connection was closed on our request, before a byte of an answer
    PROTOCOL = "protocol"  # not HTTP, or malformed
    HEADERS = "headers"  # header block larger than allowed
    SIZE = "size"  # body larger than allowed on the wire
    BOMB = "bomb"  # body larger than allowed once decoded
    BUSY = "busy"  # ours: the cap on all bodies in flight was reached, or a lease ended, and the request was broken off
    PARSER = "parser"  # our parser raised on it: a bug of ours that costs this one page


class Failed(Struct, frozen=True):
    """No usable answer. `exchange` holds what there was, so that the request is still logged and timed."""

    fault: Fault
    detail: str
    exchange: Exchange | None  # None when nothing was sent


Outcome = Fetched | NotModified | Redirected | Refused | Failed

# ------------------------------------------------------------------------------------------------ document, page


class Directives(Struct, frozen=True, array_like=True):
    """What the page asks of robots (meta robots and X-Robots-Tag). `ai` holds usage preferences as sent."""

    index: bool = True
    follow: bool = True
    ai: Mapping[str, str] | None = None


class Document(Struct, frozen=True):
    """What a parser found in a body. `links` and `nofollow` are hrefs as written; they resolve against `base`."""

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
    ignored: str = ""  # why a body that could be parsed is not content: its markers are missing


class Place(Struct, frozen=True, array_like=True):
    """Where a record lies in the archive."""

    file: str
    offset: int
    length: int


class Page(Struct, frozen=True, array_like=True, kw_only=True):
    """The record of one answered visit. `text` is for the caller at hand; stores drop it, the archive can give it back."""

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
    digest: str = ""  # of the payload, as the archive names it: "sha1:…"
    simhash: int | None = None
    duplicate_of: str = ""  # URL of the page it repeats
    identical: bool = False  # the payload is byte for byte that of `duplicate_of`
    canonical: str = ""
    robots: Directives = Directives()
    etag: str = ""
    last_modified: str = ""
    links_count: int = 0
    ignored: str = ""
    meta: Mapping[str, Any] | None = None
    archive: Place | None = None


# ------------------------------------------------------------------------------------------------ verdict, settlement


class State(StrEnum):
    """Where a URL is in its life."""

    QUEUED = "queued"  # waiting, perhaps for a later time
    LEASED = "leased"  # being visited
    CRAWLED = "crawled"  # answered, for good or until it is due again
    FAILED = "failed"  # given up after retries, or set aside
    REFUSED = "refused"  # we do not want it, or may not


class Verdict(Struct, frozen=True, kw_only=True):
    """What an outcome means: when this URL is due again, and when this host is free again."""

    state: State  # QUEUED together with `due` is a retry
    reason: Reason | None = None
    due: float | None = None
    attempted: bool = True  # False: nothing was tried, the visit is only put off
    host_free: float | None = None  # None: nothing was sent, the clock stays
    host_delay: float | None = (
        None  # what the host is owed after every response, kept for a start after a crash
    )
    host_aside: Reason | None = None  # nothing more is wanted from this host (ROBOTS: from the origin's host)


class RobotsCopy(Struct, frozen=True, array_like=True, kw_only=True):
    """What an origin's robots.txt said, for as long as it may be relied on."""

    origin: str
    status: int = 0  # 0: no answer
    body: bytes = b""
    access: str = "rules"  # rules | all | none: how the body, or its absence, is to be read
    fetched_at: float = 0.0  # 0: it was not asked for, because nothing of its origin was wanted
    expires: float = 0.0  # from then on it has to be asked again before a page is
    held: float = 0.0  # its pages wait until then, when it is asked for again
    tries: int = 0  # failed requests in a row
    problem: str = ""  # what went wrong last, for `why`


class Settlement(Struct, frozen=True, kw_only=True):
    """The end of a visit, whole: everything that must become durable together."""

    visit: Visit
    verdict: Verdict
    page: Page | None = None
    links: Sequence[Link] = ()  # wanted
    refused: Sequence[tuple[Link, Reason]] = ()  # seen and not wanted, with the reason
    again: Link | None = (
        None  # the same record in a new fetched form: a redirect to its own key, or a robots.txt hop
    )
    robots: RobotsCopy | None = None
    exchange: Exchange | None = None
    status: int = 0  # of the answer; 0 when there was none


# ------------------------------------------------------------------------------------------------ what can be read back


class UrlRecord(Struct, frozen=True, kw_only=True):
    """All that is known of one URL."""

    url: str
    key: str
    state: State
    reason: Reason | None = None
    depth: int = 0
    parent: str = ""
    level: Level = Level.NORMAL
    score: float = 0.0
    attempts: int = 0  # requests since the last answer
    crashes: int = 0  # times the process died while it was being visited
    crawl_count: int = 0
    status: int = 0  # of the last answer
    first_seen: float = 0.0
    last_crawl: float | None = None
    next_crawl: float | None = None


class HostRecord(Struct, frozen=True, kw_only=True):
    """All that is known of one host."""

    host: str
    domain: str
    free_at: float = 0.0
    delay: float = 0.0
    queued: int = 0
    in_flight: int = 0
    pages: int = 0  # stored with a 2xx status
    requests: int = 0
    errors: int = (
        0  # tries without a usable answer (network failure, 429, 5xx), each for itself; robots.txt too
    )
    bytes: int = 0
    aside: Reason | None = None


class Stop(StrEnum):
    """Why a crawl ended."""

    DONE = "done"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    DISK = "disk"
    UNREACHABLE = "unreachable"  # no host has ever answered, and all that was tried has failed


class Counts(Struct, kw_only=True):
    """The crawl in numbers, kept durable with every commit, so that they are the same whoever asks and whenever."""

    seen: int = 0  # links offered
    added: int = 0  # of these, new and wanted
    known: int = 0  # of these, known already
    queued: int = 0
    leased: int = 0
    crawled: int = 0
    failed: int = 0  # given up: retries did not help, or none would
    outbox: int = 0
    pages: int = 0  # stored with a 2xx status
    processed: int = 0  # of these, with content
    not_found: int = 0  # 404 and 410
    requests: int = 0
    bytes: int = 0  # received
    duplicates: int = 0  # pages that repeat another, exactly or nearly
    lost: int = 0  # visits that were open when the process died
    hosts: int = 0
    hosts_aside: int = 0
    elapsed: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)  # by reason code
    failures: dict[str, int] = field(default_factory=dict)  # by reason code
    statuses: dict[int, int] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
