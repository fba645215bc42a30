"""Sitemaps and feeds as a stream: all forms, all damage, and nothing that grows."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.parse.sitemaps import MAX_ENTRIES, Entry, SitemapReader


def read(body, size=7):
    """All entries, fed in pieces of this size."""
    reader, entries = SitemapReader(), []
    for at in range(0, len(body), size):
        entries += reader.feed(body[at : at + size])
    entries += reader.close()
    return entries, reader


def urls_of(body, size=7):
    return [entry.url for entry in read(body.encode() if isinstance(body, str) else body, size)[0]]


URLSET = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="urn:i" xmlns:news="urn:n" xmlns:xhtml="urn:x" xmlns:video="urn:v">
  <url>
    <loc> http://a.test/1?a=1&amp;b=2 </loc>
    <lastmod>2024-05-01</lastmod><changefreq>WEEKLY</changefreq><priority>0.3</priority>
    <image:image><image:loc>http://a.test/1.jpg</image:loc></image:image>
    <video:video><video:content_loc>http://a.test/1.mp4</video:content_loc></video:video>
    <xhtml:link rel="alternate" hreflang="de" href="http://a.test/de/1"/>
  </url>
  <url><loc><![CDATA[http://a.test/2?x&y]]></loc><news:news><news:publication_date>2024-05-02T00:00:00Z</news:publication_date></news:news></url>
</urlset>"""


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
def test_everything_an_entry_says_is_read_whatever_the_pieces(size):
    entries, reader = read(URLSET.encode(), size)
    assert entries == [
        Entry(
            "http://a.test/1?a=1&b=2",
            1714521600.0,
            "weekly",
            0.3,
            alternates=("http://a.test/de/1",),
            images=("http://a.test/1.jpg",),
            videos=("http://a.test/1.mp4",),
        ),
        Entry("http://a.test/2?x&y", 1714608000.0, is_news=True),
    ]
    assert (reader.kind, reader.problem, reader.count) == ("sitemap", "", 2)


def test_an_index_names_other_sitemaps():
    entries, reader = read(
        b"<sitemapindex><sitemap><loc>http://a.test/1.xml</loc><lastmod>2024</lastmod></sitemap></sitemapindex>"
    )
    assert entries == [Entry("http://a.test/1.xml", 1704067200.0, is_list=True)]
    assert reader.kind == "index"


RSS = "<rss version='2.0'><channel><link>http://a.test/</link><item><title>t</title><link>http://a.test/1</link><pubDate>Wed, 01 May 2024 00:00:00 GMT</pubDate></item><item><guid>http://a.test/2</guid></item><item><guid isPermaLink='false'>tag:1</guid></item></channel></rss>"
RDF = "<rdf:RDF xmlns:rdf='urn:r' xmlns='urn:rss'><channel rdf:about='http://a.test/'/><item rdf:about='http://a.test/1'><title>t</title></item><item rdf:about='http://a.test/x'><link>http://a.test/2</link></item></rdf:RDF>"
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='http://a.test/'/><entry><link rel='edit' href='http://a.test/edit'/><link href='http://a.test/1'/><updated>2024-05-01T00:00:00Z</updated></entry><entry><link rel='alternate' href='http://a.test/2'/></entry></feed>"


@pytest.mark.parametrize("feed", [RSS, RDF, ATOM])
def test_feeds_of_all_kinds_give_their_entries(feed):
    entries, reader = read(feed.encode())
    assert [entry.url for entry in entries] == ["http://a.test/1", "http://a.test/2"]
    assert reader.kind == "feed"
    if feed is not RDF:
        assert entries[0].lastmod == 1714521600.0


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_text_file_has_a_url_per_line(end):
    body = f"\ufeffhttp://a.test/1{end}{end}  https://a.test/2  {end}ftp://a.test/3{end}word{end}http://a.test/{'x' * 20_000}{end}http://a.test/4"
    assert urls_of(body) == ["http://a.test/1", "https://a.test/2", "http://a.test/4"]


