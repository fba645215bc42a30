"""A page that is fetched again: asked for only if it changed, and archived as what it was. Judged by a real server."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter import schedule
from skitter.backends.warc.reading import Reader
from skitter.backends.warc.records import date
from skitter.compose import open_reader
from skitter.crawl.directory import CrawlDirectory
from skitter.export import reread
from skitter.model import Purpose, State
from skitter.testing.warc_check import check
from tests.crawl.harness import Crawled, archives, crawl_on_this_loop, requested, settings_for
from tests.fetching import Server, Talk, ok, run, serving
from tests.warc_readers import assert_all_readers_agree

DATE = b"Wed, 01 May 2024 12:00:00 GMT"
BODY = b"<!doctype html><title>News</title><p>Nothing new, and that in many words. <a href='/other'>more</a>"
_ANSWERS = ("response", "revisit")
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'


@pytest.fixture(autouse=True)
def every_page_is_due_once_more(monkeypatch):
    """Nothing schedules recrawls yet: each page is due again as soon as it was fetched the first time."""
    real = schedule.verdict

    def verdict(visit, outcome, owed, settings, now, jitter):
        made = real(visit, outcome, owed, settings, now, jitter)
        again = made.state is State.CRAWLED and not visit.recrawl and visit.link.purpose is Purpose.PAGE
        return replace(made, due=now) if again else made

    monkeypatch.setattr(schedule, "verdict", verdict)


class Site:
    """One page that answers by a list, the last for ever; /other is a page without validators. Notes what is asked."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heard: list[bytes] = []  # requests for the page

    @property
    def talk(self) -> Talk:
        async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await server.hear(reader):
                path = head.split()[1]
                if path == b"/":
                    self.heard.append(head)
                    writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
                elif path == b"/other":
                    writer.write(ok(b"<title>Other</title>never changes", b"Content-Type: text/html"))
                else:
                    writer.write(ok(b"", status=b"404 Not Found"))
                await writer.drain()

        return talk


def conditions_of(request: bytes) -> dict[str, str]:
    lines = [line.partition(": ") for line in request.decode("latin-1").split("\r\n")]
    return {name: value for name, _, value in lines if name.startswith("If-")}


def page(*fields: bytes, body: bytes = BODY) -> bytes:
    return ok(body, b"Content-Type: text/html", *fields)


def crawled(path: Path, site: Site, **overrides: object) -> tuple[Crawled, str]:
    async def main() -> tuple[Crawled, str]:
        async with serving(site.talk) as server:
            found = await crawl_on_this_loop(path, [server.url()], settings_for(None, **overrides))
            return found, server.url()

    return run(main())


def records_of(path: Path, url: str) -> list[dict[str, str]]:
    """The answers for a URL in the archive, in order: all named fields, and the status."""
    reader = Reader(CrawlDirectory(path).archive)
    return [
        dict(record.fields) | {"status": record.block.split(None, 2)[1].decode()}
        for file in archives(path)
        for record in reader.records(file.name)
        if record.fields.get("warc-target-uri") == url and record.fields["warc-type"] in _ANSWERS
    ]


def text_of(path: Path, url: str) -> str:
    async def main() -> str:
        reader = open_reader(path)
        try:
            stored = await reader.frontier.page(url, "127.0.0.1")
            document = None if stored is None else await reread.document(stored, reader)
        finally:
            await reader.close()
        return "" if document is None else document.text

    return asyncio.run(main())


# ------------------------------------------------------------------------------------------------ not modified


def test_an_unchanged_page_is_not_sent_again_and_its_record_stays(tmp_path):
    site = Site(page(b'ETag: "v1"', b"Last-Modified: " + DATE), NOT_MODIFIED)
    found, url = crawled(tmp_path, site)
    first, second = map(conditions_of, site.heard)
    assert first == {}
    assert second == {"If-None-Match": '"v1"', "If-Modified-Since": DATE.decode()}
    (stored,) = [each for each in found.pages if each.url == url]
    assert (stored.status, stored.title, stored.etag) == (200, "News", '"v1"')
    record = found.records[url]
    assert (record.state, record.status, record.crawl_count) == (State.CRAWLED, 304, 2)
    assert record.last_crawl is not None
    assert record.last_crawl > stored.fetched_at
    counts = found.report.counts
    assert counts.pages == 2
    assert counts.statuses == {200: 3, 304: 1}  # /other, which has no validators, was sent twice
    assert counts.requests == 5
    assert "Nothing new" in text_of(tmp_path, url)


