"""RFC 9309 by the cases of this field: google/robotstxt, crawler-commons, protego, reppy and others, and 1,911 real files."""

import base64
import tarfile
from collections import Counter
from functools import cache
from typing import Any
from urllib.parse import urljoin

from skitter import urls
from skitter.robots import RobotsRules, path_of, robots_rules, valid_product_token
from skitter.robots.matching import normal_rules
from tests.conformance.cases import FOLDER, needs_cases, rows
from tests.unit.test_robots_answer import ask, copied, fetched, opinion

pytestmark = needs_cases


@cache
def _rules(body: bytes, agent: str) -> RobotsRules:
    return robots_rules(body, agent)


def rules(row: dict[str, Any]) -> RobotsRules:
    raw = row.get("robots_b64")
    body = base64.b64decode(raw) if raw else (row["robots"] or "").encode("utf-8", "surrogatepass")
    return _rules(body, row["user_agent"] or "")


# ------------------------------------------------------------------------------------------------ who may fetch what


def wrong(cases: list[dict[str, Any]], expected: str) -> list[str]:
    return [row["id"] for row in cases if rules(row).allows(row["url"]) is not row[expected]]


def test_all_of_tier_a() -> None:
    cases = [row for row in rows("robots_cases.jsonl") if row["tier"] == "A"]
    assert len(cases) == 1562
    assert wrong(cases, "expected_allowed") == []


def test_disputed_cases_are_decided_by_the_rfc() -> None:
    cases = [row for row in rows("robots_cases.jsonl") if "expected_allowed_rfc" in row]
    assert {row["tier"] for row in cases} == {"D"}
    assert wrong(cases, "expected_allowed_rfc") == []


def test_quirks_of_one_library_are_decided_as_everywhere_else() -> None:
    """Tiers B, C and L expect what only their own library does; the one semantics of tier A has an answer for them too."""
    cases = [row for row in rows("robots_cases.jsonl") if row["tier"] in {"B", "C", "L"}]
    assert len(cases) == 77
    assert wrong(cases, "rfc_normalised_reference") == []


@cache
def real_files() -> dict[str, bytes]:
    with tarfile.open(FOLDER / "robots_real_files.tar.gz") as archive:
        members = [member for member in archive if member.isfile()]
        return {
            member.name.rpartition("/")[2]: file.read()
            for member in members
            if (file := archive.extractfile(member)) is not None
        }


def test_real_files_are_read_as_google_reads_them() -> None:
    cases = rows("robots_real_oracle.jsonl")
    assert len(cases) == 13010
    files = real_files()
    assert [
        (row["file"], row["user_agent"], row["url"])
        for row in cases
        if _rules(files[row["file"]], row["user_agent"]).allows(row["url"]) is not row["expected_allowed_rfc"]
    ] == []


def test_the_deciding_line_of_real_files_is_googles() -> None:
    """Google does not unescape: where rule or URL hold escapes or spaces, two lines may be one rule for us only."""
    files = real_files()
    for row in rows("robots_real_oracle.jsonl"):
        line = _rules(files[row["file"]], row["user_agent"]).line(row["url"])
        same = (line.number if line else 0) == row["matched_line"]
        assert same or "%" in row["url"], row


# ------------------------------------------------------------------------------------------------ everything else

OUT_OF_STEP = {
    "rx-0092": "the agent is a list of three names; ours is one product token",
    "rx-0126": "'*<BR>' does not name everybody: Google wants a space behind the star",
    "rx-0165": "'harry potter' is no product token, and a line without colon has two words, not four",
    "rx-0172": "a delay before the first user-agent line is in no group (RFC 9309 2.1)",
    **dict.fromkeys(
        (f"rx-{number:04}" for number in range(204, 212)),
        "escapes in a host are undone before it is looked up (WHATWG), so both spellings are one origin",
    ),
    "rx-0099": "a 301 is followed, not taken for an answer",
    "rx-0086": "names a file of signals, which contentsignals.org does not know; and it is of the group for others",
    "rx-0177": "RFC 9309 2.3.1.3: 401 is a 4xx like any other",
    "rx-0178": "RFC 9309 2.3.1.3: 403 is a 4xx like any other",
}

