"""Refresh, in meta elements and in the header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.parse.refresh import refresh


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("5", (5, None)),
        (" 5 ; URL = '/next' x", (5, "/next")),
        ('0,url="/a\'b"', (0, "/a'b")),
        ("0; /bare", (0, "/bare")),
        ("0; '/quoted'", (0, "/quoted")),
        ("0; url /odd", (0, "url /odd")),
        (".5;url=x", (0, "x")),
        ("1.9.9 url=x", (1, "x")),
        ("url=x", None),
        ("x", None),
        ("1x", None),
        ("-1;url=x", None),
        ("", None),
    ],
)
def test_seconds_and_target(content: str, expected: tuple[int, str | None] | None) -> None:
    assert refresh(content) == expected


def test_a_long_number_does_not_fail() -> None:
    assert refresh("9" * 10_000 + ";url=x") == (999_999_999, "x")


@given(st.text(alphabet="0123456789.;, url='\"x\n", max_size=40))
def test_nothing_raises(content: str) -> None:
    found = refresh(content)
    assert found is None or found[0] >= 0
