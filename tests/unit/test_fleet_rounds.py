"""What a parent decides from the reports of its workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.fleet.messages import Account
from skitter.fleet.rounds import Round, finished, hopeless, shares
from skitter.model import Counts


def account(*, pages=0, in_flight=0, idle=True, limit=None, wants=False, **counts):
    return Account(1, Counts(pages=pages, **counts), in_flight, idle, limit, wants, {})


def round_of(*accounts, sent=0, accepted=0):
    return Round(dict(enumerate(accounts)), sent, accepted)


QUIET = round_of(account(pages=3, requests=5), account(pages=2, requests=2), sent=7, accepted=7)


def test_two_quiet_rounds_with_equal_counters_are_the_end():
    assert finished(QUIET, QUIET)


def test_one_quiet_round_proves_nothing():
    assert not finished(None, QUIET)
    busy = round_of(account(idle=False), account())
    assert not finished(busy, QUIET)


@pytest.mark.parametrize(
    "restless",
    [
        account(idle=False, pages=3, requests=5),
        account(in_flight=1, pages=3, requests=5),
        account(outbox=1, pages=3, requests=5),
    ],
    ids=["something is due", "something is in flight", "a link waits to be forwarded"],
)
def test_one_worker_with_something_to_do_is_enough_to_go_on(restless):
    now = round_of(restless, QUIET.accounts[1], sent=7, accepted=7)
    assert not finished(now, now)


def test_a_link_under_way_between_two_workers_is_work():
    under_way = replace(QUIET, sent=8)
    assert not finished(under_way, under_way)


@pytest.mark.parametrize("counter", ["seen", "added", "requests", "crawled", "failed"])
def test_a_counter_that_moved_between_two_rounds_means_that_somebody_was_at_work(counter):
    moved = round_of(account(pages=3, **{"requests": 5, counter: 6}), QUIET.accounts[1], sent=7, accepted=7)
    assert not finished(QUIET, moved)
    assert finished(moved, moved)


def test_links_carried_between_two_rounds_mean_that_somebody_was_at_work():
    assert not finished(QUIET, replace(QUIET, sent=8, accepted=8))


# ------------------------------------------------------------------------------------------------ page limits


def test_whoever_wants_pages_shares_what_is_free():
    wanting = {n: account(idle=False, wants=True, limit=0) for n in range(3)}
    assert shares(10, wanting) == {0: 4, 1: 3, 2: 3}


def test_who_has_no_use_for_its_share_is_asked_to_give_it_back():
    accounts = {0: account(pages=5, limit=5, wants=True), 1: account(pages=2, in_flight=1, limit=5)}
    assert shares(10, accounts) == {0: 5, 1: 3}
    given_back = accounts | {1: account(pages=2, in_flight=1, limit=3)}
    assert shares(10, given_back) == {0: 7, 1: 3}


workers = st.lists(
    st.fixed_dictionaries(
        {"work": st.integers(0, 60), "fails": st.integers(0, 5), "slots": st.integers(1, 7)}
    ),
    min_size=1,
    max_size=5,
)


@given(st.integers(0, 80), workers)
def test_all_workers_together_store_exactly_the_limit_or_all_there_is(limit, found):
    """Rounds of workers that take what they may, fail now and then, and answer as workers do."""
    state = [
        {"pages": 0, "flight": 0, "left": each["work"], "fails": each["fails"], "limit": 0} for each in found
    ]
    allowed = {}
    for _ in range(400):
        accounts = {}
        for number, worker in enumerate(state):
            used = worker["pages"] + worker["flight"]
            worker["limit"] = max(allowed.get(number, 0), used)
            wants = worker["left"] > 0 and used >= worker["limit"]
            accounts[number] = account(
                pages=worker["pages"], in_flight=worker["flight"], limit=worker["limit"], wants=wants
            )
        allowed = shares(limit, accounts)
        assert sum(worker["limit"] for worker in state) <= limit
        for worker, each in zip(state, found, strict=True):
            ended = worker["flight"]
            failed = min(ended, worker["fails"])
            worker["fails"] -= failed
            worker["pages"] += ended - failed
            room = worker["limit"] - worker["pages"]
            worker["flight"] = max(0, min(room, each["slots"], worker["left"]))
            worker["left"] -= worker["flight"]
    total = sum(worker["pages"] for worker in state)
    assert total <= limit
    assert total == limit or all(worker["left"] == 0 for worker in state)


def hopeless_account(**more):
    return replace(account(idle=False, queued=1, **more), hopeless=True)


def test_a_fleet_is_hopeless_when_some_workers_are_and_the_others_have_nothing():
    now = round_of(hopeless_account(), account())
    assert hopeless(now, now)
    assert not hopeless(None, now)


@pytest.mark.parametrize(
    "other",
    [
        account(idle=False, queued=1),
        account(in_flight=1),
        account(outbox=1),
        account(bytes=1),
    ],
    ids=[
        "something else waits",
        "something is in flight",
        "a link waits to be forwarded",
        "somebody answered",
    ],
)
def test_one_worker_with_hope_is_enough_to_go_on(other):
    now = round_of(hopeless_account(), other)
    assert not hopeless(now, now)


def test_workers_with_nothing_at_all_are_finished_and_not_hopeless():
    assert not hopeless(QUIET, QUIET)
