"""One visit, end to end: what it returns for each kind of outcome, and that it writes nothing."""

import asyncio
from itertools import count
from types import SimpleNamespace

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace

from skitter import urls
from skitter.crawl import completing
from skitter.crawl.completing import complete, header
from skitter.frontier.names import hash16
from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    Link,
    NotModified,
    NotNow,
    Purpose,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
    Spent,
    State,
    Visit,
)
from skitter.testing.clock import EPOCH, VirtualClock, run_virtual
from skitter.testing.reference import MemoryRows, memory_frontier
from skitter.visit import exchange_of, make, status_of
from tests.crawl.virtual import Answer, VirtualCrawl, html, moved, settings_with, web

A, B = "http://a.test", "http://b.test"
TEXT = "<!doctype html><title>T</title><p>" + "word " * 50
_numbers = count()


class InMemory:
    """What is in hand."""

    def __init__(self) -> None:
        self.held = bytearray(16)

    def open(self) -> bytearray:
        return self.held

    def close(self) -> None:
        pass


class Ground:
    """Stations around a script; robots.txt of A has been read, unless told otherwise."""

    def __init__(self, path, pages, robots=b"User-agent: *\nDisallow: /private\n", **overrides):
        self.clock = VirtualClock()
        self.rows, self.hand = MemoryRows(), InMemory()
        settings = settings_with(**overrides)
        self.frontier = memory_frontier(self.rows, settings, in_hand=self.hand)
        self.made = VirtualCrawl(path / str(next(_numbers)), web(pages), settings, self.frontier, self.clock)
        self.at = self.made.stations
        if robots is not None:
            copy = RobotsCopy(origin=A, status=200, body=robots, expires=EPOCH + 86400, fetched_at=EPOCH)
            self.read_robots(copy)
        asyncio.run(self.frontier.open(EPOCH))

    def read_robots(self, copy):
        self.rows.robots[copy.origin] = encode(copy)

    def make(self, url, **fields):
        """Make one visit, as if it had been leased now."""
        return self.visit(Link(url=url, key=urls.key(url), host=urls.host(url), **fields))

    def visit(self, link, **fields):
        leased = Visit(link, **{"attempt": 1, "leased_at": self.clock.now()} | fields)
        return run_virtual(self._made(leased), self.clock)

    async def _made(self, leased):
        """A visit and its last stations, as a group of one."""
        settlements, packs = await complete([await make(leased, self.at)], self.at)
        return SimpleNamespace(settlement=settlements[0], packed=packs[0])

    def robots(self, url=f"{A}/robots.txt", origin=A, **fields):
        return self.make(url, purpose=Purpose.ROBOTS, origin=origin, **fields)


# ------------------------------------------------------------------------------------------------ pages


def test_a_page_comes_back_with_its_links_and_its_archive_records_and_nothing_is_written(tmp_path):
    body = TEXT + '<a href="/x">x</a><a href="/y" rel="nofollow">y</a>'
    ground = Ground(
        tmp_path, {f"{A}/": Answer(body=body, headers={"ETag": '"1"', "Last-Modified": "yesterday"})}
    )
    finished = ground.make(f"{A}/", depth=2, parent=f"{A}/from", requested=f"{A}/asked", meta={"n": 1})
    page, settlement = finished.settlement.page, finished.settlement
    assert (page.url, page.requested_url, page.host, page.domain) == (
        f"{A}/",
        f"{A}/asked",
        "a.test",
        "a.test",
    )
    assert (page.status, page.depth, page.parent, page.title, page.meta) == (
        200,
        2,
        f"{A}/from",
        "T",
        {"n": 1},
    )
    assert (page.content_type, page.charset, page.size) == ("text/html", "utf-8", len(body))
    assert (page.etag, page.last_modified, page.links_count) == ('"1"', "yesterday", 2)
    assert page.digest.startswith("sha1:")
    assert page.fetched_at == EPOCH
    assert [link.url for link in settlement.links] == [f"{A}/x"]
    assert [(link.url, reason.code) for link, reason in settlement.refused] == [(f"{A}/y", "nofollow")]
    assert settlement.verdict.state is State.CRAWLED
    assert settlement.verdict.host_free == EPOCH + 0.25 + 1.0
    assert finished.packed.records
    assert ground.rows.urls == {}
    assert ground.at.archive.mark().file == ""


