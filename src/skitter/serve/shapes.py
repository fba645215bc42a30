"""What goes in and out of the API, as types: requests are checked against them, and the OpenAPI document is made of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from skitter.serve.lists import MOST

Action = Literal["pause", "continue", "stop", "resume", "block", "unblock", "retry", "add"]
ACTIONS: tuple[Action, ...] = ("pause", "continue", "stop", "resume", "block", "unblock", "retry", "add")

Limit = Annotated[int, Meta(ge=1, le=MOST)]
Word = Annotated[str, Meta(max_length=200)]
Address = Annotated[str, Meta(min_length=1, max_length=8192)]
HostName = Annotated[str, Meta(min_length=1, max_length=253)]


class _Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


# ------------------------------------------------------------------------------------------------ crawls


class Rates(Struct, frozen=True):
    """Averages over all runs of a crawl, and lately if it runs."""

    pages_per_second: float
    requests_per_second: float
    bytes_per_second: float


class Paused(Struct, frozen=True):
    """A host that pauses, and why."""

    host: str  # empty: the whole crawl
    seconds: float
    why: str


class Live(Struct, frozen=True, kw_only=True):
    """A running crawl at this moment."""

    pages_per_second: float  # lately
    in_flight: int
    elapsed: float  # seconds of this run
    pauses: Sequence[Paused] = ()  # the shortest first


class Crawl(Struct, frozen=True, kw_only=True):
    """A crawl: its state with the reason, its numbers, and what may be done now."""

    id: str
    name: str  # its directory or cluster
    state: Literal["starting", "running", "paused", "finished", "limit", "stopped", "cluster", "unreadable"]
    reason: str  # the state in a sentence
    advice: str | None = None  # what to do next
    available_actions: Sequence[Action] = field(default=(), name="availableActions")
    counts: dict[str, Any] = {}
    rates: Rates | None = None
    live: Live | None = None  # only of one that runs on this machine


class Crawls(Struct, frozen=True):
    """All crawls."""

    items: Sequence[Crawl]
    available_actions: Sequence[Literal["create"]] = field(default=(), name="availableActions")


class NewCrawl(_Asked, frozen=True):
    """A crawl to start: where, and with which settings, by their dotted names as in `skitter crawl --set`."""

    urls: Annotated[Sequence[Address], Meta(min_length=1, max_length=1000)]
    name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    settings: dict[Word, str | int | float | bool] = {}


class Told(Struct, frozen=True):
    """What has happened."""

    said: str
    changed: int | None = None
    complaints: Sequence[str] = ()


class Orders(_Asked, frozen=True):
    """What an action is about: hosts to block and unblock; URLs to retry or add; everything that failed."""

    hosts: Annotated[Sequence[HostName], Meta(max_length=10_000)] = ()
    urls: Annotated[Sequence[Address], Meta(max_length=10_000)] = ()
    failed: bool = False


# ------------------------------------------------------------------------------------------------ lists


class Listing(Struct, frozen=True, kw_only=True):
    """A page of a list. `next` is the cursor of the following one; null at the end."""

    items: Sequence[dict[str, Any]]
    next: str | None = None


class _Paged(_Asked, frozen=True):
    limit: Limit = 100
    cursor: Word = ""


class PagesAsked(_Paged, frozen=True):
    """Filters of pages; a page must match all of them."""

    status: Annotated[str, Meta(pattern="^(|[1-5](xx|[0-9][0-9]))$")] = ""
    host: Word = ""  # * and ? are wildcards
    contains: Word = ""
    type: Word = ""
    duplicates: bool = False


class QueueAsked(_Paged, frozen=True):
    """Filters of waiting URLs."""

    host: Word = ""
    contains: Word = ""


class HostsAsked(_Paged, frozen=True):
    """Filters of hosts."""

    host: Word = ""
    state: Literal["", "waiting", "aside", "slowed"] = ""


class FailuresAsked(_Paged, frozen=True):
    """URLs that failed, of one cause if it is named."""

    cause: Word = ""
    host: Word = ""


class EventsAsked(_Asked, frozen=True):
    """Events after one that is known."""

    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=2**62)] = 0


class UrlAsked(_Asked, frozen=True):
    """One URL, in any spelling."""

    url: Address


class PageAsked(UrlAsked, frozen=True):
    """One page, with or without its text."""

    text: bool = False


class SearchAsked(_Asked, frozen=True):
    """Words to search for."""

    q: Annotated[str, Meta(min_length=1, max_length=1000)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0


class Nothing(_Asked, frozen=True):
    """No parameters."""


# ------------------------------------------------------------------------------------------------ answers


class Cause(Struct, frozen=True):
    """Failures of one cause, with what it means and what to do about it."""

    code: str
    count: int
    meaning: str | None = None
    remedy: str | None = None


class Causes(Struct, frozen=True):
    """What failed and what was refused, by cause, most frequent first."""

    failed: Sequence[Cause]
    refused: Sequence[Cause]
    statuses: dict[str, int]


class Happened(Struct, frozen=True):
    """An event of a crawl."""

    id: int  # grows; the stream's Last-Event-ID
    at: str
    kind: str
    said: str
    event: dict[str, Any]


class Events(Struct, frozen=True):
    """Events in order; ask again with `after` set to the last id."""

    items: Sequence[Happened]
    last: int


class Found(Struct, frozen=True):
    """Pages that contain the words."""

    total: int
    items: Sequence[dict[str, Any]]


class NewExport(_Asked, frozen=True):
    """An export to make: one of the formats of `skitter export` that are one file."""

    format: Annotated[str, Meta(min_length=1, max_length=20)]


class Export(Struct, frozen=True, kw_only=True):
    """An export of a crawl. When it is done, its file can be fetched."""

    id: str
    format: str
    created: str
    state: str
    problem: str | None = None
    size: int | None = None


class Exports(Struct, frozen=True):
    """Exports of a crawl, the latest first."""

    items: Sequence[Export]


# ------------------------------------------------------------------------------------------------ webhooks

Kind = Literal["opened", "deferred", "setaside", "scopewidened", "warned", "stopped"]


class NewWebhook(_Asked, frozen=True):
    """Where to send events, and which."""

    url: Address
    events: Annotated[Sequence[Kind], Meta(min_length=1, max_length=6)] = ("warned", "setaside", "stopped")


class Webhook(Struct, frozen=True, kw_only=True):
    """A webhook. Its deliveries are signed with its secret."""

    id: str
    url: str
    events: Sequence[Kind]
    created: str


class WebhookMade(Webhook, frozen=True, kw_only=True):
    """A new webhook, with its secret, which is not shown again."""

    secret: str


class Webhooks(Struct, frozen=True):
    """All webhooks."""

    items: Sequence[Webhook]


class Sent(Struct, frozen=True):
    """A delivery: of which event, and what became of it."""

    id: str
    crawl: str
    event: int
    at: str
    tries: int
    state: str
    problem: str


class Deliveries(Struct, frozen=True):
    """Deliveries, the latest first."""

    items: Sequence[Sent]


class Health(Struct, frozen=True):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str = ""