def test_the_archive_has_a_revisit_record_that_names_the_page_it_had(tmp_path):
    site = Site(page(b'ETag: "v1"'), NOT_MODIFIED)
    found, url = crawled(tmp_path, site)
    (stored,) = [each for each in found.pages if each.url == url]
    full, revisit = records_of(tmp_path, url)
    assert (full["warc-type"], full["status"]) == ("response", "200")
    assert (revisit["warc-type"], revisit["status"]) == ("revisit", "304")
    assert revisit["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert revisit["warc-refers-to-target-uri"] == url
    assert revisit["warc-refers-to-date"] == full["warc-date"] < revisit["warc-date"]
    assert stored.archive is not None
    assert check(*archives(tmp_path)) == []
    assert_all_readers_agree(*archives(tmp_path))


# ------------------------------------------------------------------------------------------------ sent again


def test_a_page_sent_again_unchanged_is_archived_once_and_keeps_its_text(tmp_path):
    site = Site(page(b'ETag: "v1"'), page(b'ETag: "v2"'))
    found, url = crawled(tmp_path, site)
    full, revisit = records_of(tmp_path, url)
    assert revisit["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert revisit["warc-refers-to-date"] == full["warc-date"] < revisit["warc-date"]
    (stored,) = [each for each in found.pages if each.url == url]
    assert (stored.duplicate_of, stored.identical, stored.etag) == ("", False, '"v2"')
    # Later records refer to the one with the body.
    assert date(stored.fetched_at).decode() == full["warc-date"]
    assert found.report.counts.duplicates == 0
    assert found.report.counts.pages == 2
    assert "Nothing new" in text_of(tmp_path, url)
    assert_all_readers_agree(*archives(tmp_path))


@pytest.mark.parametrize("near", [True, False])
def test_a_page_that_changed_is_stored_anew_and_is_no_duplicate_of_itself(tmp_path, near):
    words = b" ".join(b"word%d" % number for number in range(400))
    site = Site(page(b'ETag: "v1"', body=BODY + words), page(b'ETag: "v2"', body=BODY + words + b" changed"))
    found, url = crawled(tmp_path, site, dedup__near=near)
    (stored,) = [each for each in found.pages if each.url == url]
    assert (stored.duplicate_of, stored.etag) == ("", '"v2"')
    assert [record["warc-type"] for record in records_of(tmp_path, url)] == ["response", "response"]
    assert text_of(tmp_path, url).endswith("changed")
    assert found.report.counts.pages == 2


# ------------------------------------------------------------------------------------------------ hostile, and lost


@pytest.mark.parametrize(
    "fields",
    [
        (b"ETag: v1",),
        (b'ETag: "' + b"x" * 5000 + b'"',),
        (b'ETag: "a\x01b"',),
        (b'ETag: "a\xffb"',),
        (b'ETag: "a"b"', b"Last-Modified: yesterday"),
        (b"Last-Modified: Wed, 32 May 2024 12:00:00 GMT",),
        (b"Last-Modified: 2024-05-01",),
        (b"ETag:", b"Last-Modified:"),
    ],
)
def test_validators_that_are_none_are_not_sent_back(tmp_path, fields):
    site = Site(page(*fields))
    found, url = crawled(tmp_path, site)
    assert [conditions_of(head) for head in site.heard] == [{}, {}]
    assert found.records[url].crawl_count == 2
    assert all(len(each.etag) <= 1000 for each in found.pages)


def test_a_server_that_says_unchanged_without_being_asked_changes_nothing(tmp_path):
    site = Site(page(), NOT_MODIFIED)
    found, url = crawled(tmp_path, site)
    assert [conditions_of(head) for head in site.heard] == [{}, {}]
    (stored,) = [each for each in found.pages if each.url == url]
    assert stored.status == 200
    assert "Nothing new" in text_of(tmp_path, url)
    assert check(*archives(tmp_path)) == []


def test_what_the_archive_has_lost_is_asked_for_whole(tmp_path):
    site = Site(page(b'ETag: "v1"', b"Last-Modified: " + DATE), NOT_MODIFIED, page(b'ETag: "v1"'))

    async def main() -> Crawled:
        async with serving(site.talk) as server:
            await crawl_on_this_loop(tmp_path, [server.url()], settings_for())
            (file,) = archives(tmp_path)
            file.write_bytes(file.read_bytes()[:700])  # the power was lost before it was on the disk
            return await crawl_on_this_loop(tmp_path, [server.url()], settings_for())

    found = run(main())
    assert len(site.heard) >= 3
    assert conditions_of(site.heard[2]) == {}
    (stored,) = [each for each in found.pages if each.url.endswith("/")]
    assert stored.status == 200
    assert "Nothing new" in text_of(tmp_path, stored.url)
    assert check(*archives(tmp_path)) == []
    assert 304 in [line["status"] for line in requested(tmp_path)]
