"""Whole crawls with documents that a parser process reads: each costs one page at most, and the loop goes on meanwhile."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skitter import seeds
from skitter.compose import open_reader, opened
from skitter.dedup.simhash import simhash
from skitter.events import Events, Settled, Warned
from skitter.export import reread
from skitter.model import State, UrlRecord
from skitter.parse import parse, pool
from skitter.runtime.process import run
from skitter.settings import ParseSettings, Settings
from tests import bad_parsers
from tests.crawl.harness import crawl, crawl_with, settings_for
from tests.crawl.sites import small_site
from tests.unit.test_parse_pool import children, killed

LARGE = b" " * 3000  # goes to a parser process
FULL = 10 * 2**20


def pooled(**more: object) -> Settings:
    """Settings under which most of these pages are large."""
    return settings_for(None, parse__pool_above="2KiB", **more)


def html(*pieces: bytes) -> tuple[int, str, bytes]:
    return 200, "text/html", b"<!doctype html>" + b"".join(pieces)


def links(*names: str) -> bytes:
    return b"".join(b'<a href="/%b">x</a>' % name.encode() for name in names)


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parser processes that do what the name of the page says."""
    monkeypatch.setattr(pool, "COMMAND", bad_parsers.COMMAND)


def test_parsers_that_hang_crash_or_eat_memory_cost_one_page_each(bad: None, tmp_path: Path) -> None:
    told = {
        "spins": "takes longer than 3 s",
        "sleeps": "takes longer than 3 s",
        "crashes": "crashed: signal 11",
        "eats": "needs more than 300 MiB",
        "exits": "ended: exit code 3",
        "raises": "ValueError: no such element",
        "babbles": "no usable answer",
    }
    good = [f"good{number}" for number in range(5)]
    site = {f"/{name}": html(LARGE, links("small", *good)) for name in (*told, *good)}
    site |= {"/": html(LARGE, links(*told, *good)), "/small": html(b"<title>Small</title>")}
    before = children()
    with small_site(site) as address:
        settings = pooled(parse__deadline="3s", parse__max_memory="300MiB")
        found = crawl(tmp_path / "c", [address + "/"], settings)
    assert children() == before
    assert {page.url.removeprefix(address) for page in found.pages} == {
        "/",
        "/small",
        *(f"/{name}" for name in good),
    }
    assert (found.report.counts.failed, found.report.counts.queued) == (len(told), 0)
    for name, words in told.items():
        record = next(each for each in found.records.values() if each.url == f"{address}/{name}")
        assert record.reason is not None
        assert (record.state, record.reason.code, record.attempts) == (State.FAILED, "parser", 1), name
        assert words in record.reason.detail


def test_a_process_killed_from_outside_costs_nothing_and_one_killed_twice_the_page(
    bad: None, tmp_path: Path
) -> None:
    """And the crash mark, which is for this process, is not set: the page is not suspected."""
    folders = {name: tmp_path / name for name in ("waits1", "waits2")}
    for folder in folders.values():
        folder.mkdir()
    site = {
        f"/{name}": html(b"<!--\n%b\n-->" % bytes(folder), LARGE, links("other"))
        for name, folder in folders.items()
    }
    site |= {"/": html(links(*folders)), "/other": html(LARGE)}

    def kill(_running: Any) -> None:
        tasks.extend(asyncio.ensure_future(_kill(folder, name[-1])) for name, folder in folders.items())

    async def _kill(folder: Path, times: str) -> None:
        for number in range(int(times)):
            await killed(folder, number)

    tasks: list[asyncio.Future[None]] = []
    with small_site(site) as address:
        found = crawl(tmp_path / "c", [address + "/"], pooled(), kill)
    assert {page.url.removeprefix(address) for page in found.pages} == {"/", "/waits1", "/other"}
    failed = next(each for each in found.records.values() if each.state is State.FAILED)
    assert failed.reason is not None
    assert "killed from outside, twice" in failed.reason.detail
    assert all(each.crashes == 0 for each in found.records.values())


def test_if_no_process_can_be_started_large_pages_fail_with_a_message_and_the_rest_is_crawled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "COMMAND", ["/nowhere/python"])
    site = {"/": html(links("large", "larger", "small"))}
    site |= {"/large": html(LARGE), "/larger": html(LARGE * 2), "/small": html(b"<p>")}
    with small_site(site) as address:
        found = crawl(tmp_path / "c", [address + "/"], pooled())
    assert found.report.counts.failures == {"parser": 2}
    assert {page.url.removeprefix(address) for page in found.pages} == {"/", "/small"}
    (text,) = [event.text for event in found.events if isinstance(event, Warned)]
    assert "could not be started: No such file or directory" in text


