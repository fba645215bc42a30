"""Budgets of hosts and domains: never passed, said when they stop something, and what they stopped goes on."""

import asyncio
from collections import Counter

import pytest

from skitter.cli import main
from skitter.model import Purpose, State, Stop
from skitter.testing.clock import EPOCH, VirtualClock
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl as served
from tests.crawl.harness import crawl_with, settings_for
from tests.crawl.virtual import DAY, HOUR, MEMORY, ROCKSDB, Answer, crawl, html, site

A, B = "http://a.test", "http://b.test"
TEN = [f"http://h{number}.many.test" for number in range(10)]


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def ten(pages):
    """Ten hosts of one domain, and one of another."""
    return {url: answer for host in [*TEN, B] for url, answer in site(host, pages).items()}


def starts():
    return [f"{host}/" for host in [*TEN, B]]


def stored(result):
    return Counter(page.domain for page in result.pages if page.status == 200)


def codes(result):
    return Counter(
        record.reason.code
        for record in result.records.values()
        if record.state is State.REFUSED and record.reason
    )


# ------------------------------------------------------------------------------------------------ pages


def test_a_host_gets_no_more_pages_than_its_budget(tmp_path, store):
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], site(A, 20) | site(B, 4), store=store, budget__host_pages=7)
    assert result.stop is Stop.DONE
    assert Counter(page.host for page in result.pages) == {"a.test": 7, "b.test": 5}
    assert codes(result) == {"budget.host": 14}
    assert "budget.host_pages is 7" in result.records[f"{A}/20"].reason.detail


def test_the_hosts_of_a_domain_share_its_budget_exactly(tmp_path, store):
    """Ten hosts are visited side by side, and the last page is nobody's twice."""
    result = crawl(tmp_path, starts(), ten(9), store=store, budget__domain_pages=42)
    assert stored(result) == {"many.test": 42, "b.test": 10}
    assert codes(result) == {"budget.domain": 100 - 42}


def test_what_was_in_flight_and_is_no_page_uses_nothing_up(tmp_path, store):
    """Half of the URLs are not found: the budget is used up by pages, and by nothing else."""
    pages = ten(9)
    for host in TEN:
        for number in (1, 3, 5, 7, 9):
            pages[f"{host}/{number}"] = Answer(404)
    result = crawl(tmp_path, starts(), pages, store=store, budget__domain_pages=45)
    assert stored(result)["many.test"] == 45
    more = crawl(tmp_path / "more", starts(), pages, store=store, budget__domain_pages=60)
    assert stored(more)["many.test"] == 50
    assert codes(more) == {}


def test_a_raised_budget_goes_on_where_it_stopped(tmp_path):
    first = crawl(tmp_path, starts(), ten(9), budget__domain_pages=30)
    assert stored(first)["many.test"] == 30
    raised = crawl(tmp_path, [], ten(9), clock=VirtualClock(EPOCH + HOUR), budget__domain_pages=42)
    assert stored(raised)["many.test"] == 42
    none = crawl(tmp_path, [], ten(9), clock=VirtualClock(EPOCH + 2 * HOUR))
    assert stored(none) == {"many.test": 100, "b.test": 10}
    assert codes(none) == {}
    urls = [request.url for request in first.log + raised.log + none.log if request.purpose is Purpose.PAGE]
    assert len(urls) == len(set(urls))


def test_a_domain_whose_budget_comes_later_has_used_what_its_hosts_have(tmp_path):
    def stop_soon(made):
        asyncio.get_running_loop().call_later(4.0, made.local_shards.stop, Stop.INTERRUPTED)

    first = crawl(tmp_path, starts(), ten(9), meanwhile=stop_soon)
    had = stored(first)["many.test"]
    assert 10 <= had < 60
    again = crawl(tmp_path, [], ten(9), clock=VirtualClock(EPOCH + HOUR), budget__domain_pages=60)
    assert stored(again)["many.test"] == 60


