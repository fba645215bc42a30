"""The contract of `skitter.ports.SearchIndex`, executable.

class TestMyIndex(SearchIndexContract):
    def index(self) -> SearchIndex:
        return MyIndex(...)    # of one place that is empty when the test begins, whenever it is called in that test
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from skitter import urls
from skitter.export.search.text import Query, Results, query
from skitter.model import Page
from skitter.ports import SEARCH_DEPTH, Entry, SearchIndex
from skitter.testing.contracts.owner import asynchronous

FETCHED = 1_700_000_000.0

HOSTILE = (
    *("'", '"', '""', "`", "\\", "\x00", "a\x00b", "\ud800", "\ufffe", "\u202e", "\x02\x03", "%", "_"),
    *(
        "*",
        "a*",
        "(",
        ")",
        "((((",
        "^a",
        "a:b",
        "title:a",
        "-a",
        "+a",
        "a~2",
        "a^2",
        "{a}",
        "[a TO b]",
        "/a.*/",
    ),
    *(
        "AND",
        "OR",
        "NOT",
        "a AND",
        "NEAR(a b, 5)",
        "a OR b OR",
        "_exists_:title",
        "<script>",
        "';DROP TABLE pages;--",
    ),
    *(
        "a" * 10_000,
        "a " * 5_000,
        '"' * 10_000,
        "(" * 10_000,
        "東" * 10_000,
        " ".join(map(str, range(3_000))),
    ),
    *("", " ", "\n\t", "!?", "🕷", "؟", "\u0301"),
)


def entry(
    url: str, title: str = "", text: str = "", fetched_at: float = FETCHED, language: str = "en"
) -> Entry:
    """A page with this text."""
    host = urls.host(url)
    page = Page(
        url=url,
        requested_url=url,
        key=urls.key(url) or url,
        host=host,
        domain=urls.registrable_domain(host),
        status=200,
        fetched_at=fetched_at,
        content_type="text/html",
        title=title,
        text=text,
        language=language,
        digest="sha1:AAAA",
    )
    return Entry(page, [f"{url}#next"])


def found(results: Results) -> list[str]:
    """The URLs, best first."""
    return [hit.url for hit in results.hits]


class SearchIndexContract:
    """Every numbered invariant of the port."""

    def index(self) -> SearchIndex:
        """The index of this test, not yet open."""
        raise NotImplementedError

    @asynccontextmanager
    async def holding(self, *entries: Entry) -> AsyncIterator[SearchIndex]:
        """An open index with these pages."""
        index = self.index()
        try:
            await index.open()
            if entries:
                assert await index.index(entries) == []
                await index.refresh()
            yield index
        finally:
            await index.close()

    async def ask(self, index: SearchIndex, text: str, **filters: str) -> list[str]:
        return found(await index.search(query(text, **filters)))

    # -------------------------------------------------------------------------------------------- 1, 2, 3: what is in

    @asynchronous
    async def test_an_empty_index_finds_nothing_and_says_so(self) -> None:
        async with self.holding() as index:
            results = await index.search(query("anything"))
            assert (results.total, found(results)) == (0, [])
            assert await index.count() == 0
            assert await index.held(["https://a.example/"]) == {}

    @asynchronous
    async def test_nothing_to_do_is_fine(self) -> None:
        async with self.holding() as index:
            assert await index.index([]) == []
            await index.delete({})
            assert await index.held([]) == {}

    @asynchronous
    async def test_a_page_is_found_by_words_of_its_title_and_of_its_text(self) -> None:
        async with self.holding(
            entry("https://a.example/1", "Garden spiders", "They weave at night.")
        ) as index:
            (hit,) = (await index.search(query("spiders"))).hits
            assert (hit.url, hit.title, hit.domain) == ("https://a.example/1", "Garden spiders", "a.example")
            assert hit.fetched_at == FETCHED
            assert hit.score > 0
            assert await self.ask(index, "weave") == ["https://a.example/1"]
            assert await self.ask(index, "beetles") == []

    @asynchronous
    async def test_a_page_that_is_indexed_again_is_replaced(self) -> None:
        async with self.holding(entry("https://a.example/1", "Old", "ancient words")) as index:
            await index.index([entry("https://a.example/1", "New", "modern words", FETCHED + 1)])
            await index.refresh()
            assert await self.ask(index, "ancient") == []
            assert await self.ask(index, "old") == []
            assert await self.ask(index, "modern") == ["https://a.example/1"]
            assert await index.count() == 1

    @asynchronous
    async def test_the_version_that_was_fetched_last_stays_in_whatever_order_they_come(self) -> None:
        old = entry("https://a.example/1", "Old", "ancient", FETCHED)
        new = entry("https://a.example/1", "New", "modern", FETCHED + 0.5)
        async with self.holding(new) as index:
            assert await index.index([old]) == []
            await index.refresh()
            assert await self.ask(index, "modern") == ["https://a.example/1"]
            assert await self.ask(index, "ancient") == []

    @asynchronous
    async def test_the_same_pages_may_come_again_and_again(self) -> None:
        pages = [entry(f"https://a.example/{n}", "Same", "thing") for n in range(20)]
        async with self.holding(*pages) as index:
            assert await index.index(pages + pages) == []
            await index.refresh()
            assert await index.count() == 20
            assert (await index.search(query("thing"))).total == 20

    @asynchronous
    async def test_two_spellings_with_one_key_are_one_page(self) -> None:
        async with self.holding(entry("https://a.example/?a=1&b=2", "One")) as index:
            await index.index([entry("https://a.example/?b=2&a=1", "One", fetched_at=FETCHED + 1)])
            await index.refresh()
            assert await self.ask(index, "one") == ["https://a.example/?b=2&a=1"]

    @asynchronous
    async def test_what_is_deleted_is_gone_until_a_later_version_comes(self) -> None:
        async with self.holding(
            entry("https://a.example/1", "One"), entry("https://a.example/2", "Two")
        ) as index:
            await index.delete({"https://a.example/1": FETCHED + 1, "https://a.example/never": FETCHED})
            await index.refresh()
            assert await self.ask(index, "one") == []
            assert await index.count() == 1
            await index.index([entry("https://a.example/1", "One", fetched_at=FETCHED + 60)])
            await index.refresh()
            assert await self.ask(index, "one") == ["https://a.example/1"]

    @asynchronous
    async def test_what_was_fetched_after_it_was_found_gone_stays(self) -> None:
        """So replaying old messages ends as it did the first time."""
        old, new = (
            entry("https://a.example/1", "Old"),
            entry("https://a.example/1", "New", fetched_at=FETCHED + 2),
        )
        async with self.holding(new) as index:
            await index.index([old])
            await index.delete({"https://a.example/1": FETCHED + 1})
            assert await index.held(["https://a.example/1"]) == {"https://a.example/1": FETCHED + 2}
            assert await index.index([new]) == []
            await index.refresh()
            assert await self.ask(index, "new") == ["https://a.example/1"]
            assert await index.count() == 1

    @asynchronous
    async def test_what_is_held_is_known_at_once(self) -> None:
        async with self.holding(entry("https://a.example/1")) as index:
            await index.index(
                [entry("https://a.example/1", fetched_at=FETCHED + 7.25), entry("https://a.example/2")]
            )
            await index.delete({"https://a.example/2": FETCHED})
            keys = [f"https://a.example/{n}" for n in range(1, 4)]
            assert await index.held(keys) == {"https://a.example/1": FETCHED + 7.25}

    @asynchronous
    async def test_what_was_acknowledged_is_there_when_it_is_opened_again(self) -> None:
        async with self.holding() as index:
            await index.index([entry("https://a.example/1", "Kept")])
        async with self.holding() as index:
            await index.refresh()
            assert await self.ask(index, "kept") == ["https://a.example/1"]

    # -------------------------------------------------------------------------------------------- 4: what is found

    @asynchronous
    async def test_all_terms_must_be_there_wherever_each_stands(self) -> None:
        async with self.holding(
            entry("https://a.example/both", "Spiders", "weave webs"),
            entry("https://a.example/one", "Spiders", "rest"),
        ) as index:
            assert await self.ask(index, "spiders webs") == ["https://a.example/both"]
            assert await self.ask(index, "webs beetles") == []

    @asynchronous
    async def test_a_phrase_is_found_in_its_order_only(self) -> None:
        async with self.holding(
            entry("https://a.example/1", "x", "the polite crawler waits"),
            entry("https://a.example/2", "x", "crawler polite"),
        ) as index:
            assert await self.ask(index, '"polite crawler"') == ["https://a.example/1"]
            assert await self.ask(index, '"POLITE, crawler!"') == ["https://a.example/1"]
            assert await self.ask(index, "polite-crawler") == ["https://a.example/1"]
            assert await self.ask(index, '"polite crawler') == ["https://a.example/1"]

    @pytest.mark.parametrize(
        ("written", "asked"),
        [
            ("Résumé", "resume"),
            ("resume", "RÉSUMÉ"),
            ("re\u0301sume\u0301", "résumé"),
            ("Ångström", "angstrom"),
            ("Ελλάδα", "ΕΛΛΆΔΑ"),
            ("Москва", "МОСКВА"),
            ("naïve", "NAIVE"),
        ],
    )
    @asynchronous
    async def test_case_and_accents_do_not_matter(self, written: str, asked: str) -> None:
        async with self.holding(entry("https://a.example/1", "x", f"a {written} b")) as index:
            assert await self.ask(index, asked) == ["https://a.example/1"]

    @pytest.mark.parametrize("asked", ["東京", "東京都", "都は大き", "の", '"日本の東京"'])
    @asynchronous
    async def test_han_and_hiragana_are_found_inside_text_without_spaces(self, asked: str) -> None:
        async with self.holding(
            entry("https://a.example/1", "旅行", "日本の東京都は大きいです。"),
            entry("https://a.example/2", "x", "京東は別だ"),
        ) as index:
            (hit, *_) = (await index.search(query(asked))).hits
            assert hit.url == "https://a.example/1"
            if asked != "の":
                assert [hit.snippet[a:b] for a, b in hit.marks] == [asked.strip('"')]
            assert hit.title == "旅行"

    @pytest.mark.parametrize("word", ["שלום", "مرحبا", "ありがとう", "안녕하세요", "สวัสดี", "नमस्ते", "東京"])
    @asynchronous
    async def test_words_of_any_script_are_found_where_spaces_set_them_apart(self, word: str) -> None:
        async with self.holding(entry("https://a.example/1", "x", f"one {word} two")) as index:
            assert await self.ask(index, word) == ["https://a.example/1"]

    @asynchronous
    async def test_filters_narrow_what_is_found(self) -> None:
        async with self.holding(
            entry("https://www.a.example/", "Word", language="en-GB"),
            entry("https://docs.a.example/", "Word", language="de"),
            entry("https://b.example/", "Word", language="eng"),
        ) as index:
            everywhere = ["https://b.example/", "https://docs.a.example/", "https://www.a.example/"]
            assert sorted(await self.ask(index, "word")) == everywhere
            assert sorted(await self.ask(index, "word", domain="A.example")) == everywhere[1:]
            assert await self.ask(index, "word", domain="docs.a.example") == ["https://docs.a.example/"]
            assert await self.ask(index, "word", domain="example") == []
            assert await self.ask(index, "word", language="EN") == ["https://www.a.example/"]
            assert await self.ask(index, "word", language="de", domain="b.example") == []
            assert (await index.search(query("word", domain="b.example"))).total == 1

    # -------------------------------------------------------------------------------------------- 5: in which order

    @asynchronous
    async def test_a_word_in_the_title_is_worth_more_than_one_in_the_text(self) -> None:
        text = "Many words about this and that, and a spider among them. " * 3
        async with self.holding(
            entry("https://a.example/text", "Something else", text),
            entry("https://a.example/title", "Spider", text.replace("spider", "beetle")),
            *(entry(f"https://a.example/{n}", "Other things", "Nothing of that kind.") for n in range(10)),
        ) as index:
            assert await self.ask(index, "spider") == ["https://a.example/title", "https://a.example/text"]

    @asynchronous
    async def test_one_leafs_through_one_order_and_meets_each_page_once(self) -> None:
        async with self.holding(
            *(entry(f"https://a.example/{n:02}", "Same", "word") for n in reversed(range(25)))
        ) as index:
            leaves = [await index.search(query("word"), 10, offset) for offset in (0, 10, 20, 30)]
            assert [len(leaf.hits) for leaf in leaves] == [10, 10, 5, 0]
            assert {leaf.total for leaf in leaves} == {25}
            urls_in_order = [url for leaf in leaves for url in found(leaf)]
            assert urls_in_order == [f"https://a.example/{n:02}" for n in range(25)]
            assert (await index.search(query("word"), 0)).total == 25
            assert found(await index.search(query("word"), 10, SEARCH_DEPTH)) == []
            assert len(found(await index.search(query("word"), SEARCH_DEPTH + 10, 5))) == 20

    # -------------------------------------------------------------------------------------------- 6: hostile input

    @asynchronous
    async def test_any_text_can_be_looked_for(self) -> None:
        async with self.holding(entry("https://a.example/1", "Word", "b c")) as index:
            for text in HOSTILE:
                assert found(await index.search(query(text))) == [], text[:40]
                assert found(await index.search(query("word", domain=text)))[1:] == [], text[:40]
            assert found(await index.search(Query())) == []
            assert found(await index.search(Query(terms=["!", "word"]))) in ([], ["https://a.example/1"])

    @asynchronous
    async def test_any_page_can_be_indexed_and_is_found_by_its_other_words(self) -> None:
        pages = [
            entry(f"https://a.example/{n}", f"{text} title", f"spider {text} text")
            for n, text in enumerate(HOSTILE)
        ]
        async with self.holding(*pages) as index:
            assert await index.count() == len(pages)
            for term in ("title", "spider", "text"):
                assert (await index.search(query(term))).total == len(pages)

    @asynchronous
    async def test_a_snippet_is_plain_text_of_the_page_around_a_match(self) -> None:
        filler = "Some other words that do not matter here at all. " * 40
        text = (
            f"{filler}A <em>garden</em> <script>alert(1)</script> \x02spider\x03 &amp; web.\x1b[2J\n{filler}"
        )
        async with self.holding(entry("https://a.example/1", "<b>T</b>\x02", text)) as index:
            (hit,) = (await index.search(query('spider "garden"'))).hits
            assert {hit.snippet[start:end] for start, end in hit.marks} == {"garden", "spider"}
            assert "<em>garden</em> <script>alert(1)</script> " in hit.snippet
            assert hit.title.strip() == "<b>T</b>"
            assert not set("\x02\x03\x1b\n\u200b") & set(hit.snippet + hit.title)
            assert len(hit.snippet) < 600

    @asynchronous
    async def test_without_a_match_in_the_text_the_snippet_is_its_beginning(self) -> None:
        async with self.holding(entry("https://a.example/1", "Spider", "It begins here. " * 100)) as index:
            (hit,) = (await index.search(query("spider"))).hits
            assert hit.snippet.startswith("It begins here.")
            assert hit.marks == []
            assert len(hit.snippet) < 600

    @asynchronous
    async def test_a_very_long_page_and_very_long_words_are_taken(self) -> None:
        pages: Sequence[Entry] = [
            entry("https://a.example/long", "Long", "word " * 200_000 + "needle"),
            entry("https://a.example/wide", "Wide", "w" * 100_000 + " needle"),
            entry("https://a.example/" + "u" * 20_000, "x" * 20_000, "needle"),
        ]
        async with self.holding(*pages) as index:
            assert (await index.search(query("needle"))).total == 3
