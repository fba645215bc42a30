"""Dates as others write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.runtime import dates

MAY = 1_714_521_600.0  # 2024-05-01T00:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01", MAY),
        ("2024-05", MAY),
        ("2024", 1_704_067_200.0),
        (" 2024-05-01T12:30Z ", MAY + 45_000),
        ("2024-05-01T12:30:05+02:00", MAY + 37_805),
        ("2024-05-01T12:30:05.25-0130", MAY + 50_405.25),
        ("2024-05-01t12:30:05", MAY + 45_005),
        ("1960-01-01", -315_619_200.0),
        ("2024-02-30", None),
        ("2024-13-01", None),
        ("2024-05-01T25:00Z", None),
        ("2024-05-01T12:00:00+99:99", None),
        ("0000-01-01", None),
        ("20240501", None),
        ("yesterday", None),
        ("\u0662\u0660\u0662\u0664", None),  # digits, but not ours
        ("", None),
    ],
)
def test_a_date_of_a_sitemap(text, expected):
    assert dates.w3c(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wed, 01 May 2024 12:30:05 GMT", MAY + 45_005),
        ("Wed, 32 May 2024 12:30:05 GMT", None),
        ("Wed, 01 May 2024 12:30:05 UTC", None),
        ("Wednesday, 01-May-24 12:30:05 GMT", None),
        ("Wed May  1 12:30:05 2024", None),
        (" Wed, 01 May 2024 12:30:05 GMT", None),
        ("Wed, 01 May 2024 12:30:05 GMT\r\nX: y", None),
        ("Wed, 01 May 0000 12:30:05 GMT", None),
        ("-1", None),
        ("", None),
    ],
)
def test_a_date_of_http(text, expected):
    assert dates.http(text) == expected


@given(st.text() | st.from_regex(dates._W3C, fullmatch=True) | st.from_regex(dates._HTTP, fullmatch=True))
def test_no_text_makes_them_raise(text):
    for read in (dates.w3c, dates.http):
        seconds = read(text)
        assert seconds is None or -dates.LATEST <= seconds <= dates.LATEST
