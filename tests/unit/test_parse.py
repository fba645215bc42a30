"""Bodies become Documents: which parser reads what, and what every Document has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model import Document
from skitter.parse import parse
from skitter.settings import Bytes, ParseSettings

URL = "https://site.example/dir/page"
HTML = "text/html; charset=utf-8"
DEFAULTS = ParseSettings()


def read(content: str | bytes, content_type: str = HTML, settings: ParseSettings = DEFAULTS) -> Document:
    body = content.encode() if isinstance(content, str) else content
    return parse(URL, [("content-type", content_type)], body, settings)


@pytest.mark.parametrize("content_type", ["text/plain", "text/markdown; charset=utf-8"])
def test_plain_text_is_its_own_text(content_type: str) -> None:
    document = read("Grüße,\r\n\tWelt  <a href=/x>\n", content_type)
    assert (document.text, document.title, document.links) == ("Grüße, Welt <a href=/x>", "", ())
    assert (document.charset, document.base) == ("utf-8", URL)


def test_a_body_without_a_parser_is_a_document_without_text() -> None:
    headers = [("content-type", "video/mp4"), ("x-robots-tag", "noindex"), ("content-language", "fr")]
    document = parse(URL, headers, b"ftyp <a href=/x>", ParseSettings())
    assert (document.media_type, document.text, document.links) == ("video/mp4", "", ())
    assert (document.base, document.language, document.directives.index) == (URL, "fr", False)


def test_an_image_that_claims_to_be_html_is_not_read() -> None:
    document = read(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR <a href=/x>", "text/html")
    assert (document.media_type, document.links, document.text) == ("image/png", (), "")


def test_only_the_allowed_part_of_a_body_is_read() -> None:
    body = b"<p>begin</p><a href=/in>x</a>" + b" " * 1000 + b"<a href=/out>y</a>"
    assert read(body, settings=ParseSettings(max_input=Bytes(500))).links == ["/in"]


def test_only_the_allowed_number_of_links_is_taken() -> None:
    body = "".join(f"<a href=/{n}>x</a>" for n in range(50))
    assert read(body, settings=ParseSettings(max_links=3)).links == ["/0", "/1", "/2"]


# ------------------------------------------------------------------------------------------------ content markers

MARKED = ParseSettings(content_start="<!-- CONTENT -->", content_end="<!-- /CONTENT -->")
FENCED = """<html lang=en><head><title>Top</title><base href="/other/"><meta name=description content=told></head>
<a href=/menu>menu</a><!-- CONTENT --><h1>Head</h1><a href=one>first</a><!-- /CONTENT -->
<a href=/aside>aside</a><!-- CONTENT --><a href=two>second</a><!-- /CONTENT --><a href=/end>end</a>"""


def test_with_markers_text_and_links_come_from_between_them_and_the_head_from_the_page() -> None:
    document = read(FENCED, settings=MARKED)
    assert document.text == "Head first second"
    assert document.links == ["one", "two"]
    assert (document.title, document.description, document.language) == ("Top", "told", "en")
    assert (document.base, document.ignored) == ("https://site.example/other/", "")


@pytest.mark.parametrize(
    "page",
    [
        "<title>T</title><p>text <a href=/x>x</a>",
        "<!-- CONTENT --><p>text <a href=/x>x</a>",
        "<p>text</p><!-- /CONTENT --><a href=/x>x</a><!-- CONTENT -->",
    ],
)
def test_a_page_without_a_pair_of_markers_is_ignored_with_the_reason(page: str) -> None:
    document = read(page, settings=MARKED)
    assert (document.text, list(document.links), list(document.nofollow)) == ("", [], [])
    assert "markers" in document.ignored


def test_markers_count_in_plain_text_too() -> None:
    settings = ParseSettings(content_start="BEGIN", content_end="END")
    assert read("a BEGIN b END c BEGIN d END", "text/plain", settings).text == "b d"
    assert read("nothing", "text/plain", settings).ignored


def test_one_marker_alone_marks_nothing() -> None:
    assert read("<p>text", settings=ParseSettings(content_start="<!-- CONTENT -->")).text == "text"


# ------------------------------------------------------------------------------------------------ sloppy anchors

SLOPPY = """<a href=/good>x</a>< a href = /blank >y</a> <\ta rel=nofollow href="/tab">z</a>
<!-- < a href=/comment > --><script>"< a href=/script >"</script>< abbr href=/abbr >"""


def test_anchors_with_a_blank_are_text_unless_asked_for() -> None:
    assert read(SLOPPY).links == ["/good"]


def test_sloppy_anchors_are_followed_when_asked_for() -> None:
    document = read(SLOPPY, settings=ParseSettings(sloppy_anchors=True))
    assert (document.links, document.nofollow) == (["/good", "/blank"], ["/tab"])


# ------------------------------------------------------------------------------------------------ whatever comes

PIECES = st.sampled_from(
    [
        *(
            "<a href=/x>",
            "</a>",
            "<p>",
            "<div",
            "<script>",
            "</script>",
            "<title>",
            "<svg>",
            "<!--",
            "-->",
            "<![CDATA[",
        ),
        *(
            "<base href=",
            "<meta charset=",
            "utf-16",
            '"',
            "'",
            ">",
            "<",
            "&amp",
            "&#",
            "&#x;",
            "99999999999999999999",
        ),
        *(
            "<template>",
            "</template>",
            "<table>",
            "<b>",
            "</b>",
            "<plaintext>",
            "\0",
            "\x80",
            "\ufeff",
            " ",
            "é",
            "x",
        ),
        *("<noscript>", "<frameset>", "<frame src=y>", "<h1>", "</h1>", "<html lang=en>", "< a href = z >"),
    ]
)
MARKUP = st.lists(PIECES, max_size=40).map("".join)
TYPES = st.sampled_from(
    ["text/html", HTML, "application/xhtml+xml", "text/plain", "*/*", "", "text/html; charset=gbk"]
)
CHOICES = st.sampled_from(
    [ParseSettings(), ParseSettings(sloppy_anchors=True), MARKED, ParseSettings(max_links=1)]
)


@given(
    st.one_of(MARKUP.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=300)),
    TYPES,
    CHOICES,
)
def test_nothing_raises_and_results_are_clean(
    body: bytes, content_type: str, settings: ParseSettings
) -> None:
    document = read(body, content_type, settings)
    assert document.text == " ".join(document.text.split())
    assert not {*document.links} & {*document.nofollow}
    for href in (*document.links, *document.nofollow):
        assert href == href.strip()
        assert href
        assert not {*href} & {*"\t\n\r"}
    assert len(document.links) + len(document.nofollow) <= settings.max_links
