"""Nothing is sent outside its window: of the crawl, of a site, of a robots.txt. In virtual time, judged by the log."""

import asyncio
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from skitter import reasons
from skitter.model import State, Stop
from skitter.testing.clock import EPOCH, VirtualClock
from tests.crawl.virtual import DAY, HOUR, MEMORY, ROCKSDB, Answer, crawl, html, site

A, B = "http://a.test", "http://b.test"
BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = "22:00-06:00 Europe/Berlin"


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def walls(result, zone=BERLIN, start=EPOCH):
    """The hour on the wall at each request."""
    return [datetime.fromtimestamp(start + request.start, zone).hour for request in result.log]


@pytest.mark.parametrize(
    ("begins", "nights"),
    [("2026-03-28T12:00", [8, 7, 8]), ("2026-10-24T12:00", [8, 9, 8])],
    ids=["to-summer-time", "to-winter-time"],
)
def test_a_crawl_keeps_to_its_window_over_a_change_of_the_clocks(tmp_path, store, begins, nights):
    """A request every ten minutes: 6 an hour, and the night of the change is an hour shorter or longer."""
    start, per_hour = at(begins), 6
    clock = VirtualClock(start)
    result = crawl(
        tmp_path, [f"{A}/"], site(A, 120), store=store, clock=clock,
        politeness__window=NIGHTS, politeness__delay="599.75s",
    )  # fmt: skip
    assert result.stop is Stop.DONE
    assert len(result.pages) == 121
    assert {hour for hour in walls(result, start=start) if 6 <= hour < 22} == set()
    days = {}
    for request in result.log:
        evening = datetime.fromtimestamp(start + request.start - 12 * HOUR, UTC).date()
        days[evening] = days.get(evening, 0) + 1
    # The night of the change is the first one: its length is seen in the number of requests.
    lengths = [round(count / per_hour) for count in list(days.values())[:2]]
    assert lengths == [nights[1], nights[0]]


def test_nothing_is_asked_of_a_closed_crawl_not_even_robots_txt(tmp_path, store):
    result = crawl(tmp_path, [f"{A}/"], site(A, 3), store=store, politeness__window="12:00-13:00 UTC")
    assert result.log[0].url == f"{A}/robots.txt"
    assert result.log[0].start == pytest.approx(12 * HOUR)
    assert result.stop is Stop.DONE


def test_a_request_in_flight_when_the_window_closes_may_end(tmp_path, store):
    pages = {f"{A}/": html("/1", takes=2 * HOUR), f"{A}/1": html()}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__window="00:00-01:00 UTC")
    first, last = result.times(f"{A}/")[0], result.times(f"{A}/1")[0]
    assert first < HOUR
    assert last == pytest.approx(DAY)
    assert len(result.log) == 3


def test_visit_time_of_a_robots_txt_is_kept_in_utc(tmp_path, store):
    """Its robots.txt says when; before it was read, nobody could know. Other hosts do not wait."""
    pages = site(A, 3) | site(B, 3)
    pages[f"{A}/robots.txt"] = Answer(body="User-agent: *\nVisit-time: 2200-0600\n")
    start = at("2026-07-10T12:00")
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store, clock=VirtualClock(start))
    assert result.stop is Stop.DONE
    assert len(result.pages) == 8
    assert [request.url for request in result.requests("a.test") if request.start < 10 * HOUR] == [
        f"{A}/robots.txt"
    ]
    assert result.times(f"{A}/")[0] == pytest.approx(10 * HOUR, abs=1)
    assert max(request.end for request in result.requests("b.test")) < HOUR
    assert result.hosts["a.test"].errors == 0


def test_an_expired_robots_txt_is_read_again_when_its_visit_time_comes(tmp_path, store):
    pages = site(A, 3)
    pages[f"{A}/robots.txt"] = Answer(body="User-agent: *\nVisit-time: 2200-2201\nCrawl-delay: 50\n")
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    times = result.times(f"{A}/robots.txt")
    assert len(result.pages) == 4
    assert len(times) >= 2
    assert all(request.start % DAY - 22 * HOUR < 120 for request in result.log[1:])


