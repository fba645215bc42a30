"""Every row of `sitemap_requirements` and every file of `sitemaps_crawlercommons`: a test here, or a reason in a list."""

import gzip

import pytest

from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import Hints, Link, Purpose
from skitter.parse.sitemaps import MAX_ENTRIES, SitemapReader
from skitter.settings import Settings
from tests.conformance.cases import FOLDER, needs_cases, rows

FILES = "sitemaps_crawlercommons"

# Rows of sitemap_requirements: where each is shown, or why it is not followed to the letter.
SHOWN = {
    "sitemap-01": "tests/unit/test_parse_sitemaps.py::test_only_so_many_entries_are_read",
    "sitemap-02": "tests/crawl/test_sitemap_server.py::test_a_bomb_and_an_oversized_sitemap_stop_at_the_limit",
    "sitemap-03": "tests/crawl/test_sitemaps.py::test_indexes_of_indexes_loops_and_redirects_end",
    "sitemap-04": "tests/unit/test_fetch_pieces.py::test_gzip_is_known_by_its_first_bytes",
    "sitemap-05": "tests/unit/test_parse_sitemaps.py::test_feeds_of_all_kinds_give_their_entries",
    "sitemap-06": "tests/unit/test_parse_sitemaps.py::test_what_could_be_read_is_taken",
    "sitemap-07": "tests/security/test_xml.py::test_no_xml_attack_in_a_sitemap_expands_or_reaches_out",
    "sitemap-09": "tests/unit/test_parse_sitemaps.py::test_everything_an_entry_says_is_read_whatever_the_pieces",
    "sitemap-10": "tests/unit/test_parse_sitemaps.py::test_bad_values_are_ignored_and_their_entry_stays",
    "sitemap-11": "tests/unit/test_parse_sitemaps.py::test_everything_an_entry_says_is_read_whatever_the_pieces",
    "sitemap-12": "tests/crawl/test_sitemaps.py::test_indexes_of_indexes_loops_and_redirects_end",
    "sitemap-13": "tests/crawl/test_sitemaps.py::test_it_asks_robots_txt_and_keeps_the_delay_like_a_page",
}
DIFFERS = {
    "sitemap-08": "the site is checked (sitemap.host), the folder is not: most sites keep one sitemap in a folder for all of "
    "their pages, search engines accept it, and the scope decides anyway what is crawled",
    "sitemap-14": "a sitemap that is fetched again is asked for with its validators, like every page "
    "(tests/crawl/test_sitemaps.py); lastmod is kept with each page, but nothing is fetched a second time by itself yet, so "
    "there is nothing to skip",
}


def read(name):
    body = (FOLDER / FILES / name).read_bytes()
    body = gzip.decompress(body) if name.endswith(".gz") else body
    reader = SitemapReader()
    return reader.feed(body) + reader.close(), reader


@needs_cases
def test_every_requirement_is_shown_or_differs_for_a_reason():
    ids = {row["id"] for row in rows("sitemap_requirements.jsonl")}
    assert ids == SHOWN.keys() | DIFFERS.keys()
    assert not SHOWN.keys() & DIFFERS.keys()


@needs_cases
@pytest.mark.parametrize("place", sorted(set(SHOWN.values())))
def test_the_named_test_exists(place):
    file, _, name = place.partition("::")
    root = __import__("pathlib").Path(__file__).parents[2]
    assert f"def {name}(" in (root / file).read_text()


