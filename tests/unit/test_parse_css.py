"""What style sheets refer to: as CSS Syntax 3 reads them, and in linear time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.parse import css


def found(text: str) -> list[str]:
    return [href for href, _ in css.hrefs(text)]


@pytest.mark.parametrize(
    ("text", "hrefs"),
    [
        ("a{b:url(x.png)}", ["x.png"]),
        ("a{b:url( x.png )}", ["x.png"]),
        ("a{b:URL('x y.png')}", ["x y.png"]),
        ('a{b:url( "x.png" )}', ["x.png"]),
        ("a{b:url('a(1).png')}", ["a(1).png"]),
        ("a{b:url(a\\(1\\).png)}", ["a(1).png"]),
        ("a{b:url(\\78.png)}", ["x.png"]),
        ("a{b:url(\\000078 y.png)}", ["xy.png"]),  # a blank ends an escape
        ("a{b:url('x\\\ny.png')}", ["xy.png"]),  # a string over two lines
        ("a{b:url(\\0.png)}", ["\ufffd.png"]),
        ("a{b:url(x.png", ["x.png"]),  # the end of the sheet ends everything
        ("a{b:url('x.png", ["x.png"]),
        ("@import 'x.css';", ["x.css"]),
        ('@IMPORT "x.css" screen;', ["x.css"]),
        ("@import url(x.css) supports(display: grid);", ["x.css"]),
        ("@import/* why */url(x.css);", ["x.css"]),
        ("@font-face{src:url(f.woff2)format('woff2'),url(f.ttf)}", ["f.woff2", "f.ttf"]),
        (
            "a{b:image-set('1.png' 1x, url(2.png) 2x, '3.avif' type('image/avif'))}",
            ["1.png", "2.png", "3.avif"],
        ),
        ("a{b:-webkit-image-set(url(1.png) 1x)}", ["1.png"]),
        ("/* url(no) */ /* @import 'no'; */", []),
        ("a{content:'url(no)'} b{content:\"@import 'no'\"}", []),
        ("a{b:my-url(no) c:xurl(no)}", []),
        ("@namespace svg url(http://www.w3.org/2000/svg); @namespace 'no';", []),
        ("@-moz-document url(http://no.test/) {a{b:url(x)}}", ["x"]),
        ("@charset 'utf-8'; a{color:red}", []),
        ("a{b:url()} c{d:url('')} e{f:url", ["", ""]),
    ],
)
def test_what_a_sheet_refers_to(text, hrefs):
    assert found(text) == hrefs


def test_imports_are_sheets_and_the_rest_is_not():
    text = "@import 'a.css'; @import url(b.css); a{b:url(c.css)}"
    assert list(css.hrefs(text)) == [("a.css", True), ("b.css", True), ("c.css", False)]


@pytest.mark.parametrize(
    ("content", "http", "encoding"),
    [
        (b"a", "", "utf-8"),
        (b'@charset "iso-8859-1"; a', "", "windows-1252"),
        (b'@charset "iso-8859-1"; a', "utf-8", "utf-8"),
        (b'@charset "utf-16"; a', "", "utf-8"),
        (b"@charset 'iso-8859-1'; a", "", "utf-8"),  # not exactly the rule
        (b"\xef\xbb\xbfa", "windows-1252", "utf-8"),
        (b"\xff\xfea\0", "", "utf-16le"),
        (b'@charset "nonsense"; a', "", "utf-8"),
    ],
)
def test_the_encoding_of_a_sheet(content, http, encoding):
    assert css.decoded(content, http)[1] == encoding


def test_a_sheet_in_another_encoding_is_read():
    text, _ = css.decoded('@charset "iso-8859-1"; a{b:url(é.png)}'.encode("latin-1"), "")
    assert found(text) == ["é.png"]


PIECES = (
    "url(",
    ")",
    '"',
    "'",
    "\\",
    "/*",
    "*/",
    "@import ",
    "image-set(",
    "type(",
    ";",
    "{",
    "}",
    "\n",
    " ",
    "a",
    "é",
)


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_nothing_raises_and_all_is_found_in_the_text(text):
    for href, _ in css.hrefs(text):
        assert all(letter in text or letter == "\ufffd" for letter in href)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
def test_a_quoted_href_comes_back_whatever_is_in_it(href):
    written = "".join(f"\\{ord(letter):06x}" for letter in href)
    expected = href.replace("\0", "\ufffd").strip("\t\n\f\r ")
    assert found(f"a{{b:url('{written}')}}") == [expected]
    assert found(f"@import '{written}';") == [expected]


@pytest.mark.parametrize(
    "piece", [*PIECES, 'url("', "url(\\", 'image-set("a" ', "@import/*", "image-set(url(", "-webkit-"]
)
def test_the_time_is_linear(piece):
    def took(size: int) -> float:
        text, began = piece * (size // len(piece)), time.process_time()
        for _ in css.hrefs(text):
            pass
        return time.process_time() - began

    took(1_000)
    assert took(400_000) < 40 * took(40_000) + 0.05  # ten times as much; a hundred times if it were quadratic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a { background: url(x.png) }", 'a { background: url("/new/x.png") }'),
        ("@import 'x.css' screen;", '@import "/new/x.css" screen;'),
        ("@import url( x.css );", '@import url("/new/x.css");'),
        (
            "a { b: image-set(url(a.png) 1x, 'b.png' 2x) }",
            'a { b: image-set(url("/new/a.png") 1x, "/new/b.png" 2x) }',
        ),
        (r"a { b: url(a\67.png) }", 'a { b: url("/new/ag.png") }'),
        ('a { content: "url(x.png)" } /* url(y.png) */', 'a { content: "url(x.png)" } /* url(y.png) */'),
        ("a { b: url(#keep) }", "a { b: url(#keep) }"),
        ("a { b: url(x.png", 'a { b: url("/new/x.png")'),
    ],
)
def test_references_are_rewritten_and_nothing_else(text, expected):
    assert css.rewritten(text, lambda href: href if href.startswith("#") else f"/new/{href}") == expected


def test_what_is_written_is_one_string_whatever_is_in_it():
    made = css.rewritten("a { b: url(x) }", lambda _: 'a"b\\c\nd')
    assert list(css.hrefs(made)) == [('a"b\\c\nd', False)]
