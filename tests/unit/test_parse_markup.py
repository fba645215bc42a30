"""The tag stream."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from skitter.parse import markup


def shape(source: str) -> list[str]:
    """Text, tags and the content of raw text elements, one after the other."""
    found = []
    for tag in markup.tags(source):
        found += [tag.text] if tag.text else []
        found += [f"</{tag.name}>" if tag.end else f"<{tag.name}{tag.written}>"] if tag.name else []
        found += [tag.content] if tag.content else []
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a<B>c</b>", ["a", "<b>", "c", "</b>"]),
        ("<a x='>' y=\">\" z=>t", ["<a x='>' y=\">\" z=>", "t"]),
        ("<a don't>b'c>d", ["<a don't>", "b'c>d"]),
        ("<a x=don't>b", ["<a x=don't>", "b"]),
        ("1 < 2 <3 <>", ["1 < 2 <3 <>"]),
        ("a<!-- <b> -- ><b> -->c", ["a", "c"]),
        ("<!-->a<!--->b<!--x--!>c", ["a", "b", "c"]),
        ("a<!-- open <b>", ["a"]),
        ("<?php echo '<b>' ?>a", ["' ?>a"]),
        ("<!doctype html>a</ b>c", ["a", "c"]),
        ("<script>a<b></b></scripty></SCRIPT >c", ["<script>", "a<b></b></scripty>", "</script>", "c"]),
        ("<title><b></title>", ["<title>", "<b>", "</title>"]),
        ("<style>open <b>", ["<style>", "open <b>"]),
        ("<scripts><b>", ["<scripts>", "<b>"]),
        ("a<b", ["a"]),
        ("a<script x", ["a"]),
        ("a<!-- <script>b</script> --><c>", ["a", "<c>"]),
        ('a<b c="d>e', ["a"]),
    ],
)
def test_tags_are_found_where_the_tokenizer_finds_them(source: str, expected: list[str]) -> None:
    assert shape(source) == expected


@given(st.text(alphabet="<>/!-='\"abscript \n&;#?", max_size=80))
def test_nothing_raises_and_text_is_never_invented(source: str) -> None:
    position = 0
    for tag in markup.tags(source):
        assert source.startswith(tag.text, position if tag.text else 0) or tag.text in source[position:]
        assert tag.start >= position
        position = tag.start


def test_attributes_are_those_the_tokenizer_sees() -> None:
    written = " A=1 b = '2&amp;' c=\"3\"d=4/ e a=no / f='open"
    assert markup.attributes(written) == {"a": "1", "b": "2&", "c": "3", "d": "4/", "e": "", "f": "open"}
    assert markup.attributes(" =x y") == {"=x": "", "y": ""}
    assert markup.attributes("  / ") == {}


@given(st.text(alphabet="&#xX0123456789abcdltgmpnoi;= ", max_size=60))
def test_references_in_text_match_pythons_html_unescape(text: str) -> None:
    ours, theirs = markup.unescape(text), html.unescape(text)
    # Python drops what the standard keeps: control characters and noncharacters by number.
    assert ours == theirs or any(not char.isprintable() or char == "\ufffd" for char in ours)


@pytest.mark.parametrize(
    ("text", "in_text", "in_attribute"),
    [
        ("&copy", "©", "©"),
        ("&copy=2", "©=2", "&copy=2"),
        ("&copy2", "©2", "&copy2"),
        ("&copy;2", "©2", "©2"),
        ("&notit;", "¬it;", "&notit;"),
        ("&#128;&#x80;", "€€", "€€"),
        ("&#0;&#xD800;&#x110000;", "\ufffd" * 3, "\ufffd" * 3),
        ("&#" + "0" * 5000 + "65;", "A", "A"),
        ("&#" + "9" * 5000 + ";", "\ufffd", "\ufffd"),
        ("&;&x;&", "&;&x;&", "&;&x;&"),
    ],
)
def test_references_are_replaced_with_more_care_in_attributes(
    text: str, in_text: str, in_attribute: str
) -> None:
    assert (markup.unescape(text), markup.unescape(text, attribute=True)) == (in_text, in_attribute)


@pytest.mark.parametrize(
    ("written", "href"),
    [
        (" href=/", "/"),
        (" href=/docs/", "/docs/"),
        (" href=docs// ", "docs//"),
        (' href="docs"/', "docs"),
        (" href=docs /", "docs"),
        (" href=docs/ class=x/", "docs/"),
    ],
)
def test_slashes_at_the_end_belong_to_a_value_without_quotes(written, href):
    """HTML Standard, 13.2.5.37: <a href=/docs/> leads to /docs/."""
    assert markup.attributes(written)["href"] == href
    assert LexborHTMLParser(f"<a{written}>").css_first("a").attributes["href"] == href
