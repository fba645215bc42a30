"""Robots directives of pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model import Directives
from skitter.parse import directives


@pytest.mark.parametrize(
    ("lines", "rules"),
    [
        (["noindex, NOFOLLOW"], ["noindex", "nofollow"]),
        (["skitter: noindex, nofollow"], ["noindex", "nofollow"]),
        (["Skitter : none"], ["none"]),
        (["other: noindex, nofollow"], []),
        (["other: noindex, skitter: nofollow"], ["nofollow"]),
        (["*: noindex"], ["noindex"]),
        (["max-snippet: 20, noindex"], ["max-snippet: 20", "noindex"]),
        (["", " , "], []),
        (["other: noindex", "nofollow"], ["nofollow"]),
    ],
)
def test_rules_for_other_robots_are_not_ours(lines: list[str], rules: list[str]) -> None:
    assert directives.rules(lines) == rules


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], Directives()),
        (["none"], Directives(index=False, follow=False)),
        (["all", "index", "follow"], Directives()),
        (["index", "noindex"], Directives(index=False)),
        (["noimageai"], Directives(ai={"noimageai": "y"})),
    ],
)
def test_the_stricter_rule_wins(found: list[str], expected: Directives) -> None:
    assert directives.directives(found, {}) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ('train-ai=n;x="a,b", search=y', {"train-ai": "n", "search": "y"}),
        ("train-ai=n,", {"train-ai": "n"}),
        ("train-ai=n search=y", {}),
        ("Train-AI=n", {}),
        ("", {}),
    ],
)
def test_usage_is_a_dictionary_of_y_and_n(field: str, expected: dict[str, str]) -> None:
    assert directives.usage(field) == expected


@given(st.text(max_size=60))
def test_no_field_is_too_strange_to_read(field: str) -> None:
    headers = {
        name: [field]
        for name in ("x-robots-tag", "content-usage", "content-signal", "tdm-reservation", "tdm-policy")
    }
    assert directives.of_page(headers).index in {True, False}


def test_preferences_are_kept_as_sent() -> None:
    headers = {
        "content-signal": ["search=yes, ai-train=no"],
        "content-usage": ["train-ai=n"],
        "tdm-reservation": ["1"],
        "tdm-policy": ["https://site.example/policy.json"],
    }
    assert directives.of_headers(headers) == (
        [],
        {
            "search": "yes",
            "ai-train": "no",
            "train-ai": "n",
            "tdm-reservation": "1",
            "tdm-policy": "https://site.example/policy.json",
        },
    )
