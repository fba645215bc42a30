"""URLs in a text."""

import time

import pytest

from skitter.parse.patterns import urls_in, urls_in_all


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see http://a.test/x.", ["http://a.test/x"]),
        ("(HTTPS://a.test/x_(y))", ["HTTPS://a.test/x_(y)"]),
        (
            '<http://a.test/?a=1&b=2>, "http://b.test/"; \u201chttp://c.test/\u201d',
            ["http://a.test/?a=1&b=2", "http://b.test/", "http://c.test/"],
        ),
        ("ftp://a.test/ mailto:x@a.test http:// https://!", []),
        ("http://a.test/" + "x" * 3_000, []),
        ("详见http://a.test/路径。", ["http://a.test/路径"]),
    ],
)
def test_urls_end_where_a_reader_would_end_them(text, found):
    assert list(urls_in(text)) == found


def test_there_are_as_many_as_are_wanted_and_each_once():
    assert urls_in_all(["http://a.test/ http://a.test/", "http://b.test/ http://c.test/"], 2) == [
        "http://a.test/",
        "http://b.test/",
    ]


@pytest.mark.parametrize("text", ["http://" * 200_000, "http://a(" * 100_000, "http://a" + ")." * 500_000])
def test_no_text_takes_long(text):
    began = time.process_time()
    list(urls_in(text))
    assert time.process_time() - began < 5
