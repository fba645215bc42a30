"""How pages get into an index: which are wanted, retried, reported, and sent again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest

from skitter.backends.sqlite_fts import FtsIndex
from skitter.export.search.feed import Fed, feed, unwanted
from skitter.export.search.stored import BATCH, LOOKED_AT, changed
from skitter.export.search.text import query
from skitter.model import Directives, Page, Statement
from skitter.ports import EngineAway, EngineError, Entry, Rejected, SearchIndex
from skitter.testing.contracts.search import entry, found
from tests.unit.crawled import NOW, page
from tests.unit.shelf import Shelf

ROOT = "https://example.org/"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"status": 203}, ""),
        ({"duplicate_of": ROOT}, ""),
        ({"status": 404}, "its status is 404"),
        ({"status": 301}, "its status is 301"),
        ({"robots": Directives(index=False)}, "it asks not to be indexed (noindex)"),
        ({"duplicate_of": ROOT, "identical": True}, f"it repeats {ROOT} byte for byte"),
        ({"ignored": "the marker is missing"}, "the marker is missing"),
        (
            {"robots": Directives(unavailable_after=1.0)},
            "it asks not to be indexed any more (unavailable_after)",
        ),
        ({"robots": Directives(unavailable_after=9e9)}, ""),
        (
            {"statements": (Statement("x", "search=n", {"search": "n"}),)},
            "it says no to search (x: search=n)",
        ),
        ({"statements": (Statement("x", "train-ai=n", {"train-ai": "n"}),)}, ""),
    ],
)
def test_errors_copies_and_noindex_pages_are_not_indexed(fields, why):
    assert unwanted(page("https://example.org/a", **fields)) == why


# ------------------------------------------------------------------------------------------------ feeding


class Recorder:
    """An index that remembers what it was told, and fails as often as it is asked to."""

    def __init__(
        self, failures: int = 0, refuses: Sequence[str] = (), failure: type[EngineError] = EngineAway
    ) -> None:
        self.failure = failure
        self.failures = failures
        self.refuses = refuses
        self.pages: dict[str, Page] = {}
        self.deleted: list[str] = []
        self.asked = 0
        self.again: Callable[[], Awaitable[None]] | None = None

    async def index(self, entries: Sequence[Entry]) -> list[Rejected]:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            problem = self.failure("OpenSearch at http://127.0.0.1:1: it is away; start it")
            if isinstance(problem, EngineAway) and self.again is not None:
                problem.again = self.again
            raise problem
        self.pages |= {each.page.key: each.page for each in entries if each.page.url not in self.refuses}
        return [Rejected(each.page.url, "no") for each in entries if each.page.url in self.refuses]

    async def delete(self, gone: Mapping[str, float]) -> None:
        self.deleted += gone
        for key in gone:
            self.pages.pop(key, None)


def run(batches: Sequence[Sequence[Entry]], index: Recorder, **options: object) -> tuple[Fed, list[str]]:
    """Feed batches; the words say in which order things happened."""
    story: list[str] = []

    async def source() -> AsyncIterator[Sequence[Entry]]:
        for number, batch in enumerate(batches):
            story.append(f"offer {number}")
            yield batch
            story.append(f"acknowledged {number}")

    def poison(rejected: Rejected) -> None:
        story.append(f"poison {rejected.url}")

    async def again() -> None:
        story.append("wait")

    index.again = again
    ticks = iter(range(10_000))
    fed = asyncio.run(
        feed(source(), index, poison=poison, monotonic=lambda: float(next(ticks)), **options)  # type: ignore[arg-type]
    )
    return fed, story


def test_a_batch_is_acknowledged_when_it_is_in():
    index = Recorder()
    fed, story = run(
        [[entry("https://a.example/1"), entry("https://a.example/2")], [entry("https://a.example/3")]], index
    )
    assert story == ["offer 0", "acknowledged 0", "offer 1", "acknowledged 1"]
    assert fed == Fed(indexed=3)
    assert len(index.pages) == 3


def test_a_refused_page_is_reported_and_stops_nothing():
    index = Recorder(refuses=["https://a.example/1"])
    fed, story = run([[entry("https://a.example/1"), entry("https://a.example/2")]], index)
    assert story == ["offer 0", "poison https://a.example/1", "acknowledged 0"]
    assert fed == Fed(indexed=1, rejected=1)


def test_an_engine_that_is_away_is_waited_for_and_its_breaker_says_how_long():
    index = Recorder(failures=8)
    fed, story = run([[entry("https://a.example/1")]], index)
    assert story == ["offer 0", *["wait"] * 8, "acknowledged 0"]
    assert fed == Fed(indexed=1)


def test_an_engine_that_stays_away_ends_it_and_the_batch_is_not_acknowledged():
    """Every look at the clock is a second later here."""
    index = Recorder(failures=100)
    with pytest.raises(EngineAway, match="it is away"):
        run([[entry("https://a.example/1")]], index, patience=3)
    assert index.asked == 3
    assert index.pages == {}


def test_an_engine_that_cannot_be_used_is_not_waited_for():
    index = Recorder(failures=1, failure=EngineError)
    with pytest.raises(EngineError):
        run([[entry("https://a.example/1")]], index)
    assert index.asked == 1


def test_unwanted_pages_are_removed_and_the_later_version_wins():
    gone = Entry(page("https://a.example/1", status=410, fetched_at=NOW + 1))
    back = entry("https://a.example/2", fetched_at=NOW + 1)
    was = Entry(page("https://a.example/2", status=410))
    index = Recorder()
    fed, _ = run([[entry("https://a.example/1")], [gone, back, was]], index)
    assert list(index.pages) == ["https://a.example/2"]
    assert index.deleted == ["https://a.example/1"]
    assert fed == Fed(indexed=2, removed=1)


# ------------------------------------------------------------------------------------------------ from a crawl directory


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "crawl")


def update(shelf: Shelf, *texts: str, remarks: list[str] | None = None) -> tuple[Fed, list[list[str]]]:
    """Bring the index up to date and look for each text."""
    said: list[str] = [] if remarks is None else remarks

    async def main() -> tuple[Fed, list[list[str]]]:
        index: SearchIndex = FtsIndex(shelf.directory.search_file)
        await index.open()
        try:
            fed = await feed(
                changed(shelf, index, said.append), index, poison=lambda rejected: said.append(rejected.url)
            )
            return fed, [found(await index.search(query(text))) for text in texts]
        finally:
            await index.close()

    result = asyncio.run(main())
    assert remarks is not None or said == []
    return result


def test_the_text_comes_out_of_the_archive(shelf):
    shelf.put(ROOT, "Home", "Garden spiders weave.")
    assert update(shelf, "spiders", "home") == (Fed(indexed=1), [[ROOT], [ROOT]])


def test_only_new_or_refetched_pages_are_sent(shelf):
    shelf.put(ROOT, "Home", "old words")
    shelf.put(f"{ROOT}a", "A", "more")
    assert update(shelf)[0] == Fed(indexed=2)
    assert update(shelf)[0] == Fed()
    shelf.put(f"{ROOT}b", "B", "more")
    shelf.put(ROOT, "Home", "new words", NOW + 60)
    assert update(shelf, "old", "new") == (Fed(indexed=2), [[], [ROOT]])


def test_a_page_that_is_gone_or_now_says_noindex_is_removed(shelf):
    shelf.put(ROOT, "Home", "words")
    shelf.put(f"{ROOT}a", "A", "words")
    update(shelf)
    shelf.put(ROOT, "Home", "words", NOW + 60, status=404)
    shelf.put(f"{ROOT}a", "A", "words", NOW + 60, robots=Directives(index=False))
    assert update(shelf, "words") == (Fed(removed=2), [[]])
    assert update(shelf)[0] == Fed()


def test_an_exact_copy_is_found_as_its_original(shelf):
    shelf.put(ROOT, "Home", "words")
    shelf.put(f"{ROOT}copy", "Home", "words", duplicate_of=ROOT, identical=True)
    assert update(shelf, "words") == (Fed(indexed=1), [[ROOT]])


def test_an_unreadable_page_is_reported_and_retried_next_time(shelf):
    lost = shelf.put(f"{ROOT}lost", "Lost", "words")
    shelf.put(ROOT, "Home", "words")
    assert lost.archive is not None
    kept = shelf.answers.pop(lost.archive)
    remarks: list[str] = []
    assert update(shelf, "words", remarks=remarks) == (Fed(indexed=1), [[ROOT]])
    assert remarks == [f"{ROOT}lost: its text cannot be read: 00-1.warc.gz has no whole record at 0"]
    shelf.answers[lost.archive] = kept
    assert update(shelf)[0] == Fed(indexed=1)


def test_an_interrupted_update_continues(shelf):
    for number in range(BATCH * 2 + 1):
        shelf.put(f"{ROOT}{number}", "Page", "words")

    async def interrupted() -> None:
        index = FtsIndex(shelf.directory.search_file)
        await index.open()
        batches = changed(shelf, index, pytest.fail)
        await index.index(await anext(batches))
        await batches.aclose()  # type: ignore[attr-defined]
        await index.close()

    asyncio.run(interrupted())
    assert update(shelf)[0] == Fed(indexed=BATCH + 1)


def test_many_pages_come_in_batches_and_each_once(shelf):
    for number in range(LOOKED_AT + BATCH + 7):
        shelf.put(f"{ROOT}{number}", "Page", "words")

    async def main() -> list[int]:
        index = FtsIndex(shelf.directory.search_file)
        await index.open()
        batches = [batch async for batch in changed(shelf, index, pytest.fail)]
        await index.close()
        assert len({each.page.url for batch in batches for each in batch}) == LOOKED_AT + BATCH + 7
        return [len(batch) for batch in batches]

    assert asyncio.run(main()) == [200, 200, 200, 107]


def test_an_entry_says_where_its_page_leads(shelf):
    shelf.put(f"{ROOT}a/b", "Page", "words")

    async def main() -> Entry:
        index = FtsIndex(shelf.directory.search_file)
        await index.open()
        ((first,),) = [batch async for batch in changed(shelf, index, pytest.fail)]
        await index.close()
        return first

    first = asyncio.run(main())
    assert first.links == [f"{ROOT}a/next"]
    assert first.page.text == "words on write"
