"""One crawl, however many workers: the same pages, numbers and answers."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skitter import urls
from skitter.events import ScopeWidened, Warned
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.controlled import Running, Site, crawling, said
from tests.crawl.harness import crawl, crawl_with, keys, read_back, settings_for

WORKERS = (1, 2, 4)


@pytest.fixture(scope="module")
def server():
    features = Features(duplicates=True, unfollowed=True, foreign_share=0.3)
    web = SyntheticWeb(seed=21, hosts=24, pages_per_host=15, features=features)
    with serve_process(web) as running:
        yield running


@pytest.fixture(scope="module")
def crawls(server, tmp_path_factory):
    """The same web crawled with one, two and four workers, from the first host on."""
    found = {}
    for workers in WORKERS:
        path = tmp_path_factory.mktemp(f"workers{workers}") / "c"
        found[workers] = (
            path,
            crawl_with(workers, path, server.seeds(1), settings_for(server, scope__kind="any")),
        )
    return found


def skitter(*words):
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("workers", WORKERS)
def test_every_page_is_found_and_stored_once(crawls, server, workers):
    _, result = crawls[workers]
    assert result.report.outcome == "done"
    assert result.keys == keys(server.truth("any", 1).pages)
    assert max(Counter(page.key for page in result.pages).values()) == 1
    assert result.report.counts.pages == len(result.keys)
    assert (result.report.counts.queued, result.report.counts.leased, result.report.counts.outbox) == (
        0,
        0,
        0,
    )


@pytest.mark.parametrize("workers", [2, 4])
def test_the_work_is_shared_by_registrable_domain(crawls, workers):
    path, result = crawls[workers]
    used = {urls.shard(urls.registrable_domain(page.host), workers) for page in result.pages}
    assert used == set(range(workers))
    for shard in used:
        log = (path / "log" / f"requests-{shard:02d}.jsonl").read_text().splitlines()
        hosts = {json.loads(line)["host"] for line in log if '"Terms"' not in line}
        assert {urls.shard(urls.registrable_domain(host), workers) for host in hosts} == {shard}


def groups(result):
    found = defaultdict(set)
    for page in result.pages:
        found[urls.key(page.duplicate_of) if page.duplicate_of else page.key].add(page.key)
    return {frozenset(group) for group in found.values() if len(group) > 1}


def test_the_same_duplicates_are_found_with_any_number_of_workers(crawls):
    alone = groups(crawls[1][1])
    assert len(alone) >= 2
    assert groups(crawls[2][1]) == alone
    assert groups(crawls[4][1]) == alone


def test_the_same_urls_were_seen_and_refused(crawls):
    def story(result):
        return {
            key: (record.state, record.reason and record.reason.code)
            for key, record in result.records.items()
        }

    alone = story(crawls[1][1])
    assert story(crawls[2][1]) == alone
    assert story(crawls[4][1]) == alone


@pytest.mark.parametrize("workers", WORKERS)
def test_status_why_and_exports_speak_of_one_crawl(crawls, workers):
    path, result = crawls[workers]
    _, out, _ = skitter("status", path, "--json")
    counts = json.loads(out)["counts"]
    assert counts["pages"] == len(result.keys)
    assert counts["hosts"] == crawls[1][1].report.counts.hosts
    assert result.report.counts.hosts == counts["hosts"]
    _, out, _ = skitter("export", path, "--format", "urls")
    assert len(out.splitlines()) == len(result.records)
    _, out, _ = skitter("export", path, "--format", "cdxj")
    assert len(out.splitlines()) >= len(result.pages)
    for page in (result.pages[0], result.pages[-1]):
        code, out, _ = skitter("why", path, page.url, "--json")
        assert code == 0
        assert json.loads(out)["record"]["state"] == "crawled"
    refused = next(
        record for record in result.records.values() if record.reason and record.state == "refused"
    )
    code, out, _ = skitter("why", path, refused.url, "--json")
    assert code == 0
    assert json.loads(out)["record"]["reason"]["code"] == refused.reason.code


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("limit", [1, 7, 101])
def test_a_page_limit_is_exact_over_all_workers(server, tmp_path, workers, limit):
    settings = settings_for(server, scope__kind="any", crawl__max_pages=limit)
    result = crawl_with(workers, tmp_path / "c", server.seeds(1), settings)
    assert len(result.keys) == limit
    assert result.report.counts.pages == limit
    assert result.report.outcome == "limit"
    assert result.report.exit_code == 3
    more = settings_for(server, scope__kind="any", crawl__max_pages=limit + 20)
    assert len(crawl_with(workers, tmp_path / "c", [], more).keys) == limit + 20


def test_a_limit_that_is_reached_with_the_last_page_keeps_nothing_back(server, tmp_path):
    everything = len(server.truth("host", 1).pages)
    settings = settings_for(server, crawl__max_pages=everything)
    result = crawl_with(2, tmp_path / "c", server.seeds(1), settings)
    assert (len(result.keys), result.report.outcome) == (everything, "done")


# ------------------------------------------------------------------------------------------------ other numbers of workers


def test_a_crawl_continues_with_another_number_of_workers(server, tmp_path):
    path = tmp_path / "c"
    sizes = []
    for workers, limit in ((4, 30), (2, 60), (1, 90), (3, 120)):
        settings = settings_for(server, scope__kind="any", crawl__max_pages=limit)
        sizes.append(len(crawl_with(workers, path, server.seeds(1), settings).keys))
    assert sizes == [30, 60, 90, 120]
    assert len(list((path / "state").iterdir())) == 4
    crawl(path, [], settings_for(server, scope__kind="any"))  # and in the process of a Python program
    left = asyncio.run(read_back(path, report=None, heard=[]))
    assert left.keys == keys(server.truth("any", 1).pages)


def test_more_workers_than_shards_are_reduced_with_a_message(server, tmp_path):
    settings = settings_for(server, crawl__max_pages=3)
    crawl_with(2, tmp_path / "c", server.seeds(1), settings)
    result = crawl_with(5, tmp_path / "c", [], settings_for(server, crawl__max_pages=6))
    assert len(result.keys) == 6
    said = [event.text for event in result.events if isinstance(event, Warned)]
    assert f"{tmp_path / 'c'} has 2 shards, so no more than 2 workers can share it" in said


def test_the_number_of_shards_cannot_change(server, tmp_path):
    code, _, errors = skitter("crawl", *server.seeds(1), "-o", tmp_path / "c", "--shards=3", "--max-pages=1",
                              "--allow-private=127.0.0.0/8", "--max-time=1s")  # fmt: skip
    assert code in (0, 1, 3), errors
    code, _, errors = skitter("resume", tmp_path / "c", "--shards=2")
    assert code == 2
    assert "crawl.shards = 2 differs from what" in errors


# ------------------------------------------------------------------------------------------------ seeds


def test_seeds_reach_their_owners_and_are_another_chance_when_named_again(server, tmp_path):
    """The first time nothing may be visited, on any shard; named again, everything is."""
    refused = settings_for(server, fetch__allow_private=())
    result = crawl_with(4, tmp_path / "c", server.seeds(), refused)
    assert result.report.exit_code == 1
    again = crawl_with(4, tmp_path / "c", server.seeds(), settings_for(server))
    assert again.keys == keys(server.truth("host").pages)


class Moved(BaseHTTPRequestHandler):
    """a moves to b. c links to a page of b that nobody else links to, but only a while after b was visited."""

    inside = threading.Event()

    def do_GET(self):
        host, _, port = self.headers["Host"].partition(":")
        body = {"/": "<a href=/inside>x</a>"}.get(self.path, "text")
        if self.path == "/inside":
            self.inside.set()
        if host.startswith("c") and self.path == "/":
            self.inside.wait(20)
            time.sleep(1)
            body = f"<a href=http://{MOVED[1]}:{port}/from-c>x</a>"
        self.send_response(301 if host.startswith("a") else 404 if self.path == "/robots.txt" else 200)
        self.send_header("Location", f"http://{MOVED[1]}:{port}/")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        """Quiet."""


def owned_by(shard, letter):
    """A host name that belongs to one of four shards."""
    names = (f"{letter}{number}.test" for number in range(100))
    return next(name for name in names if urls.shard(urls.registrable_domain(name), 4) == shard)


MOVED = owned_by(1, "a"), owned_by(2, "b"), owned_by(3, "c")


def test_a_seed_that_redirects_to_another_shard_takes_the_scope_of_all_workers_along(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Moved) as moved:
        threading.Thread(target=moved.serve_forever, daemon=True).start()
        settings = settings_for(fetch__resolve=tuple(f"{name}:127.0.0.1" for name in MOVED))
        a, b, c = (f"http://{name}:{moved.server_port}/" for name in MOVED)
        result = crawl_with(4, tmp_path / "c", [a, c], settings)
        moved.shutdown()
    assert [event for event in result.events if isinstance(event, ScopeWidened)] == [ScopeWidened(a, b)]
    assert {page.url for page in result.pages if page.status == 200} == {b, f"{b}inside", c, f"{b}from-c"}


def test_a_fleet_with_a_page_limit_costs_hardly_anything_while_it_waits(tmp_path):
    """Its parent shares the limit out in rounds: a worker that waits for a host must not be told again at once."""
    site = Site()
    try:
        with crawling(tmp_path / "c", site, "a.test", more=["--max-pages", "500"]) as running:
            assert said("pause", tmp_path / "c").startswith("paused")
            time.sleep(1.0)
            before, began = cpu_seconds(running), time.monotonic()
            time.sleep(3.0)
            assert cpu_seconds(running) - before < 0.1 * (time.monotonic() - began)
    finally:
        site.close()


def cpu_seconds(running: Running) -> float:
    """CPU time of a parent and its workers so far."""
    fields = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        for pid in (running.process.pid, *running.workers)
    ]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")