def test_links_on_error_pages_are_not_followed(tmp_path):
    ground = Ground(tmp_path, {f"{A}/gone": Answer(404, TEXT + '<a href="/x">x</a>')})
    finished = ground.make(f"{A}/gone")
    assert finished.settlement.page.status == 404
    assert finished.settlement.links == []
    assert finished.settlement.page.links_count == 0
    assert finished.packed is not None


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_unwilling_server_gives_no_page_and_no_record(tmp_path, status):
    finished = Ground(tmp_path, {f"{A}/": Answer(status, "sorry")}).make(f"{A}/")
    assert finished.settlement.verdict.state is State.QUEUED
    assert finished.settlement.page is None
    assert finished.packed is None
    assert finished.settlement.exchange is not None
    assert finished.settlement.status == status


def test_disallowed_urls_are_refused_without_a_request(tmp_path):
    ground = Ground(tmp_path, {})
    finished = ground.make(f"{A}/private/x")
    assert ground.made.fetcher.log == []
    assert finished.settlement.verdict.state is State.REFUSED
    assert finished.settlement.verdict.reason == Reason("robots", "robots.txt line 2: Disallow: /private")
    assert finished.settlement.verdict.host_free is None
    assert finished.settlement.exchange is None


def test_what_a_budget_does_not_allow_is_not_sent(tmp_path):
    link = Link(url=f"{A}/", key=f"{A}/", host="a.test")
    ground = Ground(tmp_path, {f"{A}/": html()})
    refused = ground.visit(link, spent=Spent(Reason("budget.host", "enough"))).settlement
    assert (refused.verdict.state, refused.verdict.reason.code) == (State.REFUSED, "budget.host")
    later = ground.visit(link, spent=Spent(Reason("budget.day", "enough"), 7.0)).settlement
    assert (later.verdict.state, later.verdict.due, later.verdict.host_held) == (State.QUEUED, 7.0, 7.0)
    assert not later.verdict.attempted
    assert ground.made.fetcher.log == []


def test_a_failure_without_an_exchange_leaves_the_hosts_clock_alone(tmp_path):
    finished = Ground(tmp_path, {f"{A}/": Answer(fault=Fault.DNS)}).make(f"{A}/")
    assert finished.settlement.verdict.host_free is None
    assert finished.settlement.exchange is None
    assert finished.settlement.status == 0


def test_the_same_bytes_again_are_a_duplicate_and_are_not_stored_twice(tmp_path):
    ground = Ground(tmp_path, {f"{A}/1": Answer(body=TEXT), f"{A}/2": Answer(body=TEXT)})
    first, second = ground.make(f"{A}/1"), ground.make(f"{A}/2")
    assert (first.settlement.page.duplicate_of, first.settlement.page.identical) == ("", False)
    assert (second.settlement.page.duplicate_of, second.settlement.page.identical) == (f"{A}/1", True)
    whole, revisit = (made.packed.records[made.packed.main] for made in (first, second))
    assert TEXT.encode() in whole
    assert TEXT.encode() not in revisit
    assert b"WARC-Type: revisit" in revisit


def test_a_near_duplicate_names_its_twin_and_is_stored_in_full(tmp_path):
    pages = {f"{A}/1": Answer(body=TEXT), f"{A}/2": Answer(body=TEXT + "<!-- another -->")}
    ground = Ground(tmp_path, pages, dedup__near=True)
    ground.make(f"{A}/1")
    page = ground.make(f"{A}/2").settlement.page
    assert (page.duplicate_of, page.identical) == (f"{A}/1", False)


def test_duplicates_inside_one_group_are_found_too(tmp_path):
    ground = Ground(tmp_path, {f"{A}/{number}": Answer(body=TEXT) for number in (1, 2, 3)})

    async def main():
        links = [Link(url=f"{A}/{n}", key=f"{A}/{n}", host="a.test") for n in (1, 2, 3)]
        visits = [Visit(link, attempt=1, leased_at=ground.clock.now()) for link in links]
        group = [await make(visit, ground.at) for visit in visits]
        return await complete(group, ground.at)

    settlements, packs = run_virtual(main(), ground.clock)
    assert [settlement.page.duplicate_of for settlement in settlements] == ["", f"{A}/1", f"{A}/1"]
    assert [b"WARC-Type: revisit" in packed.records[packed.main] for packed in packs] == [False, True, True]


