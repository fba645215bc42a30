"""What a scrape says: by the rules of Prometheus and OpenMetrics, and with few series whatever a crawl meets."""

from types import MappingProxyType

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from skitter import reasons
from skitter.model import Counts, Fault
from skitter.reporting.exposition import MORE, families, text
from skitter.reporting.measuring import VENDORS
from skitter.reporting.observation import Lasting, Observation, WorkerSeen
from skitter.runtime.metrics import (
    AgendaMetrics,
    CacheMetrics,
    EngineMetrics,
    HostMetrics,
    Metrics,
    described,
)
from tests.prometheus import promtool

MOST_SERIES = 300


def fullest() -> Observation:
    """Every label with every value that servers, settings and machines can bring about."""
    codes = [entry.code for entry in reasons.TABLE.values() if entry.code != "http.NNN"]
    codes += [reasons.http(status) for status in range(429, 1000)]
    measured = Metrics(hosts=HostMetrics(100_000, 80), agenda=AgendaMetrics(20_000, 80_000))
    measured.requests.answers.update({f"{number}xx": 1 for number in range(10)})
    measured.requests.failures.update({fault.value: 1 for fault in Fault} | {reasons.UNKNOWN: 1})
    measured.challenge.pages.update(dict.fromkeys(VENDORS, 1))
    counts = Counts(
        hosts=100_000,
        refused=dict.fromkeys(codes, 1),
        failures=dict.fromkeys(codes, 1),
        statuses=dict.fromkeys(range(100, 1000), 1),
        depths=dict.fromkeys(range(100_000), 1),
        levels=dict.fromkeys(range(5), 1),
        others=dict.fromkeys(("sitemap", "feed", "probe", "asset", "terms"), 1),
    )
    return Observation(
        at=1e9,
        counts=counts,
        metrics=measured,
        workers=[WorkerSeen(str(number), up=True) for number in range(4)],
        engines={name: EngineMetrics() for name in ("PostgreSQL", "Kafka", "Redis", "S3")},
        lag={"high": 1, "medium": 2, "low": 3},
    )


def series(seen: Observation) -> list[str]:
    return [line for line in text({"": seen}).splitlines() if not line.startswith("#")]


def test_a_crawl_of_a_hundred_thousand_hosts_has_fewer_than_300_series():
    assert len(series(fullest())) < MOST_SERIES


def test_no_series_names_a_host_or_a_url():
    allowed = {
        "reason",
        "class",
        "depth",
        "level",
        "vendor",
        "purpose",
        "state",
        "worker",
        "engine",
        "topic",
        "le",
    }
    labels = {name for family in families(fullest()) for point in family.points for name, _ in point.labels}
    assert labels == allowed


def test_promtool_has_no_complaint():
    assert promtool("check", "metrics", stdin=text({"": fullest()})) == ""


@pytest.mark.parametrize("openmetrics", [False, True])
def test_other_parsers_read_the_same_numbers(openmetrics):
    seen = fullest()
    seen.metrics.dns = CacheMetrics(hits=7)
    seen.metrics.requests.seconds.observe(0.3)
    parse = parse_openmetrics if openmetrics else parse_plain
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse(text({"": seen}, openmetrics=openmetrics))
        for sample in family.samples
    }
    assert len(samples) == len(series(seen))
    assert samples[("skitter_dns_hits_total",)] == 7
    assert samples[("skitter_requests_seconds_count",)] == 1
    assert samples["skitter_requests_seconds_bucket", ("le", "0.25")] == 0
    assert samples["skitter_requests_seconds_bucket", ("le", "0.5")] == 1
    assert samples["skitter_hosts", ("state", "ready")] == 20_000


def test_every_metric_that_is_told_is_in_the_reference_and_the_other_way_round():
    told = {family.name for family in families(fullest())}
    assert told == {each.name for each in described()} | set(MORE)


def test_statuses_reasons_and_depths_are_folded_and_none_is_lost():
    counts = Counts(
        statuses={200: 3, 204: 1, 799: 2},
        failures={"http.500": 1, "http.503": 2, "http.429": 4, "timeout": 8},
        refused={"scope.host": 1, "scope.depth": 2},
        depths={0: 1, 9: 2, 10: 3, 4000: 4},
        levels={0: 2, 4: -1},
    )
    told = series(Observation(at=0, counts=counts, metrics=Metrics()))
    for line in (
        'skitter_crawl_statuses_total{class="2xx"} 4',
        'skitter_crawl_statuses_total{class="other"} 2',
        'skitter_crawl_failures{reason="http_5xx"} 3',
        'skitter_crawl_failures{reason="http_429"} 4',
        'skitter_crawl_refused{reason="scope"} 3',
        'skitter_crawl_depths_total{depth="09"} 2',
        'skitter_crawl_depths_total{depth="10+"} 7',
        'skitter_crawl_levels{level="critical"} 2',
        'skitter_crawl_levels{level="background"} 0',
    ):
        assert line in told, line


def test_several_crawls_are_told_apart_and_hostile_names_are_escaped():
    hostile = 'a"b\\c\nd{}#</script>\u202e'
    told = text({"one": fullest(), hostile: fullest()})
    names = {sample.labels["crawl"] for family in parse_plain(told) for sample in family.samples}
    assert names == {"one", hostile}
    assert told.count("# TYPE skitter_crawl_queued ") == 1


@pytest.mark.parametrize(
    ("ready", "busy", "ratio"), [(0, 0, 1.0), (0, 5, 1.0), (5, 5, 2.0), (30, 10, 4.0), (7, 0, 7.0)]
)
def test_congestion_is_how_many_times_more_could_be_asked(ready, busy, ratio):
    seen = Observation(
        at=0, counts=Counts(), metrics=Metrics(agenda=AgendaMetrics(ready), hosts=HostMetrics(0, busy))
    )
    assert f"skitter_congestion_ratio {ratio}" in series(seen)


def test_a_counter_does_not_fall_when_a_worker_dies_or_a_shard_goes():
    lasting = Lasting()

    def measured(hits: int, entries: int) -> Metrics:
        return Metrics(dns=CacheMetrics(hits=hits, entries=entries))

    lasting.note(0, "first", measured(10, 3))
    lasting.note(1, "first", measured(5, 2))
    lasting.note(0, "second", measured(1, 1))
    assert lasting.metrics().dns == CacheMetrics(hits=16, entries=3)
    lasting.only({0})
    assert lasting.metrics().dns == CacheMetrics(hits=16, entries=1)


def test_what_is_told_changes_nothing():
    seen = fullest()
    before = dict(seen.counts.depths), MappingProxyType(dict(seen.metrics.requests.answers))
    assert text({"": seen}) == text({"": seen})
    assert (dict(seen.counts.depths), seen.metrics.requests.answers) == (before[0], dict(before[1]))
