"""The example settings examples/botcrawler.toml do what they say, on a site made to match."""

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from skitter.settings.file import load
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import HASTY, crawl

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "botcrawler.toml"
PAGES = 30
NUMBER = re.compile(r"/n/(\d+)\.html$")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    web = SyntheticWeb(
        seed=9, hosts=2, pages_per_host=PAGES, hosts_per_domain=1,
        features=Features(numbered=True, request_interval=1), robots=("request-rate",),
    )  # fmt: skip
    host = web.host_of("numbered")
    with serve_process(web) as server:
        local = HASTY | {
            "fetch.resolve": tuple(f"{name}:{address}" for name, address in web.resolve_map().items()),
            "scope.hosts": (f"*.{web.names[host].split('.', 1)[1]}",),
        }
        result = crawl(
            tmp_path_factory.mktemp("bot") / "c", [server.url("/n/1.html", host)], load(EXAMPLE, {}, local)
        )
        return result, server.log(), web.names[host], _greedy(web, host)


def _greedy(web, host):
    """The order on paper: of all known numbers the largest next; pages without markers lead nowhere."""
    site, waiting, seen, order = web.site(host), {1}, {1}, []
    while waiting:
        number = max(waiting)
        waiting.remove(number)
        order.append(number)
        page = site.find(f"/n/{number}.html")
        if page is None or number % 6 == 0:
            continue
        for anchor in page.anchors:
            match = NUMBER.search(anchor.url)
            if match and web.names[host] in anchor.url and int(match[1]) not in seen:
                seen.add(int(match[1]))
                waiting.add(int(match[1]))
    return order


def numbers_asked(log):
    return [int(match[1]) for request in log if (match := NUMBER.search(request.path))]


def test_larger_numbers_come_first(crawled):
    _result, log, _host, greedy = crawled
    assert numbers_asked(log) == greedy


def test_sloppy_anchors_lead_to_pages(crawled):
    _result, log, _host, _greedy_order = crawled
    assert {5, 10, 15, 20} <= set(numbers_asked(log))


def test_only_hosts_of_the_named_domain_are_visited(crawled):
    _result, log, host, _greedy_order = crawled
    assert {request.host for request in log} == {host}


def test_the_request_rate_is_kept_and_not_found_pages_cost_their_delay_too(crawled):
    _result, log, _host, _greedy_order = crawled
    gaps = [after.start - before.end for before, after in pairwise(log)]
    assert min(gaps) >= 1.0 - 0.01
    assert any(request.status == 404 for request in log[:-1])


def test_pages_without_markers_and_pages_not_found_are_not_processed(crawled):
    result, log, _host, _greedy_order = crawled
    counts = result.report.counts
    asked = numbers_asked(log)
    there = [number for number in asked if number <= PAGES]
    assert counts.pages == len(there)
    assert counts.processed == len([number for number in there if number % 6])
    assert counts.not_found == len(asked) - len(there)
    assert counts.not_found > 0


def test_the_text_is_what_is_between_the_markers(crawled):
    result, _log, _host, _greedy_order = crawled
    ignored = [page for page in result.pages if page.status == 200 and page.ignored]
    assert {int(NUMBER.search(page.url)[1]) % 6 for page in ignored} == {0}


def test_the_report_has_the_statistics(crawled):
    result, _log, _host, _greedy_order = crawled
    assert result.report.outcome == "done"
    assert result.report.counts.refused  # foreign hosts
    assert result.report.elapsed <= time.monotonic()
