"""A polite crawl of many hosts, for ten minutes: it stays within its memory, and it stays polite."""

import pytest
from benchmarks.wide import measure, said


@pytest.mark.soak
def test_ten_minutes_on_3_000_hosts_stay_polite_and_within_300_mb(capsys):
    found = measure(600)
    with capsys.disabled():
        print(f"\n{said(found)}")
    # The rate is printed and not asserted: it is the machine's as much as ours.
    assert found.shortest_gap >= 1.0
    assert found.repeated == 0
    assert found.pages == found.asked
    assert found.peak_mb <= 300
