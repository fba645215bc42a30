"""Main content: which part of a page it is, its Markdown, dates, structured data and language."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from skitter.model import Content, Document
from skitter.parse import is_slow, main, parse
from skitter.parse.main import language, structured
from skitter.parse.main.markdown import markdown
from skitter.parse.markup import names
from skitter.settings import ParseSettings, SettingsError
from tests.unit.counting import in_elements, in_markdown, lost

URL = "https://site.example/dir/page"
HTML = [("content-type", "text/html; charset=utf-8")]
FAST = ParseSettings(main=True, extractor="fast")
GOOD = ParseSettings(main=True, extractor="trafilatura")
STORY = "".join(
    f"<p>Paragraph {number} of the story, which goes on for a while, as stories do, and has some more words.</p>"
    for number in range(8)
)
PAGE = f"""<!doctype html><html><head><title>A story</title></head><body>
<nav><ul><li><a href=/>Home</a><li><a href=/news>News</a></ul></nav>
<div class="menu"><a href=/a>Menu entry</a> <a href=/b>Another menu entry</a></div>
<article><h1>A story</h1>{STORY}
<pre class="language-python">print("code")</pre><table><tr><th>Key<th>Value<tr><td>a|b<td>1</table>
<div class="share-buttons"><a href="https://share.example/">Share this</a></div></article>
<div class="sidebar"><ul><li><a href=/x>Most read today</a><li><a href=/y>Also read today</a></ul></div>
<footer>Copyright, contact, imprint, and everything else that no reader came here for, at length</footer></body></html>"""


def read(source: str, settings: ParseSettings = FAST) -> Document:
    return parse(URL, HTML, source.encode(), settings)


def content(source: str, settings: ParseSettings = FAST) -> Content:
    found = read(source, settings).content
    assert found is not None
    return found


def written(source: str, base: str = URL) -> str:
    body = LexborHTMLParser(source).body
    assert body is not None
    return markdown([body], base)


# ------------------------------------------------------------------------------------------------ which part

judges = pytest.mark.parametrize("settings", [FAST, GOOD], ids=["fast", "trafilatura"])


@judges
def test_boilerplate_is_removed_and_the_story_code_and_table_stay(settings):
    found = content(PAGE, settings)
    for gone in ("Home", "Menu entry", "Share this", "Most read", "imprint"):
        assert gone not in found.main
        assert gone not in found.markdown
    for number in range(8):
        assert f"Paragraph {number} of" in found.main
    assert '```python\nprint("code")\n```' in found.markdown
    assert "| a\\|b | 1 |" in found.markdown


@judges
def test_a_page_without_running_text_is_taken_whole(settings):
    found = content("<title>Index</title><ul><li><a href=a>Alpha</a><li><a href=b>Beta</a></ul>", settings)
    assert "[Alpha](https://site.example/dir/a)" in found.markdown
    assert found.main.split() == ["Alpha", "Beta"]


def test_a_section_is_not_taken_for_the_whole_of_a_manual():
    sections = "".join(
        f"<section><h2>Part {n}</h2>{STORY * (n == 1)}<pre>code {n}</pre></section>" for n in range(3)
    )
    assert [f"code {n}" in content(f"<main>{sections}</main>").markdown for n in range(3)] == [True] * 3


def test_a_highlighted_comment_in_code_is_no_boilerplate():
    page = f'<article>{STORY}<pre><span class="comment"># why</span>\n<span class="tag">x</span> = 1</pre></article>'
    assert "# why\nx = 1" in content(page).markdown


def test_a_box_of_a_book_stays_and_a_menu_of_that_name_goes():
    box = "<div class=sidebar><p>A note of the book, without any links in it, as books have them.</p></div>"
    menu = (
        "<div class=sidebar><ul><li><a href=/a>Some other page</a><li><a href=/b>And one more</a></ul></div>"
    )
    found = content(f"<article>{STORY}{box}{menu}</article>").main
    assert "A note of the book" in found
    assert "Some other page" not in found


def test_without_the_setting_nothing_is_extracted():
    assert parse(URL, HTML, PAGE.encode(), ParseSettings()).content is None
    assert not is_slow(URL, HTML, PAGE.encode(), ParseSettings())
    assert is_slow(URL, HTML, PAGE.encode(), FAST)


def test_only_what_is_between_markers_is_content():
    settings = ParseSettings(main=True, extractor="fast", content_start="<!--a-->", content_end="<!--b-->")
    found = content(f"<p>outside of the markers, a sentence<!--a-->{STORY}<!--b--><p>outside again", settings)
    assert "Paragraph 3" in found.main
    assert "outside" not in found.main


def test_plain_text_and_markdown_are_content_as_they_are():
    plain = parse(URL, [("content-type", "text/plain")], b"# one\n\n* two *\n", FAST).content
    assert plain == Content(main="# one\n\n* two *", markdown="\\# one\n\n\\* two \\*")
    source = parse(URL, [("content-type", "text/markdown")], b"# one\n\n* two\n", FAST).content
    assert source == Content(main="# one\n\n* two", markdown="# one\n\n* two")


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(main, "find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=r"\[main\].*extractor = \"fast\""):
        main.require(GOOD)
    main.require(FAST)


# ------------------------------------------------------------------------------------------------ Markdown


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<h2>A <i>b</i></h2>", "## A *b*"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("a <b>bold </b>word", "a **bold** word"),
        ("a<br>b", "a\\\nb"),
        ("<ul><li>a<ol start=3><li>b<li>c</ol><li>d</ul>", "- a\n  3. b\n  4. c\n- d"),
        ("<ul><li><p>a<p>b<li>c</ul>", "- a\n\n  b\n\n- c"),
        ("<dl><dt>t<dd>d<dd>e</dl>", "- t\n\n  d\n\n  e"),
        ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b"),
        ("<hr>", "---"),
        ("<a href='x y?a=(1)'>t</a>", "[t](<https://site.example/dir/x%20y?a=(1)>)"),
        ("<a href=#top>t</a>", "[t](https://site.example/dir/page#top)"),
        ("<a href='javascript:alert(1)'>t</a>", "t"),
        ("<h2>t<a href=#t>¶</a></h2>", "## t"),
        ("<a href=x aria-label=label></a>", "[label](https://site.example/dir/x)"),
        ("<a href=x><h3>t</h3><p>u</p></a>", "### [t](https://site.example/dir/x)\n\nu"),
        ("<a href=x><img src=i.png alt='a]b'></a>",
         "[![a\\]b](https://site.example/dir/i.png)](https://site.example/dir/x)"),
        ("<img src='data:image/png;base64,AA' data-src=/i.png alt=a>", "![a](https://site.example/i.png)"),
        ("<code>a`b</code>", "``a`b``"),
        ("<code>f(<a href=x>T</a>)</code>", "`f(`[`T`](https://site.example/dir/x)`)`"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<pre><a href=x>T</a>\n y</pre>", "```\nT\n y\n```\n\nLinks in it: [`T`](https://site.example/dir/x)"),
        ("<pre><code class='hljs language-c++'>x</code></pre>", "```c++\nx\n```"),
        ("<div class='highlight-rust'><div><pre>x</pre></div></div>", "```rust\nx\n```"),
        ("<table><tr><th>a<th>b<tr><td colspan=2>c</table>", "| a | b |\n| --- | --- |\n| c |  |"),
        ("<table><tr><td>a<td>b|c</table>", "|  |  |\n| --- | --- |\n| a | b\\|c |"),
        ("<table><tr><th>a<tr><td><p>b<p>c<pre>d\ne</pre></table>", "| a |\n| --- |\n| b<br>c<br>`d`<br>`e` |"),
        ("<table><tr><td>1<td><pre>x</pre></table>", "1\n\n```\nx\n```"),
        ("<table><caption>C</caption><tr><th>a</table>", "C\n\n| a |\n| --- |"),
        ("<p hidden>a<p style='display: none'>b<script>c</script><nav>d</nav><p>e", "e"),
        ("a\x00\x1b[31mb", "a[31mb"),
    ],
)  # fmt: skip
def test_elements_become_marks(source, expected):
    assert written(source) == expected


@pytest.mark.parametrize(
    "text",
    ["# no heading", "- no item", "1. no item", "> no quote", "a *b* _c_ `d` ~~e~~", "[a](b)", "![a](b)", "<b>c</b>",
     "&lt;", "| a | b |", "---", "===", "```", "~~~", "\\", "[a]: b", "<script>alert(1)</script>", "snake_case_name"],
)  # fmt: skip
def test_text_stays_text(text):
    """Whatever a page writes is shown as written, by a reader of Markdown that also knows HTML."""
    source = text.replace("&", "&amp;").replace("<", "&lt;")
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(written(f"<p>{source}</p>"))
    expected = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert shown == f"<p>{expected}</p>\n"


_TEXT = st.text(st.sampled_from("ab 1.#*_`[]()<>!|~\\-+&;\n"), max_size=12)
_LEAF = st.one_of(
    _TEXT.map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;")),
    _TEXT.map(lambda text: f"<a href='/l?{len(text)}'>x{text.replace('<', '&lt;')}</a>"),
    _TEXT.map(lambda text: f"<pre>x{text.replace('<', '&lt;')}</pre>"),
    st.just("<img src=i.png alt=a>"),
    st.just("<table><tr><th>a<td>b</table>"),
)
_TREE = st.recursive(
    _LEAF,
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
        st.sampled_from(sorted(names("p div b em code ul ol li h2 blockquote span section dl dd dt td"))),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@given(_TREE)
def test_no_link_is_lost_whatever_the_nesting(source):
    body = LexborHTMLParser(source).body
    assert body is not None
    elements, text = in_elements(body.html or "", URL), markdown([body], URL)
    found = in_markdown(text)
    assert set(elements.links) | elements.in_code <= set(found.links), text


def test_the_pages_of_a_manual_lose_nothing():
    page = f"""<main>{STORY}<ul><li>a <a href=1>one</a><pre>x = 1</pre><li><a href=2><code>two</code></a></ul>
    <table><tr><th>a<th>b<tr><td><a href=3>three</a><td><code>c|d</code></table><dl><dt><a href=4>f</a><dd>
    <blockquote><pre>y = 2</pre></blockquote></dl><div class=note><p><a href=5>five</a></div></main>"""
    body = LexborHTMLParser(page).body
    assert body is not None
    elements, found = in_elements(body.html or "", URL), in_markdown(content(page).markdown)
    assert (len(elements.links), len(elements.code), elements.tables) == (5, 2, 1)
    assert lost(elements, found) == []


# ------------------------------------------------------------------------------------------------ what it says


def test_structured_data_and_dates():
    found = content(f"""<head><meta property="og:title" content=T><meta property="og:image" content=a>
    <meta property="og:image" content=b><meta property="article:modified_time" content="2024-05-02T10:00:00+0200">
    <script type="application/ld+json">{{"@type": "Article", "datePublished": "2024-05-01", "n": 1}}</script></head>
    <div itemscope itemtype="https://schema.org/Offer"><b itemprop=price content=5>five</b>
    <div itemprop=seller itemscope><a itemprop=url href=/s>S</a></div></div>{STORY}""")
    assert (found.published, found.modified) == ("2024-05-01", "2024-05-02T10:00:00+02:00")
    assert found.structured == {
        "json_ld": [{"@type": "Article", "datePublished": "2024-05-01", "n": 1}],
        "opengraph": {
            "og:title": "T",
            "og:image": ["a", "b"],
            "article:modified_time": "2024-05-02T10:00:00+0200",
        },
        "microdata": [
            {
                "type": "https://schema.org/Offer",
                "properties": {
                    "price": ["5"],
                    "seller": [{"type": "", "properties": {"url": ["https://site.example/s"]}}],
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2024", "2024"), ("2024-05", "2024-05"), ("2024-05-01 10:00", "2024-05-01T10:00"),
     ("2024-05-01T10:00:00.123Z", "2024-05-01T10:00:00Z"), ("2024/05/01", "2024-05-01"), ("2024-13-01", ""),
     ("Wed, 01 May 2024 12:00:00 GMT", "2024-05-01T12:00:00+00:00"), ("yesterday", ""), ("", ""), ("0000-01-01", "")],
)  # fmt: skip
def test_dates_are_as_precise_as_they_are_written(text, expected):
    assert structured.iso_date(text) == expected


def test_structured_data_is_bounded():
    many = ",".join(f'"k{number}": "{"v" * 3000}"' for number in range(50))
    deep = '{"a":' * 50 + "1" + "}" * 50
    page = "".join(
        f'<script type="application/ld+json">{text}</script>'
        for text in (f"{{{many}}}", deep, "[" * 100_000, '{"n": 123456789012345678901234567890}', "{", "null")
    )
    found = content(page + "<div itemscope>" * 500 + "<meta itemprop=x content=y>" * 5000).structured
    assert found is not None
    kept, nested, *_ = found["json_ld"]
    assert {len(value) for value in kept.values()} == {2000}
    depth = 0
    while nested:
        nested, depth = nested.get("a"), depth + 1
    assert depth <= 8


def test_the_language_is_detected_where_none_is_declared():
    german = "<p>Das ist ein ganz gewöhnlicher Satz, wie er auf vielen Seiten steht, und noch ein zweiter dazu.</p>"
    assert read(german).language == "de"
    assert read(f"<html lang=en>{german}").language == "en"
    assert parse(URL, HTML, german.encode(), ParseSettings()).language == ""
    assert language.detected("123 456 789") == ""


# ------------------------------------------------------------------------------------------------ hostile pages

HOSTILE = {
    "attributes": "<p " + " ".join(f"a{number}=1" for number in range(50_000)) + ">x</p>",
    "divs": "<div>" * 100_000 + "text",
    "formatting": "<font color=a><p>" * 3_500 + "text " * 100,
    "lists": "<ul><li>" * 1_900 + "word " * 100,
    "quotations": "<blockquote>" * 3_900 + "word " * 100,
    "sections": "<section>" * 3_900 + "<p>" + "word, " * 100,
    "tables": "<table><tr><td>" * 1_300 + "word " * 100,
    "spans": "<table>" + "<tr><td colspan=1000>x<td>y</tr>" * 1_000 + "</table>",
    "cells": "<table><tr>" + "<td>x" * 20_000 + "<tr><td>y" * 50 + "</table>",
    "items": "<div itemscope itemprop=x>" * 3_000 + "x",
    "links": "<a href=x>y</a>" * 20_000,
    "marks": "<p>" + "_![*`" * 50_000,
}


@judges
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_little_time_and_space(name, settings):
    source = HOSTILE[name]
    before = time.process_time()
    found = content(source, settings)
    assert time.process_time() - before < 10  # CPU time; each takes less than half a second
    assert found.main.strip()
    assert len(found.markdown) < 4 * len(source) + (9 << 20)
