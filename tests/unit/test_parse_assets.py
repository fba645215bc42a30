"""What a browser would fetch to show a document: the same from its tree and from its tags."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.parse import html, parse, parse_asset
from skitter.parse.assets import Assets
from skitter.settings import ParseSettings

COLLECTED = ParseSettings(assets=True)
HTML = [("content-type", "text/html; charset=utf-8")]
NO_ICON = "<link rel=icon href='data:,'>"
URL = "http://a.test/folder/page"


def needed(markup: str, headers=HTML) -> dict[str, str]:
    """The hrefs with their kinds."""
    document = parse(URL, headers, (NO_ICON + markup).encode(), COLLECTED)
    kinds = document.asset_kinds or {}
    return {href: kinds.get(href, "asset") for href in document.assets}


def of_asset(content: bytes, kind: str, media_type: str) -> dict[str, str]:
    document = parse_asset(URL, [("content-type", media_type)], content, COLLECTED, kind)
    kinds = document.asset_kinds or {}
    assert (document.text, document.links) == ("", ())
    return {href: kinds.get(href, "asset") for href in document.assets}


CASES = [
    ("<img src=a.png>", {"a.png": "asset"}),
    ("<img srcset='a.png, b.png 2x, c.png 100w'>", dict.fromkeys(("a.png", "b.png", "c.png"), "asset")),
    ("<img srcset='a,b.png 1x,c.png 2x'>", dict.fromkeys(("a,b.png", "c.png"), "asset")),
    ("<img srcset='data:image/png;base64,AAAA 1x, c.png 2x'>", {"c.png": "asset"}),
    ("<img data-src=a.png data-srcset='b.png 2x' data-lazy-src=c.png data-original=d.png loading=lazy>",
     dict.fromkeys(("a.png", "b.png", "c.png", "d.png"), "asset")),
    ("<picture><source srcset=a.webp type=image/webp><img src=b.png></picture>", dict.fromkeys(("a.webp", "b.png"), "asset")),
    ("<video src=a.mp4 poster=b.jpg><source src=c.webm><track src=d.vtt></video><audio src=e.ogg>",
     dict.fromkeys(("a.mp4", "b.jpg", "c.webm", "d.vtt", "e.ogg"), "asset")),
    ("<input type=IMAGE src=a.png><input type=text src=no.png>", {"a.png": "asset"}),
    ("<link rel=stylesheet href=a.css><link rel='alternate STYLESHEET' href=b.css>", dict.fromkeys(("a.css", "b.css"), "style")),
    ("<link rel='shortcut icon' href=a.ico><link rel=apple-touch-icon href=b.png><link rel=mask-icon href=c.svg>",
     dict.fromkeys(("a.ico", "b.png", "c.svg"), "asset")),
    ("<link rel=preload as=style href=a.css><link rel=preload as=image href=b.png imagesrcset='c.png 2x'>",
     {"a.css": "style", "b.png": "asset", "c.png": "asset"}),
    ("<link rel=modulepreload href=a.js><link rel=manifest href=m.json>", {"a.js": "module", "m.json": "manifest"}),
    ("<link rel=canonical href=no><link rel=next href=no><link rel=preconnect href=//no><link rel=alternate href=no>", {}),
    ("<script src=a.js></script><script type=module src=b.js></script>", {"a.js": "asset", "b.js": "module"}),
    ("<script type=module>import a from './a.js'; import './b.js'\nimport('/c.js'); export {d} from \"../d.js\"; import 'bare'</script>",
     dict.fromkeys(("./a.js", "./b.js", "/c.js", "../d.js"), "module")),
    ("<script>import a from './no.js'</script>", {}),
    ("<style>@import 'a.css'; b{c:url(d.png)}</style>", {"a.css": "style", "d.png": "asset"}),
    ("<p style=\"background:url('a.png')\"><i style='color:red'>", {"a.png": "asset"}),
    ("<body background=a.gif><table background=b.gif><tr><td background=c.gif>", dict.fromkeys(("a.gif", "b.gif", "c.gif"), "asset")),
    ("<div data-bg=a.png></div><div data-background-image='url(b.png)'></div>", dict.fromkeys(("a.png", "b.png"), "asset")),
    ("<iframe src=a.html></iframe><object data=b.svg></object><embed src=c.bin>", dict.fromkeys(("a.html", "b.svg", "c.bin"), "frame")),
    ("<iframe srcdoc='&lt;img src=a.png&gt;'></iframe>", {"a.png": "asset"}),
    ("<noscript><img src=a.png></noscript>", {"a.png": "asset"}),
    ("<svg><image href=a.png /><image xlink:href=b.png /><use href='c.svg#d'/><use href='#no'/></svg>",
     dict.fromkeys(("a.png", "b.png", "c.svg#d"), "asset")),
    ("<svg><filter><feImage href=a.png /></filter></svg>", {"a.png": "asset"}),
    ("<img src='#no'><img src=''><img src><img src='  '><img src='data:image/gif;base64,AA'><img src='blob:x'>", {}),
    ("<a href=no.png></a><img alt=no><form action=no>", {}),
    ("<!-- <img src=no.png> --><textarea><img src=no.png></textarea>", {}),
    ("<img src=a.css><link rel=stylesheet href=a.css>", {"a.css": "style"}),
]  # fmt: skip


@pytest.mark.parametrize(("markup", "expected"), CASES)
def test_what_a_page_needs(markup, expected):
    assert needed(markup) == expected


@pytest.mark.parametrize(("markup", "expected"), CASES)
def test_the_same_is_found_without_a_tree(monkeypatch, markup, expected):
    monkeypatch.setattr(html, "is_tame", lambda _source: False)
    assert needed(markup) == expected


def test_a_page_without_an_icon_may_have_one_in_the_usual_place():
    document = parse(URL, HTML, b"<p>text", COLLECTED)
    assert document.assets == ("/favicon.ico",)


def test_link_headers_that_load_something_count():
    links = [
        *HTML,
        ("link", "<a.css>; rel=preload; as=style, <b.js>; rel=preload; as=script"),
        ("link", "<c>; rel=next"),
    ]
    assert needed("", links) == {"a.css": "style", "b.js": "asset"}


def test_nothing_is_collected_unless_it_is_asked_for():
    document = parse(URL, HTML, b"<img src=a.png><style>b{c:url(d)}</style>", ParseSettings())
    assert (document.assets, document.asset_kinds) == ((), None)


def test_the_query_is_in_the_encoding_of_the_page():
    body = "<meta charset=iso-8859-1><link rel=icon href='data:,'><img src='a.png?é'>".encode("latin-1")
    document = parse(URL, [("content-type", "text/html")], body, COLLECTED)
    assert document.assets == ("a.png?%E9",)


def test_no_page_needs_more_than_its_links_may_be():
    few = ParseSettings(assets=True, max_links=10)
    document = parse(URL, HTML, b"".join(b"<img src=%d.png>" % number for number in range(50)), few)
    assert document.assets == tuple(f"{number}.png" for number in range(10))


@pytest.mark.parametrize(
    ("content", "kind", "media_type", "expected"),
    [
        (b"@import 'a.css'; b{c:url(d.png)}", "style", "text/css", {"a.css": "style", "d.png": "asset"}),
        (b"b{c:url(d.png)}", "asset", "text/css; charset=utf-8", {"d.png": "asset"}),
        (b"b{c:url(d.png)}", "style", "text/plain", {"d.png": "asset"}),
        (b"b{c:url(d.png)}", "asset", "text/plain", {}),
        (b"b{c:url(d.png)}", "style", "image/png", {}),
        (b'{"icons":[{"src":"a.png"},{},7],"screenshots":[{"src":"b.png"}],"start_url":"/no"}', "manifest", "application/json",
         dict.fromkeys(("a.png", "b.png"), "asset")),
        (b'{"shortcuts":[{"icons":[{"src":"a.png"}]}, 1]}', "asset", "application/manifest+json", {"a.png": "asset"}),
        (b'{"icons":', "manifest", "application/json", {}),
        (b"[" * 100_000, "manifest", "application/json", {}),
        (b'<?xml-stylesheet href="a.css"?><svg><image href="b.png"/><style>c{d:url(e.png)}</style></svg>', "asset", "image/svg+xml",
         {"a.css": "style", "b.png": "asset", "e.png": "asset"}),
        (b"import a from './a.js'", "module", "text/javascript", {"./a.js": "module"}),
        (b"import a from './no.js'", "asset", "text/javascript", {}),
        (b"<link rel=icon href=data:,><img src=a.png><a href=no>", "frame", "text/html", {"a.png": "asset"}),
        (b"<link rel=icon href=data:,><img src=a.png><a href=no>", "asset", "text/html", {}),
        (b"%PDF-1.4", "frame", "application/pdf", {}),
    ],
)  # fmt: skip
def test_what_an_asset_needs_itself(content, kind, media_type, expected):
    assert of_asset(content, kind, media_type) == expected


WORDS = ("<img ", "src=", "srcset='", "'", '"', ">", "<style>", "</style>", "url(", ")", ",", " ", "style=", "<noscript>",
         "</noscript>", "<svg>", "<iframe srcdoc='", "&lt;img src=x&gt;", "<script type=module>", "import ", "</script>", "<base href=", "a.png", "\0", "é")  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=40).map("".join))
def test_whatever_a_page_holds_is_read_without_an_error(markup):
    document = parse(URL, HTML, markup.encode(), COLLECTED)
    assert all(isinstance(href, str) and href for href in document.assets)
    for kind, media_type in (
        ("style", "text/css"),
        ("module", "text/javascript"),
        ("manifest", "a/b"),
        ("asset", "image/svg+xml"),
    ):
        of_asset(markup.encode(), kind, media_type)


@pytest.mark.parametrize(
    ("head", "piece", "tail"),
    [
        ("<img srcset='", "a 1x(", "'>"),
        ("<img srcset='", ",", "'>"),
        ("<img srcset='", "a, ", "'>"),
        ("<p style='", "url(", "'>"),
        ("", "<noscript><img src=a>", ""),
        ("<iframe srcdoc='", "&lt;iframe srcdoc=&quot;", "'>"),
        ("<script type=module>", "import ", "</script>"),
        ("<script type=module>", "import {", "</script>"),
        ("<script type=module>", "import 'a", "</script>"),
        ("", "<use href=a>", ""),
    ],
)
def test_the_time_is_linear(monkeypatch, head, piece, tail):
    monkeypatch.setattr(html, "is_tame", lambda _source: False)

    def took(size: int) -> float:
        source, began = (head + piece * (size // len(piece)) + tail).encode(), time.process_time()
        parse(URL, HTML, source, COLLECTED)
        return time.process_time() - began

    took(1_000)
    assert took(400_000) < 40 * took(40_000) + 0.05  # ten times as much; a hundred times if it were quadratic


@pytest.mark.parametrize(
    ("collect", "piece"),
    [
        (Assets.add_set, ","),
        (Assets.add_set, "a,"),
        (Assets.add_set, "a ("),
        (Assets.add_set, ",,a "),
        (Assets.add_module, "import "),
        (Assets.add_module, "import{"),
        (Assets.add_module, "import('"),
        (Assets.add_css, "url("),
        (Assets.add, " "),
    ],
)
def test_an_attribute_of_any_length_is_read_in_linear_time(collect, piece):
    def took(size: int) -> float:
        text, began = piece * (size // len(piece)), time.process_time()
        collect(Assets(1_000), text)
        return time.process_time() - began

    took(1_000)
    assert took(1_000_000) < 40 * took(100_000) + 0.05
