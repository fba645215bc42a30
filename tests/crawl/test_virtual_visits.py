"""Whole crawls in virtual time: redirects, limits, and a broken parser."""

import asyncio
from itertools import pairwise

import pytest

from skitter.crawl import completing
from skitter.events import Lost, Requested, ScopeWidened, Settled
from skitter.model import Fault, State, Stop
from tests.crawl.virtual import MEMORY, ROCKSDB, Answer, crawl, html, moved, site

A, B, C = "http://a.test", "http://b.test", "http://c.test"


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def pages_of(result):
    return {page.url for page in result.pages}


# ------------------------------------------------------------------------------------------------ redirects


def test_every_redirect_hop_obeys_robots_and_politeness_and_the_page_keeps_the_requested_url(tmp_path, store):
    pages = {f"{A}/": html("/old"), f"{A}/old": moved("/new"), f"{A}/new": moved(f"{B}/"), f"{B}/": html()}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [request.url for request in result.log] == [
        f"{A}/robots.txt", f"{A}/", f"{A}/old", f"{A}/new", f"{B}/robots.txt", f"{B}/",
    ]  # fmt: skip
    on_a = result.requests("a.test")
    assert all(after.start - before.end >= 1 - 1e-6 for before, after in pairwise(on_a))
    (arrived,) = [page for page in result.pages if page.url == f"{B}/"]
    assert (arrived.requested_url, arrived.depth, arrived.parent) == (f"{A}/old", 1, f"{A}/new")
    old = result.records[f"{A}/old"]
    assert (old.state, old.status) == (State.CRAWLED, 301)
    assert old.reason.detail == f"redirects (301) to {A}/new"
    purposes = [event.purpose for event in result.events if isinstance(event, Requested)]
    assert purposes == ["robots", "page", "page", "redirect", "robots", "redirect"]


def test_a_hop_that_robots_txt_forbids_is_not_made(tmp_path, store):
    pages = {
        f"{A}/": moved(f"{B}/private/x"),
        f"{B}/robots.txt": Answer(body="User-agent: *\nDisallow: /private\n"),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert f"{B}/private/x" not in {request.url for request in result.log}
    assert result.records[f"{B}/private/x"].reason.code == "robots"


def test_a_chain_is_followed_for_ten_hops_and_no_further(tmp_path, store):
    pages = {f"{A}/{number}": moved(f"/{number + 1}") for number in range(20)}
    pages |= {f"{B}/{number}": moved(f"/{number + 1}") for number in range(10)} | {f"{B}/10": html()}
    result = crawl(tmp_path, [f"{A}/0", f"{B}/0"], pages, store=store)
    last = result.records[f"{A}/10"]
    assert (last.state, last.reason.code) == (State.FAILED, "redirects")
    beyond = result.records[f"{A}/11"]
    assert (beyond.state, beyond.reason.code) == (State.REFUSED, "redirects")
    assert result.times(f"{A}/11") == []
    assert pages_of(result) == {f"{B}/10"}
    assert result.pages[0].requested_url == f"{B}/0"
    assert result.counts.failures == {"redirects": 1}


@pytest.mark.parametrize("ring", [("/a", "/a"), ("/a", "/b", "/a"), ("/a", "/b", "/c", "/a")])
def test_redirects_in_a_ring_end(tmp_path, store, ring):
    pages = {A + here: moved(there) for here, there in pairwise(ring)}
    result = crawl(tmp_path, [f"{A}/a"], pages, store=store)
    assert result.stop is Stop.DONE
    assert len(result.log) <= 12
    assert result.pages == []


def test_a_redirect_to_its_own_key_keeps_its_record_and_is_fetched_in_the_new_form(tmp_path, store):
    pages = {f"{A}/": html("/page"), f"{A}/page": moved("/page?sid=42"), f"{A}/page?sid=42": html()}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [request.url for request in result.log][-2:] == [f"{A}/page", f"{A}/page?sid=42"]
    assert set(result.records) == {f"{A}/", f"{A}/page?sid=42"}
    record = result.records[f"{A}/page?sid=42"]
    assert (record.key, record.state, record.status) == (f"{A}/page", State.CRAWLED, 200)
    (stored,) = [page for page in result.pages if page.key == f"{A}/page"]
    assert (stored.url, stored.requested_url) == (f"{A}/page?sid=42", f"{A}/page")


def test_a_redirect_to_its_own_key_is_an_answer_and_costs_no_retry(tmp_path, store):
    pages = {f"{A}/": html("/page"), f"{A}/page": moved("/page?sid=42")}
    pages[f"{A}/page?sid=42"] = lambda asked: html() if asked.number == 4 else Answer(503)
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.records[f"{A}/page?sid=42"].state is State.CRAWLED
    purposes = [event.purpose for event in result.events if isinstance(event, Requested)]
    assert purposes == ["robots", "page", "page", "redirect", "retry", "retry", "retry"]


def test_a_server_that_gives_out_session_ids_for_ever_is_left_after_ten_hops(tmp_path, store):
    sessions = iter(range(10**6))
    result = crawl(tmp_path, [f"{A}/page"], lambda asked: moved(f"/page?sid={next(sessions)}"), store=store)
    pages = [request for request in result.log if "robots" not in request.url and "sid" in request.url]
    assert result.stop is Stop.DONE
    (record,) = result.records.values()
    assert (record.state, record.reason.code) == (State.FAILED, "redirects")
    assert len(pages) < 30


@pytest.mark.parametrize("target", ["mailto:x@example.org", "http://", "ftp://b.test/"])
def test_a_redirect_to_an_unusable_target_is_refused_with_the_target(tmp_path, store, target):
    result = crawl(tmp_path, [f"{A}/"], {f"{A}/": moved(target)}, store=store)
    record = result.records[f"{A}/"]
    assert (record.state, record.reason.code) == (State.REFUSED, "redirect.target")
    assert repr(target) in record.reason.detail


# ------------------------------------------------------------------------------------------------ scope


def test_a_seeds_redirect_to_another_host_takes_the_scope_along_and_says_so(tmp_path, store):
    pages = site(B, 3) | {f"{A}/": moved(f"{B}/")}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__kind="host")
    assert pages_of(result) == {f"{B}/", f"{B}/1", f"{B}/2", f"{B}/3"}
    assert [event for event in result.events if isinstance(event, ScopeWidened)] == [
        ScopeWidened(f"{A}/", f"{B}/")
    ]
    assert result.directory.roots() == [f"{A}/", f"{B}/"]


