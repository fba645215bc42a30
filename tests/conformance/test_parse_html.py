"""HTML: links, bases, refreshes and character references, by the cases of wpt, html5lib, w3lib, Scrapy and Heritrix."""

import base64
from typing import Any

from skitter.model import Document
from skitter.parse import flat, parse
from skitter.parse.findings import Findings, folded, read_tree
from skitter.parse.refresh import refresh
from skitter.settings import ParseSettings
from skitter.urls import resolve
from tests.conformance.cases import needs_cases, rows


def read(html: str | bytes, url: str = "http://site.example/", encoding: str = "utf-8") -> Document:
    content = html if isinstance(html, bytes) else html.encode("utf-8", "surrogatepass")
    return parse(url, [("content-type", f"text/html; charset={encoding}")], content, ParseSettings())


def targets(document: Document) -> list[str]:
    """Where the links lead that lead anywhere."""
    hrefs = (*document.links, *document.nofollow)
    return list(dict.fromkeys(url for href in hrefs if (url := resolve(href, document.base))))


# ------------------------------------------------------------------------------------------------ links


@needs_cases
def test_the_base_matches_browsers():
    cases = rows("html_base_url.jsonl")
    wrong = [row for row in cases if read(row["html"], row["page_url"]).base != row["expected"]]
    assert wrong == []
    assert len(cases) == 26


@needs_cases
def test_links_are_those_of_the_standard_s_tree():
    cases = rows("html_links_from_treetests.jsonl")
    wrong = []
    for row in cases:
        expected = dict.fromkeys(href for _, _, href in row["expected"] if not href.startswith("#"))
        if list(read(row["html"]).links) != list(expected):
            wrong.append(row["id"])
    assert wrong == []
    assert len(cases) == 17


# Rows that give options to the extractor are not counted: what is wanted is decided by the scope, after parsing.
SCRAPY = {
    25: "photo.jpg: which endings are not wanted is a setting of the scope",
    49: "ftp: is no scheme we follow",
}


@needs_cases
def test_links_are_those_that_scrapy_extracts_by_default():
    cases = [
        (n, row)
        for n, row in enumerate(rows("html_links_scrapy.jsonl"))
        if not row["options"] and not row["positional"]
    ]
    wrong = set()
    for number, row in cases:
        document = read(base64.b64decode(row["body_b64"]), row["page_url"], row["encoding"])
        nofollow = {resolve(href, document.base) for href in document.nofollow}
        expected = {(link["url"].partition("#")[0], link["nofollow"]) for link in row["expected"]}
        if {(url, url in nofollow) for url in targets(document)} != expected:
            wrong.add(number)
    assert wrong == set(SCRAPY)
    assert len(cases) == 16


IMAGES = "images and other embedded resources are not pages"
SCRIPTS = "scripts are not searched for what may be addresses"
HERITRIX = {
    9: IMAGES,
    10: "forms are not filled in",
    11: IMAGES,
    12: "nofollow on the page: its links are listed, and refused by the caller with that reason",
    **dict.fromkeys((16, 17, 18), IMAGES),
    19: SCRIPTS,
    **dict.fromkeys((22, 23), "Flash is no more"),
    24: "conditional comments were read by Internet Explorer only, and the row holds images and scripts",
    **dict.fromkeys(range(25, 36), IMAGES),
}


@needs_cases
def test_links_are_those_that_heritrix_finds_in_the_elements_we_follow():
    cases = rows("html_links_heritrix.jsonl")
    wrong = set()
    for number, row in enumerate(cases):
        found = targets(read(row["html"], row["page_url"]))
        missing = [part for part in row["expected_contains"] if not any(part in url for url in found)]
        count = row.get("expected_count")
        if missing or (count is not None and count != len(found)):
            wrong.add(number)
    assert wrong == set(HERITRIX)
    assert len(cases) == 36


# ------------------------------------------------------------------------------------------------ refresh


