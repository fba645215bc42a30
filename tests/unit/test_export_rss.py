"""The feed of new pages: well-formed whatever pages are called, and only the newest of them."""

import asyncio
import xml.etree.ElementTree as ET
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter.export import rss
from skitter.model import Statement
from skitter.settings import Settings
from tests.unit.crawled import ABOUT, NOW, ROOT, CrawledSource, crawled, page
from tests.unit.test_export_formats import written


@pytest.fixture
def source(tmp_path: Path) -> CrawledSource:
    return crawled(tmp_path)


def feed(source: CrawledSource, tmp_path: Path) -> list[ET.Element]:
    written(source, "rss", str(tmp_path / "feed.xml"))
    root = ET.parse(tmp_path / "feed.xml").getroot()
    assert root.tag == "rss"
    assert root.attrib == {"version": "2.0"}
    return root.findall("channel/item")


def stored(source: CrawledSource, monkeypatch: pytest.MonkeyPatch, *pages: object) -> None:
    async def every():
        for each in pages:
            yield each

    monkeypatch.setattr(source.frontier, "pages", every)


def test_pages_that_are_pages_of_their_own_are_announced(source, tmp_path):
    """Not a copy, not one that is gone, not one that asks for noindex."""
    (item,) = feed(source, tmp_path)
    assert item.findtext("title") == "Home"
    assert item.findtext("link") == item.findtext("guid") == ROOT
    assert parsedate_to_datetime(str(item.findtext("pubDate"))).timestamp() == NOW


def test_the_newest_come_first_and_the_rest_is_left_out(source, tmp_path, monkeypatch):
    several = [page(f"{ROOT}{number}", fetched_at=NOW + number) for number in range(rss.NEWEST + 50)]
    stored(source, monkeypatch, *several[::2], *several[1::2])
    links = [item.findtext("link") for item in feed(source, tmp_path)]
    assert links == [each.url for each in reversed(several[50:])]


def test_hostile_titles_stay_text(source, tmp_path, monkeypatch):
    title = "</title><script>a & b\x00\x1b\u202e]]>\ud800"
    stored(source, monkeypatch, page(ABOUT, title=title, description="<b>&amp;" * 1000))
    (item,) = feed(source, tmp_path)
    assert item.findtext("title") == r"</title><script>a & b\x00\x1b\u202e]]>\ud800"
    assert len(item.findtext("description") or "") <= 500


def test_pages_that_say_no_to_a_respected_use_are_left_out(source, tmp_path, monkeypatch):
    refusing = page(ABOUT, statements=(Statement("meta robots", "noai", {"train-ai": "n"}, NOW),))
    stored(source, monkeypatch, refusing, page(ROOT))
    assert len(feed(source, tmp_path)) == 2
    settings = Settings()
    source.settings = replace(settings, export=replace(settings.export, respect_ai=("train-ai",)))
    assert [item.findtext("link") for item in feed(source, tmp_path)] == [ROOT]


def test_a_crawl_without_pages_has_an_empty_feed(source, tmp_path, monkeypatch):
    stored(source, monkeypatch)
    assert feed(source, tmp_path) == []
    assert asyncio.run(source.roots()) == [ROOT]
