"""Office documents: text, title, author, dates and links of each kind, and those that cannot be read."""

import pytest

from skitter.parse import parse
from skitter.settings import ParseSettings
from tests import documents
from tests.documents import DOCX, ODS, ODT, PPTX, XLSX

URL = "http://site.example/plan"


def read(kind, content, **settings):
    return parse(URL, [("content-type", kind)], content, ParseSettings(**settings))


def test_a_word_document():
    found = read(DOCX, documents.docx("First", "See http://a.test/b.", links=["http://a.test/c", "mailto:x"]))
    assert found.text == "First See http://a.test/b."
    assert (found.title, found.author, found.language) == ("The plan", "Ada Lovelace", "de-DE")
    assert found.links == ["http://a.test/c", "http://a.test/b"]
    assert found.media == {"format": "docx", "created": "2024-01-31T12:00:00Z"}


def test_runs_of_a_word_stay_together_and_what_old_programs_show_instead_is_left_out():
    body = "<w:p><w:r><w:t>to</w:t></w:r><w:r><w:t>gether</w:t><w:tab/><w:t>apart</w:t></w:r></w:p>"
    body += "<mc:Fallback xmlns:mc='m'><w:p><w:r><w:t>again</w:t></w:r></w:p></mc:Fallback>"
    content = documents.zipped({"word/document.xml": f"<w:d {documents.W}>{body}</w:d>"})
    assert read(DOCX, content).text == "together apart"


def test_a_table_with_shared_and_inline_texts_and_numbers():
    found = read(XLSX, documents.xlsx([["Item", "Price"], ["=Tea", 3], ["Coffee http://a.test/", 4]]))
    assert found.text == "Item Price Tea 3 Coffee http://a.test/ 4"
    assert found.links == ["http://a.test/"]
    assert found.media["sheets"] == ["Costs"]


def test_slides_are_read_in_the_order_of_their_numbers():
    found = read(PPTX, documents.pptx(*(f"slide{n}" for n in range(1, 12)), link="http://a.test/"))
    assert found.text.split() == [f"slide{n}" for n in range(1, 12)]
    assert (found.media["slides"], found.links) == (11, ["http://a.test/"])


def test_an_open_document():
    content = "<text:h>Plan</text:h><text:p>One<text:s/>two <text:a xlink:href='http://a.test/'>three</text:a></text:p>"
    content += "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    found = read(ODT, documents.odf(content))
    assert (found.text, found.links) == ("Plan One two three", ["http://a.test/"])
    assert (found.title, found.author) == ("The plan", "Ada")
    assert found.media == {"format": "odt", "modified": "2024-01-31"}


def test_an_open_document_spreadsheet():
    found = read(ODS, documents.odf("<table:table table:name='Costs'><text:p>3</text:p></table:table>", ODS))
    assert (found.text, found.media["sheets"], found.media["format"]) == ("3", ["Costs"], "ods")


@pytest.mark.parametrize("label", ["application/octet-stream", "application/zip", ""])
def test_what_a_server_labels_badly_is_known_by_its_first_member_or_its_extension(label):
    headers = [("content-type", label)] if label else []
    assert parse(URL, headers, documents.odf("<text:p>Hi</text:p>"), ParseSettings()).media_type == ODT
    assert parse(f"{URL}.docx?x=1", headers, documents.docx("Hi"), ParseSettings()).media_type == DOCX
    kept = parse(f"{URL}.zip", headers, documents.docx("Hi"), ParseSettings()).media_type
    assert kept == (label or "application/zip")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (documents.docx("x")[:-100], "damaged or cut short"),
        (b"PK\x03\x04", "damaged or cut short"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "encrypted, or in a format of before 2007"),
        (documents.zipped({"a.txt": "x"}), "holds no document"),
        (documents.zipped({f"{n}": "" for n in range(20_001)}), "20001 members"),
    ],
)
def test_one_that_cannot_be_read_says_why(content, why):
    found = read(DOCX, content)
    assert why in found.ignored
    assert (found.text, found.media_type) == ("", DOCX)


def test_more_text_than_allowed_is_left_out_and_that_is_said():
    found = read(DOCX, documents.docx("abc", "def", "ghi"), max_text=6)
    assert found.text == "abc de"
    assert found.media["partly"] == "its text is longer than parse.max_text"


def test_one_shared_string_named_often_does_not_grow_beyond_the_limit():
    strings = f"<sst><si><t>{'x' * 10_000}</t></si></sst>"
    cells = '<row><c t="s"><v>0</v></c></row>' * 10_000
    sheet = f"<worksheet><sheetData>{cells}</sheetData></worksheet>"
    content = documents.zipped(
        {"xl/workbook.xml": "<w/>", "xl/sharedStrings.xml": strings, "xl/worksheets/sheet1.xml": sheet}
    )
    found = read(XLSX, content, max_text=50_000)
    assert len(found.text) <= 50_000
    assert found.media["partly"]


@pytest.mark.parametrize("number", ["-1", "7", "x", "9" * 5_000, "²"])
def test_a_shared_string_that_is_not_there_is_nothing(number):
    sheet = f'<worksheet><row><c t="s"><v>{number}</v></c><c><v>5</v></c></row></worksheet>'
    content = documents.zipped({"xl/workbook.xml": "<w/>", "xl/worksheets/sheet1.xml": sheet})
    assert read(XLSX, content).text == "5"