def test_the_redirect_of_another_link_does_not(tmp_path, store):
    pages = site(B, 3) | {f"{A}/": html("/out"), f"{A}/out": moved(f"{B}/")}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__kind="host")
    assert pages_of(result) == {f"{A}/"}
    assert result.records[f"{B}/"].reason.code == "scope.host"
    assert not any(isinstance(event, ScopeWidened) for event in result.events)
    assert result.directory.roots() == [f"{A}/"]


def test_a_seeds_redirect_to_its_own_key_takes_the_scope_along_too(tmp_path, store):
    """With www folded, www.a.test is the same key but another host: its links must be wanted."""
    www = "http://www.a.test"
    pages = site(www, 3) | {f"{A}/": moved(f"{www}/")}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__kind="host", urls__fold_www=True)
    assert pages_of(result) == {f"{www}/", f"{www}/1", f"{www}/2", f"{www}/3"}
    assert result.directory.roots() == [f"{A}/", f"{www}/"]


def test_a_link_refused_before_the_scope_grew_is_wanted_when_found_again(tmp_path, store):
    pages = {
        f"{A}/": html(f"{B}/x"),
        f"{C}/": Answer(302, headers={"Location": f"{B}/"}, takes=20.0),
        f"{B}/": html(f"{B}/x"),
        f"{B}/x": html(),
    }
    result = crawl(tmp_path, [f"{A}/", f"{C}/"], pages, store=store, scope__kind="host")
    assert pages_of(result) == {f"{A}/", f"{B}/", f"{B}/x"}


def test_a_redirect_inside_the_scope_is_not_announced(tmp_path, store):
    pages = {f"{A}/": moved("/home"), f"{A}/home": html()}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__kind="host")
    assert pages_of(result) == {f"{A}/home"}
    assert not any(isinstance(event, ScopeWidened) for event in result.events)


# ------------------------------------------------------------------------------------------------ limits


def ten_hosts(pages):
    found = {}
    for number in range(10):
        found |= site(f"http://h{number}.test", pages)
    return found, [f"http://h{number}.test/" for number in range(10)]


@pytest.mark.parametrize("limit", [1, 7, 64, 109])
def test_max_pages_is_exact_with_many_in_flight(tmp_path, store, limit):
    pages, starts = ten_hosts(10)
    result = crawl(
        tmp_path, starts, pages, store=store, crawl__max_pages=limit, politeness__per_host=8, politeness__delay="0s"
    )  # fmt: skip
    assert result.stop is Stop.LIMIT
    assert result.counts.pages == len(result.pages) == limit


def test_pages_that_fail_do_not_count_towards_max_pages(tmp_path, store):
    pages = site(A, 20) | {f"{A}/{number}": Answer(404) for number in range(1, 20, 2)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, crawl__max_pages=8)
    assert result.counts.pages == 8


