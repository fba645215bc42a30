"""robots.txt over hours and days: what happens when it fails, expires, moves, or asks for a delay."""

from email.utils import formatdate
from itertools import pairwise

import pytest

from skitter.events import SetAside
from skitter.model import Fault, Purpose, Reason, State, Stop
from skitter.testing.clock import EPOCH
from tests.crawl.virtual import (
    DAY,
    HOUR,
    MEMORY,
    MINUTE,
    ROCKSDB,
    Answer,
    crawl,
    html,
    moved,
    site,
)

A, B = "http://a.test", "http://b.test"
ROBOTS_A, ROBOTS_B = f"{A}/robots.txt", f"{B}/robots.txt"
# The waits between the end of one request for a robots.txt and the next (robots.retry_after).
WAITS = (MINUTE, 10 * MINUTE, HOUR)
EXACT = pytest.approx  # up to the millionth of a second at which timers of a virtual clock are one

TROUBLES = {
    "500": Answer(500),
    "503": Answer(503),
    "599": Answer(599),
    "timeout": Answer(fault=Fault.TIMEOUT, takes=30.0),
    "dns": Answer(fault=Fault.DNS),
    "tls": Answer(fault=Fault.TLS),
    "connect": Answer(fault=Fault.CONNECT),
    "reset": Answer(fault=Fault.RESET),
}


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def waits(result, url):
    """The times from the end of each request for a URL to the start of the next."""
    return gaps([request for request in result.log if request.url == url])


def gaps(requests):
    """The times from the end of each request to the start of the next."""
    return [after.start - before.end for before, after in pairwise(requests)]


def crawl_delay(seconds, rest=""):
    return Answer(body=f"User-agent: *\nCrawl-delay: {seconds}\n{rest}")


# ------------------------------------------------------------------------------------------------ unreachable


@pytest.mark.parametrize(
    ("trouble", "store"), [*((trouble, MEMORY) for trouble in TROUBLES), ("503", ROCKSDB), ("dns", ROCKSDB)]
)
def test_while_robots_txt_fails_nothing_is_fetched_and_the_host_is_given_up_after_four_tries(
    tmp_path, trouble, store
):
    pages = site(A, 2) | site(B, 3) | {ROBOTS_A: TROUBLES[trouble]}
    result = crawl(tmp_path, [f"{A}/", f"{A}/1", f"{B}/"], pages, store=store)
    assert {request.url for request in result.requests("a.test")} == {ROBOTS_A}
    assert waits(result, ROBOTS_A) == EXACT(list(WAITS), abs=0.01)
    assert result.stop is Stop.DONE
    assert result.took == EXACT(sum(WAITS) + 4 * TROUBLES[trouble].takes, abs=0.1)
    for url in (f"{A}/", f"{A}/1"):
        assert result.records[url].state is State.REFUSED
        assert result.records[url].reason.code == "robots.unreachable"
        assert "4 tries" in result.records[url].reason.detail
    assert result.hosts["a.test"].aside.code == "robots.unreachable"
    told = [event for event in result.events if isinstance(event, SetAside)]
    assert [(event.what, event.reason.code) for event in told] == [(A, "robots.unreachable")]


def test_a_healthy_host_is_crawled_at_its_own_pace_meanwhile(tmp_path, store):
    pages = site(B, 20) | {ROBOTS_A: Answer(503)}
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    assert len(result.pages) == 21
    assert max(request.end for request in result.requests("b.test")) < 22 * 1.25


def test_a_host_that_recovers_is_crawled(tmp_path, store):
    pages = site(A, 2)
    pages[ROBOTS_A] = lambda asked: Answer(503) if asked.number < 3 else Answer(404)
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert waits(result, ROBOTS_A) == EXACT(list(WAITS[:2]), abs=0.01)
    assert {page.url for page in result.pages} == {f"{A}/", f"{A}/1", f"{A}/2"}
    assert result.hosts["a.test"].aside is None


def test_links_found_after_a_host_was_given_up_are_refused_with_its_reason(tmp_path, store):
    late = {f"{B}/": html("/slow"), f"{B}/slow": html(f"{A}/late", takes=2 * HOUR)}
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], late | {ROBOTS_A: Answer(503)}, store=store)
    assert result.records[f"{A}/late"].state is State.REFUSED
    assert result.records[f"{A}/late"].reason.code == "robots.unreachable"
    assert result.counts.refused == {"robots.unreachable": 2}


