"""XML of any kind as text with links."""

from skitter.parse import parse
from skitter.settings import ParseSettings


def read(content, kind="application/xml", **settings):
    return parse(
        "http://site.example/x", [("content-type", kind)], content.encode(), ParseSettings(**settings)
    )


def test_text_links_and_title():
    found = read(
        "<r xmlns='http://ns.test/'><title>A &amp; B</title><p>one<b>two</b> http://a.test/x.</p>"
        "<a href='/rel'/><i src='http://a.test/i'/><a href='mailto:x'/><title>later</title></r>"
    )
    assert found.text == "A & B one two http://a.test/x. later"
    assert found.links == ["/rel", "http://a.test/i", "http://a.test/x"]
    assert (found.title, found.media) == ("A & B", {"format": "xml", "root": "r"})


def test_a_feed_is_xml_too_and_a_picture_is_not():
    feed = "<rss><channel><item><link>http://a.test/1</link></item></channel></rss>"
    assert read(feed, "application/rss+xml").links == ["http://a.test/1"]
    assert read("<svg><a href='http://a.test/'/><text>x</text></svg>", "image/svg+xml").links == ()


def test_damage_ends_the_reading_and_is_recorded():
    found = read("<r><p>before</p><p>after</r>")
    assert found.text == "before"
    assert "damaged" in found.media["partly"]
    assert "damaged" in read("<<<").ignored


def test_entities_and_endless_nesting_are_refused():
    found = read("<!DOCTYPE r [<!ENTITY a 'x'>]><r>&a;</r>")
    assert found.ignored == "it declares entities, which are not expanded"
    assert "nested" in read("<a>" * 1_000).ignored


def test_a_tag_without_end_is_given_up():
    assert "tag is longer" in read("<r a='" + "x" * 3_000_000).ignored
