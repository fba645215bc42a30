"""What `skitter.crawl()` yields: html, links and elements of a page; filtered links; reported failures."""

import asyncio
import logging
import pickle
import re

import pytest

import skitter
from skitter import urls
from skitter.cli.why import story
from skitter.compose import open_reader
from skitter.export.findings import find
from skitter.model import State
from tests.crawl.harness import HASTY, keys
from tests.crawl.sites import small_site

PAGES = {
    "/": (
        200,
        "text/html; charset=utf-8",
        b"""<title>Home</title><h1>Welcome</h1><a href="/blog/1#top">First <b>post</b></a>
        <a href="blog/2" rel="nofollow noopener">Second</a> <a href='/print'>Print</a> <a href="/print">Print again</a>
        <a href="mailto:a@b.test">mail</a> <a href="http://elsewhere.test/">Elsewhere</a> <a href="/gone"><img src=x></a>""",
    ),
    "/blog/1": (
        200,
        "text/html; charset=iso-8859-1",
        '<title>Größe</title><p class="x">Fünf</p><a href="/deep?q=ü">tief</a>'.encode("latin-1"),
    ),
    "/blog/2": (200, "text/html", b"<title>Two</title>"),
    "/print": (200, "application/json", b'{"a": 1}'),
    "/gone": (404, "text/html", b"<title>Gone</title>"),
}


@pytest.fixture(scope="module")
def base():
    with small_site(PAGES) as address:
        yield address


def crawled(*starts, **options):
    run = skitter.crawl(*starts, **(HASTY | options))
    return {page.url: page for page in run}, run


def test_a_page_has_its_html_its_body_and_its_elements(base):
    pages, _run = crawled(base + "/")
    home, first = pages[base + "/"], pages[base + "/blog/1"]
    assert home.html == PAGES["/"][2].decode()
    assert [node.text() for node in home.css("h1, b")] == ["Welcome", "post"]
    assert "Größe" in first.html
    assert first.css("p.x")[0].text() == "Fünf"
    assert first.body == PAGES["/blog/1"][2]
    other = pages[base + "/print"]
    assert (other.html, other.body, other.links, other.css("a")) == ("", b'{"a": 1}', (), [])
    assert repr(home) == f"<Page 200 {base}/ 'Home'>"


def test_a_page_has_all_its_links_with_text_and_rel(base):
    pages, _run = crawled(base + "/")
    home = pages[base + "/"]
    assert [(link.url.removeprefix(base), link.text, link.rel) for link in home.links] == [
        ("/blog/1", "First post", ""),
        ("/print", "Print", ""),
        ("http://elsewhere.test/", "Elsewhere", ""),
        ("/gone", "", ""),
        ("/blog/2", "Second", "nofollow noopener"),
    ]
    assert all(link.page is home for link in home.links)
    (deep,) = pages[base + "/blog/1"].links
    assert (deep.url, deep.text) == (f"{base}/deep?q=%FC", "tief")


def test_a_page_survives_pickling_with_its_body(base):
    pages, _run = crawled(base + "/", scope="page")
    (page,) = pages.values()
    again = pickle.loads(pickle.dumps(page))
    assert again == page
    assert again.html == page.html


def test_a_page_that_is_built_to_break_parsers_has_text_and_links_but_no_tree():
    hostile = b'<a href="/x">x</a>' + b"<b id=1><p>" * 20_000
    with small_site({"/": (200, "text/html", hostile), "/x": (200, "text/html", b"x")}) as base:
        pages, _run = crawled(base + "/")
    assert [link.url for link in pages[base + "/"].links] == [base + "/x"]
    with pytest.raises(ValueError, match="nested so deeply"):
        pages[base + "/"].css("b")


# ------------------------------------------------------------------------------------------------ links=


def asked_why(path, url):
    async def ask():
        reader = open_reader(path)
        try:
            return "\n".join(story(await find(url, reader, 0.0), 0.0))
        finally:
            await reader.close()

    return asyncio.run(ask())