EXPECTED = {
    "sitemap.txt": ("text", ["http://www.domain.com/page1.html", "http://www.domain.com/page2.html"]),
    "sitemap-with-bom.txt": (
        "text",
        ["http://www.domain.com/page1.html", "http://www.domain.com/page2.html"],
    ),
    "do-not-visit.txt": ("text", ["http://www.example.com/do-not-visit-here"]),
    "sitemap.ns.xml": ("sitemap", ["http://www.example.com/1", "http://www.example.com/2"]),
    "sitemap.badns.xml": ("sitemap", ["http://www.example.com/1", "http://www.example.com/2"]),
    "atom.xml": ("feed", ["http://example.org/2003/12/13/atom03"]),
    "sitemap.txt.gz": (
        "text",
        ["http://www.example.com/"]
        + [
            f"http://www.example.com/catalog?item={item}"
            for item in (
                "12&desc=vacation_hawaii",
                "73&desc=vacation_new_zealand",
                "74&desc=vacation_newfoundland",
                "83&desc=vacation_usa",
            )
        ],
    ),
    "extension/pagemaps-sitemap.xml": (
        "sitemap",
        ["http://www.example.com/foo", "http://www.example.com/bar"],
    ),
    "extension/sitemap-mobile.xml": (
        "sitemap",
        [
            f"http://www.example.com/{name}/"
            for name in ("mobile-friendly-1", "mobile-friendly-2", "no-mobile")
        ],
    ),
    "extension/sitemap-videos-tvshow.xml": ("sitemap", ["https://example.org/my-tv-show/23/13/"]),
    "extension/sitemap-images.xml": (
        "sitemap",
        ["http://www.example.com/images/some_image_landing_page.html"],
    ),
    "extension/sitemap-news.xml": (
        "sitemap",
        ["http://www.example.org/business/article55.html", "http://www.example.org/empty_news_name.html"],
    ),
    "extension/sitemap-links.xml": (
        "sitemap",
        [f"http://www.example.com/{name}/" for name in ("english", "deutsch", "schweiz-deutsch")],
    ),
}
COUNTED = {  # files with many entries: kind, number, and one of them
    "xmlSitemap.gz": ("sitemap", 5, "http://www.example.com/catalog?item=12&desc=vacation_hawaii"),
    "sitemap.index.xml": ("index", 15, "https://example.com/sitemap.jss?portalCode=10260&lang=en"),
    "extension/hebdenbridgetimes-articles-sitemap.xml": (
        "sitemap",
        0,
        "http://www.hebdenbridgetimes.co.uk/news/local/concern-for-missing-todmorden-man-1-7242564",
    ),
    "extension/shinpaideshou-news-sitemap.xml": (
        "sitemap",
        3,
        "https://shinpaideshou.wordpress.com/2017/04/25/job-opening-reischauer-policy-research-fellow/",
    ),
    "extension/sitemap-videos.xml": (
        "sitemap",
        0,
        "http://www.example.com/videos/some_video_landing_page-2.html",
    ),
}


@needs_cases
def test_every_file_is_expected_here():
    folder = FOLDER / FILES
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == EXPECTED.keys() | COUNTED.keys()


@needs_cases
@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_gives_exactly_its_entries(name):
    entries, reader = read(name)
    kind, urls = EXPECTED[name]
    assert (reader.kind, [entry.url for entry in entries], reader.problem) == (kind, urls, "")


@needs_cases
@pytest.mark.parametrize("name", COUNTED)
def test_a_file_with_many_entries_gives_all_of_them(name):
    entries, reader = read(name)
    kind, count, one = COUNTED[name]
    body = (FOLDER / FILES / name).read_bytes()
    assert reader.kind == kind
    assert len(entries) == (count or body.count(b"<url>"))
    assert one in [entry.url for entry in entries]
    assert reader.problem == ""


@needs_cases
def test_extensions_are_collected_beside_the_pages():
    (images,), _ = read("extension/sitemap-images.xml")
    assert images.images == ("http://example.com/image.jpg", "http://example.com/photo.jpg")
    links, _ = read("extension/sitemap-links.xml")
    assert {len(entry.alternates) for entry in links} == {3}
    (show,), _ = read("extension/sitemap-videos-tvshow.xml")
    assert "https://example.org/video/video/23-13.mp4" in show.videos
    news, _ = read("extension/sitemap-news.xml")
    assert [entry.is_news for entry in news] == [True, True]
    assert news[0].lastmod == 1229990400.0
    packed, _ = read("xmlSitemap.gz")
    assert (packed[0].lastmod, packed[0].changefreq, packed[0].priority) == (1104537600.0, "monthly", 0.8)


@needs_cases
def test_a_relative_entry_is_resolved_and_the_number_of_entries_is_bounded():
    lists = LinkJudge(Settings(), Scope(Settings().scope, ["http://a.test/"])).lists
    sitemap = Link(
        url="http://a.test/maps/1.xml",
        key="",
        host="a.test",
        purpose=Purpose.SITEMAP,
        hints=Hints(site="a.test"),
    )
    reader = SitemapReader()
    body = b"<urlset>" + b"<url><loc>../page</loc></url>" * (MAX_ENTRIES + 1) + b"</urlset>"
    entries = reader.feed(body) + reader.close()
    wanted, refused = lists.entries(sitemap, entries[:1], reader.kind)
    assert (wanted[0].url, refused, len(entries)) == ("http://a.test/page", [], MAX_ENTRIES)