def test_a_site_has_a_budget_of_its_own(tmp_path, store):
    pages = site(A, 20) | site(B, 20)
    sites = [{"match": "a.test", "budget.host_pages": 3}]
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store, site=sites, budget__host_pages=9)
    assert Counter(page.host for page in result.pages) == {"a.test": 3, "b.test": 9}


# ------------------------------------------------------------------------------------------------ bytes, seconds


def test_bytes_and_seconds_end_a_host(tmp_path, store):
    """Nothing begins once they are used up; the answer that used them up was in flight."""
    heavy = {f"{A}/": html(*(f"/{number}" for number in range(1, 30)))}
    heavy |= {f"{A}/{number}": Answer(body="x" * 10_000) for number in range(1, 30)}
    result = crawl(tmp_path, [f"{A}/"], heavy, store=store, budget__host_bytes="50kB")
    received = result.hosts["a.test"].bytes
    assert 50_000 <= received < 61_000
    assert codes(result) == {"budget.host": 30 - len(result.pages)}
    slow = {f"{A}/": html(*(f"/{number}" for number in range(1, 30)), takes=2.0)}
    slow |= {f"{A}/{number}": html(takes=2.0) for number in range(1, 30)}
    result = crawl(tmp_path / "slow", [f"{A}/"], slow, store=store, budget__host_seconds="20s")
    used = sum(request.end - request.start for request in result.log)
    assert 20 <= used < 22.5
    domain = crawl(tmp_path / "domain", starts(), ten(9), store=store, budget__domain_seconds="10s")
    used = sum(request.end - request.start for request in domain.log if request.host != "b.test")
    assert 10 <= used <= 10 + 10 * 0.25
    assert stored(domain)["b.test"] == 10


def test_no_robots_txt_is_asked_for_when_nothing_may_come_of_it(tmp_path, store):
    pages = {f"{A}/": Answer(body="x" * 10_000)}
    starts = [f"{A}/", "http://a.test:8080/"]
    result = crawl(tmp_path, starts, pages, store=store, budget__host_bytes=5000)
    assert result.stop is Stop.DONE
    assert [request.url for request in result.log] == [f"{A}/robots.txt", f"{A}/"]
    assert result.records["http://a.test:8080/"].reason.code == "budget.host"


# ------------------------------------------------------------------------------------------------ a day


