"""Settings of single sites in a crawl: their delay and scope are kept, by the log of requests and after a kill."""

from itertools import pairwise

import pytest

from skitter.cli.why import story
from skitter.compose import open_reader
from skitter.export.finding_fields import as_fields
from skitter.export.findings import find
from skitter.model import State
from skitter.settings import Settings
from skitter.settings.file import load
from tests.crawl.virtual import MEMORY, ROCKSDB, crawl, html, site
from tests.fetching import run

A, B = "http://a.test", "http://b.test"
SLOW = '[{match = "a.test/slow/*", politeness.delay = "30s"}, {match = "a.test", politeness.delay = "5s", scope.exclude = ["/3$"]}]'


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def test_each_url_is_followed_by_the_delay_of_its_site(tmp_path, store):
    pages = site(A, 4) | site(B, 3) | {f"{A}/": html("/1", "/2", "/3", "/slow/1", "/slow/2", f"{B}/")}
    pages |= {f"{A}/slow/1": html(), f"{A}/slow/2": html()}
    result = crawl(tmp_path / "c", [f"{A}/"], pages, store=store, scope__kind="any", site=SLOW)
    for before, after in pairwise(result.requests("a.test")):
        owed = 30 if "/slow/" in before.url else 5
        assert after.start - before.end == pytest.approx(owed)
    for before, after in pairwise(result.requests("b.test")):
        assert after.start - before.end == pytest.approx(1)
    assert len(result.requests("b.test")) == 5
    refused = result.records[f"{A}/3"]
    assert refused.state is State.REFUSED
    assert refused.reason is not None
    assert refused.reason.detail == "matches '/3$' of scope.exclude, set by [[site]] 2 (a.test)"


def test_why_says_which_overlay_decided(tmp_path):
    crawl(tmp_path / "c", [f"{A}/"], site(A, 2), site=SLOW)

    async def told(url):
        source = open_reader(tmp_path / "c")
        try:
            return await find(url, source, 0.0)
        finally:
            await source.close()

    found = run(told(f"{A}/slow/never"))
    text = "\n".join(story(found, 0))
    assert 'politeness.delay = "30s", set by [[site]] 1 (a.test/slow/*)' in text
    assert 'scope.exclude = ["/3$"], set by [[site]] 2 (a.test)' in text
    assert as_fields(found)["overlays"]["politeness.delay"] == {
        "value": 30.0,
        "site": 1,
        "match": "a.test/slow/*",
    }
    assert as_fields(run(told(f"{B}/")))["overlays"] == {}


def test_waiting_urls_of_a_site_are_judged_again_when_its_scope_changes(tmp_path):
    path = tmp_path / "c"
    narrow = '[{match = "a.test", scope.exclude = ["/[234]$"]}]'
    first = crawl(path, [f"{A}/"], site(A, 4), site=narrow)
    assert {url for url in first.records if first.records[url].state is State.REFUSED} == {
        f"{A}/2",
        f"{A}/3",
        f"{A}/4",
    }
    second = crawl(path, [f"{A}/"], site(A, 4), site=SLOW)
    assert {url for url in second.records if second.records[url].state is State.REFUSED} == {f"{A}/3"}


def test_a_crawl_keeps_its_sites(tmp_path):
    crawl(tmp_path / "c", [f"{A}/"], site(A, 1), site=SLOW)
    kept = load(tmp_path / "c" / "crawl.toml", {}, {})
    assert kept.site == load(None, {}, {"site": SLOW}).site
    assert kept.site != Settings().site