def test_a_limit_reached_with_the_last_page_is_a_normal_end(tmp_path, store):
    assert crawl(tmp_path / "a", [f"{A}/"], site(A, 9), store=store, crawl__max_pages=10).stop is Stop.DONE
    assert crawl(tmp_path / "b", [f"{A}/"], site(A, 10), store=store, crawl__max_pages=10).stop is Stop.LIMIT


def test_max_time_ends_the_crawl_within_a_second_and_drains(tmp_path, store):
    pages, starts = ten_hosts(1000)
    result = crawl(tmp_path, starts, pages, store=store, crawl__max_time="1m", crawl__sync_interval="1s")
    assert result.stop is Stop.LIMIT
    assert 60 <= result.took < 62
    assert all(request.end <= result.took for request in result.log)
    assert not any(record.state is State.LEASED for record in result.records.values())


def test_max_time_aborts_hanging_requests_and_the_next_run_repeats_them(tmp_path, store):
    """Requests in flight have five seconds more; then they are pending again, and owed their delay."""
    hanging = (
        site(A, 3) | {f"{A}/": Answer(body=f'<a href="{A}/hangs">')} | {f"{A}/hangs": Answer(takes=500.0)}
    )
    limits = {"crawl__max_time": "60s", "crawl__sync_interval": "1s"}
    result = crawl(tmp_path, [f"{A}/"], hanging, store=store, **limits)
    assert result.stop is Stop.LIMIT
    assert 65 <= result.took < 67
    assert [request.url for request in result.log if request.end == float("inf")] == [f"{A}/hangs"]
    assert [event.url for event in result.events if isinstance(event, Lost)] == [f"{A}/hangs"]
    assert result.counts.pages == 1
    if store == ROCKSDB:
        again = crawl(tmp_path, [], site(A, 3) | {f"{A}/hangs": Answer(body="at last")}, store=store)
        assert again.stop is Stop.DONE
        assert again.records[f"{A}/hangs"].state is State.CRAWLED
        assert (again.counts.pages, again.counts.lost) == (2, 0)


def test_max_time_is_not_missed_while_every_host_rests(tmp_path, store):
    pages = site(A, 10) | {f"{A}/robots.txt": Answer(body="User-agent: *\nCrawl-delay: 300\n")}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, crawl__max_time="400s", crawl__sync_interval="1s")
    assert result.stop is Stop.LIMIT
    assert 400 <= result.took < 402


def test_max_bytes_is_exceeded_only_by_requests_in_flight(tmp_path, store):
    pages, starts = ten_hosts(50)
    pages = {url: answer if url in starts else Answer(body="x" * 10_000) for url, answer in pages.items()}
    result = crawl(tmp_path, starts, pages, store=store, crawl__max_bytes="100kB", politeness__delay="0s")
    assert result.stop is Stop.LIMIT
    assert 100_000 <= result.counts.bytes < 100_000 + 10 * 10_200


def test_stop_finishes_requests_in_flight_and_leases_nothing_more(tmp_path, store):
    pages, starts = ten_hosts(50)
    pages = {url: Answer(answer.status, answer.body, takes=5.0) for url, answer in pages.items()}

    def meanwhile(made):
        asyncio.get_running_loop().call_later(62.0, made.local_shards.stop, Stop.INTERRUPTED)

    result = crawl(tmp_path, starts, pages, store=store, meanwhile=meanwhile)
    assert result.stop is Stop.INTERRUPTED
    assert all(request.start <= 62.0 for request in result.log)
    answered = {request.url for request in result.log if "robots" not in request.url}
    assert pages_of(result) == answered
    assert result.counts.leased == 0


# ------------------------------------------------------------------------------------------------ parser


def test_a_parser_that_raises_costs_one_page(tmp_path, store, monkeypatch):
    parse = completing.parse

    def fragile(url, headers, content, settings):
        if url == f"{A}/3":
            raise RecursionError("too deep for me")
        return parse(url, headers, content, settings)

    monkeypatch.setattr(completing, "parse", fragile)
    result = crawl(tmp_path, [f"{A}/"], site(A, 6), store=store)
    record = result.records[f"{A}/3"]
    assert (record.state, record.reason.code) == (State.FAILED, Fault.PARSER)
    assert record.reason.detail == "RecursionError: too deep for me"
    assert result.times(f"{A}/3") == [pytest.approx(5.25, abs=5)]
    assert pages_of(result) == {f"{A}/", *(f"{A}/{number}" for number in (1, 2, 4, 5, 6))}
    assert result.counts.failures == {"parser": 1}
    assert all(after.start - before.end >= 1 - 1e-6 for before, after in pairwise(result.log))
    settled = [event for event in result.events if isinstance(event, Settled)]
    assert len(settled) == len(result.log)
