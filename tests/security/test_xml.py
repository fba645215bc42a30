"""Hostile XML: nothing is expanded, nothing is fetched, nothing grows. (Feeds and sitemaps are not read yet.)"""

import pytest

from skitter.parse import parse
from skitter.settings import ParseSettings
from tests.conformance.cases import FOLDER, needs_cases, rows

MEDIA_TYPES = ("application/xml", "text/xml", "application/rss+xml", "application/xhtml+xml", "text/html", "")


def payload_of(row):
    payload = row["payload"]
    return (FOLDER / payload).read_bytes() if payload.startswith("xml_attacks/") else payload.encode()


@needs_cases
@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_no_xml_attack_expands_or_reaches_out(media_type):
    attacks = [row for row in rows("security_vectors.jsonl") if row["kind"] == "xml_attack"]
    assert attacks
    for row in attacks:
        payload = payload_of(row) or b"<a>" + b"x" * 6_000_000 + b"</a>"
        document = parse("http://a.test/x.xml", [("content-type", media_type)], payload, ParseSettings())
        assert len(document.text) <= len(payload), row["case"]
        assert "root:x:" not in document.text, row["case"]
        assert not document.links, row["case"]
