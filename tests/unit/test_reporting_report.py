"""The report: the same numbers for people and for programs."""

import json

import pytest
from msgspec.structs import replace

from skitter.model import Counts, HostRecord, Pace, Reason, Stop
from skitter.reporting.report import OUTCOMES, Report, Run, histogram, pace_lines, reached, render, to_json
from skitter.runtime.metrics import LinkMetrics, Metrics
from skitter.settings import Bytes, CrawlSettings, Seconds

COUNTS = Counts(
    seen=5000,
    added=1200,
    known=3500,
    queued=77,
    crawled=1100,
    failed=23,
    pages=1001,
    processed=990,
    not_found=44,
    requests=1150,
    bytes=5 * 2**20,
    duplicates=12,
    lost=3,
    hosts=2,
    hosts_aside=1,
    refused={"scope.host": 250, "robots": 50},
    failures={"timeout": 23},
    statuses={404: 44, 200: 1001},
    depths={0: 1, 1: 100, 2: 900},
)
REPORT = Report(
    outcome="limit",
    limit="crawl.max_pages",
    larger="2002",
    exit_code=3,
    started=1700000000.0,
    ended=1700000100.0,
    elapsed=100.0,
    pages_per_second=10.01,
    counts=COUNTS,
    directory="skitter-example.org",
    hosts=[
        HostRecord(host="example.org", domain="example.org", pages=1000, requests=1100, queued=77, delay=1.0, bytes=2**20),
        HostRecord(host="slow.example", domain="slow.example", pages=1, aside=Reason("crawl-delay", "600 s")),
    ],
    metrics=Metrics(links=LinkMetrics(hits=12000, misses=3)),
    warnings=["no contact is set\x1b[2J"],
)  # fmt: skip


def test_people_get_every_number():
    text = render(REPORT)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for expected in (
        "Crawl stopped at a limit, with work left (1m 40s, 10.0 pages/s)",
        "URLs seen 5,000",
        "added 1,200",
        "known already 3,500",
        "URLs refused 300",
        "URLs waiting 77",
        "URLs given up 23",
        "Requests 1,150",
        "Pages fetched 1,001",
        "processed 990",
        "duplicates 12",
        "Error answers (4xx, 5xx) 44",
        "not found (404, 410) 44",
        "Received 5.0 MiB",
        "scope.host 250 The host is not the host of a seed.",
        "robots 50 The robots.txt of the site forbids it.",
        "timeout 23 The server took too long to answer.",
        "200 1,001",
        "404 44",
        "Visits lost and redone 3",
    ):
        assert expected in lines
    assert "example.org 1,000 1,100 0 77 1.0 MiB 1.0s" in lines
    assert "slow.example 1 0 0 0 0 B 0.0s crawl-delay" in lines
    assert (
        "The limit is crawl.max_pages. Continue with: skitter resume skitter-example.org --max-pages 2002"
        in lines
    )
    assert "skitter export skitter-example.org --format jsonl -o pages.jsonl" in lines


def test_reasons_come_with_the_most_frequent_first_and_statuses_in_order():
    text = render(REPORT)
    assert text.index("scope.host") < text.index("robots ")
    assert text.index("  200 ") < text.index("  404 ")


def test_a_reason_of_another_version_is_counted_without_a_sentence():
    text = render(replace(REPORT, counts=replace(COUNTS, refused={"moon.phase": 3, "robots": 1})))
    assert "\n  moon.phase             3\n  robots                 1  The robots.txt" in text


def test_nothing_in_a_report_drives_the_terminal():
    assert "\x1b" not in render(REPORT)


def test_a_finished_crawl_gets_no_advice_to_resume():
    done = Report(outcome="done", exit_code=0, started=0, ended=1, elapsed=1, pages_per_second=0, counts=Counts(), directory="d")  # fmt: skip
    assert "resume" not in render(done)


def test_a_crawl_without_a_page_does_not_pass_for_a_success():
    nothing = Report(outcome="done", exit_code=1, started=0, ended=1, elapsed=1, pages_per_second=0, counts=Counts(), directory="d")  # fmt: skip
    text = render(nothing)
    assert text.startswith("Crawl finished: no page could be fetched (")
    assert text.endswith("\nFind out why with: skitter why d URL (or: skitter status d)\n")


