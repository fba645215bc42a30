"""RFC 9309 2.3: what the request for a robots.txt may meet, and the list of requirements with what proves each."""

from collections.abc import Callable

import pytest

from skitter import urls
from skitter.fetch.request import user_agent
from skitter.model import Failed, Fault, NotModified, Outcome, Reason, Refused, RobotsCopy
from skitter.robots import MAX_SIZE, product_token, rules_in_force, valid_product_token
from skitter.settings import FetchSettings, RobotsSettings
from tests.conformance import test_robots as cases
from tests.conformance.cases import needs_cases, rows
from tests.unit import test_robots as matching
from tests.unit import test_robots_answer as answers
from tests.unit import test_robots_hostile as hostile
from tests.unit import test_robots_reading as reading
from tests.unit.test_robots_answer import (
    DAY,
    GOOD,
    NOW,
    RULES,
    WIRE,
    ask,
    copied,
    failed,
    fetched,
    opinion,
    redirected,
)

pytestmark = needs_cases

AT_LEAST_FIVE = RobotsSettings(max_redirects=5)

# ------------------------------------------------------------------------------------------------ scenarios


def means(expected: str, outcome: Outcome) -> Callable[[], bool]:
    return lambda: opinion(copied(ask(outcome))) == expected


def disallowed_then_asked_again(outcome: Outcome) -> Callable[[], bool]:
    """Nothing allowed and a later try; the rules there were stay in force; after 30 days they do not."""

    def check() -> bool:
        first, later = ask(outcome), ask(outcome, GOOD, now=NOW + 25 * 3600)
        late = ask(outcome, GOOD, now=NOW + 31 * DAY)
        return [opinion(copied(verdict)) for verdict in (first, later, late)] == [
            "none",
            "rules",
            "none",
        ] and (copied(first).held == copied(first).expires > NOW)

    return check


def followed(redirects: int) -> Callable[[], bool]:
    """So many redirects, each to another place, then the rules."""

    def check() -> bool:
        hops = 0
        while ask(redirected(f"http://{hops}.example/robots.txt"), hops=hops, settings=AT_LEAST_FIVE).follow:
            hops += 1
            if hops == redirects:
                copy = copied(ask(fetched(200, RULES), hops=hops, settings=AT_LEAST_FIVE))
                return (copy.origin, opinion(copy)) == ("https://example.org", "rules")
        return False

    return check


def endless_redirects() -> bool:
    verdicts = [ask(redirected("http://loop.example/robots.txt"), hops=hops) for hops in range(20)]
    ends = [verdict for verdict in verdicts if not verdict.follow]
    return len(verdicts) - len(ends) == RobotsSettings().max_redirects and opinion(copied(ends[0])) == "all"


