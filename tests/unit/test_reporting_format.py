"""Numbers, times and untrusted text, formatted for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.reporting.format import amount, count, counted, duration, moment, printable, shortened, table


def test_numbers_and_nouns_agree():
    assert counted(1, "host") == "1 host"
    assert counted(0, "host") == "0 hosts"
    assert counted(1200, "crash", "crashes") == "1,200 crashes"
    assert counted(1, "crash", "crashes") == "1 crash"


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (10 * 2**20, "10.0 MiB"), (2**50, "1024.0 TiB")],
)
def test_amounts_have_units(size, expected):
    assert amount(size) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, "0.0s"), (0.25, "0.2s"), (59.6, "1m 00s"), (61, "1m 01s"), (3725, "1h 02m"), (90000, "1d 01h")],
)
def test_durations_show_their_two_largest_units(seconds, expected):
    assert duration(seconds) == expected


def test_counts_have_separators():
    assert count(1234567) == "1,234,567"


def test_moments_are_iso_8601_in_utc():
    assert moment(1700000000.5) == "2023-11-14T22:13:20.500Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain Ünïcode", "plain Ünïcode"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("two\nlines\ttab", "two lines tab"),
        ("\u202eexe.pdf", "\\u202eexe.pdf"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_nothing_a_terminal_obeys_is_left(text, expected):
    assert printable(text) == expected


@given(st.text())
def test_printable_output_is_printable(text):
    assert printable(text).isprintable()


@given(st.text(), st.integers(0, 60))
def test_shortened_is_short(text, width):
    assert len(shortened(text, width)) <= max(width, 0)


def test_shortened_keeps_both_ends():
    assert shortened("https://example.org/a/very/long/path/page.html", 24) == "https://example…age.html"


def test_a_table_has_aligned_columns():
    assert table(("host", "n"), [("a", "1"), ("bbbbb", "200")]) == [
        "  host     n",
        "  a        1",
        "  bbbbb  200",
    ]
