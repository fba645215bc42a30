"""What is found in an HTML document, by the tree and, the same, by the tag stream."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model import Directives, Document
from skitter.parse import flat, parse
from skitter.parse.findings import Findings, folded, read_tree
from skitter.settings import ParseSettings

URL = "https://site.example/dir/page"


def by_tree(source: str) -> Findings:
    findings = Findings(5000)
    read_tree(source.encode(), findings)
    return findings


def by_tags(source: str) -> Findings:
    findings = Findings(5000)
    flat.read(source, findings)
    return findings


def read(source: str, *headers: tuple[str, str]) -> Document:
    return parse(
        URL, [("content-type", "text/html; charset=utf-8"), *headers], source.encode(), ParseSettings()
    )


both = pytest.mark.parametrize("reader", [by_tree, by_tags])
Reader = Callable[[str], Findings]

# ------------------------------------------------------------------------------------------------ text


@both
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>one</p><p>two</p>", "one two"),
        ("<p>J<b>oh</b>n <i>Doe</i>, Dr.</p>", "John Doe, Dr."),
        ("a<div>b</div>c", "a b c"),
        ("a<br>b<hr>c", "a b c"),
        ("<table><tr><td>1<td>2<tr><td>3</table>4", "1 2 3 4"),
        ("<ul><li>x<li>y</ul>", "x y"),
        ("<a href=x><div>inside</div></a>after", "inside after"),
        ("su<!-- no -->per<wbr>cali", "supercali"),
        ("a<script>no()</script>b<style>no{}</style>c", "abc"),
        ("<noscript>no</noscript><template>no</template><iframe>no</iframe>yes", "yes"),
        ("<head><title>no</title></head>yes<textarea>no</textarea>", "yes"),
        ("  a \n\t b\u00a0c  ", "a b c"),
        ("&lt;p&gt; &copy; &amp;amp; &#x20AC;", "<p> © &amp; €"),
        ("<svg><title>no</title><text>drawn</text></svg>", "drawn"),
        ("<my-tag>a</my-tag><my-tag>b</my-tag>", "a b"),
        ("<xmp>a <b> c</xmp>", "a <b> c"),
        ("3 < 4 and 5 > 4", "3 < 4 and 5 > 4"),
    ],
)
def test_text_is_the_visible_text(reader: Reader, source: str, text: str) -> None:
    assert reader(source).text() == text


# ------------------------------------------------------------------------------------------------ links


@both
def test_links_come_from_anchors_areas_frames_and_links_in_order(reader: Reader) -> None:
    source = """<link rel="prev next" href=n><link rel=alternate href=f><link rel=stylesheet href=s>
        <link rel="alternate stylesheet" href=as><a href=a>x</a><map><area href=b></map><iframe src=c></iframe>
        <img src=i><a name=q>y</a><form action=g></form>"""
    assert list(reader(source).hrefs()) == ["n", "f", "a", "b", "c"]


@both
def test_frames_of_a_frameset_are_links(reader: Reader) -> None:
    source = "<frameset><frame src=one><frame src=two></frameset><noframes><a href=three>x</a></noframes>"
    assert list(reader(source).hrefs()) == ["one", "two", "three"]


@both
@pytest.mark.parametrize(
    ("written", "href"),
    [
        (" \t/a b \n", "/a b"),
        ("/long&#10;er\t/path", "/longer/path"),
        ("?a=1&amp;b=2&copy=3", "?a=1&b=2&copy=3"),
        ("HTTPS://other.example/", "HTTPS://other.example/"),
        ("file.html:5", None),
        ("./file.html:5", "./file.html:5"),
        ("//other.example", "//other.example"),
        ("", None),
        ("  ", None),
        ("#top", None),
        ("JavaScript:void(0)", None),
        ("mailto:me@site.example", None),
        ("java\nscript:x", None),
        ("tel:+49", None),
        ("data:text/html,x", None),
        ("ftp://site.example/", None),
    ],
)
def test_an_href_is_returned_as_written_unless_it_leads_nowhere(
    reader: Reader, written: str, href: str | None
) -> None:
    assert list(reader(f'<a href="{written}">x</a>').hrefs()) == ([href] if href else [])


@both
def test_a_link_counts_as_followed_if_it_is_followed_anywhere_on_the_page(reader: Reader) -> None:
    source = '<a rel="x NoFollow" href=/a>1</a><a href=/b>2</a><a href=/a>3</a><a href=/b rel=nofollow>4</a><a rel=nofollow href=/c>5</a>'
    assert reader(source).hrefs() == {"/a": True, "/b": True, "/c": False}
    document = read(source)
    assert (document.links, document.nofollow) == (["/a", "/b"], ["/c"])


@both
def test_links_in_comments_scripts_and_templates_are_none_but_readers_without_scripts_have_links(
    reader: Reader,
) -> None:
    source = "<!--<a href=c>--><script>'<a href=s>'</script><template><a href=t></template><noscript><a href=n>x</a></noscript>"
    assert list(reader(source).hrefs()) == ["n"]


@both
def test_a_refresh_is_a_link_but_not_one_in_noscript(reader: Reader) -> None:
    source = """<meta http-equiv=Refresh content="3; url='/next'"><noscript><meta http-equiv=refresh content="0;url=/no"></noscript>"""
    assert list(reader(source).hrefs()) == ["/next"]


def test_a_refresh_header_is_a_link() -> None:
    assert read("<p>x", ("refresh", "0;url=/moved")).links == ["/moved"]


def test_the_query_of_a_link_stays_in_the_encoding_of_its_page() -> None:
    body = '<a href="/ö?q=ö&amp;r=€&amp;s=漢#ö">x</a>'.encode("iso-8859-15", "xmlcharrefreplace")
    document = parse(URL, [("content-type", "text/html; charset=iso-8859-15")], body, ParseSettings())
    assert document.links == ["/ö?q=%F6&r=%A4&s=%26%2328450%3B#ö"]


# ------------------------------------------------------------------------------------------------ the head


@both
def test_the_first_title_counts_and_a_picture_has_none(reader: Reader) -> None:
    assert (
        reader("<svg><title>picture</title></svg><title> A\n &amp; B </title><title>C</title>").title
        == "A & B"
    )


def test_a_page_without_title_is_called_by_its_first_heading() -> None:
    assert read("<h2>no</h2><h1>Big <b>New</b>s</h1><h1>other</h1>").title == "Big News"
    assert read("<title> </title><h1>Yes</h1>").title == "Yes"


@both
def test_meta_elements_are_read_whatever_their_case(reader: Reader) -> None:
    found = reader(
        "<META NAME=Description CONTENT=' a  b '><meta name=description content=no><meta name=author content=me>"
        "<meta name=KEYWORDS content='x, y'><meta property=og:title content=no>"
    )
    assert (found.description, found.author, found.keywords) == ("a b", "me", "x, y")


def test_the_language_is_that_of_the_document_then_of_its_meta_then_of_its_header() -> None:
    header, meta = ("content-language", "fr"), "<meta http-equiv=content-language content=it>"
    assert read(f"<html lang=de-AT>{meta}", header).language == "de-AT"
    assert read(meta, header).language == "it"
    assert read("<p>", header).language == "fr"
    assert read("<p>", ("content-language", "de, en")).language == ""


def test_the_canonical_address_is_the_first_one_named() -> None:
    assert read("<link rel=Canonical href=' /c '><link rel=canonical href=/d>").canonical.endswith("/c")


@pytest.mark.parametrize(
    ("source", "base"),
    [
        ("<p>x", URL),
        ("<base target=_top><base href=../up/><base href=/no>", "https://site.example/up/"),
        ("<base href='javascript:0'>", URL),
        ("<noscript><base href=/no></noscript>", URL),
        ("<template><base href=/no></template>", URL),
    ],
)
def test_the_base_is_absolute(source: str, base: str) -> None:
    assert read(source).base == base


def test_robots_meta_and_header_add_up() -> None:
    meta = "<meta name=robots content='NoIndex'><meta name=Skitter content='noai'><meta name=otherbot content=nofollow>"
    assert read(meta).directives == Directives(index=False, rules=("noindex", "noai"))
    assert read(meta, ("x-robots-tag", "skitter: none")).directives.follow is False
    assert read("<p>", ("x-robots-tag", "otherbot: noindex, nofollow")).directives == Directives()


# ------------------------------------------------------------------------------------------------ encodings, XHTML, size


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        ("<p>Grüße".encode(), "text/html", "utf-8"),
        ("<p>Grüße".encode("latin-1"), "text/html", "windows-1252"),
        ("<p>Grüße".encode("utf-16"), "text/html", "utf-16le"),
        ("<p>Grüße".encode("utf-8-sig"), "text/html; charset=windows-1251", "utf-8"),
        (b"<meta charset=macintosh><p>Gr\x9f\xa7e", "text/html", "macintosh"),
        ("<p>Grüße".encode("utf-16-be"), "text/html; charset=utf-16be", "utf-16be"),
    ],
)
def test_characters_come_out_right_in_every_encoding(body: bytes, content_type: str, encoding: str) -> None:
    document = parse(URL, [("content-type", content_type)], body, ParseSettings())
    assert (document.text, document.charset) == ("Grüße", encoding)


def test_broken_utf8_costs_one_character() -> None:
    document = parse(
        URL, [("content-type", "text/html; charset=utf-8")], b"<a href='/\xff'>a\xc3</a>b", ParseSettings()
    )
    assert (document.links, document.text) == (["/\ufffd"], "a\ufffdb")


def test_xhtml_may_close_a_script_at_once() -> None:
    source = b'<html xmlns="http://www.w3.org/1999/xhtml"><head><script src="a>b" /><title/></head><body><a href="/x">y</a></body></html>'
    for media_type, links in (("application/xhtml+xml", ["/x"]), ("text/html", [])):
        assert parse(URL, [("content-type", media_type)], source, ParseSettings()).links == links


def test_hrefs_are_tidied_and_counted_the_same_one_by_one_and_all_together() -> None:
    written = [
        " /a ",
        "/a",
        "#top",
        "mailto:x@y",
        "b c",
        "/b\tc",
        "http://d.test/",
        "",
        "\n",
        "e#f",
        "g:h",
        "./g:h",
        "/i\u200b",
    ]
    links = {
        "/a": True,
        "b c": True,
        "/bc": True,
        "http://d.test/": True,
        "e#f": True,
        "./g:h": True,
        "/i\u200b": True,
    }
    for limit in range(1, 20):
        findings = Findings(limit)
        for href in written * 2:
            findings.link(href)
        assert findings.hrefs() == dict(list(links.items())[:limit])


def test_a_link_is_followed_if_one_of_its_spellings_may_be() -> None:
    for limit in (1, 9):
        findings = Findings(limit)
        for href, follow in (("/a ", False), ("/a", True), (" /a", False)):
            findings.link(href, follow=follow)
        assert findings.hrefs() == {"/a": True}


@given(st.text(st.sampled_from("ab \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u3000\u200b")))
def test_white_space_is_folded_like_str_split(text: str) -> None:
    assert folded(text) == " ".join(text.split())


def test_large_documents_come_out_the_same_without_a_tree() -> None:
    source = "<title>Many</title>" + "".join(
        f"<p>Number <b>{n}</b>: <a href=/{n}>link</a></p>" for n in range(2000)
    )
    large, small = Findings(ParseSettings().max_links), by_tree(source)
    flat.read(source, large)
    assert (large.title, large.hrefs(), large.text()) == (small.title, small.hrefs(), small.text())
    assert len(large.hrefs()) == 2000


# ------------------------------------------------------------------------------------------------ rel


@both
def test_the_rel_of_a_link_is_kept_where_it_says_what_the_link_leads_to(reader: Reader) -> None:
    found = reader(
        '<link rel="alternate" href="/de"><a href="/2" rel="NEXT noopener next">2</a><a href="/x" rel="noopener external">x'
        '</a><a href="/3">3</a><a href="/3" rel="author\nme">me</a><a href="/3" rel="tag">no</a><a rel="next">none</a>'
    )
    assert found.rels == {"/de": ("alternate",), "/2": ("next",), "/3": ("author", "me")}


def test_rels_are_found_under_the_hrefs_as_the_document_has_them() -> None:
    source = '<a rel=next href=" /a\nb ">1</a><a rel=author href="mailto:a@b.test">2</a>'
    document = read(source)
    assert document.rels == {"/ab": ("next",)}
    assert list(document.links) == ["/ab"]
    assert read('<a href="/x" rel="noopener">x</a>').rels is None
    settings = ParseSettings(content_start="<!--in-->", content_end="<!--out-->")
    body = b'<a rel=next href="/nav">x</a><!--in--><a rel=tag href="/t">t</a><!--out-->'
    assert parse("http://a.test/", [("content-type", "text/html")], body, settings).rels == {"/t": ("tag",)}


def test_a_page_with_very_many_rels_keeps_no_more_than_it_keeps_links() -> None:
    settings = ParseSettings(max_links=50)
    body = "".join(f'<a rel="next {"x" * 50}{n}" href="/{n}">x</a>' for n in range(5000)).encode()
    document = parse("http://a.test/", [("content-type", "text/html")], body, settings)
    assert len(document.rels or ()) <= 50
    assert set((document.rels or {}).values()) == {("next",)}
