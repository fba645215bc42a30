"""Pages reach the search index at least once, cut to size, and one bad message stops nothing."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from skitter.backends.kafka import topics
from skitter.backends.kafka.documents import CrawlError, DocumentReader, Documents, document_key
from skitter.backends.kafka.messages import label
from skitter.backends.kafka.sending import Outgoing, Sender
from skitter.model import Page, Place, Reason
from skitter.ports import EngineAway, Entry
from skitter.settings import Settings
from skitter.settings.units import Bytes
from tests.cluster.kafka import SHARDS, altered, crawl_on, everything
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with crawl_on(engine("kafka")) as settings:
        yield settings


def page(number: int, **changes) -> Page:
    url = f"http://h{number % 7}.example/{number}"
    record = Page(
        url=url,
        requested_url=url,
        key=url,
        host=f"h{number % 7}.example",
        domain=f"h{number % 7}.example",
        status=200,
        fetched_at=float(number),
        headers=[("content-type", "text/html")],
        text=f"page {number}",
        archive=Place("00-1.warc.gz", number, 100),
    )
    return msgspec.structs.replace(record, **changes)


async def read_all(reader: DocumentReader, count: int) -> list[Page]:
    """Until so many pages are there; joining a group takes a few looks."""
    pages: list[Page] = []
    for _ in range(60):
        pages += [entry.page for entry in await reader.batch(100, wait=0.5)]
        if len(pages) >= count:
            return pages
    raise AssertionError(f"{len(pages)} of {count} pages came")


def scenario(settings: Settings, play) -> None:
    async def run():
        await topics.create(settings.kafka, SHARDS)
        sender = Sender(settings.kafka)
        try:
            await play(sender, Documents(settings, sender))
        finally:
            await sender.close()

    asyncio.run(run())


def test_concurrent_sends_leave_together(settings):
    async def play(sender, documents):
        for together in (1, 5):
            before = sender.trips
            await asyncio.gather(*(documents.send([Entry(page(number))]) for number in range(together)))
            assert sender.trips == before + 1
        reader = DocumentReader(settings, sender)
        assert len(await read_all(reader, 6)) == 6
        await reader.close()

    scenario(settings, play)


def test_pages_arrive_complete_and_committed_ones_do_not_return(settings):
    async def play(sender, documents):
        pages = [page(number) for number in range(250)]
        await documents.send(map(Entry, pages[:200]))
        reader = DocumentReader(settings, sender)
        assert sorted(await read_all(reader, 200), key=lambda one: one.fetched_at) == pages[:200]
        assert await reader.done()
        await reader.close()
        await documents.send(map(Entry, pages[200:]))
        second = DocumentReader(settings, sender)
        assert sorted(await read_all(second, 50), key=lambda one: one.fetched_at) == pages[200:]
        await second.close()

    scenario(settings, play)


def test_uncommitted_pages_return(settings):
    async def play(sender, documents):
        await documents.send([Entry(page(number)) for number in range(50)])
        reader = DocumentReader(settings, sender)
        first = await read_all(reader, 50)
        await reader.close()  # it died before the index had them
        second = DocumentReader(settings, sender)
        assert {one.url for one in await read_all(second, 50)} == {one.url for one in first}
        await second.close()

    scenario(settings, play)


def test_text_is_cut_at_the_limit_and_oversized_pages_are_sent_without_it(settings):
    small = altered(settings, document_text=Bytes(1000))

    async def play(sender, documents):
        long = page(1, text="ä" * 5000)
        heavy = page(2, headers=[("x", "y" * 4 * 2**20)], title="t" * 100)
        heavier = page(3, title="t" * 4 * 2**20)
        await documents.send(map(Entry, [long, heavy, heavier]))
        reader = DocumentReader(small, sender)
        got = {one.fetched_at: one for one in await read_all(reader, 3)}
        await reader.close()
        assert got[1.0].text == "ä" * 500
        assert got[2.0] == msgspec.structs.replace(heavy, headers=[])
        assert (got[3.0].url, got[3.0].title, got[3.0].archive) == (heavier.url, "", heavier.archive)

    scenario(small, play)


def test_versions_of_a_page_keep_their_order_and_errors_are_keyed_by_domain(settings):
    async def play(sender, documents):
        versions = [page(1, fetched_at=float(time)) for time in range(20)]
        error = CrawlError(
            url="http://a.b.example/",
            key="k",
            host="a.b.example",
            domain="b.example",
            reason=Reason("dns", "no"),
        )
        await documents.send(map(Entry, versions), [error])
        reader = DocumentReader(settings, sender)
        assert [one.fetched_at for one in await read_all(reader, 20)] == [float(time) for time in range(20)]
        await reader.close()

    scenario(settings, play)
    kept = everything(settings, settings.kafka.documents, settings.kafka.documents_partitions)
    assert {message.key() for message in kept} == {document_key(page(1))}
    [error] = everything(settings, settings.kafka.errors, settings.kafka.errors_partitions)
    assert error.key() == b"b.example"


def test_a_poisoned_message_is_set_aside_and_the_rest_is_read(settings):
    async def play(sender, documents):
        await sender.send(
            [Outgoing(settings.kafka.documents, b"\xc1", headers=label(settings.cluster.name, "page"))]
        )
        await documents.send([Entry(page(1))])
        reader = DocumentReader(settings, sender)
        assert await read_all(reader, 1) == [page(1)]
        while not everything(settings, settings.kafka.dead_letters, 1):
            assert await reader.batch(10, wait=5) == []
        assert await reader.done()
        await reader.close()

    scenario(settings, play)


def test_pages_beside_a_bad_message_return_if_it_could_not_be_dead_lettered(settings):
    async def play(sender, documents):
        topic, partitions = settings.kafka.documents, settings.kafka.documents_partitions
        await sender.send([Outgoing(topic, b"\xc1", partition=number) for number in range(partitions)])
        await documents.send([Entry(page(number)) for number in range(5)])
        reader = DocumentReader(settings, sender)
        offer, refusals = sender.offer, []

        async def refusing(messages):
            if not refusals:
                refusals.append(1)
                raise EngineAway("no broker acknowledges it")
            return await offer(messages)

        sender.offer = refusing
        found: list[Page] = []
        for _ in range(100):
            with suppress(EngineAway):
                found += [entry.page for entry in await reader.batch(50, wait=0.3)]
            if refusals and len(found) >= 5:
                break
        assert sorted(one.url for one in found) == sorted(page(number).url for number in range(5))
        await reader.close()

    scenario(settings, play)


def test_two_readers_share_the_pages_and_together_read_all(settings):
    async def play(sender, documents):
        readers = [DocumentReader(settings, sender) for _ in range(2)]
        seen: set[str] = set()

        async def work(reader):
            for _ in range(40):
                seen.update(one.page.url for one in await reader.batch(50, wait=0.3))
                await reader.done()
                if len(seen) == 300:
                    return

        await documents.send([Entry(page(number)) for number in range(300)])
        await asyncio.gather(*map(work, readers))
        assert len(seen) == 300
        for reader in readers:
            await reader.close()

    scenario(settings, play)
