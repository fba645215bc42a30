"""The text of one scrape, in the formats of Prometheus and OpenMetrics. Pure: values in, text out.

    text({"": observation})                          one crawl
    text({"one": observation, "two": another})       several, told apart by the label `crawl`

Every metric has a bounded number of series, whatever the crawl finds: classes of statuses instead of statuses, reasons
from a closed table, depths up to a bound. There is never a label with a host or a URL.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from skitter.model import Fault, Level
from skitter.reporting.measuring import VENDORS
from skitter.reporting.observation import Observation
from skitter.runtime.measures import Histogram, Kind, Metric, counter, gauge
from skitter.runtime.metrics import COUNTS, Described, Metrics, count_name, values

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_DEEPEST = 10  # what is deeper is told together

Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number of a metric."""

    suffix: str  # of the name: _bucket, _sum or _count of a histogram
    labels: Labels
    value: float


class Family(NamedTuple):
    """A metric with all its numbers."""

    name: str
    metric: Metric
    points: list[Point]


# ------------------------------------------------------------------------------------------------ beyond the groups

MORE: Mapping[str, Metric] = {
    "skitter_hosts": gauge(
        "hosts in memory: free, waiting for their time, with a visit in flight; and set aside", label="state"
    ),
    "skitter_congestion_ratio": gauge(
        "hosts that could be visited now, by those that are: how many times more requests politeness would allow"
    ),
    "skitter_worker_up": gauge("whether a worker answers", label="worker"),
    "skitter_worker_cpu_seconds_total": counter("processor time of a worker", "seconds", label="worker"),
    "skitter_worker_resident_bytes": gauge("memory of a worker", "bytes", label="worker"),
    "skitter_worker_silent_seconds": gauge(
        "time since a worker was last heard of", "seconds", label="worker"
    ),
    "skitter_worker_deaths_total": counter("workers that died and were started again"),
    "skitter_cluster_silent_workers": gauge(
        "workers of the cluster that are not heard of any more and have not left"
    ),
    "skitter_engine_phase": gauge(
        "the breaker of an engine. 0: works, 1: being tried again, 2: away", label="engine"
    ),
    "skitter_lag_messages": gauge(
        "forwarded messages that are not read yet, by the priority of their topic", label="topic"
    ),
    "skitter_disk_free_bytes": gauge("free on the disk of the crawl", "bytes"),
    "skitter_disk_size_bytes": gauge("size of that disk", "bytes"),
    "skitter_clock_offset_seconds": gauge(
        "the clock that decides when hosts are free, minus that of this machine", "seconds"
    ),
    "skitter_crawl_paused": gauge("1 while nothing is fetched because a person, or a window, says so"),
    "skitter_crawl_finished": gauge("1 when nothing is left to do"),
    "skitter_crawl_expected_pages": gauge("pages of the run before (alerts.expected_pages)"),
}
"""What belongs to no group: made from several numbers, or known only from outside a process."""


def described() -> list[Described]:
    """The metrics that belong to no group."""
    return [Described(name, metric) for name, metric in MORE.items()]


def families(seen: Observation) -> list[Family]:
    """All metrics of a crawl."""
    found = [
        Family(count_name(name), metric, _points(metric, getattr(seen.counts, name)))
        for name, metric in COUNTS.items()
    ]
    found += [Family(name, metric, _points(metric, value)) for name, metric, value in values(seen.metrics)]
    more = _more(seen)
    return found + [Family(name, MORE[name], points) for name, points in more.items()]


def _more(seen: Observation) -> dict[str, list[Point]]:
    measured, workers = seen.metrics, seen.workers
    states = {
        "ready": measured.agenda.ready,
        "waiting": measured.agenda.later,
        "in_flight": measured.hosts.busy,
        "aside": seen.counts.hosts_aside,
    }
    plain = {
        "skitter_congestion_ratio": congestion(measured),
        "skitter_worker_deaths_total": seen.deaths,
        "skitter_cluster_silent_workers": seen.silent_workers,
        "skitter_disk_free_bytes": seen.disk_free,
        "skitter_disk_size_bytes": seen.disk_size,
        "skitter_clock_offset_seconds": seen.clock_offset,
        "skitter_crawl_paused": float(seen.paused),
        "skitter_crawl_finished": float(seen.finished),
        "skitter_crawl_expected_pages": seen.expected_pages,
    }
    labelled: dict[str, tuple[str, Mapping[str, float]]] = {
        "skitter_hosts": ("state", states),
        "skitter_worker_up": ("worker", {each.name: float(each.up) for each in workers}),
        "skitter_worker_cpu_seconds_total": ("worker", {each.name: each.cpu for each in workers}),
        "skitter_worker_resident_bytes": ("worker", {each.name: each.resident for each in workers}),
        "skitter_worker_silent_seconds": ("worker", {each.name: each.silent for each in workers}),
        "skitter_engine_phase": ("engine", {name: engine.phase for name, engine in seen.engines.items()}),
        "skitter_lag_messages": ("topic", seen.lag),
    }
    found = {name: [Point("", (), value)] for name, value in plain.items()}
    found |= {name: _labelled(label, by) for name, (label, by) in labelled.items()}
    return {name: found[name] for name in MORE}