def test_a_filter_decides_which_links_are_followed_and_why_shows_it(base, tmp_path):
    asked = []

    def posts(link):
        asked.append((link.url.removeprefix(base), link.text, link.page.title))
        return re.search("/blog/|/deep", link.url)

    pages, run = crawled(base + "/", directory=tmp_path / "c", links=posts)
    assert {url.removeprefix(base) for url in pages} == {"/", "/blog/1", "/deep?q=%FC"}
    # Only what the crawl would follow: neither what is out of scope nor what is nofollow.
    assert asked == [
        ("/blog/1", "First post", "Home"),
        ("/print", "Print", "Home"),
        ("/gone", "", "Home"),
        ("/deep?q=%FC", "tief", "Größe"),
    ]
    assert run.report.counts.refused["filter"] == 2
    assert "refused by your filter" in asked_why(tmp_path / "c", base + "/print")


def test_a_filter_that_raises_costs_that_link_and_the_reason_is_on_record(base, tmp_path):
    def broken(link):
        if link.url.endswith("/print"):
            raise KeyError("no such thing")
        return True

    pages, run = crawled(base + "/", directory=tmp_path / "c", links=broken)
    assert {url.removeprefix(base) for url in pages} >= {"/", "/blog/1", "/gone"}
    assert base + "/print" not in pages
    assert any("KeyError: 'no such thing'" in warning for warning in run.report.warnings)
    assert "your filter raised KeyError" in asked_why(tmp_path / "c", base + "/print")


def test_a_later_run_without_the_filter_follows_links_found_from_then_on(base, tmp_path):
    crawled(base + "/blog/1", directory=tmp_path / "c", links=lambda _link: False)
    pages, _run = crawled(base + "/", directory=tmp_path / "c")
    assert base + "/print" in pages


@pytest.mark.parametrize("wrong", ["blog", 3])
def test_a_filter_that_is_not_a_function_is_an_error(wrong):
    with pytest.raises(TypeError, match="is not a function"):
        skitter.crawl("https://example.org", links=wrong)


def test_an_asynchronous_filter_is_an_error():
    async def wanted(_link):
        return False

    with pytest.raises(TypeError, match="plain function"):
        skitter.crawl("https://example.org", links=wanted)


# ------------------------------------------------------------------------------------------------ failures


def test_refused_and_failed_seeds_are_in_the_report_and_in_the_log(base, caplog):
    starts = (
        base + "/",
        "not a url",
        base + "/gone",
        "http://127.0.0.1:1/",
        "http://10.0.0.1/",
        base + "/secret",
    )
    with (
        caplog.at_level(logging.WARNING, "skitter"),
        small_site(
            {"/secret": (200, "text/html", b"")}, robots=b"User-agent: *\nDisallow: /secret"
        ) as closed,
    ):
        _pages, run = crawled(*starts[:-1], closed + "/secret", scope="page", concurrency=1)
    told = "\n".join(run.report.warnings)
    for words in (
        "not a url",
        f"seed {base}/gone answered 404",
        "127.0.0.1:1",
        "10.0.0.1",
        f"seed {closed}/secret is not crawled",
    ):
        assert words in told
        assert words in caplog.text


def test_a_crawl_without_contact_is_warned_of(base):
    _pages, run = crawled(base + "/", scope="page")
    assert any("no contact is set" in warning for warning in run.report.warnings)
    _pages, run = crawled(base + "/", scope="page", contact="somebody@example.org")
    assert run.report.warnings == []


def test_a_page_given_up_is_reported(tmp_path):
    with small_site(
        {"/": (200, "text/html", b"<a href=/bad>x</a>"), "/bad": (500, "text/html", b"")}
    ) as base:
        _pages, run = crawled(base + "/", schedule_retries=0)
    assert [warning for warning in run.report.warnings if f"{base}/bad was given up" in warning]


def test_the_crawl_and_a_page_agree_on_the_links(base, tmp_path):
    """Whatever the crawl recorded as offered is among the links of some page."""
    pages, _run = crawled(base + "/", directory=tmp_path / "c", scope="any")

    async def recorded():
        reader = open_reader(tmp_path / "c")
        try:
            return {record.key async for record in reader.frontier.urls() if record.state is not State.FAILED}
        finally:
            await reader.close()

    offered = keys({link.url for page in pages.values() if page.status < 400 for link in page.links})
    assert asyncio.run(recorded()) <= offered | {urls.key(base + "/")}