def crawl_with_a_stray_link(path, store):
    """A site that is served by http alone has a link to https."""
    pages = {f"{A}/{number}": html(f"/{number + 1}") for number in range(30)} | {f"{A}/30": html()}
    pages |= {f"{A}/": html("https://a.test/stray", "/0"), "https://a.test/robots.txt": TROUBLES["connect"]}
    return crawl(path, [f"{A}/"], pages, store=store)


def test_an_origin_that_fails_costs_its_own_pages_only(tmp_path, store):
    result = crawl_with_a_stray_link(tmp_path, store)
    assert result.records["https://a.test/stray"].state is State.REFUSED
    assert result.records["https://a.test/stray"].reason.code == "robots.unreachable"
    assert waits(result, "https://a.test/robots.txt") == EXACT(list(WAITS), abs=0.01)
    assert len(result.pages) == 32
    assert result.hosts["a.test"].aside is None


def test_an_origin_to_which_nothing_is_sent_is_refused_at_once_and_costs_its_own_pages_only(tmp_path, store):
    pages = site(A, 3) | {
        f"{A}:25/robots.txt": Answer(refusal=Reason("port", "port 25 does not serve the web"))
    }
    result = crawl(tmp_path, [f"{A}:25/", f"{A}/"], pages, store=store)
    assert result.records[f"{A}:25/"].reason.code == "robots.unreachable"
    assert len(result.pages) == 4
    assert result.took < 10


def test_a_host_at_an_address_that_we_may_not_visit_is_given_up_at_once(tmp_path, store):
    pages = {ROBOTS_A: Answer(refusal=Reason("address", "10.0.0.1 is not public"))}
    result = crawl(tmp_path, [f"{A}/", f"{A}/2"], pages, store=store)
    assert (result.log, result.took) == ([], 0.0)
    assert "10.0.0.1" in result.records[f"{A}/2"].reason.detail


def test_an_origin_that_fails_does_not_hold_up_the_others_of_its_host(tmp_path, store):
    result = crawl_with_a_stray_link(tmp_path, store)
    assert max(request.end for request in result.log if request.purpose is Purpose.PAGE) < 2 * MINUTE


def test_a_name_that_does_not_exist_is_not_asked_for_twice(tmp_path, store):
    result = crawl(tmp_path, [f"{A}/"], {ROBOTS_A: Answer(fault=Fault.NXDOMAIN)}, store=store)
    assert len(result.log) == 1
    assert result.records[f"{A}/"].reason.code == "robots.unreachable"
    assert result.stop is Stop.DONE


# ------------------------------------------------------------------------------------------------ expiry


SLOW = 1800.0  # a host that asks for this much is good for 48 requests a day


def test_a_copy_is_relied_on_for_a_day_and_asked_for_again_before_the_next_page(tmp_path, store):
    pages = site(A, 110) | {ROBOTS_A: crawl_delay(SLOW)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__max_crawl_delay="1h")
    asked = result.times(ROBOTS_A)
    assert len(asked) == 3
    for before, after in pairwise(asked):
        assert DAY <= after - before < DAY + SLOW + 1
    assert len(result.pages) == 111
    assert min(gaps(result.log)) >= SLOW - 1e-6


def test_copies_expire_up_to_a_tenth_sooner_by_chance_and_never_later(tmp_path):
    pages = site(A, 110) | {ROBOTS_A: crawl_delay(SLOW)}
    result = crawl(tmp_path, [f"{A}/"], pages, politeness__max_crawl_delay="1h", robots__jitter=0.1)
    kept = [after - before for before, after in pairwise(result.times(ROBOTS_A))]
    assert len(kept) == 2
    assert all(0.9 * DAY <= time < DAY + SLOW + 1 for time in kept)


def test_new_rules_are_in_force_from_the_moment_they_are_read(tmp_path, store):
    pages = site(A, 39)
    pages[ROBOTS_A] = lambda asked: crawl_delay(300, "Disallow: /3\n" if asked.number > 1 else "")
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, robots__cache="1h")
    changed = result.times(ROBOTS_A)[1]
    before = {request.url for request in result.log if request.start < changed}
    assert f"{A}/3" in before
    assert not any(url.startswith(f"{A}/3") for url in result.records if result.times(url)[:1] > [changed])
    refused = {url: record for url, record in result.records.items() if record.state is State.REFUSED}
    assert set(refused) == {f"{A}/{number}" for number in range(30, 40)}
    assert {record.reason.detail for record in refused.values()} == {"robots.txt line 3: Disallow: /3"}
    assert len(result.pages) == 30