def test_a_crawl_of_ordinary_pages_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do large files without a parser."""
    monkeypatch.setattr(pool, "COMMAND", ["/nowhere/python"])
    site = {"/": html(b"<p>word</p>" * 20_000, links("image")), "/image": (200, "video/mp4", b"x" * 2**20)}
    with small_site(site) as address:
        found = crawl(tmp_path / "c", [address + "/"], settings_for())
    assert len(site["/"][2]) > 200_000
    assert (found.report.counts.pages, found.report.counts.failed) == (2, 0)
    assert not [event for event in found.events if isinstance(event, Warned)]


def test_what_a_process_read_is_what_an_export_reads_again(tmp_path: Path) -> None:
    words = b" ".join(b"word%d" % number for number in range(50_000))
    site = {
        "/": html(b"<title>Large</title><p>", words, links("next")),
        "/next": html(b"<p>", words, b" end"),
    }
    with small_site(site) as address:
        found = crawl(tmp_path / "c", [address + "/"], settings_for())

    async def read() -> None:
        reader = open_reader(tmp_path / "c")
        settled = {
            event.page.url: event.page for event in found.events if isinstance(event, Settled) and event.page
        }
        async for page in reader.frontier.pages():
            document = await reread.document(page, reader)
            assert document is not None
            assert document.text == settled[page.url].text
            assert page.simhash == simhash(document.text, 32)
            assert (page.title, page.links_count) == (document.title, len(document.links))
        await reader.close()

    asyncio.run(read())
    assert found.report.counts.pages == 2
    assert found.report.counts.duplicates == 1


def test_the_workers_of_a_fleet_have_parser_processes_of_their_own(tmp_path: Path) -> None:
    site = {"/": html(LARGE, links("a", "b")), "/a": html(LARGE * 2), "/b": html(LARGE * 3)}
    before = children()
    with small_site(site) as address:
        found = crawl_with(2, tmp_path / "c", [address + "/"], pooled())
    assert found.report.counts.pages == 3
    assert children() == before


# ------------------------------------------------------------------------------------------------ stopping


async def _until(done: Callable[[], object]) -> None:
    while not done():
        await asyncio.sleep(0.01)


def test_stopping_at_once_leaves_no_process_and_the_page_waits_for_the_next_run(
    bad: None, tmp_path: Path
) -> None:
    before = children()

    async def main(address: str) -> None:
        settings = pooled()
        async with opened(tmp_path / "c", settings, Events()) as running:
            await running.seed(seeds.named([address + "/spins"], settings.urls))
            crawling = asyncio.ensure_future(running.run())
            await _until(lambda: children() - before)
            crawling.cancel()
            with suppress(asyncio.CancelledError):
                await crawling
        assert children() == before

    with small_site({"/spins": html(LARGE)}) as address:
        run(main(address))
        (record,) = asyncio.run(_records(tmp_path / "c"))
        assert (record.state, record.crashes) == (State.QUEUED, 0)


async def _records(path: Path) -> list[UrlRecord]:
    reader = open_reader(path)
    try:
        return [record async for record in reader.frontier.urls()]
    finally:
        await reader.close()


def test_a_crawl_that_is_stopped_finishes_the_document_in_hand(tmp_path: Path) -> None:
    before = children()

    async def main(address: str) -> Any:
        settings = settings_for()
        async with opened(tmp_path / "c", settings, Events()) as running:
            await running.seed(seeds.named([address + "/"], settings.urls))
            crawling = asyncio.ensure_future(running.run())
            await _until(lambda: children() - before)
            running.stop()
            return await crawling

    with small_site({"/": html(links("other"), b"<div>" * (FULL // 10))}) as address:
        report = run(main(address))
    assert (report.counts.pages, report.counts.queued, report.counts.leased) == (1, 1, 0)


def test_the_processes_of_a_killed_crawl_end_by_themselves(tmp_path: Path) -> None:
    """`kill -9` of the crawl: the kernel closes its end of the line."""
    site = {"/": html(LARGE, links("slow")), "/slow": html(b"")}
    hold = threading.Event()
    with small_site(site, waits=hold) as address:
        code = "from tests.crawl.test_slow_documents import *; crawl_forever(Path(sys.argv[1]), sys.argv[2])"
        crawling = subprocess.Popen([sys.executable, "-c", code, tmp_path / "c", address])
        deeper = Path(f"/proc/{crawling.pid}/task/{crawling.pid}/children")
        while not (started := deeper.read_text().split()):
            time.sleep(0.01)
        crawling.kill()
        crawling.wait()
        while any(map(_is_parser, started)):
            time.sleep(0.01)
        hold.set()


def _is_parser(pid: str) -> bool:
    with suppress(OSError):
        return b"skitter.parse.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def crawl_forever(path: Path, address: str) -> None:
    async def main() -> None:
        settings = pooled()
        async with opened(path, settings, Events()) as running:
            await running.seed(seeds.named([address + "/"], settings.urls))
            await running.run()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ the loop


class Turns:
    """The most CPU time that the thread of the loop used between two turns of this task."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * (FULL // 5 - 100),
        b"".join(b'<p><a href="/%d/page.html">a link</a></p>' % number for number in range(220_000)),
    ],
    ids=["nested tags", "links"],
)
def test_while_a_page_of_ten_megabytes_is_parsed_the_loop_gets_its_turns(page: bytes, tmp_path: Path) -> None:
    assert 9 * 2**20 < len(page) < FULL - 100
    before = time.thread_time()
    parse("http://site.example/", [("content-type", "text/html")], page, ParseSettings())
    here = time.thread_time() - before
    turns = Turns()

    async def main(address: str) -> int:
        simhash("some words, so that what is loaded once is loaded", 3)
        settings = settings_for(crawl__max_pages=1)
        async with opened(tmp_path / "c", settings, Events()) as running:
            await running.seed(seeds.named([address + "/"], settings.urls))
            watching = asyncio.ensure_future(turns.watch())
            report = await running.run()
            watching.cancel()
            return report.counts.pages

    with small_site({"/": html(page)}) as address:
        assert run(main(address)) == 1
    assert turns.longest < here / 3, f"{turns.longest:.3f} s at once, of {here:.3f} s that parsing takes"
