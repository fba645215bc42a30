"""Politeness, judged by the server's own log."""

import asyncio
import os
import signal
import time
from collections import defaultdict
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise

import pytest

from skitter import urls
from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.warc import Reader
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Requested
from skitter.reporting.log import RequestLog
from skitter.testing.warc_check import check
from skitter.testing.web import Features, SyntheticWeb, overlaps, serve_process
from tests.crash.test_kill import plan_for, run_until_it_ends, start
from tests.crawl.harness import archives, crawl, crawl_on_this_loop, crawl_with, keys, settings_for
from tests.fetching import ok, run, serving

DELAY = 0.3
# The crawler reads its clock when it has the last byte, the server when it has handed it over: the crawler's end is
# later, so a gap as the server sees it can only be longer. What is left is the precision of two clocks.
PRECISION = 0.01
SAYS_WHEN = ("/robots.txt", "/later/too-many.html", "/later/unavailable.html")  # these send Retry-After


def requests_by_host(log):
    hosts = defaultdict(list)
    for request in log:
        hosts[request.host].append(request)
    return hosts


def too_fast(log, owed):
    """Every request that came sooner after the end of the one before than its host is owed."""
    found = []
    for host, requests in requests_by_host(log).items():
        for before, after in pairwise(requests):
            gap = after.start - (before.end if before.end is not None else before.start)
            if gap < owed(host, before) - PRECISION:
                found.append((host, before.path, before.status, after.path, round(gap, 3)))
    return found


@pytest.fixture(scope="module", params=[1, 2, 4], ids=lambda workers: f"{workers} workers")
def crawled(request, tmp_path_factory):
    features = Features(
        robots=True,
        redirects=True,
        later=True,
        statuses=True,
        crawl_delay=1.0,
        request_interval=1,
        retry_after=3,
    )
    web = SyntheticWeb(seed=3, hosts=16, pages_per_host=5, features=features)
    with serve_process(web) as server:
        settings = settings_for(server, scope__kind="any", politeness__delay=f"{DELAY}s", schedule__retries=2)
        path = tmp_path_factory.mktemp("polite") / "c"
        result = crawl_with(request.param, path, server.seeds(), settings)
        return result, server.truth("any"), server.log(), server.port


def test_no_gap_is_shorter_than_owed(crawled):
    _result, truth, log, _port = crawled

    def owed(host, before):
        waits = [DELAY]
        if before.path != "/robots.txt" or before.status == 200:
            waits.append(truth.delays.get(host, 0.0))
        if before.status in (429, 503) and before.path in SAYS_WHEN:
            waits.append(3.0)
        return max(waits)

    assert too_fast(log, owed) == []
    assert {429, 503} <= {request.status for request in log}
    assert any(delay >= 1.0 for delay in truth.delays.values())


def test_never_two_requests_are_in_flight_on_a_host(crawled):
    _result, _truth, log, _port = crawled
    assert overlaps(log) == []
    assert max(request.in_flight for request in log) == 1


def test_robots_txt_comes_before_any_page_of_its_host(crawled):
    _result, _truth, log, _port = crawled
    for host, requests in requests_by_host(log).items():
        paths = [request.path for request in requests if not request.path.startswith("/robots/")]
        assert paths[0] == "/robots.txt", host


def test_nothing_that_robots_txt_forbids_is_fetched_and_everything_else_is(crawled):
    result, truth, log, port = crawled
    asked = {f"http://{request.host}:{port}{request.page}" for request in log}
    assert asked & set(truth.refused) == set()
    assert result.keys - keys(truth.unjudged) == keys(truth.pages)
    forbidden = [
        url
        for url in truth.refused
        if (record := result.records.get(urls.key(url) or "")) and record.reason.code == "robots"
    ]
    assert forbidden


def test_a_hundred_waiting_urls_of_a_new_host_cause_one_request_for_its_robots_txt(tmp_path):
    web = SyntheticWeb(seed=4, hosts=1, pages_per_host=100, features=Features(links_per_page=3))
    with serve_process(web) as server:
        starts = sorted(server.truth("any").pages)
        assert len(starts) >= 100
        settings = settings_for(server, politeness__per_host=50)
        crawl(tmp_path / "c", starts, settings)
        paths = [request.path for request in server.log()]
    assert paths[0] == "/robots.txt"
    assert paths.count("/robots.txt") == 1


@pytest.mark.parametrize("workers", [0, 2], ids=["in one process", "2 workers"])
def test_the_delay_holds_across_kill_9(tmp_path, workers):
    """Crawl-delay 5, killed again and again: whoever comes next waits the delay out."""
    features = Features(robots=True, crawl_delay=5.0)
    web = SyntheticWeb(seed=6, hosts=2, pages_per_host=4, features=features, robots=("crawl-delay",))
    with serve_process(web) as server:
        plan = plan_for(server, tmp_path / "c", workers=workers)
        for _ in range(3):
            child = start(plan)
            assert child.stdout.readline() == "running\n"
            seen = len(server.log())
            deadline = time.monotonic() + 120
            while len(server.log()) < seen + 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(child.pid, signal.SIGKILL)
            child.communicate(timeout=60)
        assert run_until_it_ends(plan) == 0
        log, truth = server.log(), server.truth("any")
    first = {host: requests[0].start for host, requests in requests_by_host(log).items()}
    gaps = too_fast(log, lambda host, _before: 5.0)
    # The one exception: a process that died with its first robots.txt in hand never learnt of the Crawl-delay.
    assert [gap for gap in gaps if gap[1] != "/robots.txt"] == []
    assert set(first) == {urls.host(url) for url in truth.pages}