def of_a_large_file(tail: bytes) -> RobotsCopy:
    return copied(ask(fetched(200, RULES + b"# filling\n" * (600 * 1024 // 10) + tail)))


def cut_in_a_line() -> bool:
    """The limit falls into `Disallow: /deep/secret`, behind its first slash."""
    start = b"User-agent: *\nDisallow: /private\n#"
    filling = b"x" * (MAX_SIZE - len(start) - len(b"\nDisallow: /")) + b"\n"
    whole = start + filling + b"Disallow: /deep/secret\n"
    return whole[:MAX_SIZE].endswith(b"Disallow: /") and all(
        opinion(copied(ask(fetched(200, body)))) == "rules" for body in (whole, whole[:MAX_SIZE])
    )


def kept_for_a_day() -> bool:
    longest, shortest = (copied(ask(fetched(200, RULES), jitter=jitter)).expires for jitter in (-1.0, 1.0))
    return NOW + 23 * 3600 < longest <= NOW + DAY and NOW + DAY * 0.9 <= shortest < longest


def same_file_in(encoding: str, mark: bytes = b"") -> Callable[[], bool]:
    return means("rules", fetched(200, mark + RULES.decode().encode(encoding)))


def origins_differ(one: str, other: str) -> Callable[[], bool]:
    return lambda: urls.origin(one) != urls.origin(other) and "" not in {urls.origin(one), urls.origin(other)}


SCENARIOS: dict[str, Callable[[], bool]] = {
    "r200": means("rules", fetched(200, RULES)),
    "r200-html": means("all", fetched(200, b"<!doctype html><title>Hello: world</title><p>Welcome")),
    "r200-empty": means("all", fetched(200)),
    "r204": means("all", fetched(204)),
    **{f"r{status}": means("all", fetched(status)) for status in (400, 401, 403, 404, 410, 451)},
    "r429": lambda: (
        copied(ask(fetched(429), retry_after=90.0)).held == NOW + 90 and means("none", fetched(429))()
    ),
    **{f"r{status}": disallowed_then_asked_again(fetched(status)) for status in (500, 502, 503, 504, 599)},
    "rtimeout": disallowed_then_asked_again(failed(Fault.TIMEOUT)),
    "rreset": disallowed_then_asked_again(failed(Fault.RESET)),
    "rdns": disallowed_then_asked_again(failed(Fault.DNS)),
    "rtls": disallowed_then_asked_again(failed(Fault.TLS)),
    **{f"rredir{count}": followed(count) for count in range(1, 6)},
    "rredir6": lambda: not followed(6)(),
    "rredirloop": endless_redirects,
    "rredirhost": followed(1),
    "rredirprivate": means("none", Refused(Reason("address", "127.0.0.1 is not public"))),
    "rbig": lambda: opinion(of_a_large_file(b"")) == "rules",
    "rbigtail": lambda: (
        opinion(of_a_large_file(b"Disallow: /\n" * 9)) == "rules"
        and len(of_a_large_file(b"").body) <= MAX_SIZE
    ),
    "rcut": cut_in_a_line,
    "rcache": kept_for_a_day,
    "rcachectl": kept_for_a_day,  # Cache-Control may be honoured; we do not, and a day is the limit
    "rstale": disallowed_then_asked_again(fetched(503)),
    "rbom": same_file_in("utf-8-sig"),
    "rutf16": same_file_in("utf-16"),
    "rcr": means("rules", fetched(200, RULES.replace(b"\n", b"\r"))),
    "rport": origins_differ("http://example.org/a", "http://example.org:8080/a"),
    "rscheme": origins_differ("http://example.org/a", "https://example.org/a"),
}

# What only a whole crawl, or the network, can show; the wings and hosts of the synthetic web are made for it.
ELSEWHERE = {
    "rrace": "the frontier contract, invariant 2: the robots.txt of an origin comes before any page of it",
    "rmidcrawl": "a visit asks for permission when it is made, not when its link was found",
    "rredirpage": "the target of a redirect is a link of its own, asked about in its own origin",
    "rsub": "there are no requisites: whatever is fetched is a link, and asked about",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    assert SCENARIOS[name]()


def test_every_scenario_is_accounted_for() -> None:
    assert {row["id"] for row in rows("robots_http_scenarios.jsonl")} == SCENARIOS.keys() | ELSEWHERE.keys()


# ------------------------------------------------------------------------------------------------ requirements


def test_our_token_is_valid_and_part_of_the_user_agent_we_send() -> None:
    for settings in (FetchSettings(), FetchSettings(contact="https://example.org/bot")):
        sent = user_agent(settings)
        token = product_token(sent)
        assert valid_product_token(token)
        assert token in sent.lower()
        assert settings.contact in sent


def test_the_context_of_redirected_rules_is_the_first_authority() -> None:
    assert SCENARIOS["rredirhost"]()
    assert copied(ask(NotModified(WIRE, []), GOOD)).origin == "https://example.org"


def test_a_long_unanswering_host_does_not_count_as_one_without_rules() -> None:
    old = copied(ask(Failed(Fault.TIMEOUT, "", None), GOOD, now=NOW + 31 * DAY))
    assert not rules_in_force(old, "skitter").allows("/")


TESTS: dict[str, list[Callable[..., None]]] = {
    "01": [
        cases.test_all_of_tier_a,
        matching.test_groups_that_name_us_are_merged_and_hide_the_one_for_everybody,
    ],
    "02": [cases.test_all_of_tier_a, matching.test_a_group_of_ours_without_rules_allows_everything],
    "03": [reading.test_odd_files_are_read_all_the_same],
    "04": [matching.test_our_own_token_has_only_letters_hyphens_and_underscores],
    "05": [test_our_token_is_valid_and_part_of_the_user_agent_we_send],
    "06": [test_our_token_is_valid_and_part_of_the_user_agent_we_send],
    "07": [matching.test_groups_that_name_us_are_merged_and_hide_the_one_for_everybody],
    "08": [matching.test_groups_that_name_us_are_merged_and_hide_the_one_for_everybody],
    "09": [matching.test_other_agents_get_the_star_group],
    "10": [matching.test_other_agents_get_the_star_group],
    **{
        number: [matching.test_the_longest_matching_rule_decides]
        for number in ("11", "12", "13", "14", "15", "16")
    },
    "17": [
        matching.test_a_rule_meets_every_spelling_of_its_path,
        matching.test_reserved_characters_are_only_special_unescaped,
    ],
    "18": [matching.test_the_longest_matching_rule_decides],
    "19": [
        matching.test_the_index_gives_the_answer_of_the_definition,
        hostile.test_effort_grows_with_the_size_of_hostile_input_not_with_its_square,
    ],
    "20": [matching.test_a_rule_meets_every_spelling_of_its_path],
    "21": [
        cases.test_all_of_tier_a,
        reading.test_a_delay_applies_to_the_agent_before_it_and_rules_to_the_whole_list,
    ],
    "22": [reading.test_odd_files_are_read_all_the_same],
    "23": [cases.test_extras_match_their_libraries_or_name_the_reason],
    "24": [reading.test_odd_files_are_read_all_the_same],
    "25": [answers.test_a_file_is_obeyed],
    "26": [
        answers.test_redirects_are_followed_as_often_as_allowed,
        test_the_context_of_redirected_rules_is_the_first_authority,
    ],
    "27": [answers.test_redirects_are_followed_as_often_as_allowed],
    "28": [answers.test_no_file_allows_everything],
    "29": [answers.test_without_an_answer_nothing_is_allowed_and_the_host_waits],
    "30": [
        answers.test_old_rules_end_after_thirty_days,
        test_a_long_unanswering_host_does_not_count_as_one_without_rules,
    ],
    "31": [
        hostile.test_nothing_raises_whatever_the_octets,
        cases.test_real_files_are_read_as_google_reads_them,
    ],
    "32": [
        answers.test_a_copy_is_good_for_a_day_or_up_to_a_tenth_less,
        answers.test_old_rules_stay_in_force_while_the_host_fails,
    ],
    "33": [reading.test_only_the_first_500_kib_are_read_and_no_line_is_read_by_half],
    "34": [
        answers.test_a_body_is_kept_up_to_the_limit_in_complete_lines,
        hostile.test_more_wildcards_than_any_honest_file_has_are_refused_and_said_so,
    ],
}


def test_every_requirement_has_a_test() -> None:
    assert {row["id"] for row in rows("rfc9309_requirements.jsonl")} == {
        f"rfc9309-{number}" for number in TESTS
    }
    assert all(TESTS.values())