@pytest.mark.parametrize("trouble", ["503", "timeout", "dns"])
def test_the_old_rules_stay_in_force_while_the_host_fails_to_renew_them(tmp_path, store, trouble):
    hrefs = [*(f"/{number}" for number in range(40)), "/secret"]
    pages = {f"{A}{href}": html() for href in hrefs} | {f"{A}/": html(*hrefs)}
    pages[ROBOTS_A] = lambda asked: (
        crawl_delay(300, "Disallow: /secret\n") if asked.number == 1 else TROUBLES[trouble]
    )
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, robots__cache="1h")
    assert len(result.pages) == 41
    assert result.records[f"{A}/secret"].reason.code == "robots"
    assert result.hosts["a.test"].aside is None
    # Asked for again after 1, 10 and then every 60 minutes, each time when the next page is due.
    between = waits(result, ROBOTS_A)
    assert len(between) > 4
    for wait, least in zip(between, (HOUR, *WAITS, *[HOUR] * len(between)), strict=False):
        assert least - 1 <= wait < least + 602
    in_between = [request for request in result.log if request.purpose is Purpose.PAGE]
    assert min(gaps(in_between)) >= 300 - 1e-6


# ------------------------------------------------------------------------------------------------ Retry-After


def test_429_with_retry_after_delays_the_whole_host_and_then_it_is_crawled(tmp_path, store):
    pages = site(A, 3)
    pages[ROBOTS_A] = lambda asked: (
        Answer(429, headers={"Retry-After": "7200"}) if asked.number == 1 else Answer(404)
    )
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.log[1].url == ROBOTS_A
    assert gaps(result.log)[0] == EXACT(2 * HOUR, abs=0.01)
    assert len(result.pages) == 4


@pytest.mark.parametrize(
    ("status", "asked_for"), [(429, "7200"), (429, formatdate(EPOCH + 3 * HOUR, usegmt=True)), (503, "7200")]
)
def test_retry_after_at_renewal_stops_the_pages_too_though_there_are_old_rules(
    tmp_path, store, status, asked_for
):
    pages = site(A, 20)
    pages[ROBOTS_A] = lambda asked: (
        Answer(status, headers={"Retry-After": asked_for}) if asked.number == 2 else crawl_delay(300)
    )
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, robots__cache="1h")
    at = next(index for index, request in enumerate(result.log) if request.status == status)
    held_until = result.log[at].end + 2 * HOUR if asked_for == "7200" else 3 * HOUR
    assert result.log[at + 1].url == ROBOTS_A
    assert result.log[at + 1].start == EXACT(held_until, abs=0.01)
    assert len(result.pages) == 21


def test_429_at_renewal_without_a_time_stops_the_pages_for_a_minute(tmp_path, store):
    pages = site(A, 60)
    pages[ROBOTS_A] = lambda asked: Answer(429) if asked.number == 2 else crawl_delay(1)
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, robots__cache="30s")
    at = next(index for index, request in enumerate(result.log) if request.status == 429)
    assert result.log[at + 1].url == ROBOTS_A
    assert gaps(result.log)[at] == EXACT(MINUTE, abs=0.01)
    assert len(result.pages) == 61


def test_retry_after_of_a_host_to_which_a_robots_txt_moved_holds_that_host(tmp_path, store):
    pages = site(B, 20) | {ROBOTS_A: moved(f"{B}/rules.txt"), f"{A}/": html()}
    pages[f"{B}/rules.txt"] = lambda asked: (
        Answer(503, headers={"Retry-After": "1800"}) if asked.number == 1 else Answer(404)
    )
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    on_b = result.requests("b.test")
    at = next(index for index, request in enumerate(on_b) if request.status == 503)
    assert on_b[at + 1].start - on_b[at].end == EXACT(1800, abs=0.01)
    assert len(result.pages) == 22


def test_a_retry_after_beside_a_good_answer_means_nothing(tmp_path, store):
    pages = site(A, 1) | {ROBOTS_A: Answer(404, headers={"Retry-After": str(30 * int(DAY))})}
    assert len(crawl(tmp_path, [f"{A}/"], pages, store=store).pages) == 2


def test_retry_after_beyond_a_day_for_robots_txt_sets_the_host_aside(tmp_path, store):
    pages = {ROBOTS_A: Answer(429, headers={"Retry-After": str(int(DAY) + 1)})}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert len(result.log) == 1
    assert result.records[f"{A}/"].reason.code == "retry-after"


# ------------------------------------------------------------------------------------------------ redirects


