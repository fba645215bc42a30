"""Narrowed settings apply from the first request of the next run: waiting URLs are checked again. Judged by the server."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skitter import urls
from skitter.crawl.directory import CrawlDirectory
from skitter.model import State
from skitter.testing.web import Features, Server, SyntheticWeb, serve_process
from tests.crawl.harness import Crawled, crawl, crawl_on_this_loop, crawl_with, settings_for
from tests.fetching import ok, run, serving

HALF = 40
EARLIER = "it was accepted under earlier settings"


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(
        seed=41, hosts=8, pages_per_host=25, features=Features(foreign_share=0.3), hosts_per_domain=1
    )
    with serve_process(web) as running:
        yield running


@pytest.fixture(scope="module")
def half(server, tmp_path_factory) -> tuple[Path, set[str]]:
    """A crawl of everything that stopped half-way, and the URLs that wait in it."""
    path = tmp_path_factory.mktemp("half") / "c"
    settings = settings_for(server, scope__kind="any", crawl__max_pages=HALF, crawl__shards=2)
    result = crawl(path, server.seeds(1), settings)
    waiting = {record.url for record in result.records.values() if record.state is State.QUEUED}
    assert result.report.outcome == "limit"
    assert len(waiting) > HALF
    return path, waiting


@pytest.fixture
def path(half, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(half[0], tmp_path / "c"))


def asked_since(server: Server, before: int) -> set[str]:
    """The URLs of the requests behind the first so many."""
    return {f"http://{request.host}:{server.port}{request.path}" for request in server.log()[before:]}


def dropped(result: Crawled) -> dict[str, str]:
    """Every URL that waited and is not wanted any more, with the reason."""
    return {
        record.url: record.reason.code
        for record in result.records.values()
        if record.state is State.REFUSED and record.reason and record.reason.detail.endswith(EARLIER)
    }


def by(workers: int, path: Path, starts: list[str], settings) -> Crawled:
    return crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)


NARROWER: list[tuple[dict[str, object], str, int]] = [
    ({"scope__exclude": (r"h0*[4-7]\.",)}, "scope.exclude", 0),
    ({"scope__exclude": (r"/p/\d*[02468]\.html",)}, "scope.exclude", 2),
    ({"scope__include": (r"h0*[0-3]\.",)}, "scope.include", 0),
    ({"scope__max_depth": 1}, "scope.depth", 0),
    ({"scope__kind": "host"}, "scope.host", 2),
    ({"scope__kind": "page"}, "scope.page", 0),
    ({"scope__hosts": ("h000[01].*",)}, "scope.hosts", 0),
    ({"scope__skip_extensions": ("html",)}, "scope.extension", 0),
    ({"scope__max_url_length": 41}, "trap.length", 0),
]


@pytest.mark.parametrize(("narrower", "code", "workers"), NARROWER)
def test_waiting_urls_that_are_no_longer_wanted_are_not_requested(
    server, half, path, narrower, code, workers
):
    waiting, before = half[1], len(server.log())
    settings = settings_for(server, **{"scope__kind": "any", "crawl__shards": 2} | narrower)
    result = by(workers, path, [], settings)

    refused = dropped(result)
    assert set(refused.values()) == {code}
    assert refused.keys() & waiting  # others were on their way between two shards
    asked = asked_since(server, before)
    assert asked & refused.keys() == set()
    assert asked & waiting == waiting - refused.keys()
    hosts_wanted = {
        urls.host(record.url) for record in result.records.values() if record.state is State.CRAWLED
    }
    assert {urls.host(url) for url in asked} <= hosts_wanted  # not even a robots.txt of others
    assert (result.report.outcome, result.report.counts.queued) == ("done", 0)
    said = [warning for warning in result.report.warnings if "no longer wanted" in warning]
    assert [int(re.sub(r"\D.*", "", warning)) for warning in said] == [len(refused)]


def test_the_run_after_the_next_still_judges_and_an_unchanged_crawl_does_not(server, path):
    directory, before = CrawlDirectory(path), len(server.log())
    assert not directory.scope_changed
    narrow = {"scope__kind": "any", "crawl__shards": 2, "scope__exclude": (r"h0*[4-7]\.",)}
    crawl(path, [], settings_for(server, crawl__max_pages=HALF + 10, **narrow))
    assert directory.scope_changed
    result = crawl(path, [], settings_for(server, **narrow))
    assert result.report.counts.queued == 0
    assert dropped(result)
    assert asked_since(server, before) & dropped(result).keys() == set()


def test_a_crawl_toml_that_was_edited_by_hand_counts_as_well(path):
    file = CrawlDirectory(path).settings_file
    file.write_text(re.sub(r"(?m)^exclude = .*", r"exclude = ['h0*[4-7]\\.']", file.read_text()))
    command = [sys.executable, "-m", "skitter", "resume", str(path), "--max-pages", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert re.search(r"[1-9]\d* waiting URLs are no longer wanted", done.stdout), done.stdout


def test_why_names_the_setting_that_does_not_want_it_any_more(server, half, path):
    result = crawl(path, [], settings_for(server, scope__kind="any", crawl__shards=2, scope__max_depth=1))
    url = min(dropped(result).keys() & half[1])
    command = [sys.executable, "-m", "skitter", "why", str(path), url]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "beyond scope.max_depth (1)" in told
    assert EARLIER in told


@pytest.mark.parametrize(
    ("exclude", "asked"),
    [
        (r"//b\.test", []),
        (r"/no/", ["/robots.txt", *(f"/yes/{number}" for number in range(5))]),
    ],
    ids=["all of the host", "a part of it"],
)
def test_robots_txt_is_only_fetched_if_a_page_is_still_wanted(tmp_path, exclude, asked):
    """Nothing of the host was asked for before the settings changed: its robots.txt would be the first request."""
    links = [f"http://b.test:PORT/{wish}/{number}" for number in range(5) for wish in ("no", "yes")]

    async def talk(server, reader, writer):
        while head := await server.hear(reader):
            page = "".join(f"<a href='{link}'>x</a>" for link in links).replace("PORT", str(server.port))
            missing = b"/robots.txt" in head
            writer.write(
                ok(b"", status=b"404 No") if missing else ok(page.encode(), b"Content-Type: text/html")
            )

    async def main():
        async with serving(talk) as server:
            there = {"fetch__resolve": ("a.test:127.0.0.1", "b.test:127.0.0.1"), "scope__kind": "any"}
            start = server.url("/", "a.test")
            await crawl_on_this_loop(tmp_path / "c", [start], settings_for(crawl__max_pages=1, **there))
            result = await crawl_on_this_loop(
                tmp_path / "c", [], settings_for(scope__exclude=(exclude,), **there)
            )
            return result, [head.split()[1].decode() for head in server.requests if b"Host: b.test" in head]

    result, heard = run(main())
    assert sorted(heard) == asked
    assert heard[:1] == asked[:1]
    assert set(dropped(result).values()) == {"scope.exclude"}
    assert result.report.counts.queued == 0
    assert not any("no robots.txt" in warning for warning in result.report.warnings)
    command = [sys.executable, "-m", "skitter", "why", str(tmp_path / "c"), min(dropped(result))]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    assert ("not read yet" in told) == (not asked)


# ------------------------------------------------------------------------------------------------ both ways

WIDER: list[tuple[dict[str, object], dict[str, object], int]] = [
    ({"scope__exclude": (r"h0*[2-5]\.",)}, {}, 0),
    ({"scope__exclude": (r"/p/\d*[02468]\.html",)}, {"scope__exclude": (r"/p/\d*[28]\.html",)}, 2),
    # Over several hosts a page is often found on a longer way first, because the hosts on the shorter one answer later.
    ({"scope__max_depth": 1}, {"scope__max_depth": 2}, 0),
    ({"scope__max_depth": 2}, {"scope__max_depth": 4}, 2),
    ({"scope__max_depth": 3}, {}, 0),
    ({"scope__kind": "host", "scope__max_depth": 1}, {"scope__kind": "host"}, 2),
    ({"scope__kind": "host"}, {"scope__kind": "any"}, 0),
    ({"scope__kind": "page"}, {"scope__kind": "any"}, 2),
    ({"budget__host_pages": 4}, {"budget__host_pages": 11}, 0),
    ({"budget__host_pages": 3}, {}, 2),
]


def stored(result: Crawled) -> set[str]:
    return {page.key for page in result.pages if page.status == 200}


@pytest.mark.parametrize(("narrow", "wide", "workers"), WIDER)
def test_a_crawl_that_goes_on_with_wider_settings_stores_what_it_would_have_from_the_start(
    server, tmp_path, narrow, wide, workers
):
    def settings(given: dict[str, object]):
        return settings_for(server, **{"scope__kind": "any", "crawl__shards": 2} | given)

    seeds = server.seeds(1)
    before = stored(by(workers, tmp_path / "c", seeds, settings(narrow)))
    result = by(workers, tmp_path / "c", [], settings(wide))
    expected = by(workers, tmp_path / "whole", seeds, settings(wide))
    if "budget__host_pages" in wide:  # which pages a budget lets in depends on the order
        assert Counter(map(urls.host, stored(result))) == Counter(map(urls.host, stored(expected)))
    else:
        assert stored(result) == stored(expected)
    assert len(stored(result)) > len(before)
    assert result.report.counts.queued == 0
    said = [warning for warning in result.report.warnings if "earlier settings refused" in warning]
    assert [int(re.sub(r"\D.*", "", warning)) > 0 for warning in said] == [True]
    again = by(workers, tmp_path / "c", [], settings(wide))
    assert stored(again) == stored(result)
    assert not any("earlier settings refused" in warning for warning in again.report.warnings)


@pytest.mark.parametrize(("narrow", "wide", "workers"), WIDER)
def test_a_crawl_that_goes_on_with_narrower_settings_adds_only_what_they_want(
    server, tmp_path, narrow, wide, workers
):
    def settings(given: dict[str, object], **more: object):
        return settings_for(server, **{"scope__kind": "any", "crawl__shards": 2} | given | more)

    seeds = server.seeds(1)
    before = stored(by(workers, tmp_path / "c", seeds, settings(wide, crawl__max_pages=25)))
    result = by(workers, tmp_path / "c", [], settings(narrow))
    expected = stored(by(workers, tmp_path / "whole", seeds, settings(narrow)))
    if budget := narrow.get("budget__host_pages"):
        hosts = Counter(map(urls.host, before))
        assert Counter(map(urls.host, stored(result) - before)) == Counter(
            {host: budget - hosts[host] for host in map(urls.host, expected) if hosts[host] < budget}
        )
    else:
        assert stored(result) == before | expected
    assert result.report.counts.queued == 0
