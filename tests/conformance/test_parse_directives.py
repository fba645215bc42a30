"""Robots directives: Nutch's meta cases, and AI preferences from current drafts and protocols."""

from typing import Any

from skitter.model import Directives
from skitter.parse import directives, parse
from skitter.settings import ParseSettings
from tests.conformance.cases import needs_cases, rows


def asked(html: str, *headers: tuple[str, str]) -> Directives:
    fields = [("content-type", "text/html; charset=utf-8"), *headers]
    return parse("http://site.example/", fields, html.encode(), ParseSettings()).directives


@needs_cases
def test_meta_robots_is_read_as_nutch_reads_it():
    cases = rows("meta_robots.jsonl")
    wrong = [
        row["html"]
        for row in cases
        if (found := asked(row["html"])).index is row["noindex"] or found.follow is row["nofollow"]
    ]
    assert wrong == []
    assert len(cases) == 9


ROBOTS_FILE = "robots.txt is read by robots, not by the parser"
TDM_FILE = "/.well-known/tdmrep.json is no page and is not fetched"
DRAFT = "a proposal with another syntax (draft-illyes-repext); it expects a sentence, not rules"
NOT_OURS = {
    **dict.fromkeys((6, 7, 8, 9, 10), ROBOTS_FILE),
    22: DRAFT,
    **dict.fromkeys((31,), TDM_FILE),
}


def tdm(row: dict[str, Any]) -> tuple[str, str]:
    """The reservation we find, and the one expected; '' where there is none."""
    sent = row["input"]
    name, _, value = sent.get("http_header", "x: y").partition(": ")
    found = asked(sent.get("html", ""), (name, value)).ai or {}
    wanted = str(row["expected"])[:1]
    return found.get("tdm-reservation", ""), wanted if wanted in "01" else ""


def judge(row: dict[str, Any]) -> bool:
    """Whether a row comes out as it should."""
    kind, sent, wanted = row["kind"], row["input"], row["expected"]
    if kind == "content_usage_header":
        # One row has only a note: neither member holds a preference.
        found_usage = dict(asked("", ("content-usage", sent)).ai or {})
        return found_usage == ({} if "note" in wanted else wanted)
    if kind in ("x_robots_tag", "x_robots_tag_multi"):
        lines = sent if isinstance(sent, list) else [sent]
        found = ",".join(directives.rules(lines, row["user_agent"].lower()))
        return found.replace("none", "noindex,nofollow") == ",".join(wanted)
    if kind == "tdmrep":
        found_tdm, wanted_tdm = tdm(row)
        return found_tdm == wanted_tdm
    return False


@needs_cases
def test_preferences_about_ai_are_recorded_as_sent():
    cases = rows("ai_preference_cases.jsonl")
    wrong = {number for number, row in enumerate(cases) if not judge(row)}
    assert wrong == set(NOT_OURS)
    assert len(cases) == 33
