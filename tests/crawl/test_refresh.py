"""A crawl that fetches its pages again, against a real server: what counts as a change, what is asked, and when it ends."""

import asyncio
from pathlib import Path

from skitter.compose import open_reader
from skitter.model import Again, Counts, UrlRecord
from skitter.testing.warc_check import check
from tests.crawl.harness import archives, crawl_on_this_loop, settings_for
from tests.fetching import Server, ok, run, serving

TEXT = "This is what the page says, in many words that are its main content and nothing else. " * 6


class Changing:
    """/ has a counter in its footer, /news says something new each time, /old goes away; /same has an honest ETag."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.not_modified = 0

    async def talk(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await server.hear(reader):
            path = head.split()[1].decode()
            times = self.asked[path] = self.asked.get(path, 0) + 1
            writer.write(self._answer(path, times, head))
            await writer.drain()

    def _answer(self, path: str, times: int, head: bytes) -> bytes:
        html = b"Content-Type: text/html"
        links = "".join(f'<a href="/{name}">{name}</a> ' for name in ("news", "same", "old"))
        if path == "/":
            return ok(_html(TEXT, f"{links} Visitors: {times}"), html)
        if path == "/news":
            return ok(_html(f"{TEXT} Today number {times} won the race, by {times * 7} metres.", ""), html)
        if path == "/same" and b'"one"' in head:
            self.not_modified += 1
            return b'HTTP/1.1 304 Not Modified\r\nETag: "one"\r\n\r\n'
        if path == "/same":
            return ok(_html(TEXT + "It is always the same.", ""), html, b'ETag: "one"')
        if path == "/old" and times == 1:
            return ok(_html(TEXT + "It will be gone.", ""), html)
        return ok(b"", status=b"404 Not Found")


def _html(main: str, footer: str) -> bytes:
    page = f"<!doctype html><title>A page</title><body><main><article><p>{main}</p></article></main><footer>{footer}</footer>"
    return page.encode()


async def _read(directory: Path, paths: dict[str, str]) -> tuple[Counts, dict[str, UrlRecord]]:
    reader = open_reader(directory)
    try:
        found = {}
        for name, url in paths.items():
            record = await reader.frontier.url(url, "127.0.0.1")
            assert record is not None
            found[name] = record
        return await reader.frontier.counts(), found
    finally:
        await reader.close()


def test_pages_are_fetched_again_until_a_limit_and_change_means_main_content(tmp_path):
    site = Changing()

    async def judged():
        async with serving(site.talk) as server:
            settings = settings_for(schedule__recrawl="1s", crawl__max_time="7s", dedup__near=False)
            crawled = await crawl_on_this_loop(tmp_path / "crawl", [server.url()], settings)
            assert crawled.report.limit == "crawl.max_time"
            names = ("", "news", "same", "old")
            return await _read(tmp_path / "crawl", {name: server.url(f"/{name}") for name in names})

    counts, records = run(judged())
    found = {name: [what for _, what in record.watch.visits] for name, record in records.items()}
    assert len(found[""]) > 2
    assert set(found[""][1:]) == {"same (200)"}  # the counter in its footer is no change
    assert set(found["news"][1:]) == {"changed (200)"}
    assert set(found["same"][1:]) <= {"same (304)", "same (200)"}
    assert site.not_modified > 0
    assert set(found["old"][1:]) == {"gone (404)"}
    assert len(found["old"]) <= len(found["news"])
    assert counts.again[Again.VISITS] == sum(len(each) - 1 for each in found.values())
    assert {name: record.crawl_count for name, record in records.items()} == {
        name: site.asked[f"/{name}"] for name in records
    }  # every visit that the server saw is known, once
    for archive in archives(tmp_path / "crawl"):
        assert check(archive) == []
