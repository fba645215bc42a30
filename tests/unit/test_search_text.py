"""Text for search: normalisation, queries and snippets."""

import pytest

from skitter.export.search.text import (
    BREAK,
    CLOSE,
    OPEN,
    TERM_LENGTH,
    TERMS,
    clean,
    entry_id,
    query,
    spaced,
    unmarked,
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("two words", ["two", "words"]),
        ('a "whole phrase" b', ["a", "whole phrase", "b"]),
        ('"never closed', ["never closed"]),
        ('one"two three"four', ["one", "two three", "four"]),
        ("same same", ["same"]),
        ("! ? 'it' - \u0301 🕷", ["'it'"]),
        ('"" "  " "!"', []),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ("東京都 ½ ४२", ["東京都", "½", "४२"]),
        ("title:x AND (y*", ["title:x", "AND", "(y*"]),
    ],
)
def test_a_query_is_only_words_and_phrases(text, terms):
    assert list(query(text).terms) == terms
    assert not query(text).cut


def test_a_query_is_bounded_and_says_when_something_was_left_out():
    many = query(" ".join(map(str, range(TERMS + 1))))
    assert len(many.terms) == TERMS
    assert many.cut
    long = query('"' + "x " * TERM_LENGTH + '"')
    assert [len(term) for term in long.terms] == [TERM_LENGTH]
    assert long.cut
    assert query("!" * TERM_LENGTH + "x").terms == []


def test_filters_are_in_lower_case():
    assert query("x", " Example.ORG", "EN-gb").domain == "example.org"
    assert query("x", " Example.ORG", "EN-gb").language == "en-gb"


def test_clean_text_keeps_its_length_and_loses_non_text():
    assert clean("a\x00b\x1b[1m\x02\x03\ud800\ufffe\n\té日") == "a b [1m    \n\té日"


def test_characters_that_are_words_are_separated():
    assert spaced("plain text") == "plain text"
    assert spaced("in東京x").split(BREAK) == ["in", "東", "京", "x"]
    assert spaced("カタカナ 한국어 ไทย") == "カタカナ 한국어 ไทย"
    assert unmarked(spaced("日本のTokyo"))[0] == "日本のTokyo"


def test_marks_say_where_matches_are_in_plain_text():
    plain, marks = unmarked(f" a  {OPEN}b{CLOSE}\n {OPEN}東{CLOSE}{BREAK}{OPEN}京{CLOSE}c")
    assert plain == "a b 東京c"
    assert [plain[start:end] for start, end in marks] == ["b", "東京"]


def test_an_id_is_short_and_the_same_everywhere():
    assert entry_id("https://a.example/") == "6b6c70ad956a4f1f4873497f2c5e20ff"
    assert len(entry_id("https://a.example/" + "x" * 10_000 + "\ud800")) == 32
