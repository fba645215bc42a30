"""A robots.txt that changes in mid-crawl: in force at its refresh, for what waits and for what was refused. Virtual time."""

import pytest

from skitter.events import Warned
from skitter.frontier import ShardFrontier
from skitter.model import State
from tests.crawl.virtual import HOUR, MEMORY, ROCKSDB, Answer, crawl, html

A = "http://a.test"
FORBID = Answer(body="User-agent: *\nDisallow: /private\n")
ALLOW = Answer(body="User-agent: *\nDisallow: /other\n")
PAGES = [f"/private/{number}" for number in range(40)] + [f"/open/{number}" for number in range(40)]


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def site(script):
    found = {A + name: html() for name in PAGES} | {f"{A}/": html(*PAGES)}
    return found | {f"{A}/robots.txt": script}


def run(tmp_path, store, script, **settings):
    return crawl(
        tmp_path, [f"{A}/"], site(script), store=store, robots__cache="1h", politeness__delay="5m", **settings
    )


def test_what_became_disallowed_leaves_the_queue_at_the_refresh(tmp_path, store):
    result = run(tmp_path, store, lambda asked: ALLOW if asked.number == 1 else FORBID)
    fetched = [request for request in result.log if "/private/" in request.url]
    refresh = result.times(f"{A}/robots.txt")[1]
    assert fetched
    assert all(request.start < refresh for request in fetched)
    refused = [
        record
        for url, record in result.records.items()
        if "/private/" in url and record.state is State.REFUSED
    ]
    assert len(refused) == 40 - len(fetched)
    assert {record.reason.code for record in refused} == {"robots"}
    assert "line 2: Disallow: /private" in refused[0].reason.detail
    (told,) = [event.text for event in result.events if isinstance(event, Warned)]
    assert told == f"a robots.txt changed: {len(refused)} URLs left the queue, 0 came back"
    assert {url for url, record in result.records.items() if record.state is State.CRAWLED} >= {
        A + name for name in PAGES if "/open/" in name
    }


def test_what_became_allowed_comes_back_although_nobody_links_to_it_again(tmp_path, store):
    result = run(tmp_path, store, lambda asked: FORBID if asked.number == 1 else ALLOW)
    refresh = result.times(f"{A}/robots.txt")[1]
    private = [request for request in result.log if "/private/" in request.url]
    assert len(private) == 40
    assert all(request.start > refresh for request in private)


def test_the_same_rules_in_other_words_cost_no_sweep(tmp_path, monkeypatch):
    sweeps = []
    real = ShardFrontier.judge_by_rules

    async def judge(self, rules, now):
        sweeps.append(now)
        return await real(self, rules, now)

    monkeypatch.setattr(ShardFrontier, "judge_by_rules", judge)

    def script(asked):
        return Answer(
            body=f"# read {asked.number} times\n" * asked.number + "User-agent: *\nDisallow: /private\n"
        )

    result = run(tmp_path, MEMORY, script)
    assert len(result.times(f"{A}/robots.txt")) > 3
    assert not sweeps
    run(tmp_path / "other", MEMORY, lambda asked: ALLOW if asked.number == 1 else FORBID)
    assert len(sweeps) == 1


def test_rules_that_differ_at_every_fetch_are_each_obeyed_and_the_crawl_ends(tmp_path, store):
    result = run(tmp_path, store, lambda asked: FORBID if asked.number % 2 else ALLOW)
    asked = result.times(f"{A}/robots.txt")
    for request in result.log:
        if "/private/" in request.url:
            last = max(number for number, at in enumerate(asked) if at <= request.start)
            assert last % 2 == 1, "fetched while it was forbidden"
    assert result.took < 40 * HOUR
    assert len([request for request in result.log if "/open/" in request.url]) == 40
