"""What a crawl measures about itself: counters, gauges and histograms, each with a sentence of help.

`Metrics` is what one process has measured since it started. Every part fills the groups that it knows and leaves the
others at zero, so that `added_up` combines parts, shards and workers alike. What a crawl has done over all its runs is
in `model.Counts`, which is committed with every visit; `COUNTS` describes those.

A label has few values (a class of statuses, a reason, a level); never a host or a URL, of which there are millions.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple, get_type_hints

from msgspec import Struct, field
from msgspec.structs import fields

from skitter.runtime.measures import (
    AGES,
    BYTES,
    SECONDS,
    WAITS,
    Histogram,
    Kind,
    Metric,
    counter,
    empty,
    gauge,
    most,
    spread,
)

__all__ = ["COUNTS", "Histogram", "Kind", "Metric", "Metrics", "added_up", "as_fields", "described"]


# ------------------------------------------------------------------------------------------------ groups


class CacheMetrics(Struct, omit_defaults=True):
    """A cache with expiry."""

    entries: Annotated[int, gauge("entries in memory")] = 0
    capacity: Annotated[int, gauge("most entries in memory")] = 0
    hits: Annotated[int, counter("answered from memory")] = 0
    misses: Annotated[int, counter("not in memory")] = 0
    evictions: Annotated[int, counter("entries dropped because there were too many")] = 0
    expirations: Annotated[int, counter("entries dropped because their time was over")] = 0
    shared: Annotated[int, counter("answers that another worker had fetched")] = 0
    fetched: Annotated[int, counter("answers fetched here for all workers")] = 0
    alone: Annotated[int, counter("answers fetched here while the shared cache was away")] = 0


class ConnectionMetrics(Struct, omit_defaults=True):
    """Connections to servers."""

    requests: Annotated[int, counter("requests sent")] = 0
    opened: Annotated[int, counter("connections opened")] = 0
    reused: Annotated[int, counter("requests sent on a kept connection")] = 0


class BodyMetrics(Struct, omit_defaults=True):
    """Bodies being received."""

    held: Annotated[int, gauge("bodies in flight together", "bytes")] = 0
    peak: Annotated[int, gauge("the most so far", "bytes")] = 0
    capacity: Annotated[int, gauge("the most allowed", "bytes")] = 0


class PermitMetrics(Struct, omit_defaults=True):
    """Permits to send to an IP address."""

    put_off: Annotated[int, counter("visits put off because their address was busy")] = 0


class RenderMetrics(Struct, omit_defaults=True):
    """Pages shown to a browser."""

    pages: Annotated[int, counter("pages rendered, or tried")] = 0
    failed: Annotated[int, counter("of those: not rendered, or not completely")] = 0
    requests: Annotated[int, counter("requests that these pages made")] = 0
    browsers: Annotated[int, counter("browsers started")] = 0
    patterns: Annotated[int, gauge("URL patterns whose need of a browser is known")] = 0


class LinkMetrics(Struct, omit_defaults=True):
    """Links judged, and the memo of judgements."""

    entries: Annotated[int, gauge("judgements in memory")] = 0
    capacity: Annotated[int, gauge("most judgements in memory")] = 0
    hits: Annotated[int, counter("links whose judgement was in memory")] = 0
    misses: Annotated[int, counter("links judged anew")] = 0
    dropped: Annotated[int, counter("waiting links that changed settings no longer want")] = 0
    returned: Annotated[int, counter("links that earlier settings refused, and that are wanted now")] = 0
    unscored: Annotated[int, counter("links for which the user's scorer failed")] = 0


class HostMetrics(Struct, omit_defaults=True):
    """Hosts in memory."""

    states: Annotated[int, gauge("hosts in memory")] = 0
    busy: Annotated[int, gauge("hosts with a visit in flight")] = 0


class QueueMetrics(Struct, omit_defaults=True):
    """Queues of hosts in memory."""

    windows: Annotated[int, gauge("queues of which the beginning is in memory")] = 0
    ahead: Annotated[int, gauge("visits leased ahead, from a store behind a network")] = 0
    leases: Annotated[int, gauge("visits leased and not settled")] = 0
    wait: Annotated[
        Histogram, spread("time from the discovery of a URL to the start of its first visit", "seconds")
    ] = field(default_factory=lambda: empty(*AGES))


class AgendaMetrics(Struct, omit_defaults=True):
    """Hosts in the order in which they may be visited."""

    ready: Annotated[int, gauge("hosts in memory that may be visited now")] = 0
    later: Annotated[int, gauge("hosts in memory that may be visited later")] = 0


class SeenMetrics(Struct, omit_defaults=True):
    """The set of URLs seen."""

    items: Annotated[int, gauge("URLs in memory")] = 0
    capacity: Annotated[int, gauge("URLs that there is room for")] = 0
    table: Annotated[int, gauge("size of the table: its bits, by eight", "bytes")] = 0
    used: Annotated[int, gauge("of that: in use", "bytes")] = 0
    log: Annotated[int, gauge("URLs added since the last snapshot")] = 0
    hashes: Annotated[int, most("hash functions")] = 0
    fill: Annotated[float, most("part of the table in use")] = 0.0
    false_positive_rate: Annotated[float, most("chance that a new URL has to be looked up")] = 0.0


class SameMetrics(Struct, omit_defaults=True):
    """Links that were added lately, and change nothing when they are added again."""

    entries: Annotated[int, gauge("links in memory")] = 0
    capacity: Annotated[int, gauge("most links in memory")] = 0


class NearbyMetrics(Struct, omit_defaults=True):
    """SimHashes that new pages are compared with."""

    domains: Annotated[int, gauge("domains whose SimHashes are in memory")] = 0
    simhashes: Annotated[int, gauge("SimHashes in memory")] = 0


class StoreMetrics(Struct, omit_defaults=True):
    """A store behind a network."""

    reads: Annotated[int, counter("questions asked, each a round trip unless shared")] = 0
    writes: Annotated[int, counter("writes, each a round trip unless shared")] = 0
    rows_read: Annotated[int, counter("rows read")] = 0
    rows_written: Annotated[int, counter("rows written")] = 0
    spared: Annotated[int, counter("questions saved by the filter of unknown URLs")] = 0
    bloom_whole: Annotated[int, gauge("shards whose filter of unknown URLs is complete")] = 0


class EngineMetrics(Struct, omit_defaults=True):
    """The breaker in front of an engine."""

    phase: Annotated[int, most("0: works, 1: being tried again, 2: away")] = 0
    openings: Annotated[int, gauge("how often in a row it was found to be away")] = 0
    calls: Annotated[int, gauge("calls of the last seconds")] = 0
    failures: Annotated[int, gauge("those of them that failed")] = 0


class UploadMetrics(Struct, omit_defaults=True):
    """Archive segments on their way to the bucket."""

    segments: Annotated[int, gauge("segments waiting for upload")] = 0
    waiting: Annotated[int, gauge("their size", "bytes")] = 0


class RequestMetrics(Struct):
    """Requests that have ended, whatever the answer."""

    seconds: Annotated[Histogram, spread("time from the start of a request to its end", "seconds")] = field(
        default_factory=lambda: empty(*SECONDS)
    )
    bytes: Annotated[Histogram, spread("bytes received for a request", "bytes")] = field(
        default_factory=lambda: empty(*BYTES)
    )
    answers: Annotated[dict[str, int], counter("answers, by the class of their status", label="class")] = (
        field(default_factory=dict)
    )
    failures: Annotated[
        dict[str, int], counter("requests without a usable answer, names that do not resolve", label="reason")
    ] = field(default_factory=dict)


class PolitenessMetrics(Struct):
    """How long hosts are left alone, and whether they are."""

    wait: Annotated[Histogram, spread("time that a host is left alone after a request", "seconds")] = field(
        default_factory=lambda: empty(*WAITS)
    )
    violations: Annotated[int, counter("requests that were sent before their host was free; must stay 0")] = 0


class RobotsMetrics(Struct, omit_defaults=True):
    """What robots.txt files said, and whether they could be had."""

    denied: Annotated[int, counter("visits that a robots.txt does not allow")] = 0
    fetched: Annotated[int, counter("requests for a robots.txt")] = 0
    failed: Annotated[int, counter("of those: without an answer that can be used")] = 0


class ChallengeMetrics(Struct):
    """Answers that ask whether we are human. They are kept as they are, and nothing is done about them."""

    pages: Annotated[dict[str, int], counter("answers that are a challenge", label="vendor")] = field(
        default_factory=dict
    )


class ArchiveMetrics(Struct, omit_defaults=True):
    """The archive of this process."""

    records: Annotated[int, counter("answers appended")] = 0
    last_write_timestamp: Annotated[float, most("when something was last appended", "seconds")] = 0.0


class ProcessMetrics(Struct, omit_defaults=True):
    """The processes that crawl, without those of parsers and browsers."""

    cpu: Annotated[float, counter("processor time", "seconds")] = 0.0
    resident: Annotated[int, gauge("memory in use", "bytes")] = 0


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
    politeness: PolitenessMetrics = field(default_factory=PolitenessMetrics)
    robots: RobotsMetrics = field(default_factory=RobotsMetrics)
    challenge: ChallengeMetrics = field(default_factory=ChallengeMetrics)
    archive: ArchiveMetrics = field(default_factory=ArchiveMetrics)
    process: ProcessMetrics = field(default_factory=ProcessMetrics)
    uploads: UploadMetrics = field(default_factory=UploadMetrics)
    s3: EngineMetrics = field(default_factory=EngineMetrics)


_ABOUT: dict[str, str] = {
    "dns": "DNS answers",
    "rules": "parsed robots.txt files",
    "s3": "the bucket",
}
"""Groups that share a type with another: what this one is about."""

COUNTS: dict[str, Metric] = {
    "seen": counter("links offered"),
    "added": counter("links that were new and wanted"),
    "known": counter("links that were known already"),
    "queued": gauge("URLs waiting"),
    "leased": gauge("URLs being fetched"),
    "crawled": gauge("URLs answered"),
    "failed": gauge("URLs given up"),
    "outbox": gauge("links on their way to another shard"),
    "pages": counter("pages stored with a 2xx status"),
    "processed": counter("pages with content"),
    "not_found": counter("answers 404 and 410"),
    "requests": counter("requests made, over all runs"),
    "bytes": counter("received", "bytes"),
    "duplicates": counter("pages that duplicate another"),
    "lost": counter("visits that were in flight when the process died"),
    "others": counter("answers to requests that were not for a page: probes, assets", label="purpose"),
    "hosts": gauge("hosts known"),
    "hosts_aside": gauge("hosts set aside"),
    "elapsed": counter("time spent crawling", "seconds"),
    "refused": gauge("URLs refused", label="reason"),
    "failures": gauge("URLs given up", label="reason"),
    "statuses": counter("answers to requests for pages, by the class of their status", label="class"),
    "depths": counter("pages", label="depth"),
    "levels": gauge("URLs in the queues, those of hosts that are set aside included", label="level"),
    "cash_given": counter("cash given to seeds and listed pages (strategy opic)"),
    "cash_kept": counter("cash that fetched pages received and do not pass on"),
    "cash_sunk": counter("cash passed on to nobody"),
}
"""What the fields of `model.Counts` mean."""

# ------------------------------------------------------------------------------------------------ all of them


class Described(NamedTuple):
    """A metric by its full name."""

    name: str
    metric: Metric


def described() -> list[Described]:
    """Every metric, by name."""
    found = [Described(count_name(name), metric) for name, metric in COUNTS.items()]
    for group, kind in get_type_hints(Metrics).items():
        for name, metric in _metrics_of(kind):
            told = f"{_ABOUT[group]}: {metric.help}" if group in _ABOUT else metric.help
            found.append(
                Described(_name(group, name, metric), Metric(metric.kind, told, metric.unit, metric.label))
            )
    return found


def count_name(name: str) -> str:
    """The full name of one of `COUNTS`."""
    return _name("crawl", name, COUNTS[name])


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
                elif isinstance(mine, dict):
                    for key, number in theirs.items():
                        mine[key] = mine.get(key, 0) + number
                elif theirs:
                    setattr(into, name, max(mine, theirs) if metric.is_most else mine + theirs)
    return whole


_GROUPS = tuple((each.name, each.type) for each in fields(Metrics))


def counters(metrics: Metrics) -> Metrics:
    """What has been counted, without what is as it is now: what stays true of a part that is gone."""
    kept = added_up([metrics])
    for group, kind in _GROUPS:
        for name, metric in _OF_GROUP[kind].items():
            if metric.kind is Kind.GAUGE:
                setattr(getattr(kept, group), name, 0)
    return kept


def values(metrics: Metrics) -> Iterator[tuple[str, Metric, Any]]:
    """Every number with its full name."""
    for group, kind in _GROUPS:
        measured = getattr(metrics, group)
        for name, metric in _OF_GROUP[kind].items():
            yield _FULL[group, name], metric, getattr(measured, name)


_FULL = {
    (group, name): _name(group, name, metric)
    for group, kind in _GROUPS
    for name, metric in _OF_GROUP[kind].items()
}


def as_fields(metrics: Metrics) -> dict[str, dict[str, Any]]:
    """Every number by group and name, for JSON. A histogram has its bounds, its counts and the sum of its values."""
    return {
        group: {name: _plain(getattr(getattr(metrics, group), name)) for name in _OF_GROUP[kind]}
        for group, kind in _GROUPS
    }


def _plain(value: float | dict[str, int] | Histogram) -> object:
    if isinstance(value, Histogram):
        return {"bounds": list(value.bounds), "counts": value.counts, "sum": value.total}
    return value