NOT_OURS = {
    "host": "Host was Yandex's, is withdrawn, and names no origin we would ask",
    "extension:host": "as host",
    "extension:clean_param": "which parameters matter is a setting of ours (urls.session_params)",
    "extension:comment": "a text for people",
    "extension:llm_policy": "names a document for people",
    "extension:no_index": "not part of RFC 9309 and withdrawn by Google; what is fetched is not what is indexed",
    "extension:robot_version": "says which draft of 1996 the file follows",
}


def minutes(value: str) -> int:
    hours, minutes = value.replace(":", "")[:2], value.replace(":", "")[2:4]
    return int(hours) * 60 + int(minutes)


def extension_rate(row: dict[str, Any]) -> float | None:
    if row["expected"] is None:
        return None
    pages, period = row["expected"][0].split("/")
    return int(period.removesuffix("m")) * 60 / int(pages)


def window(row: dict[str, Any]) -> tuple[int, int] | None:
    if row["expected"] is None:
        return None
    ends = row["expected"][0].split("-") if len(row["expected"]) == 1 else row["expected"]
    return minutes(ends[0]), minutes(ends[1])


def check_http_status(row: dict[str, Any]) -> bool:
    return opinion(copied(ask(fetched(row["status"])))) == (
        "all" if row["expected"] == "allow_all" else "none"
    )


def check_sitemaps(row: dict[str, Any]) -> bool:
    """We give them as written; the library with the other opinion resolves them against its own example."""
    base = "http://domain.com/"
    return [urljoin(base, found) for found in rules(row).sitemaps] == [
        urljoin(base, one) for one in row["expected"]
    ]


def check_valid_directives(row: dict[str, Any]) -> bool:
    """We do not count lines; a file of one agent and one rule has a deciding line if both are understood."""
    if row["test"] == "ID_LinesNumbersAreCountedCorrectly":
        return [
            bool(_rules(row["robots"].encode(), agent).line("/some/path")) for agent in ("foo", "bar")
        ] == [True, True]
    return bool(rules({**row, "user_agent": "foo"}).line("/AnyValue")) is (row["expected"] == 2)


def check_last_line(row: dict[str, Any]) -> bool:
    line = rules({**row, "user_agent": "bar"}).line("/")
    return line is not None and line.number == row["expected"]


def check_origin(row: dict[str, Any]) -> bool:
    origin = urls.origin(row["url"])
    return not origin or origin != urls.origin(row["robots_url"] or "")


def check_signals(row: dict[str, Any]) -> bool:
    """As written, and each with its meaning."""
    said = rules(row).said
    found = [] if said is None else said.statements("http://domain.com/")
    return [one.raw for one in found] == row["expected"] and all(len(one.uses) == 3 for one in found)


CHECKS = {
    "extension:content_signals": check_signals,
    "crawl_delay": lambda row: rules(row).crawl_delay == row["expected"],
    "request_rate": lambda row: (
        rules(row).request_rate
        == (None if row["expected"] is None else row["expected"][1] / row["expected"][0])
    ),
    "extension:request_rate": lambda row: rules(row).request_rate == extension_rate(row),
    "visit_time": lambda row: rules(row).visit_time == window(row),
    "extension:visit_time": lambda row: rules(row).visit_time == window(row),
    "sitemaps": check_sitemaps,
    "valid_product_token": lambda row: valid_product_token(row["user_agent"]) is row["expected"],
    "path_params_query": lambda row: path_of(row["url"]) == row["expected"],
    "escape_pattern": lambda row: (
        normal_rules([row["pattern"].encode().decode("latin-1")]) == [row["expected"]]
    ),
    "http_status": check_http_status,
    "not_applicable_url": check_origin,
    "robots_url": lambda row: (
        (f"{origin}/robots.txt" if (origin := urls.origin(row["url"])) else "error") == row["expected"]
    ),
    "valid_directives": check_valid_directives,
    "unknown_directives": lambda row: (
        bool(rules({**row, "user_agent": "foo"}).line("/AnyValue")) is (row["expected"] == 0)
    ),
    "last_line_seen": check_last_line,
}


def test_extras_match_their_libraries_or_name_the_reason() -> None:
    kinds = Counter(row["kind"] for row in rows("robots_extras.jsonl"))
    assert kinds.keys() == CHECKS.keys() | NOT_OURS.keys()
    failing = {
        row["id"]
        for row in rows("robots_extras.jsonl")
        if row["kind"] in CHECKS and not CHECKS[row["kind"]](row)
    }
    assert failing == OUT_OF_STEP.keys()
