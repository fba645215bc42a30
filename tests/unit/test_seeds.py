"""Seeds from arguments and files: what becomes a Link, and the errors for the rest."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter import urls
from skitter.model import Hints, Level, Link, State, UrlRecord
from skitter.reporting.records import url_record
from skitter.seeds import MAX_LINE, BadSeed, named, read


def seeds(text: str | bytes) -> list[Link]:
    found = list(read(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "seeds.txt"))
    assert not [bad for bad in found if isinstance(bad, BadSeed)]
    return [seed for seed in found if isinstance(seed, Link)]


def bad(text: str | bytes) -> BadSeed:
    (only,) = read(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "seeds.txt")
    assert isinstance(only, BadSeed)
    return only


def test_an_argument_becomes_a_seed_with_both_spellings_and_its_host():
    (link,) = named([" http://Example.org/b/../a?utm_source=x&sid=1#top"])
    assert link == Link(
        url="http://example.org/a?sid=1",
        key="http://example.org/a",
        host="example.org",
        level=Level.CRITICAL,
        seed=True,
    )


def test_a_seed_without_a_scheme_gets_https():
    assert [link.url for link in seeds("example.org")] == ["https://example.org/"]


def test_the_rules_of_the_crawl_make_both_spellings():
    rules = urls.UrlRules(tracking_params=("x",), fold_www=True, fold_trailing_slash=True)
    (link,) = named(["http://www.example.org/a/?x=1&utm_source=2"], rules)
    assert isinstance(link, Link)
    assert link.url == "http://www.example.org/a/?utm_source=2"
    assert link.key == "http://example.org/a?utm_source=2"


def test_a_file_has_one_url_a_line_with_comments_and_empty_lines():
    text = "\ufeff# mine\n\nhttps://a.example/\r\n   https://b.example/x  \n#https://c.example/\nd.example"
    assert [seed.url for seed in seeds(text)] == [
        "https://a.example/",
        "https://b.example/x",
        "https://d.example/",
    ]


def test_a_json_line_sets_priority_depth_and_meta():
    (seed,) = seeds(
        '{"url": "a.example", "priority": "low", "score": 2.5, "depth": 3, "meta": {"shelf": [1]}}'
    )
    assert (seed.level, seed.score, seed.depth, seed.meta) == (Level.LOW, 2.5, 3, {"shelf": [1]})


def test_a_priority_may_be_a_number():
    assert [seed.level for seed in seeds('{"url": "a.example", "priority": 4}')] == [Level.BACKGROUND]


def test_unknown_keys_are_ignored_so_that_an_export_can_be_read():
    assert [
        seed.url for seed in seeds('{"url": "https://a.example/", "state": "crawled", "parent": "x"}')
    ] == ["https://a.example/"]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("ftp://example.org/", "not an http or https URL; write for example https://example.org/"),
        ("mailto:me@example.org", "not an http or https URL"),
        ("https://", "not an http or https URL"),
        ("{not json", "write for example"),
        ('{"priority": 1}', "missing required field `url`"),
        ('{"url": 7}', "Expected `str`"),
        ('{"url": "a.example", "depth": -1}', "`int` >= 0"),
        ('{"url": "a.example", "priority": "urgent"}', "not one of critical, high, normal, low, background (or 0 to 4)"),
        ('{"url": "a.example", "priority": 9}', "the priority 9 is not one of"),
        (b"https://a.example/\xff", "not UTF-8"),
        (b'{"url": "\xff"}', "write for example"),
    ],
)  # fmt: skip
def test_a_bad_line_is_a_value_with_its_place_and_reason(line, part):
    found = bad(line)
    assert found.where == "seeds.txt:1"
    assert part in found.reason.detail


def test_a_bad_line_does_not_cost_the_others():
    found = list(read(io.BytesIO(b"https://a.example/\nftp://x/\nhttps://b.example/\n"), "s"))
    assert [type(seed) for seed in found] == [Link, BadSeed, Link]
    assert isinstance(found[1], BadSeed)
    assert found[1].where == "s:2"


def test_a_line_without_end_is_refused_and_not_held_in_memory():
    largest = 0

    class Endless(io.BytesIO):
        def readline(self, limit: int | None = -1, /) -> bytes:
            nonlocal largest
            line = super().readline(limit)
            largest = max(largest, len(line))
            return line

    file = Endless(b"x" * (5 * MAX_LINE) + b"\nhttps://a.example/\n")
    first, second = read(file, "s")
    assert isinstance(first, BadSeed)
    assert isinstance(second, Link)
    assert len(first.text) <= 200
    assert largest <= MAX_LINE + 1


def test_a_file_is_read_lazily():
    class OneLine(io.BytesIO):
        def readline(self, limit: int | None = -1, /) -> bytes:
            line = super().readline(limit)
            assert line != b"second\n", "read ahead"
            return line

    first = next(iter(read(OneLine(b"https://a.example/\nsecond\n"), "s")))
    assert isinstance(first, Link)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data):
    for seed in read(io.BytesIO(data), "s"):
        assert isinstance(seed, Link | BadSeed)


@given(st.text(max_size=100))
def test_no_argument_raises(text):
    (seed,) = named([text])
    assert isinstance(seed, Link | BadSeed)


def test_meta_that_cannot_be_stored_is_a_bad_seed_and_costs_no_other():
    lines = b'{"url": "http://a.test/", "meta": {"n": 123456789012345678901234567890}}\nhttp://b.test/\n'
    first, second = read(io.BytesIO(lines), "seeds.jsonl")
    assert isinstance(first, BadSeed)
    assert second.url == "http://b.test/"


def test_a_line_may_say_what_a_sitemap_says():
    (seed,) = seeds(b'{"url": "https://a.example/", "lastmod": "2024-05-01", "priority": 0.8}')
    assert seed.hints == Hints(lastmod=1_714_521_600.0, priority=0.8)
    assert (seed.level, seed.score) == (Level.CRITICAL, 0.0)
    (other,) = seeds(b'{"url": "https://a.example/", "lastmod": 5, "priority": "low"}')
    assert (other.hints, other.level) == (Hints(lastmod=5.0), Level.LOW)
    (plain,) = seeds(b'{"url": "https://a.example/", "priority": 1}')
    assert (plain.hints, plain.level) == (None, Level.HIGH)


def test_hints_of_an_export_are_read_again():
    record = UrlRecord(
        url="https://a.example/", key="", state=State.QUEUED, hints=Hints(5.5, 0.25, ("next",))
    )
    (seed,) = seeds(msgspec.json.encode(url_record(record)))
    assert seed.hints == Hints(5.5, 0.25)
    (none,) = seeds(msgspec.json.encode(url_record(replace(record, hints=None))))
    assert none.hints is None


@pytest.mark.parametrize(
    "said",
    [
        '"lastmod": "yesterday"',
        '"lastmod": "2024-02-30"',
        '"lastmod": 1e300',
        '"lastmod": -1',
        '"lastmod": []',
        '"priority": 1.5',
        '"priority": -0.1',
        '"hints": {"priority": 2}',
        '"hints": "high"',
        f'"lastmod": "{"9" * 100_000}"',
    ],
)
def test_hints_that_make_no_sense_are_a_bad_seed_told_in_few_words(said):
    assert len(bad(f'{{"url": "https://a.example/", {said}}}').complaint) < 600


@pytest.mark.parametrize("purpose", ["page", "probe", "asset", "sitemap", "feed"])
def test_a_line_may_name_a_purpose(purpose):
    (seed,) = seeds(f'{{"url": "https://a.example/", "purpose": "{purpose}"}}')
    assert seed.purpose == purpose


@pytest.mark.parametrize(
    ("purpose", "part"),
    [
        ("robots", "'robots' is not one of page, sitemap, feed, probe, asset"),
        ("x" * 10_000, "is not one of page, sitemap, feed, probe, asset"),
        ("", "is not one of page, sitemap, feed, probe, asset"),
    ],
)
def test_a_purpose_that_nobody_serves_is_a_bad_seed(purpose, part):
    found = bad(f'{{"url": "https://a.example/", "purpose": "{purpose}"}}')
    assert part in found.reason.detail
    assert len(found.complaint) < 600