@pytest.mark.parametrize(
    "body",
    [
        "\n\n  <?xml version='1.0'?><urlset><url><loc>http://a.test/1</loc></url></urlset>",  # white space first
        "\ufeff<urlset xmlns='http://wrong.test'><url><loc>http://a.test/1</loc></url></urlset>",
        "<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.te",  # truncated
        "<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.test/?a&b</loc></url></urlset>",  # damaged
        "<urlset><url><loc>\u00a0\u2003http://a.test/1\u3000</loc></url></urlset>",
        "<!DOCTYPE urlset SYSTEM 'http://127.0.0.1:1/x.dtd'><urlset><url><loc>http://a.test/1</loc></url></urlset>",
        "<urlset><url><title>a&nbsp;b</title><loc>http://a.test/1</loc></url></urlset>",
    ],
)
def test_what_could_be_read_is_taken(body):
    assert urls_of(body) == ["http://a.test/1"]


def test_bad_values_are_ignored_and_their_entry_stays():
    said = "<lastmod>soon</lastmod><changefreq>sometimes</changefreq><priority>11</priority>"
    entries, _ = read(f"<urlset><url><loc>http://a.test/1</loc>{said}</url></urlset>".encode())
    assert entries == [Entry("http://a.test/1")]


def test_other_encodings_are_read():
    body = '<?xml version="1.0" encoding="{}"?><urlset><url><loc>http://a.test/\u00e9</loc></url></urlset>'
    for name in ("utf-8", "iso-8859-1", "windows-1252"):
        assert urls_of(body.format(name).encode(name)) == ["http://a.test/\u00e9"]
    assert urls_of(body.format("utf-16").encode("utf-16")) == ["http://a.test/\u00e9"]
    assert urls_of(b"<?xml version='1.0' encoding='nonsense'?><urlset/>") == []


# ------------------------------------------------------------------------------------------------ bounds


def test_only_so_many_entries_are_read():
    entry = "<url><loc>http://a.test/{}</loc></url>"
    body = "<urlset>" + "".join(entry.format(number) for number in range(MAX_ENTRIES + 1)) + "</urlset>"
    entries, reader = read(body.encode(), 65536)
    assert len(entries) == MAX_ENTRIES
    assert "50,000 entries" in reader.problem


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<urlset>" + b"<a>" * 100_000, "nested"),
        (b"<urlset><a " + b"x" * 3_000_000, "tag"),
        (b"<!DOCTYPE x [<!ENTITY e 'x'>]><urlset><url><loc>http://h/&e;</loc></url></urlset>", "entities"),
        (b"<html><body>not found</body></html>", "no sitemap"),
    ],
)
def test_what_no_sitemap_has_ends_the_reading(body, problem):
    entries, reader = read(body, 65536)
    assert entries == []
    assert problem in reader.problem
    assert reader.done


def test_a_text_without_end_is_not_kept():
    tracemalloc.start()
    reader = SitemapReader()
    reader.feed(b"<urlset><url><loc>http://a.test/")
    for _ in range(500):
        reader.feed(b"x" * 65536)
    assert reader.feed(b"</loc></url><url><loc>http://a.test/1</loc></url>") == [Entry("http://a.test/1")]
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


@given(
    st.binary(max_size=400) | st.text("<>/urlsetoc &;![]CDATA?xml=\"' http:.", max_size=200).map(str.encode),
    st.integers(1, 50),
)
def test_nothing_makes_it_raise_and_pieces_do_not_matter(body, size):
    at_once = [entry.url for entry in read(body, len(body) or 1)[0]]
    assert [entry.url for entry in read(body, size)[0]] == at_once


def test_what_one_entry_names_is_bounded():
    """Each language becomes a link, so one entry could stand for a million."""
    many = b"".join(
        b'<x:link hreflang="a" href="/%d"/><image:image><image:loc>/%d.png</image:loc></image:image>'
        % (at, at)
        for at in range(5000)
    )
    ((entry,), reader) = read(b"<urlset><url><loc>http://a.test/</loc>" + many + b"</url></urlset>", 10_000)
    assert (len(entry.alternates), len(entry.images), reader.problem) == (1000, 1000, "")


@pytest.mark.parametrize("entry", [
    b'<entry><link href="http://a.test/%b"/></entry>',
    b'<item rdf:about="http://a.test/%b"></item>',
    b"<item><link>http://a.test/%b</link></item>",
])  # fmt: skip
def test_a_url_that_is_never_fetched_is_no_entry_wherever_it_stands(entry):
    body = b"<feed>" + entry % (b"x" * 20_000) + entry % b"y" + b"</feed>"
    assert urls_of(body, 10_000) == ["http://a.test/y"]
