"""The field's cases of what a trap rule must and must not catch."""

from skitter.scope import trap
from skitter.settings import ScopeSettings
from tests.conformance.cases import needs_cases, rows


@needs_cases
def test_repeated_segments_are_caught_as_bubing_catches_them():
    cases = [row for row in rows("trap_urls.jsonl") if "accept" in row]
    wrong = [
        row["url"] for row in cases if (trap(row["url"], ScopeSettings(), 2026) is None) != row["accept"]
    ]
    assert wrong == []
    assert cases


@needs_cases
def test_pathological_and_deep_paths_are_caught_as_heritrix_catches_them():
    settings = ScopeSettings(max_query_length=10**6, max_url_length=10**6, calendar_years=10**5)
    cases = [row for row in rows("trap_urls.jsonl") if "heritrix_pathological_reject" in row]
    wrong = [
        row["url"][:80]
        for row in cases
        if (trap(row["url"], settings, 2026) is not None)
        != (row["heritrix_pathological_reject"] or row["heritrix_too_many_segments_reject"])
    ]
    assert wrong == []
    assert cases
