"""Tables as text."""

import pytest

from skitter.parse import parse
from skitter.settings import ParseSettings


def read(content, kind="text/csv"):
    return parse("http://site.example/x", [("content-type", kind)], content, ParseSettings())


@pytest.mark.parametrize(
    ("separator", "kind"), [(",", "text/csv"), (";", "text/csv"), ("\t", "text/tab-separated-values")]
)
def test_cells_columns_and_links(separator, kind):
    rows = [["Name", "URL"], ["Tea", '"http://a.test/x,y"'], ["Grüße", "http://b.test/"]]
    found = read("\r\n".join(separator.join(row) for row in rows).encode(), kind)
    assert found.media == {"format": "csv", "rows": 3, "columns": ["Name", "URL"]}
    assert found.links == ["http://a.test/x,y", "http://b.test/"]
    assert "Grüße" in found.text


def test_a_cell_without_end_is_recorded_and_harmless():
    found = read(b'a,b\n"' + b"x" * 200_000)
    assert "field larger" in found.media["partly"]
    assert read(b"").media is None or read(b"").text == ""
