"""A page is untrusted input: the work of parsing it stays in proportion to its length.

Building a tree by the HTML Standard does not, so hostile documents must not reach the tree builder. Time is compared with
time in the same process (n against 4n), never with a clock on the wall.
"""

import time
from collections.abc import Callable

import pytest
from selectolax.lexbor import LexborHTMLParser

from skitter.parse import charset, html, parse
from skitter.settings import ParseSettings
from tests.conformance.cases import needs_cases, rows

SETTINGS = ParseSettings(sloppy_anchors=True, content_start="<p>", content_end="</p>")


def cpu(content: bytes, settings: ParseSettings = SETTINGS) -> float:
    """CPU seconds of reading it, the better of two."""
    best = float("inf")
    for _ in range(2):
        before = time.process_time()
        parse("http://site.example/", [("content-type", "text/html; charset=utf-8")], content, settings)
        best = min(best, time.process_time() - before)
    return best


def assert_in_proportion(make: Callable[[int], bytes], n: int) -> None:
    """Four times the input is four times the work. Quadratic work would be sixteen times; ten is between them."""
    for _ in range(3):  # a busy machine gets another chance; quadratic work fails them all
        small, large = cpu(make(n)), cpu(make(4 * n))
        if large < 10 * small + 0.02:
            return
    pytest.fail(f"{n}: {small:.3f} s, {4 * n}: {large:.3f} s")


def numbered(pattern: bytes) -> Callable[[int], bytes]:
    return lambda n: b"".join(pattern % number for number in range(n))


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "nothing but <": lambda n: b"<" * n * 10,
    "nothing but </": lambda n: b"</" * n * 5,
    "nothing but <!": lambda n: b"<!" * n * 5,
    "nothing but <a": lambda n: b"<a" * n * 5,
    "nothing but &": lambda n: b"&" * n * 10,
    "nothing but &#9": lambda n: b"&#" + b"9" * n * 10,
    "names without end": lambda n: b"&" + b"a" * n * 10 + b"<" + b"b" * n * 10,
    "nested divs": lambda n: b"<div>" * n,
    "nested lists": lambda n: b"<ul><li>" * n,
    "nested tables": lambda n: b"<table><tr><td>" * n,
    "nested links": lambda n: b"<a href=x><div>" * n,
    "end tags of nothing": lambda n: b"<span>" * n + b"</div>" * n,
    "formatting, never closed": lambda n: b"<p>" + numbered(b"<b id=%d>")(n) + b"<p>x" * n,
    "attributes": lambda n: b"<a " + numbered(b"x%d=1 ")(n) + b">",
    "attributes without values": lambda n: b"<a " + numbered(b"x%d ")(n) + b">",
    "attributes that hold tags": lambda n: b"<a " + numbered(b"x%d='<b>' ")(n) + b">",
    "attributes of many html tags": numbered(b"<html a%d=1>"),
    "white space in a tag": lambda n: b"<a" + b" " * n * 10 + b">",
    "open quotes": lambda n: b'<a x="' * n + b"<a x='" * n,
    "open comments": lambda n: b"<!-- -" * n,
    "dashes": lambda n: b"<!--" + b"-" * n * 10,
    "open scripts": lambda n: b"<script>" + b"</scrip <!-- <script " * n,
    "open titles": lambda n: b"<title>" * n,
    "pictures with titles": lambda n: b"<svg><g>" * n + b"<title>" * n,
    "formatting, almost closed": lambda n: b'<b id="x">' + b"<span></span>" * n + b"<b id='" * n,
    "templates": lambda n: b"<template>" * n + b"</template>" * n,
    "anchors with blanks": lambda n: b'< a href="x' * n,
    "blanks for anchors": lambda n: b"<" + b" " * n * 10 + b"<  " * n,
    "content markers": lambda n: b"<p></p>" * n,
    "open content markers": lambda n: b"<p>" * n,
    "charset": lambda n: b"<meta charset" * n,
    "charset in content": lambda n: b"<meta http-equiv=content-type content='" + b"charset " * n + b"'>",
    "xml declaration": lambda n: b"<?xml" + b" encoding" * n,
    "refreshes": lambda n: b"<meta http-equiv=refresh content='" + b" " * n + b"9" * n + b";" * n + b"'>",
    "noscript": lambda n: b"<noscript>" + b"<a href=" * n,
    "links": numbered(b"<a href=/%d>x</a>"),
    "white space": lambda n: b" \n" * n * 5,
}


@pytest.mark.parametrize("n", [500, 5_000])
@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_input_and_no_faster(name: str, n: int) -> None:
    assert_in_proportion(HOSTILE[name], n)


@pytest.mark.parametrize(
    "name", ["nested divs", "formatting, never closed", "attributes", "attributes of many html tags"]
)
def test_documents_that_blow_up_a_tree_are_not_built_into_one(name: str) -> None:
    assert not html.is_tame(HOSTILE[name](100_000)[: 5 * 2**20])


def small_bombs() -> list[bytes]:
    """Documents that just pass for tame, each with the most of one bad thing."""
    formatting = b"<p>" + numbered(b"<b id=%d>")(490) + b"<p>x" * 500
    inside = b"<p>" + numbered(b"<b id=%d>")(36) + b"<p>x" * 7_900
    return [b"<div>" * 7_999, formatting, inside, b"<a " + numbered(b"x%d ")(9_000) + b">"]