def test_a_window_that_was_changed_holds_from_the_next_run_on(tmp_path):
    """What waited for the old window does not wait for it any longer."""

    def stop_soon(made):
        asyncio.get_running_loop().call_later(HOUR, made.local_shards.stop, Stop.INTERRUPTED)

    pages = site(A, 3)
    pages[f"{A}/robots.txt"] = Answer(body="User-agent: *\n")
    first = crawl(tmp_path, [f"{A}/"], pages, meanwhile=stop_soon, politeness__window="12:00-13:00 UTC")
    assert first.stop is Stop.INTERRUPTED
    assert first.log == []
    again = crawl(
        tmp_path, [], pages, clock=VirtualClock(EPOCH + 2 * HOUR), politeness__window="02:00-03:00 UTC"
    )
    assert again.stop is Stop.DONE
    assert max(request.end for request in again.log) < HOUR
    assert {record.state for record in again.records.values()} == {State.CRAWLED}


# ------------------------------------------------------------------------------------------------ sites and groups


def test_a_site_has_a_window_of_its_own(tmp_path, store):
    """Only its host waits, its robots.txt too; it has a window although the others have none."""
    pages = site(A, 3) | site(B, 3)
    sites = [{"match": "a.test", "politeness.window": "12:00-14:00 Europe/Berlin"}]
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store, site=sites)
    assert result.stop is Stop.DONE
    assert len(result.pages) == 8
    assert result.requests("a.test")[0].start == pytest.approx(11 * HOUR)
    assert max(request.end for request in result.requests("b.test")) < HOUR


def test_the_window_of_a_site_replaces_that_of_the_crawl(tmp_path, store):
    pages = site(A, 3) | site(B, 3)
    sites = [{"match": "a.test", "politeness.window": "00:00-24:00 UTC"}]
    result = crawl(
        tmp_path, [f"{A}/", f"{B}/"], pages, store=store, site=sites, politeness__window="12:00-14:00 UTC"
    )
    assert max(request.end for request in result.requests("a.test")) < HOUR
    assert result.requests("b.test")[0].start == pytest.approx(12 * HOUR)


def test_a_window_for_some_pages_of_a_host_holds_no_others(tmp_path, store):
    pages = {f"{A}/": html("/docs/1", "/docs/2", "/1", "/2")} | {
        f"{A}{path}": html() for path in ("/docs/1", "/docs/2", "/1", "/2")
    }
    sites = [{"match": "a.test/docs/*", "politeness.window": "12:00-14:00 UTC"}]
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, site=sites)
    late = {request.url for request in result.log if request.start >= 12 * HOUR}
    assert late == {f"{A}/docs/1", f"{A}/docs/2"}
    assert max(request.end for request in result.log if request.url not in late) < HOUR
    assert len(result.pages) == 5


def test_a_group_has_a_window(tmp_path, store):
    """Besides that of a site: both have to be open."""
    hosts = [f"http://{name}.cdn.test" for name in "abc"]
    pages = {url: answer for host in [*hosts, B] for url, answer in site(host, 2).items()}
    result = crawl(
        tmp_path, [f"{host}/" for host in [*hosts, B]], pages, store=store,
        group={"cdn": {"hosts": ["*.cdn.test"], "window": "10:00-14:00 UTC"}},
        site=[{"match": "a.cdn.test", "politeness.window": "12:00-20:00 UTC"}],
    )  # fmt: skip
    assert len(result.pages) == 12
    assert result.requests("a.cdn.test")[0].start == pytest.approx(12 * HOUR)
    assert result.requests("b.cdn.test")[0].start == pytest.approx(10 * HOUR)
    assert result.requests("c.cdn.test")[0].start == pytest.approx(10 * HOUR)
    assert max(request.end for request in result.requests("b.test")) < HOUR


