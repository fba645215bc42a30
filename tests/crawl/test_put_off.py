"""A visit that may not be made yet is made later, and is no request, no try and no error until then."""

import json

import pytest

from skitter.events import Deferred, SetAside
from skitter.model import Stop
from tests.crawl.virtual import MEMORY, ROCKSDB, Answer, crawl, html, moved, site

A, B = "http://a.test", "http://b.test"


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def later(answer, seconds=3.0, times=4):
    """Put off so many times, and then this answer."""
    return lambda asked: Answer(put_off=seconds) if asked.number <= times else answer


def logged(result):
    lines = result.directory.request_log(0).read_text().splitlines()
    return [json.loads(line)["url"] for line in lines]


def test_a_page_that_is_put_off_is_fetched_when_its_time_has_come(tmp_path, store):
    pages = site(A, 3) | site(B, 3)
    pages[f"{A}/2"] = later(html())
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store, schedule__retries=0)
    assert result.stop is Stop.DONE
    assert len(result.pages) == 8
    assert result.counts.requests == len(result.log) == len(logged(result)) == 10
    assert result.hosts["a.test"].errors == 0
    assert [request.attempt for request in result.log] == [1] * 10
    # The other host is not held up.
    assert max(request.end for request in result.requests("b.test")) < 7
    assert result.took > 12


def test_a_robots_txt_that_is_put_off_is_no_failed_try_however_often(tmp_path, store):
    pages = site(A, 2) | {f"{A}/robots.txt": later(Answer(body="User-agent: *\nDisallow: /2\n"), times=20)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [request.url for request in result.log] == [f"{A}/robots.txt", f"{A}/", f"{A}/1"]
    assert logged(result) == [request.url for request in result.log]
    assert result.log[0].start == pytest.approx(60, abs=1)
    assert [event for event in result.events if isinstance(event, Deferred | SetAside)] == []
    assert result.hosts["a.test"].errors == 0


def test_the_hop_of_a_moved_robots_txt_is_not_lost_when_it_is_put_off(tmp_path, store):
    """Nobody waits an hour for it to be asked for from the start."""
    pages = site(A, 2) | site(B, 2) | {
        f"{A}/robots.txt": moved(f"{B}/rules-of-a.txt"),
        f"{B}/rules-of-a.txt": later(Answer(body="User-agent: *\nDisallow: /2\n"), times=10),
    }  # fmt: skip
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    asked = [request.url for request in result.log]
    assert asked.count(f"{A}/robots.txt") == asked.count(f"{B}/rules-of-a.txt") == 1
    assert {f"{A}/1", f"{B}/1", f"{B}/2"} <= set(asked)
    assert f"{A}/2" not in asked
    assert result.took < 60
    assert [event for event in result.events if isinstance(event, Deferred | SetAside)] == []


def test_a_crawl_waits_for_what_is_put_off_and_is_not_over(tmp_path, store):
    pages = {f"{A}/": later(html(), seconds=3600.0, times=1)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.stop is Stop.DONE
    assert len(result.pages) == 1
    assert result.took > 3600