@pytest.mark.parametrize(
    ("stop", "limits", "expected"),
    [
        (Stop.LIMIT, {"max_pages": 1001}, ("crawl.max_pages", "2002")),
        (Stop.LIMIT, {"max_pages": 10}, ("crawl.max_pages", "2002")),  # resumed with less than there is
        (Stop.LIMIT, {"max_pages": 5000, "max_bytes": Bytes(5 * 2**20)}, ("crawl.max_bytes", "10MiB")),
        (Stop.LIMIT, {"max_pages": 5000, "max_time": Seconds(1800)}, ("crawl.max_time", "1h")),
        (Stop.DISK, {"max_pages": 1}, ("crawl.min_free_disk", "")),
        (Stop.DONE, {"max_pages": 1}, ("", "")),
        (Stop.INTERRUPTED, {"max_pages": 1}, ("", "")),
    ],
)
def test_the_limit_that_stopped_it_comes_with_a_larger_one(stop, limits, expected):
    assert reached(stop, CrawlSettings(**limits), COUNTS) == expected


def test_a_directory_is_named_as_a_shell_reads_it():
    assert "\n  skitter pages 'my crawl'\n" in render(replace(REPORT, directory="my crawl"))


def test_every_outcome_has_a_sentence():
    assert set(OUTCOMES) >= {"done", "limit", "interrupted", "disk"}


def test_programs_get_one_line_of_json_with_iso_times():
    text = to_json(REPORT)
    assert "\n" not in text
    fields = json.loads(text)
    assert fields["started"] == "2023-11-14T22:13:20.000Z"
    assert fields["counts"]["statuses"] == {"200": 1001, "404": 44}
    assert fields["counts"]["refused"] == {"scope.host": 250, "robots": 50}
    assert (fields["outcome"], fields["exit_code"]) == ("limit", 3)
    assert fields["hosts"][1]["set_aside"] == {"code": "crawl-delay", "detail": "600 s"}


def test_the_histogram_grows_with_the_numbers():
    bars = {line.split()[0]: line.count("█") for line in histogram(COUNTS.depths)[2:]}
    assert bars == {"0": 1, "1": 5, "2": 40}


def test_very_deep_pages_are_summed_up():
    lines = histogram({0: 1, **dict.fromkeys(range(21, 500), 1)})
    assert len(lines) == 4
    assert lines[-1].split()[:3] == ["over", "20", "479"]


def test_hosts_that_are_slowed_down_have_a_line_each():
    slow = Pace(wait=10.0, latency=1.0, baseline=0.1, samples=4, doubled=4, cause="slow")
    dead = Pace(wait=300.0, doubled=9, cause="timeout", failures=11, parked=2)
    hosts = [
        HostRecord(host="a.example", domain="a.example", delay=10.0, pace=slow),
        HostRecord(host="b.example", domain="b.example", delay=300.0, pace=dead),
        HostRecord(host="c.example", domain="c.example", delay=1.0, pace=Pace(latency=0.1, samples=4)),
        HostRecord(host="d.example", domain="d.example", delay=1.0),
    ]
    assert pace_lines(hosts) == [
        "",
        "Slowed down",
        "  a.example: delay 10s: doubled 4 times, last for slow answers; latency 1 s, baseline 0.1 s",
        "  b.example: delay 5m 00s: doubled 9 times, last for a time-out; 11 failures in a row; parked 2 times",
    ]
    assert pace_lines(hosts[2:]) == []


@pytest.mark.parametrize(
    ("others", "code"), [({}, 1), ({"sitemap": 2}, 1), ({"sitemap": 1, "probe": 1}, 0), ({"asset": 3}, 0)]
)
def test_a_sitemap_without_a_page_is_not_enough(others, code):
    run = Run(0.0, 0.0, 0)
    done = run.report(Stop.DONE, Counts(others=others), (1.0, 1.0), limits=CrawlSettings(), failed={})
    assert done.exit_code == code