def congestion(measured: Metrics) -> float:
    """1: every host that may be visited is. Without any visit in flight, it is the number of free hosts, and at least 1."""
    busy = max(1, measured.hosts.busy)
    return max(1.0, (measured.agenda.ready + measured.hosts.busy) / busy)


def _labelled(label: str, by: Mapping[str, float]) -> list[Point]:
    return [Point("", ((label, name),), value) for name, value in by.items()]


# ------------------------------------------------------------------------------------------------ the numbers of a metric

_ALWAYS: Mapping[str, tuple[str, ...]] = {
    "class": ("2xx", "3xx", "4xx", "5xx"),
    "vendor": VENDORS,
    "level": tuple(level.name.lower() for level in Level),
}
"""Values of a label that are told even if there is nothing to tell: what is not there cannot be compared with."""
_NETWORK = (
    Fault.DNS,
    Fault.NXDOMAIN,
    Fault.CONNECT,
    Fault.TLS,
    Fault.TIMEOUT,
    Fault.RESET,
    Fault.REUSE,
    Fault.PROTOCOL,
)
NETWORK_FAILURES = tuple(fault.value for fault in _NETWORK)
_REFUSALS = frozenset(
    (
        "scope",
        "budget",
        "trap",
        "nofollow",
        "filter",
        "robots",
        "window",
        "address",
        "blocked",
        "redirect",
        "host",
    )
)
_FAILURES = frozenset((*(fault.value for fault in Fault), "http_429", "http_5xx", "host"))
"""What is told apart of reasons. Of the others each is rare, and they are told together."""


def _points(metric: Metric, value: float | Histogram | Mapping[object, float]) -> list[Point]:
    if isinstance(value, Histogram):
        return list(_histogram(value))
    if not isinstance(value, Mapping):
        return [Point("", (), value)]
    label = metric.label
    always = _ALWAYS.get(label, ())
    if label == "reason":
        always = NETWORK_FAILURES if metric.kind is Kind.COUNTER else ("other",)
    folded: dict[str, float] = dict.fromkeys(always, 0)
    for key, number in value.items():
        name = _fold(label, key)
        if label == "reason" and name not in (_REFUSALS if metric is COUNTS["refused"] else _FAILURES):
            name = "other"
        folded[name] = folded.get(name, 0) + max(0, number)
    return _labelled(label, folded)


def _fold(label: str, key: object) -> str:
    """The value of a label: few of them, whatever servers send."""
    match label:
        case "class":
            digit = str(key)[:1]
            return f"{digit}xx" if digit in "12345" else "other"
        case "reason":
            return _reason(str(key))
        case "depth":
            return f"{int(str(key)):02d}" if int(str(key)) < _DEEPEST else f"{_DEEPEST}+"
        case "level":
            return Level(int(str(key))).name.lower()
        case _:
            return str(key)


def _reason(code: str) -> str:
    """The first word of a code: `scope.host` and `scope.depth` are told together. See `skitter status` for each."""
    word, _, rest = code.partition(".")
    if word == "http":
        word = "http_429" if rest == "429" else "http_5xx"
    return word


def _histogram(value: Histogram) -> Iterator[Point]:
    below = 0
    for bound, number in zip(value.bounds, value.counts, strict=False):
        below += number
        yield Point("_bucket", (("le", _number(bound)),), below)
    yield Point("_bucket", (("le", "+Inf"),), below + value.counts[-1])
    yield Point("_sum", (), value.total)
    yield Point("_count", (), below + value.counts[-1])


# ------------------------------------------------------------------------------------------------ text


def text(crawls: Mapping[str, Observation], *, openmetrics: bool = False) -> str:
    """One scrape. With one crawl of the name "", no series has the label `crawl`."""
    told: dict[str, Family] = {}
    for name, seen in crawls.items():
        own: Labels = (("crawl", name),) if name else ()
        for family in families(seen):
            points = (
                [Point(point.suffix, own + point.labels, point.value) for point in family.points]
                if own
                else family.points
            )
            if family.name in told:
                told[family.name].points.extend(points)
            else:
                told[family.name] = Family(family.name, family.metric, points)
    lines = [line for family in told.values() for line in _lines(family, openmetrics=openmetrics)]
    return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""])


def _lines(family: Family, *, openmetrics: bool) -> Iterator[str]:
    """OpenMetrics names a counter without `_total` where it describes it, and wants the unit."""
    name, metric = family.name, family.metric
    described_as = name.removesuffix("_total") if openmetrics and metric.kind is Kind.COUNTER else name
    if not family.points:
        return
    yield f"# HELP {described_as} {_escaped(metric.help)}"
    yield f"# TYPE {described_as} {metric.kind.value}"
    if openmetrics and metric.unit and described_as.endswith(f"_{metric.unit}"):
        yield f"# UNIT {described_as} {metric.unit}"
    for suffix, labels, value in family.points:
        if labels:
            written = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels)
            yield f"{name}{suffix}{{{written}}} {_number(value)}"
        else:
            yield f"{name}{suffix} {_number(value)}"


def _number(value: float) -> str:
    return repr(value) if isinstance(value, int) else repr(float(value))


def _escaped(said: str) -> str:
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