def test_error_pages_are_never_duplicates(tmp_path):
    ground = Ground(tmp_path, {f"{A}/1": Answer(404, TEXT), f"{A}/2": Answer(404, TEXT)})
    ground.make(f"{A}/1")
    assert ground.make(f"{A}/2").settlement.page.duplicate_of == ""


def test_while_a_body_is_parsed_its_visit_is_in_hand_and_no_longer(tmp_path, monkeypatch):
    ground, in_hand = Ground(tmp_path, {f"{A}/": html()}), []

    def breaking(*_arguments):
        in_hand.append(bytes(ground.hand.held))
        raise ValueError("odd page")

    monkeypatch.setattr(completing, "parse", breaking)
    finished = ground.make(f"{A}/")
    assert in_hand == [hash16(f"{A}/".encode())]
    assert ground.hand.held == bytes(16)
    assert finished.settlement.verdict.reason == Reason("parser", "ValueError: odd page")
    assert finished.settlement.verdict.state is State.FAILED
    assert finished.settlement.verdict.host_free == EPOCH + 1.25
    assert finished.settlement.status == 200


# ------------------------------------------------------------------------------------------------ redirects


def test_a_redirect_gives_a_link_and_an_archive_record_but_no_page(tmp_path):
    finished = Ground(tmp_path, {f"{A}/": moved(f"{B}/new", 302)}).make(f"{A}/")
    (hop,) = finished.settlement.links
    assert (hop.url, hop.requested, hop.hops) == (f"{B}/new", f"{A}/", 1)
    assert finished.settlement.page is None
    assert finished.packed is not None
    assert (finished.settlement.status, finished.settlement.again) == (302, None)
    assert finished.settlement.verdict.state is State.CRAWLED


def test_a_redirect_to_its_own_key_is_the_same_record_in_a_new_form(tmp_path):
    finished = Ground(tmp_path, {f"{A}/p": moved("/p?sid=1")}).make(f"{A}/p")
    assert finished.settlement.again.url == f"{A}/p?sid=1"
    assert finished.settlement.again.key == f"{A}/p"
    assert finished.settlement.links == ()
    assert finished.settlement.verdict.state is State.QUEUED
    assert finished.settlement.verdict.due is None


def test_a_redirect_out_of_the_scope_is_recorded_with_the_reason(tmp_path):
    ground = Ground(tmp_path, {f"{A}/": moved(f"{B}/")}, scope__kind="host")
    ground.at.scope.widen(f"{A}/")
    finished = ground.make(f"{A}/")
    assert [(link.url, reason.code) for link, reason in finished.settlement.refused] == [
        (f"{B}/", "scope.host")
    ]
    assert finished.settlement.links == ()


# ------------------------------------------------------------------------------------------------ robots.txt


def test_a_robots_txt_is_judged_archived_and_no_page(tmp_path):
    rules = Answer(body="User-agent: *\nCrawl-delay: 7\n")
    finished = Ground(tmp_path, {f"{A}/robots.txt": rules}, robots=None).robots()
    settlement = finished.settlement
    assert settlement.robots.body == b"User-agent: *\nCrawl-delay: 7\n"
    assert settlement.page is None
    assert finished.packed is not None
    assert settlement.verdict.host_free == EPOCH + 0.25 + 7.0
    assert settlement.verdict.host_delay == 7.0


def test_a_robots_txt_that_fails_is_not_archived_and_holds_its_host(tmp_path):
    ground = Ground(tmp_path, {f"{A}/robots.txt": Answer(fault=Fault.TIMEOUT, takes=30.0)}, robots=None)
    finished = ground.robots()
    assert finished.packed is None
    assert finished.settlement.exchange is not None
    assert finished.settlement.robots.access == "none"
    assert finished.settlement.robots.held == EPOCH + 30 + 60