def days(result, host, start=EPOCH):
    return Counter(int((start + request.start) // DAY) for request in result.log if request.host == host)


def test_requests_per_day_are_counted_by_utc_and_the_rest_waits(tmp_path, store):
    """Robots.txt files are requests as well."""
    start = EPOCH + 23.5 * HOUR
    result = crawl(
        tmp_path, [f"{A}/"], site(A, 25), store=store, clock=VirtualClock(start),
        budget__host_requests_per_day=10,
    )  # fmt: skip
    assert result.stop is Stop.DONE
    assert len(result.pages) == 26
    first = int(start // DAY)
    assert days(result, "a.test", start) == {first: 10, first + 1: 10, first + 2: 8}
    assert result.hosts["a.test"].errors == 0


def test_the_hosts_of_a_domain_share_its_requests_of_a_day(tmp_path, store):
    result = crawl(tmp_path, starts(), ten(5), store=store, budget__domain_requests_per_day=33)
    sent = Counter(int((EPOCH + each.start) // DAY) for each in result.log if each.host != "b.test")
    assert len(result.pages) == 66
    assert max(sent.values()) == 33
    assert sum(sent.values()) >= 70


def test_the_next_run_knows_what_was_sent_today(tmp_path):
    def stop_soon(made):
        asyncio.get_running_loop().call_later(5.0, made.local_shards.stop, Stop.INTERRUPTED)

    pages = site(A, 25)
    first = crawl(tmp_path, [f"{A}/"], pages, meanwhile=stop_soon, budget__host_requests_per_day=10)
    again = crawl(tmp_path, [], pages, clock=VirtualClock(EPOCH + HOUR), budget__host_requests_per_day=10)
    today = int(EPOCH // DAY)
    assert days(first, "a.test")[today] + days(again, "a.test", EPOCH + HOUR)[today] == 10
    raised = crawl(
        tmp_path, [], pages, clock=VirtualClock(EPOCH + 2 * DAY), budget__host_requests_per_day=100
    )
    assert raised.stop is Stop.DONE


def test_a_raised_number_of_requests_holds_at_once(tmp_path):
    """What waits for tomorrow does not wait for it any longer."""

    def stop_soon(made):
        asyncio.get_running_loop().call_later(HOUR, made.local_shards.stop, Stop.INTERRUPTED)

    pages = site(A, 25)
    crawl(tmp_path, [f"{A}/"], pages, meanwhile=stop_soon, budget__host_requests_per_day=10)
    again = crawl(tmp_path, [], pages, clock=VirtualClock(EPOCH + 2 * HOUR), budget__host_requests_per_day=20)
    assert days(again, "a.test", EPOCH + 2 * HOUR)[int(EPOCH // DAY)] == 10
    assert again.stop is Stop.DONE


def test_what_a_part_of_a_host_may_not_send_today_does_not_hold_the_rest(tmp_path, store):
    """The others go on at once, and so does that part when its budget is raised."""

    def stop_soon(made):
        asyncio.get_running_loop().call_later(HOUR, made.local_shards.stop, Stop.INTERRUPTED)

    def sites(requests):
        return [{"match": "a.test/docs/*", "budget.host_requests_per_day": requests}]

    names = [f"/docs/{number}" for number in range(9)] + [f"/{number}" for number in range(9)]
    pages = {f"{A}/": html(*names)} | {A + name: html() for name in names}
    first = crawl(tmp_path, [f"{A}/"], pages, store=store, meanwhile=stop_soon, site=sites(5))
    asked = [each.url for each in first.log]
    assert {f"{A}/{number}" for number in range(9)} <= set(asked)
    assert 0 < sum("/docs/" in url for url in asked) <= 4
    if store == ROCKSDB:
        clock = VirtualClock(EPOCH + 2 * HOUR)
        again = crawl(tmp_path, [], pages, store=store, clock=clock, site=sites(100))
        assert len(again.pages) == 19
        assert again.took < HOUR


# ------------------------------------------------------------------------------------------------ groups

EVEN = {"hosts": ["h0.*", "h2.*", "h4.*", "b.test"]}


def in_group(result):
    return sum(
        page.host in {"h0.many.test", "h2.many.test", "h4.many.test", "b.test"} for page in result.pages
    )


def test_the_hosts_of_a_group_share_its_budget_exactly(tmp_path, store):
    result = crawl(tmp_path, starts(), ten(9), store=store, group={"even": EVEN | {"pages": 23}})
    assert result.stop is Stop.DONE
    assert in_group(result) == 23
    assert len(result.pages) == 70 + 23
    assert codes(result) == {"budget.group": 17}
    assert "[group.even] pages is 23" in next(
        record.reason.detail for record in result.records.values() if record.reason is not None
    )


def test_a_raised_budget_of_a_group_goes_on(tmp_path):
    first = crawl(tmp_path, starts(), ten(9), group={"even": EVEN | {"pages": 10}})
    assert in_group(first) == 10
    again = crawl(
        tmp_path, [], ten(9), clock=VirtualClock(EPOCH + HOUR), group={"even": EVEN | {"pages": 25}}
    )
    assert in_group(again) == 25
    none = crawl(tmp_path, [], ten(9), clock=VirtualClock(EPOCH + 2 * HOUR))
    assert len(none.pages) == 110


def test_a_group_shares_the_requests_of_a_day_and_its_bytes(tmp_path, store):
    result = crawl(tmp_path, starts(), ten(9), store=store, group={"even": EVEN | {"requests_per_day": 15}})
    hosts = {"h0.many.test", "h2.many.test", "h4.many.test", "b.test"}
    sent = Counter(int((EPOCH + each.start) // DAY) for each in result.log if each.host in hosts)
    assert len(result.pages) == 110
    assert max(sent.values()) == 15
    light = crawl(tmp_path / "b", starts(), ten(9), store=store, group={"even": EVEN | {"bytes": 2000}})
    used = sum(light.hosts[host].bytes for host in hosts)
    assert 2000 <= used < 2000 + 4 * 1000
    assert codes(light)["budget.group"] > 10


# ------------------------------------------------------------------------------------------------ by the server's log


def domain_of(host: str) -> str:
    return host.partition(".")[2]


def pages_of(log):
    """Pages that the server gave, by domain. Each once: nothing is fetched twice."""
    good = [
        request for request in log if request.status == 200 and not request.path.startswith("/robots.txt")
    ]
    assert max(Counter((request.host, request.page) for request in good).values()) == 1
    return Counter(domain_of(request.host) for request in good)


@pytest.mark.parametrize("workers", [0, 2, 4], ids=["in one process", "2 workers", "4 workers"])
def test_the_server_gives_no_more_than_the_budget(tmp_path, workers):
    """Ten hosts a domain, and hosts answer slowly enough that many requests are in flight when a budget ends."""
    web = SyntheticWeb(
        seed=3, hosts=40, pages_per_host=12, hosts_per_domain=10, features=Features(foreign_share=0.3)
    )
    with serve_process(web, latency=0.05) as server:
        settings = settings_for(server, scope__kind="any", budget__domain_pages=25, budget__host_pages=7)
        path, starts = tmp_path / "c", server.seeds()
        first = crawl_with(workers, path, starts, settings) if workers else served(path, starts, settings)
        log = server.log()
        assert set(pages_of(log).values()) == {25}
        hosts = Counter(page.host for page in first.pages if page.status == 200)
        assert max(hosts.values()) <= 7
        # Three times as many, a day's requests limited as well: nothing of the first run comes again.
        settings = settings_for(
            server, scope__kind="any", budget__domain_pages=75, budget__domain_requests_per_day=10_000
        )
        crawl_with(workers, path, [], settings) if workers else served(path, [], settings)
        assert set(pages_of(server.log()).values()) == {75}


@pytest.mark.parametrize("workers", [0, 2, 4], ids=["in one process", "2 workers", "4 workers"])
def test_the_server_gives_no_more_than_the_budget_of_a_group(tmp_path, capsys, workers):
    """Its hosts are of several domains, and so in several shards; `why` adds up what they have used."""
    web = SyntheticWeb(
        seed=3, hosts=40, pages_per_host=12, hosts_per_domain=10, features=Features(foreign_share=0.3)
    )
    with serve_process(web, latency=0.05) as server:
        group = {"some": {"hosts": ["h*5.site*", "h*6.site*"], "pages": 33}}
        settings = settings_for(server, scope__kind="any", group=group, crawl__shards=4)
        path, starts = tmp_path / "c", server.seeds()
        crawl_with(workers, path, starts, settings) if workers else served(path, starts, settings)
        given = pages_of([each for each in server.log() if each.host.partition(".")[0][-1] in "56"])
        assert sum(given.values()) == 33
        group["some"]["pages"] = 51
        settings = settings_for(server, scope__kind="any", group=group, crawl__shards=4)
        crawl_with(workers, path, [], settings) if workers else served(path, [], settings)
        given = pages_of([each for each in server.log() if each.host.partition(".")[0][-1] in "56"])
        assert sum(given.values()) == 51
    assert main(["why", str(path), next(each for each in starts if "h0005." in each)]) == 0
    assert "budget of its group some: 51 of 51 pages" in capsys.readouterr().out
