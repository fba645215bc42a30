"""SURT keys of CDXJ lines: what is folded so that any spelling finds the archived page."""

import pytest

from skitter import urls


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://www2.Example.co.uk/Path/", "uk,co,example)/path"),
        ("http://example.org", "org,example)/"),
        ("http://example.org:8080/a", "org,example:8080)/a"),
        ("https://example.org:80/a", "org,example:80)/a"),
        ("http://me:secret@example.org/#top", "org,example)/"),
        ("http://example.org//a//b", "org,example)/a/b"),
        ("http://example.org/a%2520b", "org,example)/a%20b"),
        ("http://example.org/%2525%32%35", "org,example)/%25"),
        ("http://example.org/%252%2535", "org,example)/%25"),
        ("http://example.org/ü?Ö", "org,example)/%c3%bc?%c3%96"),
        ("http://example.org/?b=1&a=2&a=1&a-b", "org,example)/?a=1&a=2&a-b&b=1"),
        ("http://example.org/?&", "org,example)/"),
        ("http://example.org/?sid=" + "0" * 32 + "&x", "org,example)/?x"),
        ("http://example.org/?sid=17&x", "org,example)/?sid=17&x"),
        ("http://example.org/a;jsessionid=" + "A" * 32, "org,example)/a"),
        ("http://example.org/(S(" + "a" * 24 + "))/page.aspx?x", "org,example)/page.aspx?x"),
        ("http://example.org/" + "a" * 24 + "/page.html", "org,example)/" + "a" * 24 + "/page.html"),
        ("http://10.0.0.1/", "1,0,0,10)/"),
        ("http://[::1]:81/x", "::1:81)/x"),
        ("example.org/x", "org,example)/x"),
        ("dns:www.example.org", "org,example,www)"),
        ("urn:uuid:1", "urn:uuid:1"),
        ("http://[", "http://["),
        ("", "-"),
    ],
)
def test_a_key_folds_what_replay_tools_fold(url: str, expected: str):
    assert urls.surt(url) == expected


def test_pages_of_a_domain_sort_together():
    found = ["http://b.example.org/", "http://example.net/", "http://example.org/z", "http://a.example.org/"]
    assert sorted(map(urls.surt, found)) == [
        "net,example)/",
        "org,example)/z",
        "org,example,a)/",
        "org,example,b)/",
    ]
