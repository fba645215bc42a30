"""Two workers of a cluster send nothing outside its windows, judged by the server's log.

The clock on the wall is that of a zone made for the test, in which the clocks are put forward twice within half a minute: so
hours begin and end to the second, and the windows are kept over a change of the clocks, on real engines and in real time.
"""

import struct
import time
import zoneinfo
from pathlib import Path

import pytest

from skitter import reasons, urls
from skitter.testing.web import Request, serve_process
from tests.cluster.crawling import cluster, until
from tests.crawl.test_addresses import neighbours

SIZE = pytest.mark.parametrize("size", ["redis", pytest.param("full", marks=pytest.mark.soak)])
ON_ITS_WAY = 1.0  # seconds: a request that was allowed when it was sent may reach the server later
HOUR = 3600


@SIZE
def test_two_workers_keep_to_their_windows_over_changes_of_the_clocks(tmp_path, monkeypatch, size):
    """Nothing at all before the crawl opens; hosts ending in 1 not after their window; those ending in 2 not before theirs."""
    for patience in (9.0, 27.0, 81.0):  # seconds; a slow machine may need more until both are at work
        place = tmp_path / f"{patience:.0f}"
        place.mkdir()
        log, changes, waiting = crawled(place, monkeypatch, size, patience)
        assert [each for each in late_ones(log) if each.start < changes] == []
        assert [each for each in early_ones(log) if each.start > changes + ON_ITS_WAY] == []
        if len({each.agent for each in early_ones(log)}) == 2:
            break
    else:
        pytest.fail("both workers were never at work in time")
    assert {each.agent for each in late_ones(log)} == {each.agent for each in early_ones(log)}
    assert waiting, "nothing was left to do when the window closed"
    assert set(waiting.values()) == {reasons.WINDOW}


def crawled(place: Path, monkeypatch, size: str, patience: float):
    """The server's log, when one group closed and the other opened, and what waits then."""
    opens = float(int(time.time() + patience))
    changes = opens + patience
    use_zone(place / "zones", monkeypatch, opens, changes)
    group = {
        "early": {"hosts": ["h*1.site*"], "window": "03:00-06:00 Test/Soon"},
        "late": {"hosts": ["h*2.site*"], "window": "06:00-12:00 Test/Soon"},
    }
    settings = {"group": group, "politeness__window": "03:00-12:00 Test/Soon", "politeness__delay": "1s"}
    with (
        serve_process(neighbours(60, 120), latency=0.02) as server,
        cluster(place, server, size, **settings) as crawl,
    ):
        crawl.add(server.seeds())
        crawl.work()
        crawl.work()

        def well_after() -> bool:
            crawl.check_workers()
            assert [each for each in server.log() if each.start < opens] == []
            return time.time() > changes + 4 and len({each.host for each in late_ones(server.log())}) == 6

        until(well_after, "those that begin late have begun")
        log = server.log()
        crawl.leave()
        records = crawl.judged().records.values()
    waits = {each.key: each.reason.code for each in records if is_early(urls.host(each.url)) and each.reason}
    return log, changes, waits


def is_early(host: str) -> bool:
    return host.partition(".")[0].endswith("1")


def early_ones(log: list[Request]) -> list[Request]:
    return [each for each in log if is_early(each.host)]


def late_ones(log: list[Request]) -> list[Request]:
    return [each for each in log if each.host.partition(".")[0].endswith("2")]


def use_zone(folder: Path, monkeypatch, *changes: float) -> None:
    """The zone Test/Soon, for this process and those that it starts: about 01:00 now, and three hours later at each change."""
    offset = HOUR - int(time.time()) % 86400
    offsets = [offset + 3 * HOUR * number for number in range(len(changes) + 1)]
    file = folder / "Test" / "Soon"
    file.parent.mkdir(parents=True)
    file.write_bytes(zone_file([int(change) for change in changes], offsets))
    before = zoneinfo.TZPATH
    paths = [str(folder), *before]
    monkeypatch.setenv("PYTHONTZPATH", ":".join(paths))
    zoneinfo.reset_tzpath(paths)
    zoneinfo.ZoneInfo.clear_cache(only_keys=["Test/Soon"])


def zone_file(changes: list[int], offsets: list[int]) -> bytes:
    """A file of RFC 9636: one more offset than changes."""

    def block(width: str) -> bytes:
        counts = (0, 0, 0, len(changes), len(offsets), 4)
        head = b"TZif2" + bytes(15) + struct.pack(">6l", *counts)
        times = struct.pack(f">{len(changes)}{width}", *changes)
        types = bytes(range(1, len(offsets)))
        return head + times + types + b"".join(struct.pack(">lbb", each, 0, 0) for each in offsets) + b"TST\0"

    return block("l") + block("q") + b"\n\n"


@pytest.fixture(autouse=True)
def usual_zones():
    """Zones as they were."""
    before = zoneinfo.TZPATH
    yield
    zoneinfo.reset_tzpath(before)
