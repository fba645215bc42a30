"""Books: chapters in reading order, and those that cannot be read."""

from skitter.parse import parse
from skitter.settings import ParseSettings
from tests import documents

HEADERS = [("content-type", documents.EPUB)]


def read(content, **settings):
    return parse("http://site.example/b.epub", HEADERS, content, ParseSettings(**settings))


def test_a_book():
    found = read(
        documents.epub(
            "<p>First <a href='http://a.test/'>link</a>", "<p>Second <a href='c%200.xhtml'>back</a>"
        )
    )
    assert found.text == "First link Second back"
    assert found.links == ["http://a.test/"]
    assert (found.title, found.author, found.language) == ("A book", "Mary Shelley", "en")
    assert found.media == {"format": "epub", "chapters": 2, "published": "1818"}


def test_only_so_many_chapters_are_read():
    found = read(documents.epub("one", "two", "three"), max_pages=2)
    assert (found.text, found.media["chapters"], found.media["chapters_read"]) == ("one two", 3, 2)


def test_it_is_known_whatever_its_label():
    found = parse(
        "http://site.example/b",
        [("content-type", "application/octet-stream")],
        documents.epub("x"),
        ParseSettings(),
    )
    assert (found.media_type, found.text) == (documents.EPUB, "x")


def test_a_book_without_chapters_or_cut_short_says_why():
    assert "no text" in read(documents.epub()).ignored
    assert "no text" in read(documents.zipped({"mimetype": documents.EPUB})).ignored
    assert "cut short" in read(documents.epub("x")[:-50]).ignored


def test_chapters_cannot_name_files_elsewhere():
    package = '<package><manifest><item id="a" href="../../../etc/passwd" media-type="text/html"/></manifest>'
    package += '<spine><itemref idref="a"/></spine></package>'
    content = documents.zipped(
        {"META-INF/container.xml": '<c><rootfile full-path="x/b.opf"/></c>', "x/b.opf": package}
    )
    assert read(content).text == ""
