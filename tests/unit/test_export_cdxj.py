import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from warcio.indexer import Indexer

from skitter.backends.warc import Reader, WarcArchive
from skitter.export import cdxj, ordering
from skitter.model import Page, Place
from skitter.ports import Twin
from skitter.settings import ArchiveSettings
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.archive import exchange, page_of


def stored(directory: Path) -> tuple[list[Page], str]:
    """A page, a chunked page, a copy of the first, a redirect: the pages as they would be recorded, and the file."""
    page, chunked, copy = (
        exchange(f"http://www.example.org/{n}", b"body", chunked=n == 2) for n in (1, 2, 3)
    )
    redirect = replace(
        page, url="http://www.example.org/4", head=b"HTTP/1.1 302 Found\r\nLocation: /1\r\n\r\n", body=b""
    )
    chunked = replace(chunked, head=chunked.head.replace(b"text/html", b"text/plain; charset=utf-8"))
    pages = [page_of(one, b"body") for one in (page, chunked, copy)]
    pages[1] = replace(pages[1], headers=[("content-type", "text/plain; charset=utf-8")])
    pages[2] = replace(pages[2], identical=True)
    twin = Twin(page.url, page.started, pages[0].digest, None)

    async def write() -> tuple[list[Place], str]:
        archive = WarcArchive(directory, 0, ArchiveSettings(), VirtualClock())
        packs = [
            archive.pack(page, pages[0], None),
            archive.pack(chunked, pages[1], None),
            archive.pack(copy, pages[2], twin),
            archive.pack(redirect, None, None),
        ]
        places = await archive.append(packs)
        await archive.close()
        return places, archive.mark().file

    places, file = asyncio.run(write())
    return [replace(one, archive=place) for one, place in zip(pages, places, strict=False)], file


def test_a_line_has_key_time_and_the_fields_of_pywb_in_their_order(tmp_path):
    page = stored(tmp_path)[0][0]
    assert page.archive is not None
    key, stamp, about = cdxj.page_line(page).split(" ", 2)
    assert key == "org,example)/1"
    assert stamp == "20260102030405"
    assert about == json.dumps(
        {
            "url": "http://www.example.org/1",
            "mime": "text/html",
            "status": "200",
            "digest": page.digest,
            "length": str(page.archive.length),
            "offset": str(page.archive.offset),
            "filename": page.archive.file,
        }
    )


def test_the_archive_alone_gives_the_same_lines_and_the_redirects_too(tmp_path):
    pages, file = stored(tmp_path)
    lines = [line for _, line in cdxj.lines(Reader(tmp_path).records(file))]
    assert lines[:3] == [cdxj.page_line(page) for page in pages]
    redirect = json.loads(lines[3].split(" ", 2)[2])
    assert redirect["status"] == "302"
    assert redirect["url"] == "http://www.example.org/4"
    assert "mime" not in redirect


def test_a_copy_is_a_revisit_with_the_digest_of_the_original(tmp_path):
    pages, file = stored(tmp_path)
    abouts = [json.loads(line.split(" ", 2)[2]) for _, line in cdxj.lines(Reader(tmp_path).records(file))]
    assert [about.get("mime") for about in abouts] == ["text/html", "text/plain", "warc/revisit", None]
    assert abouts[0]["digest"] == abouts[1]["digest"] == abouts[2]["digest"] == pages[0].digest


def test_places_and_values_are_those_that_another_indexer_finds(tmp_path):
    _, file = stored(tmp_path)
    out = tmp_path / "index"
    fields = ["warc-type", "warc-target-uri", "http:status", "length", "offset", "filename"]
    Indexer(fields, [str(tmp_path / file)], str(out)).process_all()
    theirs = [json.loads(line) for line in out.read_text().splitlines()]
    theirs = [about for about in theirs if about.pop("warc-type") in ("response", "revisit")]
    ours = [json.loads(line.split(" ", 2)[2]) for _, line in cdxj.lines(Reader(tmp_path).records(file))]
    names = {"url": "warc-target-uri", "status": "http:status", "length": "length", "offset": "offset"}
    assert [{names[n]: about[n] for n in names} | {"filename": about["filename"]} for about in ours] == theirs


def test_a_page_that_is_not_archived_has_no_line():
    with pytest.raises(ValueError, match="not in the archive"):
        cdxj.page_line(page_of(exchange(), b""))


@pytest.mark.parametrize("run", [1, 80, 300, 1_000_000])
def test_lines_are_sorted_also_when_they_do_not_fit_into_memory(monkeypatch, run):
    monkeypatch.setattr(ordering, "RUN", run)  # characters: one line, two, seven, all
    lines = [f"org,example)/{n * 7919 % 101} 20260102030405 {{}}" for n in range(101)]
    with ordering.Ordered() as ordered:
        for line in lines:
            ordered.add(line)
        assert list(ordered.lines()) == sorted(lines)


def test_no_lines_are_sorted_too():
    with ordering.Ordered() as ordered:
        assert list(ordered.lines()) == []