def test_a_robots_txt_that_moved_is_followed_under_the_name_of_its_origin(tmp_path):
    finished = Ground(tmp_path, {f"{A}/robots.txt": moved(f"{B}/r.txt")}, robots=None).robots()
    hop = finished.settlement.again
    assert (hop.url, hop.host, hop.origin, hop.hops, hop.purpose) == (
        f"{B}/r.txt",
        "b.test",
        A,
        1,
        Purpose.ROBOTS,
    )
    assert finished.settlement.robots is None
    assert finished.settlement.verdict.due > EPOCH


def test_a_hop_obeys_its_own_hosts_delay(tmp_path):
    ground = Ground(tmp_path, {f"{B}/r.txt": Answer(body="User-agent: *\nCrawl-delay: 7\n")}, robots=None)
    copy = RobotsCopy(origin=B, status=200, body=b"User-agent: *\nCrawl-delay: 20\n", expires=EPOCH + 86400)
    ground.read_robots(copy)
    finished = ground.robots(f"{B}/r.txt", origin=A, hops=1)
    assert finished.settlement.verdict.host_free == EPOCH + 0.25 + 20.0


# ------------------------------------------------------------------------------------------------ small questions


EXCHANGE = Exchange("http://a.test/", "192.0.2.1", EPOCH, EPOCH, b"", b"", b"")


@pytest.mark.parametrize(
    ("outcome", "status", "exchange"),
    [
        (Fetched(EXCHANGE, 404, (), b"", b""), 404, EXCHANGE),
        (Redirected(EXCHANGE, 308, (), "", ""), 308, EXCHANGE),
        (NotModified(EXCHANGE, ()), 304, EXCHANGE),
        (Failed(Fault.RESET, "", EXCHANGE), 0, EXCHANGE),
        (Failed(Fault.DNS, "", None), 0, None),
        (Refused(Reason("address")), 0, None),
        (NotNow(Reason("address.busy"), EPOCH), 0, None),
    ],
)
def test_every_outcome_has_a_status_and_its_exchange(outcome, status, exchange):
    assert status_of(outcome) == status
    assert exchange_of(outcome) is exchange


def test_the_first_field_of_a_name_counts():
    assert header([("a", "1"), ("b", "2"), ("b", "3")], "b") == "2"
    assert header([], "b") == ""


# ------------------------------------------------------------------------------------------------ judged again


def judging_again(tmp_path, roots_after=0.0, **overrides):
    ground = Ground(tmp_path, {f"{A}/x": Answer(body=TEXT)}, **overrides)
    ground.at = replace(ground.at, judge_again=True, roots_after=roots_after)
    return ground


def test_a_link_that_is_not_wanted_any_more_is_refused_without_a_request(tmp_path):
    ground = judging_again(tmp_path, roots_after=6.0, scope__exclude=("/x",))
    verdict = ground.make(f"{A}/x", depth=1).settlement.verdict
    assert ground.made.fetcher.log == []
    assert (verdict.state, verdict.reason.code, verdict.attempted) == (State.REFUSED, "scope.exclude", False)
    assert verdict.host_free is None


def test_where_roots_are_heard_of_late_a_link_outside_the_scope_waits_for_them_once(tmp_path):
    ground = judging_again(tmp_path, roots_after=6.0, scope__kind="host")
    first = ground.make(f"{A}/x", depth=1).settlement.verdict
    assert (first.state, first.reason.code, first.attempted) == (State.QUEUED, "scope.wait", False)
    assert first.due == ground.clock.now() + 6.0
    second = ground.make(f"{A}/x", depth=1).settlement.verdict
    assert (second.state, second.reason.code) == (State.REFUSED, "scope.host")

    assert ground.make(f"{A}/x", depth=1).settlement.verdict.state is State.QUEUED
    ground.at.links.widen(f"{A}/")
    assert ground.make(f"{A}/x", depth=1).settlement.verdict.state is State.CRAWLED
    assert [request.url for request in ground.made.fetcher.log] == [f"{A}/x"]


def test_where_every_root_is_known_nothing_waits_for_one(tmp_path):
    verdict = judging_again(tmp_path, scope__kind="host").make(f"{A}/x", depth=1).settlement.verdict
    assert (verdict.state, verdict.reason.code) == (State.REFUSED, "scope.host")
