"""Hostile documents through real parser processes with their limits: each costs one page at most, and the pool lives."""

import asyncio
import time

from msgspec.structs import replace

from skitter.parse.frames import Read, Trouble
from skitter.parse.pool import ParserPool
from skitter.settings import Bytes, ParseSettings, Seconds, Settings
from tests import documents
from tests.hostile_documents import hostile_others, hostile_pdfs

PDF = [("content-type", "application/pdf")]
GOOD = documents.pdf([["still alive"]])
# A limit for memory that real documents keep, so that bombs end soon.
PATIENCE = 300  # seconds: a process may take a minute to start, and the deadline for a document; only a hang takes longer
LIMITS = ParseSettings(max_memory=Bytes(512 * 2**20), deadline=Seconds(60.0))


def read_all(cases):
    """What the pool says about each, with a good document in between."""

    async def main():
        parsers = ParserPool(replace(Settings(), parse=LIMITS))
        found = {}
        try:
            for name, headers, content in cases:
                began = time.monotonic()
                found[name] = await parsers.read(f"http://a.test/{len(found)}", headers, content())
                assert time.monotonic() - began < PATIENCE, name
                alive = await parsers.read("http://a.test/good", PDF, GOOD)
                assert isinstance(alive, Read), name
                assert alive.document.text == "still alive", name
        finally:
            await parsers.close()
        return found

    return asyncio.run(main())


def is_recorded(answer):
    """It was read, or there is a reason why it, or a part of it, was not."""
    if isinstance(answer, Trouble):
        return bool(answer.detail)
    document = answer.document
    return bool(document.text or document.ignored or document.media)


def test_fifty_hostile_pdfs_cost_one_page_each_at_most():
    found = read_all([(name, PDF, content) for name, content in hostile_pdfs()])
    assert len(found) >= 50
    assert [name for name, answer in found.items() if not is_recorded(answer)] == []
    assert found["encrypted"].document.media == {"encrypted": True}
    assert found["100,000 pages with one stream"].document.media["pages_read"] == LIMITS.max_pages
    for name, answer in found.items():
        if isinstance(answer, Read):
            assert len(answer.document.text) <= LIMITS.max_text, name
            assert len(answer.document.links) <= LIMITS.max_links, name
            assert len(answer.document.title) <= 300, name


def test_hostile_office_documents_and_books_cost_one_page_each_at_most():
    found = read_all([(name, [("content-type", kind)], content) for name, kind, content in hostile_others()])
    assert [name for name, answer in found.items() if not is_recorded(answer)] == []
    for name, answer in found.items():
        if isinstance(answer, Read):
            assert "root:" not in answer.document.text, name
            assert "hahaha" not in answer.document.text, name
    for name in ("a zip bomb", "a zip bomb of text", "members that overlap", "laughs", "nested 100,000 deep"):
        answer = found[name]
        assert isinstance(answer, Read), answer
        assert answer.document.ignored or answer.document.media["partly"], name
