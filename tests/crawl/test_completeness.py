"""A crawl finds everything, requests nothing else, and records the reasons."""

from functools import partial

import pytest

from skitter import urls
from skitter.model import State
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl, crawl_with, keys, settings_for


@pytest.fixture(scope="module", params=["mixed", "hostile", "mixed, 4 workers", "hostile, 2 workers"])
def crawled(request, tmp_path_factory):
    preset, _, workers = request.param.partition(", ")
    features = getattr(Features, preset)(crawl_delay=0.2, retry_after=1)
    web = SyntheticWeb(seed=11, hosts=30, pages_per_host=12, features=features)
    with serve_process(web) as server:
        settings = settings_for(
            server,
            scope__kind="any",
            politeness__per_host=4,
            fetch__deadline="3s",
            fetch__max_body="4MiB",
            schedule__retries=2,
            # The traps branch: at the default of 20 they hold a million pages each before a rule ends them.
            scope__max_path_segments=7,
            scope__max_query_params=5,
        )
        by = partial(crawl_with, int(workers[0])) if workers else crawl
        result = by(tmp_path_factory.mktemp("crawl") / "c", server.seeds(), settings)
        truth = server.truth("any")
        log = server.log()
    return result, truth, log, server.port


def outside_traps(found, truth):
    traps = tuple(urls.key(trap.prefix) for trap in truth.traps)
    return {key for key in found if not traps or not key.startswith(traps)}


def test_the_set_of_pages_equals_the_truth(crawled):
    result, truth, _log, _port = crawled
    found = outside_traps(result.keys, truth)
    expected = keys(truth.pages)
    assert sorted(expected - found) == []
    assert sorted(found - expected - keys(truth.unjudged)) == []
    assert len(expected) > 300


def test_not_found_pages_are_known_as_such(crawled):
    result, truth, _log, _port = crawled
    gone = {page.key for page in result.pages if page.status in (404, 410)}
    assert outside_traps(gone, truth) == keys(truth.gone)


def test_forbidden_urls_are_not_requested_and_have_a_reason(crawled):
    result, truth, log, port = crawled
    asked = {f"http://{request.host}:{port}{request.page}" for request in log}
    for url, refusal in truth.refused.items():
        assert url not in asked, f"{url} was requested although {refusal}"
        key = urls.key(url)
        if key is not None:
            record = result.records[key]
            assert record.state is State.REFUSED, (url, record)
            assert record.reason, url
    assert not asked & truth.hidden


def test_failures_are_given_up_with_a_reason(crawled):
    result, truth, _log, _port = crawled
    for url in truth.failed:
        record = result.records[urls.key(url)]
        assert record.state is State.FAILED, (url, record)
        assert record.reason


def test_the_crawl_ends_by_itself_and_nothing_is_left(crawled):
    result, _truth, _log, _port = crawled
    assert result.report.outcome == "done"
    assert result.report.counts.queued == 0
    assert result.report.counts.leased == 0


def test_identical_pages_are_known_as_duplicates_of_each_other(crawled):
    result, truth, _log, _port = crawled
    by_url = {page.key: page for page in result.pages}
    for group in truth.exact:
        members = [by_url[urls.key(url)] for url in group]
        originals = [page for page in members if not page.identical]
        assert len(originals) == 1, [page.url for page in originals]
        assert all(page.duplicate_of == originals[0].url for page in members if page.identical)
    assert truth.exact


def test_text_is_decoded_from_every_charset_and_coding(crawled):
    result, truth, _log, _port = crawled
    texts = {page.key: page for page in result.pages}
    assert truth.phrases
    assert all(urls.key(url) in texts for url in truth.phrases)