def test_a_robots_txt_larger_than_any_page_may_be_is_obeyed_as_far_as_it_is_read(tmp_path):
    """RFC 9309 2.5: what comes first counts, and nobody is shut out because the rest is long."""
    rules = b"User-agent: *\nDisallow: /private/\nAllow: /\n" + b"# noise\n" * 300_000
    page = b"<a href='/private/1'>no</a> <a href='/open/1'>yes</a>"

    async def talk(server, reader, writer):
        while head := await server.hear(reader):
            body = rules if b"/robots.txt" in head else page
            writer.write(ok(body, b"Content-Type: text/html"))

    async def main():
        async with serving(talk) as server:
            settings = settings_for(fetch__max_body="20KiB")
            result = await crawl_on_this_loop(tmp_path / "c", [server.url("/")], settings)
            return result, [request.split()[1] for request in server.requests]

    result, asked = run(main())
    assert asked == [b"/robots.txt", b"/", b"/open/1"]
    assert result.report.counts.refused == {"robots": 1}
    files = archives(tmp_path / "c")
    assert check(*files) == []
    reader = Reader(files[0].parent)
    records = [record for file in files for record in reader.records(file.name)]
    cut = [r.fields["warc-target-uri"] for r in records if r.fields.get("warc-truncated") == "length"]
    assert [uri.rpartition("/")[2] for uri in cut] == ["robots.txt"]


def test_one_host_has_one_clock_however_it_is_spelt_and_on_all_its_ports(tmp_path):
    heard = []  # (host, path, start, end)

    async def main():
        async with serving(talk) as one, serving(talk) as two:
            port, other = one.port, two.port
            targets = [
                f"http://a.test.:{port}/1", f"http://A.TEST:{port}/2", f"http://a%2Etest%2E:{port}/3", f"http://a.test.:{port}/4",
                f"//a.test.:{other}/5", f"http://a.test:{other}/6", f"http://a.test.:{other}/7", f"/to/http://a.test.:{other}/8",
            ]  # fmt: skip
            pages["/"] = "".join(f"<a href='{target}'>x</a>" for target in targets).encode()
            settings = settings_for(fetch__resolve=("a.test.:127.0.0.1",), politeness__delay=f"{DELAY}s")
            await crawl_on_this_loop(tmp_path / "c", [f"http://a.test.:{port}/"], settings)
            return port, other

    pages = {}

    async def talk(server, reader, writer):
        while head := await server.hear(reader):
            path, start = head.split()[1].decode(), time.time()
            host = next(line for line in head.decode().split("\r\n") if line.startswith("Host: "))
            await asyncio.sleep(0.05)
            heard.append((host.removeprefix("Host: "), path, start, time.time()))
            if path.startswith("/to/"):
                writer.write(ok(b"", b"Location: " + path[4:].encode(), status=b"302 Found"))
            elif path == "/robots.txt":
                writer.write(ok(b"", status=b"404 Not Found"))
            else:
                writer.write(ok(pages.get(path, b"<p>a page"), b"Content-Type: text/html"))

    port, other = run(main())
    assert {host for host, _, _, _ in heard} == {f"a.test:{port}", f"a.test:{other}"}
    assert sorted(path for _, path, _, _ in heard if path[1:].isdigit()) == [f"/{n}" for n in range(1, 9)]
    assert [path for _, path, _, _ in heard].count("/robots.txt") == 2  # each port is an origin of its own
    gaps = [after[2] - before[3] for before, after in pairwise(sorted(heard, key=lambda request: request[2]))]
    assert min(gaps) >= DELAY - PRECISION


@pytest.mark.parametrize("asked", ["4", "date", str(7 * 86400)], ids=["seconds", "a date", "a week"])
def test_a_wish_to_wait_that_is_in_the_log_and_was_never_settled_is_kept(tmp_path, asked):
    """The process died between the two; the page is asked for again, but not before. After a week: not at all, as always."""
    web = SyntheticWeb(seed=4, hosts=1, pages_per_host=8, features=Features.plain())
    path = tmp_path / "c"
    with serve_process(web) as server:
        crawl(path, server.seeds(), settings_for(server, crawl__max_pages=2))
        before = len(server.log())
        end = asyncio.run(died_with_an_answer(CrawlDirectory(path), asked))
        result = crawl(path, [], settings_for(server))
        after = server.log()[before:]
    if asked == str(7 * 86400):
        assert after == []
        assert {each.reason.code for each in result.records.values() if each.reason} == {"retry-after"}
        return
    assert min(request.start for request in after) >= end + 4 - PRECISION
    assert len(result.keys) == 8


async def died_with_an_answer(directory: CrawlDirectory, asked: str) -> float:
    """A visit is leased and answered, and its answer is in the log; then the process dies. Returns when the answer ended."""
    frontier = rocks_frontier(directory.state(0), directory.read_settings())
    await frontier.open(time.time())
    (visit,) = await frontier.lease(1, time.time())
    end = float(int(time.time()) + 1)
    said = asked.replace("date", format_datetime(datetime.fromtimestamp(end + 4, UTC), usegmt=True))
    request = Requested(
        url=visit.link.url, host=visit.link.host, address="127.0.0.1", start=time.time(), end=end, status=429,
        bytes=0, purpose="page", attempt=1, fault="", retry_after=said,
    )  # fmt: skip
    log = RequestLog(directory.request_log(0))
    log(request)
    log.close()
    await frontier.abandon()
    return end
