"""The real clock, which setting the system clock cannot disturb."""

import time

import pytest

from skitter.runtime.clock import SystemClock


def test_it_returns_the_time_of_day():
    assert SystemClock().now() == pytest.approx(time.time(), abs=5)


@pytest.mark.parametrize("set_by", [-86400.0, 86400.0])
def test_setting_the_clock_of_the_machine_changes_nothing_while_the_process_lives(monkeypatch, set_by):
    clock = SystemClock()
    before = clock.now()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + set_by)
    assert 0 <= clock.now() - before < 3600
    assert SystemClock().now() - before == pytest.approx(set_by, abs=3600)


def test_intervals_are_the_same_on_both_clocks():
    clock = SystemClock()
    offsets = [clock.now() - clock.monotonic() for _ in range(3)]
    assert max(offsets) - min(offsets) < 1.0
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)
