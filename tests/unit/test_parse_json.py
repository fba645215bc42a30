"""JSON as text with links, and the answers of an API."""

import json

import pytest

from skitter.parse import parse
from skitter.settings import ParseSettings

URL = "http://api.example/v1/items?page=1&size=2"


def read(value, kind="application/json", headers=(), **settings):
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse(URL, [("content-type", kind), *headers], content, ParseSettings(**settings))


def test_strings_are_text_in_their_order_and_urls_in_them_are_links():
    found = read(
        {"title": "A list", "n": 3, "b": ["one", {"c": "see http://a.test/x."}], "d": "https://a.test/y"}
    )
    assert found.text == "A list one see http://a.test/x. https://a.test/y"
    assert found.links == ["http://a.test/x", "https://a.test/y"]
    assert (found.title, found.media) == ("A list", {"format": "json"})


def test_json_ld_says_who_wrote_it():
    found = read(
        {"headline": "News", "author": [{"name": "Ada"}], "inLanguage": "fr", "description": "d"},
        "application/ld+json",
    )
    assert (found.title, found.author, found.language, found.description) == ("News", "Ada", "fr", "d")


def test_lines_of_json():
    found = read(b'{"a": "x"}\n{"a": "y"}\n', "application/x-ndjson")
    assert (found.text, found.media["items"]) == ("x y", 2)


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_does_no_harm(mark):
    assert read('{"a": "Grüße"}'.encode(mark)).text == "Grüße"


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_nesting_without_end_is_refused_and_recorded(depth):
    found = read(b'{"a":' * depth + b"1" + b"}" * depth)
    assert found.ignored == "the JSON is nested too deeply to be read"
    assert read(b"[" * depth).ignored


def test_a_cut_document_says_so_and_its_urls_are_still_found():
    found = read(b'{"a": "http://a.test/", "b": "http://a.test/b')
    assert "damaged" in found.ignored
    assert found.links == ["http://a.test/", "http://a.test/b"]


def test_a_document_is_not_cut():
    found = read({"a": "x" * 1_000, "b": "http://a.test/"}, max_input=100)
    assert found.links == ["http://a.test/"]


def test_only_what_settings_name_is_a_link_of_an_api():
    value = {"items": [{"url": "/v1/1", "icon": "http://cdn.test/i"}, {"url": 5}, {}], "next": "?page=2"}
    found = read(value, follow_json=("$.items[*].url",), next_json="$.next")
    assert found.links == ["/v1/1", "?page=2"]


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("a b/=", ["http://api.example/v1/items?size=2&page=a+b%2F%3D"]),
        (2, ["http://api.example/v1/items?size=2&page=2"]),
        (None, ()),
        ("", ()),
        (False, ()),
        (True, ()),
        ({"a": 1}, ()),
        ("x" * 3_000, ()),
    ],
)
def test_a_cursor_becomes_a_parameter_until_there_is_none(value, links):
    assert read({"next": value}, next_json="$.next", next_param="page").links == links


def test_the_link_header_names_the_next_part():
    headers = [("link", '<?page=2>; rel="next", <?page=9>; rel="last"')]
    assert read([], headers=headers).links == ["?page=2"]
    assert read([], headers=headers, items_json=("$[*]",)).links == ["?page=2"]


def test_items_are_counted():
    assert read({"items": [1, 2, 3]}, items_json=("$.items[*]",)).media["items"] == 3