@needs_cases
def test_refresh_is_parsed_by_the_standard():
    cases = rows("html_meta_refresh_wpt.jsonl")
    wrong = []
    for row in cases:
        found = refresh(row["content"])
        in_header = parse(
            "http://site.example/",
            [("content-type", "text/html"), ("refresh", row["content"])],
            b"",
            ParseSettings(),
        )
        if found is None or row["expected"] is None:
            good = found is row["expected"] and in_header.links == []
        else:
            seconds, target = row["expected"]
            links = [] if not target else [target]
            good = found[0] == seconds and (found[1] is None) is (target is None) and in_header.links == links
        if not good:
            wrong.append(row["content"])
    assert wrong == []
    assert len(cases) == 73


W3LIB_REFRESH = {
    2: "a tag that the file ends in is no tag (HTML Standard, 13.2.5.8)",
    11: "the row's bytes were lost: it holds U+FFFD",
    12: "the row's bytes were lost: it holds U+FFFD",
    20: "asks for what stands in <noscript>, which is not part of the page",
    22: "asks for what stands in <script>",
}


@needs_cases
def test_refresh_leads_where_w3lib_says():
    cases = rows("html_meta_refresh_w3lib.jsonl")
    wrong = set()
    for number, row in enumerate(cases):
        encoding = row["args"][0] if row["args"] else "utf-8"
        target = row["expected"][1]
        if targets(read(row["html"], row["page_url"], encoding)) != ([target] if target else []):
            wrong.add(number)
    assert wrong == set(W3LIB_REFRESH)
    assert len(cases) == 26


# ------------------------------------------------------------------------------------------------ both readers


def findings(html: str) -> tuple[Findings, Findings]:
    """What the tree finds, and what the tag stream finds."""
    source = html.encode("utf-8", "surrogatepass")
    by_tree, by_tags = Findings(1000), Findings(1000)
    read_tree(source, by_tree)
    flat.read(source.decode("utf-8", "replace"), by_tags)
    return by_tree, by_tags


@needs_cases
def test_every_document_of_the_tree_construction_tests_is_read_and_both_readers_find_the_same_links():
    cases = rows("html_tree_construction.jsonl")
    wrong = []
    for row in cases:
        by_tree, by_tags = findings(row["data"])
        read(row["data"])
        if set(by_tree.hrefs()) != set(by_tags.hrefs()) or (by_tree.title or "") != (by_tags.title or ""):
            wrong.append(row["id"])
    assert wrong == []
    assert len(cases) == 1936


@needs_cases
def test_character_references_are_replaced_as_the_tokenizer_does():
    cases = rows("html_entities.jsonl")
    wrong = []
    for row in cases:
        tags = [token for token in row["output"] if token[0] == "StartTag"]
        text = "".join(token[1] for token in row["output"] if token[0] == "Character")
        html = row["input"].replace("<h a=", "<meta name=description content=")
        for found in findings(html):
            attribute = tags[0][2]["a"] if tags else ""
            if (found.text(), found.description) != (folded(text), folded(attribute)):
                wrong.append(row["input"])
    assert wrong == []
    assert len(cases) == 4626


ILLEGAL = "what is no character becomes U+FFFD, or the control character it names"
W3LIB_ENTITIES = {
    **dict.fromkeys((12, 13, 14, 15), ILLEGAL),
    46: "decoding comes first, and by the document's encoding",
}


def entity_text(row: dict[str, Any]) -> str:
    given = row["input"]
    by_tree, by_tags = findings(
        "<xmp-free>" + (given if isinstance(given, str) else given["__bytes_latin1__"])
    )
    assert by_tree.text() == by_tags.text()
    return by_tree.text()


@needs_cases
def test_character_references_match_w3lib():
    cases = rows("html_replace_entities_w3lib.jsonl")
    # w3lib leaves tags where they are, so that rows with a < in the result say nothing about a document's text.
    plain = [(n, row) for n, row in enumerate(cases) if "<" not in row["expected"]]
    wrong = {n for n, row in plain if entity_text(row) != folded(row["expected"])}
    assert wrong == set(W3LIB_ENTITIES)
    assert len(plain) == 41
