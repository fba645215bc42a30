"""Robots directives: Nutch's meta cases, and AI preferences from current drafts and protocols."""

import json
from collections.abc import Iterable
from typing import Any

from skitter.model import Directives, Statement
from skitter.parse import directives, parse
from skitter.robots import robots_rules, terms, usage
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


DRAFT = "a proposal with another syntax (draft-illyes-repext); it expects a sentence, not rules"
NOT_OURS = {22: DRAFT}

SITE = "http://site.example"


def uses(statements: Iterable[Statement]) -> dict[str, str]:
    return {use: said for use, (said, _) in usage.verdicts(list(statements)).items()}


def of_robots(text: str, path: str, agent: str = "skitter") -> dict[str, str]:
    rules = robots_rules(text.encode(), agent)
    return uses(rules.said.statements(SITE + path)) if rules.said and rules.allows(SITE + path) else {}


def of_page(html: str, *headers: tuple[str, str], url: str = "/") -> list[Statement]:
    fields = [("content-type", "text/html; charset=utf-8"), *headers]
    return list(parse(SITE + url, fields, html.encode(), ParseSettings()).statements)


def usage_in_robots(row: dict[str, Any]) -> bool:
    """A path that may not be crawled has no preference."""
    return all(
        of_robots(row["input"], path) == (wanted if isinstance(wanted, dict) else {})
        for path, wanted in row["expected"].items()
    )


def signal_in_robots(row: dict[str, Any]) -> bool:
    """The words as we call them; one row only says that the line is for everybody."""
    wanted = row["expected"]
    if "scope" in wanted:
        return of_robots(row["input"], "/") == of_robots(row["input"], "/", "other") == {"train-ai": "n"}
    names = {"search": "search", "ai-train": "train-ai", "ai-input": "ai-input"}
    answers = {names[name]: said[0] for name, said in wanted.items() if name in names and said != "unset"}
    return of_robots(row["input"], "/") == answers


def groups_in_robots(row: dict[str, Any]) -> bool:
    found = {
        f"{agent}:/x": "allow" if robots_rules(row["input"].encode(), agent).allows("/x") else "disallow"
        for agent in "AB"
    }
    return bool(found == row["expected"])


def reservation(row: dict[str, Any]) -> bool:
    """From the file, the header and the meta element: 1 is a no, 0 a yes."""
    sent, url = row["input"], row["input"].get("url", "/")
    name, _, value = sent.get("http_header", "x: y").partition(": ")
    of_file = terms.tdm_file(json.dumps(sent.get("tdmrep.json", [])).encode())
    found = [
        *of_page(sent.get("html", ""), (name, value), url=url),
        *terms.statements(of_file, SITE + url, 0.0),
    ]
    return uses(found).get("tdm") == {"0": "y", "1": "n"}.get(str(row["expected"])[:1])


def tag(row: dict[str, Any]) -> bool:
    lines = row["input"] if isinstance(row["input"], list) else [row["input"]]
    found = ",".join(directives.rules(lines, row["user_agent"].lower()))
    return found.replace("none", "noindex,nofollow") == ",".join(row["expected"])


def usage_header(row: dict[str, Any]) -> bool:
    """One row has only a note: neither member holds a preference."""
    wanted = {} if "note" in row["expected"] else row["expected"]
    return uses(of_page("", ("content-usage", row["input"]))) == wanted


CHECKS = {
    "content_usage_header": usage_header,
    "content_usage_robots": usage_in_robots,
    "content_signal_robots": signal_in_robots,
    "content_signal_does_not_break_groups": groups_in_robots,
    "x_robots_tag": tag,
    "x_robots_tag_multi": tag,
    "tdmrep": reservation,
}


@needs_cases
def test_preferences_about_ai_are_read_as_their_drafts_say() -> None:
    cases = rows("ai_preference_cases.jsonl")
    wrong = {number for number, row in enumerate(cases) if not CHECKS[row["kind"]](row)}
    assert wrong == set(NOT_OURS)
    assert len(cases) == 33
