"""The field's cases of what a trap rule must and must not catch."""

from typing import Any

from skitter.links.scope import Scope
from skitter.settings import ScopeSettings
from tests.conformance.cases import needs_cases, rows


def is_trap(url: str, **settings: Any) -> bool:
    scope = Scope(ScopeSettings(kind="any", skip_extensions=(), **settings), year=2026)
    return scope.refusal(url, 0) is not None


@needs_cases
def test_repeated_segments_are_caught_as_bubing_catches_them():
    cases = [row for row in rows("trap_urls.jsonl") if "accept" in row]
    wrong = [row["url"] for row in cases if is_trap(row["url"]) == row["accept"]]
    assert wrong == []
    assert cases


@needs_cases
def test_pathological_and_deep_paths_are_caught_as_heritrix_catches_them():
    loose = {"max_query_length": 10**6, "max_url_length": 10**6, "calendar_years": 10**5}
    cases = [row for row in rows("trap_urls.jsonl") if "heritrix_pathological_reject" in row]
    wrong = [
        row["url"][:80]
        for row in cases
        if is_trap(row["url"], **loose)
        != (row["heritrix_pathological_reject"] or row["heritrix_too_many_segments_reject"])
    ]
    assert wrong == []
    assert cases
