"""The delay that listens, step by step: pure code, so that every rule has its figures here."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter import reasons
from skitter.model import Heard, Pace
from skitter.politeness.listening import DOUBLING, NO_PAGE, delay_of, given_up, listen, parked, pause
from skitter.settings import PolitenessSettings

STILL = PolitenessSettings(adaptive_jitter=0.0)


class Host:
    """A host that is asked politely: the next request starts when the delay after the last answer is over."""

    def __init__(self, floor=1.0, settings=STILL):
        self.floor, self.settings = floor, settings
        self.now, self.pace = 1000.0, None
        self.starts = []

    @property
    def delay(self):
        return delay_of(self.pace, self.floor, self.settings)

    def answers(self, *signs, takes=0.1, **how):
        for sign in signs:
            started = self.now
            self.starts.append(started)
            heard = Heard(started, started + takes, sign, **how)
            self.pace = listen(self.pace, heard, self.floor, self.settings)
            self.now = heard.ended + self.delay
        return self.delay


def test_the_floor_holds_for_a_quick_server():
    assert Host().answers(*[""] * 100, takes=0.4) == 1.0


def test_a_slow_server_waits_for_twice_as_long_as_it_takes():
    assert Host().answers(*[""] * 100, takes=3.0) == pytest.approx(6.0)


def test_seven_refusals_in_a_millisecond_each_are_followed_by_a_minute_at_least():
    for floor in (0.0, 0.05, 1.0, 20.0):
        host = Host(floor)
        host.answers(*[""] * 5, takes=0.001)
        assert host.answers(*["429"] * 7, takes=0.001) >= 60
    assert Host(1.0).answers(*["429"] * 7) == 128


@pytest.mark.parametrize("sign", sorted(DOUBLING))
def test_each_sign_of_overload_doubles_the_delay(sign):
    host = Host()
    assert [host.answers(sign) for _ in range(4)] == [2.0, 4.0, 8.0, 16.0]
    assert (host.pace.doubled, host.pace.cause) == (4, sign)


@pytest.mark.parametrize("sign", ["500", "502", "connect", "tls", "dns", "protocol", NO_PAGE])
def test_other_errors_double_nothing_and_shorten_nothing(sign):
    host = Host()
    host.answers("503", "503")
    assert host.answers(*[sign] * 9, takes=0.0) == 4.0
    assert host.pace.successes == 0


def test_jitter_only_adds():
    steps = Host(settings=PolitenessSettings(adaptive_jitter=0.5))
    assert steps.answers("429", chance=0.0) == 2.0
    assert steps.answers("429", chance=1.0) == 6.0


def test_doubling_ends_at_the_longest_delay():
    assert Host().answers(*["429"] * 20) == 300.0
    assert Host(floor=400.0).answers(*["429"] * 20) == 400.0


def test_an_error_that_comes_fast_never_speeds_anything_up():
    host = Host()
    before = host.answers(*[""] * 20, takes=2.0)
    for sign in ("429", "503", "500", NO_PAGE, "reset", "connect"):
        assert host.answers(*[sign] * 5, takes=0.001) >= before
    assert host.pace.latency == pytest.approx(2.0)


def test_an_error_that_comes_slowly_slows_down():
    host = Host()
    host.answers(*[""] * 20, takes=0.4)
    assert host.answers(*["500"] * 5, takes=4.0) > 4.0


def test_recovery_needs_ten_good_answers_for_each_tenth():
    host = Host()
    host.answers("429", "429", "429")
    assert host.answers(*[""] * 9) == 8.0
    assert host.answers("") == pytest.approx(7.2)
    assert host.answers(*[""] * 9) == pytest.approx(7.2)
    assert host.answers("") == pytest.approx(6.48)
    assert host.answers(*[""] * 9, "503", *[""] * 9) == pytest.approx(12.96)  # it starts again


def test_recovery_ends_at_the_floor_and_forgets_the_trouble():
    host = Host()
    host.answers("429", "429", "429")
    assert host.answers(*[""] * 300) == 1.0
    assert host.pace == Pace(latency=host.pace.latency, baseline=host.pace.baseline, samples=4)


@pytest.mark.parametrize(("floor", "usual"), [(1.0, 0.1), (0.1, 0.05), (5.0, 0.2), (1.0, 0.5), (20.0, 0.01)])
def test_answers_that_take_ten_times_as_long_lower_the_rate_by_five_within_five_requests(floor, usual):
    host = Host(floor)
    host.answers(*[""] * 20, takes=usual)
    before = host.starts[-1] - host.starts[-2]
    host.answers(*[""] * 6, takes=10 * usual)
    assert host.starts[-1] - host.starts[-2] >= 5 * before
    assert host.pace.cause == "slow"


def test_a_single_slow_answer_is_no_alarm():
    host = Host()
    host.answers(*[""] * 20, takes=0.1)
    host.answers("", takes=25.0)
    assert host.answers(*[""] * 20, takes=0.1) == 1.0
    assert host.pace.doubled == 0


def test_a_host_that_stays_slow_is_left_alone_for_most_of_the_time_and_no_longer():
    host = Host()
    host.answers(*[""] * 20, takes=0.1)
    assert host.answers(*[""] * 14, takes=1.0) <= 10.0
    slowest = host.delay
    assert host.answers(*[""] * 30, takes=1.0) < slowest  # by now it is the usual case


def test_milliseconds_are_no_sign_of_anything():
    host = Host(0.01)
    host.answers(*[""] * 20, takes=0.001)
    host.answers(*[""] * 20, takes=0.02)
    assert host.pace.doubled == 0


def test_with_a_delay_of_zero_times_do_not_count_and_trouble_does():
    host = Host(0.0)
    assert host.answers(*[""] * 20, takes=0.1) == 0.0
    assert host.answers(*[""] * 20, takes=10.0) == 0.0
    assert host.answers("503") == 1.0
    assert host.answers(*[""] * 1000) == 0.0


def test_a_page_that_fails_again_while_others_succeed_slows_down_nobody():
    host = Host()
    host.answers("timeout")
    host.answers("")
    assert host.answers("timeout", again=True) == 2.0
    assert host.pace.failures == 0
    host.answers("timeout")  # another page: now it is the host
    assert host.answers("timeout", again=True) == 8.0
    assert host.answers("", "429", again=True) == 16.0  # a refusal is about the host in any case


def test_of_several_requests_in_flight_together_one_counts_but_every_refusal_does():
    for sign, delay in (("503", 2.0), ("timeout", 2.0), ("429", 16.0)):
        pace = None
        for _ in range(4):
            pace = listen(pace, Heard(100.0, 130.0, sign), 1.0, STILL)
        assert delay_of(pace, 1.0, STILL) == delay
        pace = listen(pace, Heard(99.0, 131.0), 1.0, STILL)
        assert pace.failures == 4  # what was sent before says nothing about now


def test_a_clock_that_was_set_back_does_not_make_deaf():
    host = Host()
    host.answers("503")
    host.now -= 10_000
    assert host.answers("503") == 4.0


# ------------------------------------------------------------------------------------------------ parking


def failed(times, sign="503", settings=STILL):
    host = Host(settings=settings)
    host.answers(*[sign] * times)
    return host.pace


def test_a_host_that_fails_ten_times_in_a_row_is_parked_with_growing_pauses_and_given_up():
    assert failed(9).parked == 0
    assert [pause(failed(number), STILL) for number in (10, 11, 12)] == [600.0, 3600.0, 21600.0]
    assert [given_up(failed(number), "503", STILL) for number in (10, 11, 12)] == [None, None, None]
    reason = given_up(failed(13), "503", STILL)
    assert reason.code == reasons.HOST_FAILING
    assert (
        reason.detail
        == "the host failed 13 times in a row, 3 of them after pauses (politeness.park); last: it answered 503"
    )
    waits = parked(failed(10, "connect"), "connect", STILL)
    assert waits.code == reasons.HOST_PARKED
    assert waits.detail == "the host failed 10 times in a row (connect); it is left alone for 600 s"


def test_without_pauses_a_failing_host_is_given_up_at_once():
    hard = replace(STILL, park=(), park_after=2)
    assert given_up(failed(2, settings=hard), "reset", hard) is not None


def test_an_answer_unparks_a_host_and_ten_forget_its_pauses():
    host = Host()
    host.answers(*["503"] * 11, "")
    assert (host.pace.failures, host.pace.parked) == (0, 2)
    host.answers(*["503"] * 9)
    assert host.pace.parked == 2
    host.answers("503")
    assert host.pace.parked == 3  # it goes on where it was
    host.answers(*[""] * 10)
    assert host.pace.parked == 0


def test_an_error_page_shows_that_the_host_works():
    host = Host()
    host.answers(*["timeout"] * 9, NO_PAGE, "timeout")
    assert (host.pace.failures, host.pace.parked) == (1, 0)


def test_a_robots_txt_that_fails_slows_down_and_parks_nothing():
    host = Host()
    assert host.answers(*["503"] * 12, parks=False) == 300.0
    assert (host.pace.failures, host.pace.parked) == (0, 0)


# ------------------------------------------------------------------------------------------------ always

_SIGNS = st.sampled_from(["", "", "", NO_PAGE, "500", "connect", *sorted(DOUBLING)])
_HEARD = st.tuples(_SIGNS, st.floats(0, 40), st.floats(0, 1), st.booleans(), st.booleans())


@given(st.lists(_HEARD, max_size=60), st.sampled_from([0.0, 0.2, 1.0, 30.0, 500.0]))
def test_no_delay_is_below_the_floor_and_no_error_shortens_one(answers, floor):
    host = Host(floor, PolitenessSettings())
    delays = [(host.delay, "")]
    for sign, takes, chance, again, parks in answers:
        host.answers(sign, takes=takes, chance=chance, again=again, parks=parks)
        delays.append((host.delay, sign))
    assert all(floor <= delay <= max(floor, 300.0) for delay, _ in delays)
    assert all(after >= before for (before, _), (after, sign) in pairwise(delays) if sign)
