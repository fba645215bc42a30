"""Metrics: every number has a name and a sentence, and parts add up to the whole."""

import re

import msgspec
import pytest

from skitter.model import Counts
from skitter.runtime.metrics import (
    COUNTS,
    CacheMetrics,
    Histogram,
    Kind,
    Metrics,
    RequestMetrics,
    SeenMetrics,
    added_up,
    as_fields,
    counters,
    described,
)

NAME = re.compile(r"skitter(_[a-z0-9]+)+")


def test_every_metric_has_a_name_of_its_own_and_a_sentence():
    names = [each.name for each in described()]
    assert len(set(names)) == len(names) > 80
    assert all(NAME.fullmatch(name) for name in names)
    assert all(each.metric.help for each in described())


def test_counters_end_with_total_and_nothing_else_does():
    for name, metric in described():
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER), name


def test_every_count_of_a_crawl_is_described():
    assert COUNTS.keys() == set(Counts.__struct_fields__)


def test_labels_are_never_hosts_or_urls():
    assert {metric.label for _, metric in described()} == {
        "",
        "reason",
        "purpose",
        "depth",
        "class",
        "level",
        "vendor",
    }


def test_parts_add_up():
    one = Metrics(dns=CacheMetrics(entries=3, capacity=10, hits=5), seen=SeenMetrics(items=7, fill=0.5))
    other = Metrics(dns=CacheMetrics(entries=4, capacity=10, misses=2), seen=SeenMetrics(items=8, fill=0.25))
    whole = added_up([one, other])
    assert whole.dns == CacheMetrics(entries=7, capacity=20, hits=5, misses=2)
    assert whole.seen == SeenMetrics(items=15, fill=0.5), "a share is that of the fullest part"
    assert one.dns.entries == 3, "the parts stay as they are"
    assert added_up([]) == Metrics()


def test_histograms_add_up():
    one, other = RequestMetrics(), RequestMetrics()
    for seconds in (0.001, 0.3, 100.0):
        one.seconds.observe(seconds)
        one.bytes.observe(18_000)
    other.seconds.observe(0.3)
    other.bytes.observe(5)
    whole = added_up([Metrics(requests=one), Metrics(requests=other)]).requests
    assert (whole.seconds.number, one.seconds.number) == (4, 3)
    assert whole.seconds.total == pytest.approx(100.601)
    assert whole.bytes.total == 54_005


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (2.1, 2)])
def test_a_value_is_counted_up_to_its_bound(value, bucket):
    histogram = Histogram((1.0, 2.0), [0, 0, 0])
    histogram.observe(value)
    assert histogram.counts[bucket] == 1 == histogram.number


def test_metrics_survive_json_and_messagepack():
    full = Metrics(dns=CacheMetrics(hits=5))
    full.requests.seconds.observe(0.2)
    full.requests.answers["2xx"] = 1
    assert msgspec.json.decode(msgspec.json.encode(full), type=Metrics) == full
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(full), type=Metrics) == full
    assert msgspec.convert(msgspec.to_builtins(full), Metrics) == full


def test_labelled_counters_add_up():
    one, other = Metrics(), Metrics()
    one.requests.answers.update({"2xx": 3, "5xx": 1})
    other.requests.answers.update({"2xx": 4})
    assert added_up([one, other]).requests.answers == {"2xx": 7, "5xx": 1}
    assert one.requests.answers == {"2xx": 3, "5xx": 1}, "the parts stay as they are"


def test_what_a_gone_part_has_counted_stays_and_what_it_held_does_not():
    part = Metrics(dns=CacheMetrics(entries=3, hits=5), seen=SeenMetrics(items=7, fill=0.5))
    part.requests.seconds.observe(0.2)
    part.requests.answers["2xx"] = 1
    kept = counters(part)
    assert (kept.dns, kept.seen) == (CacheMetrics(hits=5), SeenMetrics())
    assert kept.requests == part.requests


def test_programs_get_every_number_zero_or_not():
    fields = as_fields(Metrics())
    assert fields.keys() == set(Metrics.__struct_fields__)
    assert fields["dns"]["hits"] == 0
    assert fields["requests"]["seconds"]["sum"] == 0.0
