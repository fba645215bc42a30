"""Hostile XML: nothing is expanded, nothing is fetched, nothing grows."""

import resource
import socket

import pytest

from skitter.parse import parse
from skitter.parse.sitemaps import SitemapReader
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


@needs_cases
def test_no_xml_attack_in_a_sitemap_expands_or_reaches_out(monkeypatch):
    def no_network(*_ends):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for row in (row for row in rows("security_vectors.jsonl") if row["kind"] == "xml_attack"):
        payload = payload_of(row) or b"<urlset><url><loc>" + b"x" * 50_000_000 + b"</loc></url></urlset>"
        if "levels" in row["payload"]:
            payload = b"<urlset>" + b"<a>" * 100_000
        reader, entries = SitemapReader(), []
        for at in range(0, len(payload), 65536):
            entries += reader.feed(payload[at : at + 65536])
        entries += reader.close()
        assert not any("root:x:" in entry.url or "lol" in entry.url for entry in entries), row["case"]
        assert len(entries) <= 1, row["case"]
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000
    )  # KiB: the payloads themselves
