"""What a crawl measures about itself: counters, gauges and histograms, each with a sentence of help.

`Metrics` is what one process has measured since it started. Every part fills the groups that it knows and leaves the
others at zero, so that `added_up` combines parts, shards and workers alike. What a crawl has done over all its runs is
in `model.Counts`, which is committed with every visit; `COUNTS` describes those.

A label is a status, a reason or a depth; never a host or a URL, of which there are millions.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, get_type_hints

from msgspec import Struct, field
from msgspec.structs import fields


class Kind(StrEnum):
    """The kinds of metrics, as Prometheus has them."""

    COUNTER = "counter"  # only grows
    GAUGE = "gauge"  # as it is now
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True):
    """What a number means."""

    kind: Kind
    help: str
    unit: str = ""  # seconds or bytes; else a plain number
    label: str = ""  # what it is counted by
    is_most: bool = False  # of several parts the largest counts, not the sum


def _counter(text: str, unit: str = "", label: str = "") -> Metric:
    return Metric(Kind.COUNTER, text, unit, label)


def _gauge(text: str, unit: str = "", label: str = "") -> Metric:
    return Metric(Kind.GAUGE, text, unit, label)


def _most(text: str) -> Metric:
    return Metric(Kind.GAUGE, f"{text}; of several parts, the largest", is_most=True)


class Histogram(Struct, array_like=True):
    """How often values fell between bounds. The last count is of those above all bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def number(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def add(self, other: "Histogram") -> None:
        """Add those of another part, which has the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


def _empty(*bounds: float) -> Histogram:
    return Histogram(bounds, [0] * (len(bounds) + 1))


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BYTES = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6)

# ------------------------------------------------------------------------------------------------ groups


class CacheMetrics(Struct, omit_defaults=True):
    """A cache with expiry."""

    entries: Annotated[int, _gauge("entries in memory")] = 0
    capacity: Annotated[int, _gauge("most entries in memory")] = 0
    hits: Annotated[int, _counter("answered from memory")] = 0
    misses: Annotated[int, _counter("not in memory")] = 0
    evictions: Annotated[int, _counter("entries dropped because there were too many")] = 0
    expirations: Annotated[int, _counter("entries dropped because their time was over")] = 0
    shared: Annotated[int, _counter("answers that another worker had fetched")] = 0
    fetched: Annotated[int, _counter("answers fetched here for all workers")] = 0
    alone: Annotated[int, _counter("answers fetched here while the shared cache was away")] = 0


class ConnectionMetrics(Struct, omit_defaults=True):
    """Connections to servers."""

    requests: Annotated[int, _counter("requests sent")] = 0
    opened: Annotated[int, _counter("connections opened")] = 0
    reused: Annotated[int, _counter("requests sent on a kept connection")] = 0


class BodyMetrics(Struct, omit_defaults=True):
    """Bodies being received."""

    held: Annotated[int, _gauge("bodies in flight together", "bytes")] = 0
    peak: Annotated[int, _gauge("the most so far", "bytes")] = 0
    capacity: Annotated[int, _gauge("the most allowed", "bytes")] = 0


class PermitMetrics(Struct, omit_defaults=True):
    """Permits to send to an IP address."""

    put_off: Annotated[int, _counter("visits put off because their address was busy")] = 0


class RenderMetrics(Struct, omit_defaults=True):
    """Pages shown to a browser."""

    pages: Annotated[int, _counter("pages rendered, or tried")] = 0
    failed: Annotated[int, _counter("of those: not rendered, or not completely")] = 0
    requests: Annotated[int, _counter("requests that these pages made")] = 0
    browsers: Annotated[int, _counter("browsers started")] = 0
    patterns: Annotated[int, _gauge("URL patterns whose need of a browser is known")] = 0


class LinkMetrics(Struct, omit_defaults=True):
    """Links judged, and the memo of judgements."""

    entries: Annotated[int, _gauge("judgements in memory")] = 0
    capacity: Annotated[int, _gauge("most judgements in memory")] = 0
    hits: Annotated[int, _counter("links whose judgement was in memory")] = 0
    misses: Annotated[int, _counter("links judged anew")] = 0
    dropped: Annotated[int, _counter("waiting links that changed settings no longer want")] = 0
    returned: Annotated[int, _counter("links that earlier settings refused, and that are wanted now")] = 0
    unscored: Annotated[int, _counter("links for which the user's scorer failed")] = 0


class HostMetrics(Struct, omit_defaults=True):
    """Hosts in memory."""

    states: Annotated[int, _gauge("hosts in memory")] = 0


class QueueMetrics(Struct, omit_defaults=True):
    """Queues of hosts in memory."""

    windows: Annotated[int, _gauge("queues of which the beginning is in memory")] = 0
    ahead: Annotated[int, _gauge("visits leased ahead, from a store behind a network")] = 0
    leases: Annotated[int, _gauge("visits leased and not settled")] = 0


class AgendaMetrics(Struct, omit_defaults=True):
    """Hosts in the order in which they may be visited."""

    ready: Annotated[int, _gauge("hosts in memory that may be visited now")] = 0
    later: Annotated[int, _gauge("hosts in memory that may be visited later")] = 0


class SeenMetrics(Struct, omit_defaults=True):
    """The set of URLs seen."""

    items: Annotated[int, _gauge("URLs in memory")] = 0
    capacity: Annotated[int, _gauge("URLs that there is room for")] = 0
    bits: Annotated[int, _gauge("size of the table, in bits")] = 0
    log: Annotated[int, _gauge("URLs added since the last snapshot")] = 0
    hashes: Annotated[int, _most("hash functions")] = 0
    fill: Annotated[float, _most("part of the table in use")] = 0.0
    false_positive_rate: Annotated[float, _most("chance that a new URL has to be looked up")] = 0.0


class SameMetrics(Struct, omit_defaults=True):
    """Links that were added lately, and change nothing when they are added again."""

    entries: Annotated[int, _gauge("links in memory")] = 0
    capacity: Annotated[int, _gauge("most links in memory")] = 0


class NearbyMetrics(Struct, omit_defaults=True):
    """SimHashes that new pages are compared with."""

    domains: Annotated[int, _gauge("domains whose SimHashes are in memory")] = 0
    simhashes: Annotated[int, _gauge("SimHashes in memory")] = 0


class StoreMetrics(Struct, omit_defaults=True):
    """A store behind a network."""

    reads: Annotated[int, _counter("questions asked, each a round trip unless shared")] = 0
    writes: Annotated[int, _counter("writes, each a round trip unless shared")] = 0
    rows_read: Annotated[int, _counter("rows read")] = 0
    rows_written: Annotated[int, _counter("rows written")] = 0
    spared: Annotated[int, _counter("questions saved by the filter of unknown URLs")] = 0
    bloom_whole: Annotated[int, _gauge("shards whose filter of unknown URLs is complete")] = 0


class EngineMetrics(Struct, omit_defaults=True):
    """The breaker in front of an engine."""

    phase: Annotated[int, _most("0: works, 1: being tried again, 2: away")] = 0
    openings: Annotated[int, _gauge("how often in a row it was found to be away")] = 0
    calls: Annotated[int, _gauge("calls of the last seconds")] = 0
    failures: Annotated[int, _gauge("those of them that failed")] = 0


class UploadMetrics(Struct, omit_defaults=True):
    """Archive segments on their way to the bucket."""

    segments: Annotated[int, _gauge("segments waiting for upload")] = 0
    waiting: Annotated[int, _gauge("their size", "bytes")] = 0


class RequestMetrics(Struct):
    """Requests that have ended, whatever the answer."""

    seconds: Annotated[Histogram, Metric(Kind.HISTOGRAM, "time from the start of a request to its end")] = (
        field(default_factory=lambda: _empty(*_SECONDS))
    )
    bytes: Annotated[Histogram, Metric(Kind.HISTOGRAM, "bytes received for a request")] = field(
        default_factory=lambda: _empty(*_BYTES)
    )

    def ended(self, seconds: float, size: int) -> None:
        """Count a request."""
        self.seconds.observe(seconds)
        self.bytes.observe(size)


class Metrics(Struct, kw_only=True):
    """Everything that a part, a process or a whole crawl measures."""

    requests: RequestMetrics = field(default_factory=RequestMetrics)
    connections: ConnectionMetrics = field(default_factory=ConnectionMetrics)
    bodies: BodyMetrics = field(default_factory=BodyMetrics)
    permits: PermitMetrics = field(default_factory=PermitMetrics)
    dns: CacheMetrics = field(default_factory=CacheMetrics)
    rules: CacheMetrics = field(default_factory=CacheMetrics)
    render: RenderMetrics = field(default_factory=RenderMetrics)
    links: LinkMetrics = field(default_factory=LinkMetrics)
    hosts: HostMetrics = field(default_factory=HostMetrics)
    queue: QueueMetrics = field(default_factory=QueueMetrics)
    agenda: AgendaMetrics = field(default_factory=AgendaMetrics)
    seen: SeenMetrics = field(default_factory=SeenMetrics)
    same: SameMetrics = field(default_factory=SameMetrics)
    nearby: NearbyMetrics = field(default_factory=NearbyMetrics)
    store: StoreMetrics = field(default_factory=StoreMetrics)
    uploads: UploadMetrics = field(default_factory=UploadMetrics)
    s3: EngineMetrics = field(default_factory=EngineMetrics)


_ABOUT: dict[str, str] = {
    "dns": "DNS answers",
    "rules": "parsed robots.txt files",
    "s3": "the bucket",
}
"""Groups that share a type with another: what this one is about."""

COUNTS: dict[str, Metric] = {
    "seen": _counter("links offered"),
    "added": _counter("links that were new and wanted"),
    "known": _counter("links that were known already"),
    "queued": _gauge("URLs waiting"),
    "leased": _gauge("URLs being fetched"),
    "crawled": _gauge("URLs answered"),
    "failed": _gauge("URLs given up"),
    "outbox": _gauge("links on their way to another shard"),
    "pages": _counter("pages stored with a 2xx status"),
    "processed": _counter("pages with content"),
    "not_found": _counter("answers 404 and 410"),
    "requests": _counter("requests made, over all runs"),
    "bytes": _counter("received", "bytes"),
    "duplicates": _counter("pages that duplicate another"),
    "lost": _counter("visits that were in flight when the process died"),
    "others": _counter("answers to requests that were not for a page: probes, assets"),
    "hosts": _gauge("hosts known"),
    "hosts_aside": _gauge("hosts set aside"),
    "elapsed": _counter("time spent crawling", "seconds"),
    "refused": _gauge("URLs refused", label="reason"),
    "failures": _gauge("URLs given up", label="reason"),
    "statuses": _counter("answers", label="status"),
    "depths": _counter("pages", label="depth"),
    "again": _gauge("of a crawl that fetches pages again: pages, visits and what they found", label="what"),
    "cash_given": _counter("cash given to seeds and listed pages (strategy opic)"),
    "cash_kept": _counter("cash that fetched pages received and do not pass on"),
    "cash_sunk": _counter("cash passed on to nobody"),
}
"""What the fields of `model.Counts` mean."""

# ------------------------------------------------------------------------------------------------ all of them


class Described(NamedTuple):
    """A metric by its full name."""

    name: str
    metric: Metric


def described() -> list[Described]:
    """Every metric, by name."""
    found = [Described(_name("crawl", name, metric), metric) for name, metric in COUNTS.items()]
    for group, kind in get_type_hints(Metrics).items():
        for name, metric in _metrics_of(kind):
            told = f"{_ABOUT[group]}: {metric.help}" if group in _ABOUT else metric.help
            found.append(
                Described(_name(group, name, metric), Metric(metric.kind, told, metric.unit, metric.label))
            )
    return found


def _name(group: str, name: str, metric: Metric) -> str:
    """As Prometheus writes it: base units and, for a counter, `total` at the end."""
    words = ["skitter", group, name]
    if metric.unit and words[-1] != metric.unit:
        words.append(metric.unit)
    return "_".join([*words, "total"] if metric.kind is Kind.COUNTER else words)


def _metrics_of(kind: type[Any]) -> Iterator[tuple[str, Metric]]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        yield name, hint.__metadata__[0]


_OF_GROUP: dict[type[Any], dict[str, Metric]] = {
    kind: dict(_metrics_of(kind)) for kind in get_type_hints(Metrics).values()
}


def added_up(parts: Sequence[Metrics]) -> Metrics:
    """What several parts have measured together."""
    whole = Metrics()
    for part in parts:
        for group, kind in _GROUPS:
            into, from_part = getattr(whole, group), getattr(part, group)
            for name, metric in _OF_GROUP[kind].items():
                mine, theirs = getattr(into, name), getattr(from_part, name)
                if isinstance(mine, Histogram):
                    mine.add(theirs)
                elif theirs:
                    setattr(into, name, max(mine, theirs) if metric.is_most else mine + theirs)
    return whole


_GROUPS = tuple((each.name, each.type) for each in fields(Metrics))


def as_fields(metrics: Metrics) -> dict[str, dict[str, Any]]:
    """Every number by group and name, for JSON. A histogram has its bounds, its counts and the sum of its values."""
    return {
        group: {name: _plain(getattr(getattr(metrics, group), name)) for name in _OF_GROUP[kind]}
        for group, kind in _GROUPS
    }


def _plain(value: float | Histogram) -> object:
    if isinstance(value, Histogram):
        return {"bounds": list(value.bounds), "counts": value.counts, "sum": value.total}
    return value
