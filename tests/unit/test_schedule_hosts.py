"""The order of hosts: pressure, and larger sites first."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from skitter.cli.status import pressure_lines
from skitter.model import HostRecord, Level
from skitter.schedule.hosts import FEW, HostOrder, host_order, is_pressed, pressed
from skitter.settings import ScheduleSettings, Settings, SettingsError
from skitter.settings.file import load

counts = some.integers(0, 10**9)


@given(counts, counts, some.floats(0.1, 1e6))
def test_a_host_rises_again_when_its_queue_shrinks_or_its_pages_come_in(waiting, pages, pressure):
    if not is_pressed(waiting, pages, pressure):
        assert not is_pressed(waiting // 2, pages, pressure)
        assert not is_pressed(waiting, pages + 1, pressure)
    assert not is_pressed(FEW, 0, pressure)
    assert not is_pressed(waiting, pages, None)
    assert is_pressed(10**12, pages, pressure) or pages * pressure >= 10**12


@given(some.sampled_from(Level), counts, counts, some.booleans())
def test_no_host_sinks_by_more_than_a_level_or_below_the_last(level, waiting, pages, by_size):
    placed, score = HostOrder(by_size, 5.0).placed(level, 0.5, waiting, pages)
    assert placed - level == (is_pressed(waiting, pages, 5.0) and level is not Level.BACKGROUND)
    assert score == (float(waiting) if by_size else 0.5)


def test_most_crawls_have_no_order_of_hosts():
    assert host_order(ScheduleSettings()) is None
    assert host_order(ScheduleSettings(strategy="larger-sites")) == HostOrder(by_size=True, pressure=None)
    assert host_order(ScheduleSettings(pressure=20.0)) == HostOrder(by_size=False, pressure=20.0)


def test_status_and_why_say_who_has_sunk():
    settings = Settings(schedule=ScheduleSettings(pressure=20.0))
    host = HostRecord(host="a.example", domain="a.example", pages=60, lined_up=1_201)
    said = (
        "has sunk by a level: 1,201 links wait there for 60 pages stored (schedule.pressure is 20 for each)"
    )
    assert pressed(host, settings.schedule) == said
    assert pressure_lines([host], settings)[1:] == [
        "Hosts whose queue grows faster than their pages come in", f"  a.example {said}",
    ]  # fmt: skip
    assert pressure_lines([host], Settings()) == []


@pytest.mark.parametrize("wrong", [0, -1, 1e7, "nan", "inf"])
def test_a_pressure_is_a_number_of_links(wrong):
    with pytest.raises(SettingsError, match=r"schedule\.pressure"):
        load(None, {}, {"schedule.pressure": wrong})