def test_a_robots_txt_that_moved_on_its_host_is_read_where_it_is_a_delay_later(tmp_path, store):
    pages = site(A, 2) | {
        ROBOTS_A: moved("/rules/robots.txt"),
        f"{A}/rules/robots.txt": Answer(body="User-agent: *\nDisallow: /2\n"),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [request.url for request in result.log] == [ROBOTS_A, f"{A}/rules/robots.txt", f"{A}/", f"{A}/1"]
    assert min(gaps(result.log)) >= 1 - 1e-6
    assert result.records[f"{A}/2"].reason.code == "robots"
    assert f"{A}/rules/robots.txt" not in result.records


def test_a_robots_txt_on_another_host_meets_the_clocks_of_both(tmp_path, store):
    """B asks for 20 seconds; reading A's rules there is a request to B like any other."""
    pages = site(A, 30) | site(B, 10) | {
        ROBOTS_A: moved(f"{B}/rules-of-a.txt"),
        ROBOTS_B: crawl_delay(20),
        f"{B}/rules-of-a.txt": Answer(body="User-agent: *\nDisallow: /20\nCrawl-delay: 7\n", takes=3.0),
    }  # fmt: skip
    result = crawl(tmp_path, [f"{B}/", f"{A}/"], pages, store=store, robots__cache="60s")
    on_b = result.requests("b.test")
    assert sum(request.url.endswith("rules-of-a.txt") for request in on_b) > 1
    first = next(index for index, request in enumerate(on_b) if request.url == ROBOTS_B)
    assert min(gaps(on_b[first:])) >= 20 - 1e-6
    on_a = [request for request in result.requests("a.test") if request.purpose is Purpose.PAGE]
    assert len(on_a) == 30
    assert f"{A}/20" not in {request.url for request in on_a}
    assert min(gaps(on_a)) >= 7 - 1e-6
    assert min(gaps(result.requests("a.test"))) >= 1 - 1e-6


def test_a_crawl_delay_holds_while_the_robots_txt_that_asked_for_it_is_renewed_by_way_of_a_redirect(
    tmp_path, store
):
    pages = site(A, 12)
    pages[ROBOTS_A] = lambda asked: crawl_delay(20) if asked.number == 1 else moved("/new.txt")
    pages[f"{A}/new.txt"] = crawl_delay(20)
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, robots__cache="100s")
    assert f"{A}/new.txt" in {request.url for request in result.log}
    assert min(gaps(result.log)) >= 20 - 1e-6


@pytest.mark.parametrize("hops", [1, 5, 10])
def test_five_redirects_and_more_are_followed(tmp_path, store, hops):
    pages = site(A, 1)
    names = ["/robots.txt", *(f"/hop{n}.txt" for n in range(1, hops + 1))]
    for name, target in pairwise(names):
        pages[A + name] = moved(target)
    pages[A + names[-1]] = Answer(body="User-agent: *\nDisallow: /1\n")
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [page.url for page in result.pages] == [f"{A}/"]
    assert result.records[f"{A}/1"].reason.code == "robots"


@pytest.mark.parametrize(
    "ring", [(ROBOTS_A, ROBOTS_A), (ROBOTS_A, f"{A}/x", ROBOTS_A), (ROBOTS_A, ROBOTS_B, ROBOTS_A)]
)
def test_endless_redirects_mean_there_is_no_robots_txt(tmp_path, store, ring):
    pages = site(A, 2) | {url: moved(target) for url, target in pairwise(ring)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    robots = [request for request in result.log if request.purpose is Purpose.ROBOTS]
    assert len(robots) == 11
    assert {page.url for page in result.pages} == {f"{A}/", f"{A}/1", f"{A}/2"}
    for requests in result.by_host().values():
        assert min(gaps(requests), default=1.0) >= 1 - 1e-6


def test_a_delay_at_the_host_of_a_moved_robots_txt_also_delays_the_first_host(tmp_path, store):
    pages = site(A, 1) | {
        ROBOTS_A: Answer(301, headers={"Location": f"{B}/rules.txt"}, takes=10.0),
        f"{B}/rules.txt": Answer(body="User-agent: *\nDisallow: /1\n"),
        f"{B}/": lambda asked: Answer(503, headers={"Retry-After": "7200"}) if asked.number == 1 else html(),
    }
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    held = [request for request in result.log if request.start < 2 * HOUR]
    assert [request.url for request in held if request.host == "b.test"] == [ROBOTS_B, f"{B}/"]
    assert [request.url for request in held if request.host == "a.test"] == [ROBOTS_A]
    assert {page.url for page in result.pages} == {f"{A}/", f"{B}/"}
