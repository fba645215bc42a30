"""What is believed of a page's changes, what a visit is worth, and what dates are worth."""

import math

import pytest

from skitter.schedule import freshness
from skitter.schedule.freshness import DAY, NO_DATES, RATES, START, UNKNOWN


def believed(*visits: tuple[float, bool]) -> freshness.Weights:
    """What is believed after visits, each so many days after the one before."""
    belief = UNKNOWN
    for days, changed in visits:
        belief = freshness.unpacked(freshness.packed(freshness.learn(belief, days * DAY, changed=changed)))
    return freshness.weights_of(belief, START)


def rate(weights: freshness.Weights) -> float:
    """Changes a day."""
    return DAY * math.exp(sum(much * math.log(each) for much, each in zip(weights, RATES, strict=True)))


@pytest.mark.parametrize("days", [1, 10, 60])
def test_a_page_is_known_after_some_visits(days: float) -> None:
    """Changed at every second visit: about 0.7 changes in the time between two."""
    assert rate(believed(*[(days, bool(n % 2)) for n in range(30)])) == pytest.approx(0.7 / days, rel=0.4)


def test_one_visit_says_little_and_the_host_the_rest() -> None:
    still, busy = believed((1, False)), believed((1, True))
    assert 0.2 < rate(still) / rate(believed()) < 1
    assert 2 < rate(busy) / rate(believed()) < 50


def test_a_page_that_changes_every_time_or_never_stays_within_bounds() -> None:
    for changed in (True, False):
        weights = believed(*[(1, changed)] * 500)
        assert sum(weights) == pytest.approx(1)
        assert 0.9 * RATES[0] * DAY < rate(weights) < 1.1 * RATES[-1] * DAY
        assert 600 <= freshness.wait(weights, 1.0, DAY) <= 20 * DAY


def test_visits_at_the_same_moment_teach_nothing() -> None:
    assert freshness.learn(UNKNOWN, 0.0, changed=True) == UNKNOWN
    assert freshness.learn(UNKNOWN, -5.0, changed=False) == UNKNOWN


def test_the_value_of_a_visit_grows_with_time_and_is_least_for_the_very_busy() -> None:
    weights = believed()
    values = [freshness.value(weights, days * DAY) for days in (0, 1, 10, 100, 1000)]
    assert values == sorted(values)
    assert values[0] == 0
    middling, busy = believed(*[(10, n % 2 == 0) for n in range(20)]), believed(*[(10, True)] * 20)
    assert freshness.value(middling, 10 * DAY) > freshness.value(busy, 10 * DAY)


def test_the_wait_is_where_the_value_reaches_the_price() -> None:
    weights = believed()
    price = freshness.value(weights, 7 * DAY)
    assert freshness.wait(weights, price, 10 * DAY) == pytest.approx(7 * DAY, rel=0.01)
    assert freshness.wait(weights, math.inf, 10 * DAY) == pytest.approx(200 * DAY, rel=0.01)  # nobody starves


def test_the_price_moves_until_the_plan_fits() -> None:
    assert freshness.moved_price(1.0, 2.0, 1.0, 100, 0.0) > 1
    assert freshness.moved_price(1.0, 0.5, 1.0, 100, 0.0) < 1
    assert freshness.moved_price(1.0, 5.0, 0.0, 100, 0.0) == 1.0


def test_dates_count_for_what_they_tell_beyond_the_rates() -> None:
    """Told and changed, though the rates say that it should not have: the dates know something."""
    honest = lying = (0.0, 0.0, 0.0, 0.0)
    for number in range(60):
        honest = freshness.counted_dates(honest, 0.9, told=True, changed=number % 5 != 0)
        honest = freshness.counted_dates(honest, 0.5, told=False, changed=number % 10 == 0)
        lying = freshness.counted_dates(lying, 0.5, told=True, changed=number % 2 == 0)
    good, bad = freshness.dates_of(honest), freshness.dates_of(lying)
    assert good.precision > 0.6
    assert good.recall > 0.5
    assert bad.precision < 0.05
    assert bad.recall == 0
    assert freshness.dates_of((0.0,) * 4) == NO_DATES
    weights = believed()
    assert freshness.fresh_at(weights, DAY, good, told=True) < 0.5 * freshness.fresh_at(weights, DAY)
    assert freshness.wait(weights, 1e5, DAY, good, told=True) < freshness.wait(weights, 1e5, DAY, good)


def test_a_page_that_is_gone_is_visited_ever_more_rarely() -> None:
    waits = [freshness.wait_for_gone(DAY, times) for times in range(1, 30)]
    assert waits[:3] == [2 * DAY, 4 * DAY, 8 * DAY]
    assert waits == sorted(waits)
    assert waits[-1] <= 2 * 365 * DAY


def test_what_was_kept_by_another_version_is_unknown() -> None:
    assert freshness.unpacked(b"xy") == UNKNOWN
    assert freshness.sums(b"xy") == START
    assert freshness.changes_every(b"") is None