def test_a_tree_that_is_built_has_no_more_nodes_than_we_can_bear() -> None:
    for content in small_bombs():
        assert html.is_tame(content)
        root = LexborHTMLParser(content).root
        assert root is not None
        assert sum(1 for _ in root.traverse(include_text=True)) < 600_000


def test_hiding_tags_in_comments_or_quotes_does_not_make_a_document_tame() -> None:
    bomb = b"<p>" + numbered(b"<b id=%d>")(2_000) + b"<p>x" * 2_000
    attributes = b"<a " + numbered(b"x%d ")(20_000) + b">"
    for start, end in (
        (b"<!-- -->", b"<!-- -->"),
        (b"<script><!--</script>", b"-->"),
        (b'<i x="', b'">'),
        (b"<svg><style>", b""),
    ):
        assert not html.is_tame(start + bomb + end)
        assert not html.is_tame(start + attributes + end)


NESTED_IN_SECRET = {
    "plainly": b"<div>",
    "behind a marker of scope": b"<div><table><td></div>",
    "an end tag in an attribute": b'<div title="</div>">',
    "an end tag in a comment": b"<div><!--</div>-->",
    "an end tag of another name": b"<x-y>t</x>",
    "a script in a comment in a script": b"<div><script><!--<script></script></div>--></script>",
    "a section in a drawing": b"<svg><![CDATA[ > </svg></div> ]]>",
    "a title in a drawing": b"<svg><title><div></title></svg>",
    "a description in a drawing": b"<svg><desc><div></desc></svg>",
    "raw text in a drawing": b"<svg><noscript><div></noscript></svg>",
    "a formula": b"<math><mi><div></mi></math>",
    "wrong order": b"<div><form></div></form>",
    "tables": b"<table><tr><td>",
}


@pytest.mark.parametrize("name", NESTED_IN_SECRET)
def test_a_large_document_that_may_be_nested_deeply_is_not_tame(name: str) -> None:
    part = NESTED_IN_SECRET[name]
    for before in (b"", b"<p>x</p>" * 100):
        assert not html.is_tame(before + part * (9_000 // part.count(b"<") + 1))


@pytest.mark.parametrize(
    "part",
    [
        b"<div class=x><p>a <a href=/>b</a> <b>c</b><br></div>",
        b"<table><tr><td>a<td>b</table>",
        b'<ul><li><a href="/"><code class="x"><span>a</span></code></a><li>b</ul>',
        b'<div><svg viewBox="0 0 1 1"><path d=x></path></svg></div>',
    ],
)
def test_a_large_document_that_is_nested_little_is_tame(part: bytes) -> None:
    assert html.is_tame(part * (20_000 // part.count(b"<")))


def test_looking_at_the_nesting_is_linear() -> None:
    for part in (b"<!--", b"<a x='", b"<a ", b"<a x=\"<a x='", b"<script><!--", b"<div>t", b"<title>"):
        assert_in_proportion(lambda n, part=part: part * n, 40_000)  # type: ignore[misc]


def test_formatting_that_is_closed_at_once_is_tame() -> None:
    words = b"""<em class='a'>x</em> <code class="b" hidden\n><span class="pre">y</span></code>"""
    content = b"<p>" + words * 900 + b"<p>x" * 900
    assert html.is_tame(content)
    root = LexborHTMLParser(content).root
    assert root is not None
    assert sum(1 for _ in root.traverse(include_text=True)) < content.count(b"<") * 2


@pytest.mark.parametrize(
    "opened",
    [
        b"<b id=%d><!--</b>-->",
        b"<b id='%d'><!--</b>-->",
        b"<b id='%d' x=\"><p></b>\">",
        b"<b id='%d' x=></b>",
        b"<b id='%d'><p></b>",
        b"<b id='%d'></i>",
        b"<b id='%d'><script></b></script>",
    ],
)
def test_formatting_that_only_seems_to_be_closed_is_not_tame(opened: bytes) -> None:
    assert not html.is_tame(b"<p>" + numbered(opened)(1_000) + b"<p>x" * 1_000)


def test_looking_for_floods_of_attributes_is_linear_itself() -> None:
    # Few enough < to be looked at, and each of them followed by something long.
    for unit in (b"<a/x=", b"<a", b'<a x="', b"<a x='\"", b"<a "):
        assert_in_proportion(lambda n, unit=unit: unit * 7_000 + b"y" * n + b">", 500_000)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["gbk", "euc-jp", "shift_jis", "utf-16le", "iso-2022-jp", "windows-1252"])
def test_broken_characters_are_replaced_in_linear_time(name: str) -> None:
    def seconds(content: bytes) -> float:
        before = time.process_time()
        charset.decode(content, name)
        return time.process_time() - before

    for unit in (b"\x80", b"\xff", b"\x1b$B\xff"):
        assert any(seconds(unit * 400_000) < 10 * seconds(unit * 100_000) + 0.02 for _ in range(3))


@needs_cases
def test_inputs_that_hung_other_parsers_do_not_hang_ours() -> None:
    cases = rows("redos_inputs.jsonl")
    assert len(cases) == 11
    for unit, length in {(row["unit"], row["length"]) for row in cases}:
        written = unit.encode("utf-8", "surrogatepass")
        assert_in_proportion(lambda n, written=written: (written * (n // len(written) + 1))[:n], length // 4)  # type: ignore[misc]