@pytest.mark.parametrize("match", ["a.test", "a.test/docs/*"])
def test_what_waits_for_the_window_of_a_site_goes_on_when_it_is_changed(tmp_path, match):
    def stop_soon(made):
        asyncio.get_running_loop().call_later(HOUR, made.local_shards.stop, Stop.INTERRUPTED)

    pages = {f"{A}/": html("/docs/1", "/docs/2")} | {f"{A}/docs/{number}": html() for number in (1, 2)}
    sites = [{"match": match, "politeness.window": "12:00-13:00 UTC"}]
    first = crawl(tmp_path, [f"{A}/"], pages, meanwhile=stop_soon, site=sites)
    assert first.stop is Stop.INTERRUPTED
    again = crawl(tmp_path, [], pages, clock=VirtualClock(EPOCH + 2 * HOUR))
    assert again.stop is Stop.DONE
    assert max(request.end for request in again.log) < HOUR
    assert {record.state for record in again.records.values()} == {State.CRAWLED}


# ------------------------------------------------------------------------------------------------ windows that never meet


def test_pages_whose_visit_time_never_meets_the_window_of_the_crawl_are_refused_and_the_crawl_ends(
    tmp_path, store
):
    """Other hosts are crawled. If the window is changed, what was refused comes back."""
    pages = site(A, 3) | site(B, 3)
    pages[f"{A}/robots.txt"] = Answer(body="User-agent: *\nVisit-time: 2200-0600\n")
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store, politeness__window="12:00-18:00 UTC")
    assert result.stop is Stop.DONE
    assert [request.url for request in result.requests("a.test")] == [f"{A}/robots.txt"]
    assert len(result.pages) == 4
    (refused,) = [record for record in result.records.values() if record.state is State.REFUSED]
    assert refused.reason.code == reasons.WINDOW_NEVER
    assert "12:00-18:00 UTC (politeness.window), 22:00-06:00 UTC (Visit-time" in refused.reason.detail
    if store is MEMORY:
        return
    clock = VirtualClock(EPOCH + 2 * DAY)
    again = crawl(tmp_path, [], pages, store=store, clock=clock, politeness__window="20:00-23:00 UTC")
    assert again.stop is Stop.DONE
    assert {record.state for record in again.records.values()} == {State.CRAWLED}
    assert walls(again, UTC, EPOCH + 2 * DAY)[-4:] == [22] * 4


def test_pages_of_a_site_and_a_group_whose_windows_never_meet_are_refused_without_any_request(
    tmp_path, store
):
    pages = site(A, 3) | site(B, 3)
    result = crawl(
        tmp_path, [f"{A}/", f"{B}/"], pages, store=store,
        group={"g": {"hosts": ["a.test"], "window": "Sat 10:00-14:00 Europe/Berlin"}},
        site=[{"match": "a.test", "politeness.window": "Mon-Fri 00:00-24:00 Europe/Berlin"}],
    )  # fmt: skip
    assert result.stop is Stop.DONE
    assert result.requests("a.test") == []
    assert len(result.pages) == 4
    refused = [record.reason.code for record in result.records.values() if record.state is State.REFUSED]
    assert refused == [reasons.WINDOW_NEVER]


def test_a_visit_time_that_changes_brings_back_what_never_had_a_time(tmp_path, store):
    early, longer = (
        Answer(body=f"User-agent: *\nVisit-time: {hours}\n") for hours in ("0000-0600", "0000-1400")
    )
    paths = ["/late/1", "/late/2", *(f"/{number}" for number in range(30))]
    pages = {f"{A}/": html(*paths)} | {f"{A}{path}": html() for path in paths}
    pages[f"{A}/robots.txt"] = lambda asked: early if asked.number == 1 else longer
    result = crawl(
        tmp_path, [f"{A}/"], pages, store=store, robots__cache="1h", politeness__delay="5m",
        site=[{"match": "a.test/late/*", "politeness.window": "12:00-13:00 UTC"}],
    )  # fmt: skip
    assert result.stop is Stop.DONE
    assert len(result.pages) == 33
    late = [request.start for request in result.log if "/late/" in request.url]
    assert [int(start // HOUR) for start in late] == [12, 12]
