"""What an answer to the request for a robots.txt means."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    NotModified,
    Outcome,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
)
from skitter.robots import MAX_SIZE, RobotsAnswer, RobotsVerdict, judge, rules_in_force
from skitter.settings import RobotsSettings

ORIGIN = "https://example.org"
NOW = 1_700_000_000.0
DAY = 86400.0
SETTINGS = RobotsSettings()
WIRE = Exchange(f"{ORIGIN}/robots.txt", "192.0.2.1", NOW - 1, NOW, b"", b"", b"")
RULES = b"User-agent: *\nDisallow: /private\n"


def fetched(status: int, body: bytes = b"") -> Fetched:
    return Fetched(WIRE, status, [], body, body)


def redirected(target: str, location: str = "elsewhere") -> Redirected:
    return Redirected(WIRE, 301, [], target, location)


def failed(fault: Fault = Fault.TIMEOUT, detail: str = "") -> Failed:
    return Failed(fault, detail, None)


def ask(
    outcome: Outcome,
    previous: RobotsCopy | None = None,
    *,
    now: float = NOW,
    jitter: float = -1.0,
    settings: RobotsSettings = SETTINGS,
    **answer: Any,
) -> RobotsVerdict:
    return judge(RobotsAnswer(origin=ORIGIN, outcome=outcome, **answer), previous, settings, now, jitter)


def copied(verdict: RobotsVerdict) -> RobotsCopy:
    assert verdict.copy is not None
    assert verdict.follow == ""
    return verdict.copy


def opinion(copy: RobotsCopy) -> str:
    found = rules_in_force(copy, "skitter")
    return {(True, True): "all", (False, False): "none", (True, False): "rules"}[
        found.allows("/"), found.allows("/private")
    ]


GOOD = copied(ask(fetched(200, RULES)))
UNREACHABLE: list[Outcome] = [
    *map(fetched, (500, 502, 503, 504, 599, 600, 999)),
    *map(
        failed, (Fault.DNS, Fault.CONNECT, Fault.TLS, Fault.TIMEOUT, Fault.RESET, Fault.PROTOCOL, Fault.SIZE)
    ),
    NotModified(WIRE, []),
]
HOPELESS: list[Outcome] = [
    failed(Fault.NXDOMAIN, "Domain name not found"),
    Refused(Reason("address", "10.0.0.1 is not a public address")),
]

# ------------------------------------------------------------------------------------------------ definite answers


@pytest.mark.parametrize("status", [200, 203, 206, 299])
def test_a_file_is_obeyed(status: int) -> None:
    verdict = ask(fetched(status, RULES))
    copy = copied(verdict)
    assert opinion(copy) == "rules"
    assert (copy.status, copy.origin, copy.fetched_at, copy.tries) == (status, ORIGIN, NOW, 0)
    assert (copied(verdict).held, verdict.aside) == (0.0, None)


@pytest.mark.parametrize("body", [b"", b"<html><body>Welcome</body></html>"])
def test_a_file_without_rules_allows_everything(body: bytes) -> None:
    assert opinion(copied(ask(fetched(200, body)))) == "all"


@pytest.mark.parametrize("status", [*range(400, 429), *range(430, 500)])
def test_no_file_allows_everything(status: int) -> None:
    verdict = ask(fetched(status, RULES), GOOD, now=NOW + DAY)
    assert opinion(copied(verdict)) == "all"
    assert copied(verdict).expires == NOW + 2 * DAY
    assert (copied(verdict).held, verdict.aside) == (0.0, None)


@given(st.floats(-1, 1))
def test_a_copy_is_good_for_a_day_or_up_to_a_tenth_less(jitter: float) -> None:
    for outcome in (fetched(200), fetched(404)):
        kept = copied(ask(outcome, jitter=jitter)).expires - NOW
        assert DAY * 0.9 <= kept <= DAY


def test_copies_do_not_expire_together() -> None:
    assert len({copied(ask(fetched(200), jitter=jitter / 10)).expires for jitter in range(-10, 11)}) == 21


def test_a_copy_that_did_not_change_is_good_for_another_day() -> None:
    old = replace(GOOD, tries=2, problem="timeout")
    copy = copied(ask(NotModified(WIRE, []), old, now=NOW + DAY))
    assert copy == replace(GOOD, fetched_at=NOW + DAY, expires=NOW + 2 * DAY)


def test_a_body_is_kept_up_to_the_limit_in_complete_lines() -> None:
    body = RULES + b"Disallow: /x\n" * 60_000
    kept = copied(ask(fetched(200, body))).body
    assert len(kept) <= MAX_SIZE
    assert body.startswith(kept)
    assert kept.endswith(b"\n")
    assert len(body) > MAX_SIZE > len(kept) > MAX_SIZE - 20


def test_a_copy_survives_storage() -> None:
    stored = msgspec.msgpack.encode(GOOD)
    assert msgspec.msgpack.decode(stored, type=RobotsCopy) == GOOD


# ------------------------------------------------------------------------------------------------ redirects


def test_redirects_are_followed_as_often_as_allowed() -> None:
    settings = RobotsSettings(max_redirects=5)
    for hops in range(5):
        assert ask(redirected("http://other/x"), hops=hops, settings=settings) == RobotsVerdict(
            follow="http://other/x"
        )
    copy = copied(ask(fetched(200, RULES), hops=5, settings=settings))
    assert (copy.origin, opinion(copy)) == (ORIGIN, "rules")
    copy = copied(ask(redirected("http://other/x"), hops=5, settings=settings))
    assert opinion(copy) == "all"
    assert "redirects" in copy.problem


def test_a_redirect_without_target_means_no_file() -> None:
    for outcome in (redirected("", "ftp://example.org/robots.txt"), fetched(301), fetched(399)):
        assert opinion(copied(ask(outcome))) == "all"
    assert "ftp://example.org" in copied(ask(redirected("", "ftp://example.org/robots.txt"))).problem


# ------------------------------------------------------------------------------------------------ no answer


@pytest.mark.parametrize("outcome", UNREACHABLE, ids=str)
def test_without_an_answer_nothing_is_allowed_and_the_host_waits(outcome: Outcome) -> None:
    verdict = ask(outcome)
    copy = copied(verdict)
    assert opinion(copy) == "none"
    assert rules_in_force(copy, "skitter").allows("/robots.txt")
    assert rules_in_force(copy, "skitter").line("/") is None
    assert copied(verdict).held == copy.expires == NOW + 60
    assert copy.tries == 1
    assert copy.problem
    assert verdict.aside is None


@pytest.mark.parametrize("outcome", HOPELESS, ids=str)
def test_a_host_that_does_not_exist_or_may_not_be_connected_to_is_given_up_at_once(outcome: Outcome) -> None:
    verdict = ask(outcome)
    assert opinion(copied(verdict)) == "none"
    assert verdict.aside is not None
    assert verdict.aside.code == "robots.unreachable"
    assert ask(outcome, GOOD).aside is None  # it was there before: that may pass


def test_a_failing_host_is_retried_after_1_10_and_60_minutes_then_given_up() -> None:
    now, previous, waits = NOW, None, []
    for _ in range(3):
        verdict = ask(failed(Fault.DNS, "no such host"), previous, now=now)
        assert verdict.aside is None
        previous = copied(verdict)
        waits.append(previous.expires - now)
        now = previous.expires
    assert waits == [60, 600, 3600]
    last = ask(failed(Fault.DNS, "no such host"), previous, now=now)
    assert last.aside is not None
    assert last.aside.code == "robots.unreachable"
    assert "no such host" in last.aside.detail
    assert "4 tries" in last.aside.detail
    assert opinion(copied(last)) == "none"
    assert copied(last).expires > now


def test_a_host_that_comes_back_is_as_good_as_new() -> None:
    previous = copied(ask(failed(), copied(ask(failed())), now=NOW + 60))
    copy = copied(ask(fetched(200, RULES), previous, now=NOW + 660))
    assert (copy.tries, copy.problem, opinion(copy)) == (0, "", "rules")


def test_retry_after_only_lengthens_the_wait() -> None:
    assert copied(ask(fetched(503), retry_after=7200.0)).held == NOW + 7200
    assert copied(ask(fetched(503), retry_after=5.0)).held == NOW + 60
    held = copied(ask(fetched(503), retry_after=float("inf"))).held
    assert held is not None
    assert held < float("inf")


@pytest.mark.parametrize("outcome", UNREACHABLE[:-1], ids=str)
def test_old_rules_stay_in_force_while_the_host_fails(outcome: Outcome) -> None:
    now, previous, waits = NOW + DAY, GOOD, []
    for _ in range(6):
        verdict = ask(outcome, previous, now=now)
        previous = copied(verdict)
        assert opinion(previous) == "rules"
        assert (previous.status, previous.fetched_at) == (200, NOW)
        assert previous.problem
        assert (copied(verdict).held, verdict.aside) == (0.0, None)
        waits.append(previous.expires - now)
        now = previous.expires
    assert waits == [60, 600, 3600, 3600, 3600, 3600]


def test_old_rules_end_after_thirty_days() -> None:
    failing = replace(GOOD, tries=9)
    assert opinion(copied(ask(failed(), failing, now=NOW + 30 * DAY))) == "rules"
    verdict = ask(failed(), failing, now=NOW + 30 * DAY + 1)
    assert opinion(copied(verdict)) == "none"
    assert verdict.aside is not None


def test_an_earlier_missing_file_is_not_a_rule_to_fall_back_on() -> None:
    without = copied(ask(fetched(404)))
    assert opinion(copied(ask(fetched(500), without, now=NOW + DAY))) == "none"


@pytest.mark.parametrize(("fault", "wait"), [(Fault.BUSY, 60), (Fault.REUSE, 1)])
def test_our_own_shortage_and_a_kept_connection_that_closed_are_not_held_against_the_host(
    fault: Fault, wait: float
) -> None:
    previous = None
    for _ in range(10):
        verdict = ask(failed(fault), previous)
        previous = copied(verdict)
        assert (opinion(previous), previous.tries, verdict.aside) == ("none", 0, None)
        assert copied(verdict).held == NOW + wait


def test_of_a_file_that_was_cut_the_last_line_does_not_count() -> None:
    """Half a rule may well be "Disallow: /"."""
    half = b"User-agent: *\nDisallow: /private\nDisallow: /"
    assert opinion(copied(ask(fetched(200, half)))) == "none"
    cut = Fetched(replace(WIRE, cut=True), 200, [], half, half)
    assert opinion(copied(ask(cut))) == "rules"


def test_a_host_without_second_tries_is_given_up_at_once() -> None:
    assert ask(failed(), settings=RobotsSettings(retry_after=())).aside is not None


# ------------------------------------------------------------------------------------------------ 429


def test_too_many_requests_defers_the_host_for_as_long_as_it_asks() -> None:
    verdict = ask(fetched(429), retry_after=7.0)
    assert opinion(copied(verdict)) == "none"
    assert copied(verdict).held == copied(verdict).expires == NOW + 7
    assert verdict.aside is None
    assert copied(ask(fetched(429))).held == NOW + 60
    assert copied(ask(fetched(429), retry_after=9000.0)).held == NOW + 9000


def test_too_many_requests_also_stops_a_host_with_known_rules() -> None:
    verdict = ask(fetched(429), GOOD, now=NOW + DAY, retry_after=30.0)
    assert opinion(copied(verdict)) == "rules"
    assert copied(verdict).held == copied(verdict).expires == NOW + DAY + 30


def test_a_host_that_never_says_anything_else_is_given_up() -> None:
    now, previous, waits = NOW, None, []
    for _ in range(3):
        verdict = ask(fetched(429), previous, now=now, retry_after=1.0)
        previous = copied(verdict)
        waits.append(previous.expires - now)
        now = previous.expires
    assert waits == [1, 600, 3600]
    assert ask(fetched(429), previous, now=now, retry_after=1.0).aside is not None
