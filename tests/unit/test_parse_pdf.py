"""PDF: text, what the file says about itself, links, and limits."""

import pytest

from skitter.parse import parse
from skitter.parse.pdf import iso
from skitter.settings import ParseSettings
from tests import documents

PDF = [("content-type", "application/pdf")]


def read(content, headers=PDF, **settings):
    return parse("http://site.example/a.pdf", headers, content, ParseSettings(**settings))


def test_text_page_by_page_and_what_the_file_says():
    info = {"Title": "The report", "Author": "Ada", "Subject": "Bees", "Keywords": "honey", "Producer": "TeX"}
    found = read(documents.pdf([["One", "two"], ["three"]], info=info))
    assert found.text == "One two three"
    assert (found.title, found.author, found.description, found.keywords) == (
        "The report",
        "Ada",
        "Bees",
        "honey",
    )
    assert found.language == "en-GB"
    assert found.media == {"format": "pdf", "pages": 2, "version": "1.7", "producer": "TeX"}


def test_the_header_names_the_language_before_the_file_and_the_first_line_is_the_title_if_there_is_none():
    found = read(documents.pdf([["A heading", "text"]]), [*PDF, ("content-language", "fr")])
    assert (found.language, found.title) == ("fr", "A heading")


def test_accents_that_stand_before_their_letter_are_put_on_it():
    found = read(documents.pdf([["math\xb4ematique fran\xb8caise \xa8Uber probl`eme", "x `a` 5\xb4 \xb4q"]]))
    assert found.text == "mathématique française Über problème x `a` 5´ ´q"


def test_links_to_click_and_links_in_the_text():
    content = documents.pdf(
        [["see http://a.test/text."]],
        links=["http://a.test/b", "javascript:x()", "mailto:a@b.test", "http://a.test/b"],
    )
    assert read(content).links == ["http://a.test/b", "http://a.test/text"]
    assert len(read(content, max_links=1).links) == 1


@pytest.mark.parametrize("label", ["application/octet-stream", "text/html", "text/plain", ""])
def test_it_is_known_by_its_first_bytes(label):
    found = read(documents.pdf(), [("content-type", label)])
    assert (found.media_type, found.text) == ("application/pdf", "Hello")


def test_pages_and_characters_have_limits_and_the_record_says_so():
    content = documents.pdf([["aaa"], ["bbb"], ["ccc"]])
    found = read(content, max_pages=2)
    assert (found.text, found.media["pages"], found.media["pages_read"]) == ("aaa bbb", 3, 2)
    assert found.media["partly"] == "pages"
    found = read(content, max_text=5)
    assert (found.text, found.media["partly"]) == ("aaa bb", "text")


def test_max_input_does_not_cut_it_and_one_that_was_cut_says_so():
    content = documents.pdf([["word"] * 30])
    assert read(content, max_input=100).text
    found = read(content[: len(content) // 3])
    assert (found.ignored, found.text) == ("the PDF is damaged or cut short, and cannot be read", "")
    assert found.media == {"damaged": True}


def test_a_page_of_html_with_the_label_of_a_pdf_is_not_given_to_the_parser():
    found = read(b"\n<html>Not found")
    assert found.ignored == "it is labelled application/pdf, but it is markup"


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T12:00:00+01:00"),
        ("D:20240131120000Z", "2024-01-31T12:00:00Z"),
        ("D:202401311200", "2024-01-31T12:00:00"),
        ("D:2024", "2024"),
        ("20240131", "2024-01-31"),
        ("D:20241399", "2024"),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates(date, expected):
    assert iso(date) == expected
