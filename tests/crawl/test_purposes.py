"""Seeds with a purpose of their own: fetched and archived like pages, and no pages. Judged from outside."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter import seeds
from skitter.events import Requested, ScopeWidened
from skitter.model import Level, Purpose, State
from skitter.testing.web import Features, Server, SyntheticWeb, serve
from tests.crawl.harness import requested
from tests.crawl.virtual import MEMORY, ROCKSDB, Answer, crawl, html, moved
from tests.warc_readers import assert_all_readers_agree

PATIENCE = 120  # seconds: only a hang fails by it
A, B = "http://a.test", "http://b.test"


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def seed(url, purpose, level=Level.CRITICAL):
    return replace(next(seeds.named([url])), purpose=purpose, level=level)


# ------------------------------------------------------------------------------------------------ one process


@pytest.mark.parametrize("purpose", [Purpose.PROBE, Purpose.ASSET])
def test_it_is_asked_for_once_allowed_by_robots_txt_and_its_links_are_not_followed(tmp_path, store, purpose):
    pages = {
        f"{A}/robots.txt": Answer(body="User-agent: *\nDisallow: /private\n"),
        f"{A}/1": html("/2", f"{B}/"),
        f"{A}/private": html(),
    }
    starts = [seed(f"{A}/{name}", purpose) for name in ("1", "private", "gone")]
    result = crawl(tmp_path, starts, pages, store=store)
    assert [request.url for request in result.log] == [f"{A}/robots.txt", f"{A}/1", f"{A}/gone"]
    named = [event.purpose for event in result.events if isinstance(event, Requested)]
    assert named == ["robots", purpose.value, purpose.value]
    assert {page.url: (page.status, page.purpose) for page in result.pages} == {
        f"{A}/1": (200, purpose),
        f"{A}/gone": (404, purpose),
    }
    (answered,) = [page for page in result.pages if page.status == 200]
    assert (answered.content_type, answered.title, answered.links_count) == ("text/html", "", 0)
    assert answered.archive is not None
    assert result.records[f"{A}/private"].reason.code == "robots"
    assert (result.counts.pages, result.counts.others) == (0, {purpose.value: 2})
    assert (result.counts.statuses, result.counts.not_found) == ({}, 0)
    assert result.hosts["a.test"].pages == 0


def test_it_uses_no_page_budget_and_does_not_widen_the_scope(tmp_path, store):
    pages = {
        f"{A}/": html("/2", f"{B}/2"),
        f"{A}/2": html(),
        f"{B}/1": moved(f"{B}/there"),
        f"{B}/there": html(),
    }
    starts = [f"{A}/", seed(f"{B}/1", Purpose.PROBE), seed(f"{A}/x", Purpose.ASSET, Level.BACKGROUND)]
    limits = {"scope__kind": "host", "budget__host_pages": 2, "politeness__per_host": 4}
    result = crawl(tmp_path, starts, pages, store=store, **limits)
    assert {page.url for page in result.pages if page.purpose is Purpose.PAGE} == {f"{A}/", f"{A}/2"}
    assert result.records[f"{B}/2"].reason.code == "scope.host"
    last = result.records[f"{A}/x"]  # the budget of its host is spent by then
    assert (last.state, last.status) == (State.CRAWLED, 404)
    assert result.log[-1].url == last.url
    there = result.records[f"{B}/there"]  # where a redirect led is probed as well
    assert (there.purpose, there.state, there.status) == (Purpose.PROBE, State.CRAWLED, 200)
    assert not [event for event in result.events if isinstance(event, ScopeWidened)]
    assert result.directory.roots() == [f"{A}/"]


def test_it_is_tried_again_like_a_page_and_never_compared_with_one(tmp_path, store):
    pages = {
        f"{A}/page": html("/other", takes=1.0),
        f"{A}/asset": html("/other"),  # the same bytes, before the page
        f"{A}/copy": html("/other"),  # … and after it
        f"{A}/other": html(),
        f"{A}/busy": lambda asked: Answer(503) if asked.number == 1 else Answer(200),
    }
    copy = seed(f"{A}/copy", Purpose.ASSET, Level.BACKGROUND)
    starts = [seed(f"{A}/asset", Purpose.ASSET), seed(f"{A}/busy", Purpose.PROBE), f"{A}/page", copy]
    result = crawl(tmp_path, starts, pages, store=store, dedup__near=True)
    assert result.times(f"{A}/busy")[1:]
    assert not [page for page in result.pages if page.duplicate_of]
    purposes = [event.purpose for event in result.events if isinstance(event, Requested)]
    assert purposes.count("probe") == 2
    assert "retry" not in purposes


# ------------------------------------------------------------------------------------------------ as people run it


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=2, pages_per_host=12, features=Features.plain())) as running:
        yield running


def skitter(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "skitter", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_list_of_urls_is_checked_and_archived_by_the_command_line(server, tmp_path, workers):
    alive, other = server.seeds()[:2]
    lines = [
        {"url": alive, "purpose": "probe"},
        {"url": f"{alive}not/there", "purpose": "probe"},
        {"url": other, "purpose": "asset", "lastmod": "2024-05-01", "priority": 0.9},
    ]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = ["--allow-private", "127.0.0.0/8", "--set", "crawl.min_free_disk=1MiB", "--delay", "0"]
    for host, address in server.web.resolve_map().items():
        flags += ["--resolve", f"{host}:{address}"]
    run = skitter(tmp_path, "crawl", "--seeds", "list.jsonl", "-o", "d", "--workers", workers, *flags)
    assert run.returncode == 0, run.stderr
    assert "Probes answered" in run.stdout
    assert "Assets fetched" in run.stdout

    requests = requested(tmp_path / "d")
    by_purpose = sorted((line["purpose"], line["status"]) for line in requests if line["purpose"] != "robots")
    assert by_purpose == [("asset", 200), ("probe", 200), ("probe", 404)]

    why = skitter(tmp_path, "why", "d", other)
    assert "its purpose is asset: it counts as no page" in why.stdout
    assert "last changed 2024-05-01T00:00:00.000Z, priority 0.9" in why.stdout
    listed = skitter(tmp_path, "pages", "d", "--purpose", "probe", "--json")
    answers = {page["url"]: page["status"] for page in map(json.loads, listed.stdout.splitlines())}
    assert answers == {alive: 200, f"{alive}not/there": 404}
    exported = skitter(tmp_path, "export", "d", "--format", "jsonl")
    texts = {page["url"]: page["text"] for page in map(json.loads, exported.stdout.splitlines())}
    assert texts == dict.fromkeys([alive, f"{alive}not/there", other], "")
    assert skitter(tmp_path, "check", "d").returncode == 0

    files = sorted((tmp_path / "d/archive").glob("*.warc.gz"))
    assert_all_readers_agree(*files)
    index = skitter(tmp_path, "export", "d", "--format", "cdxj")
    archived = {json.loads(line.split(" ", 2)[2])["url"] for line in index.stdout.splitlines()}
    assert archived >= {alive, f"{alive}not/there", other}
