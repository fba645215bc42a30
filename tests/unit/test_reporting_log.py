"""The request log, and events in words."""

import errno
import json
import logging
import os

import msgspec
import pytest

from skitter.events import Lost, Opened, Requested, ScopeWidened, SetAside, Stopped, Warned
from skitter.model import Counts, Reason
from skitter.reporting import log
from skitter.reporting.log import RequestLog, requests_for, said, say

AT = 1_767_225_600.0
REQUESTED = Requested("http://a.test/ü", "a.test", "192.0.2.1", AT, AT + 0.25, 200, 1234, "page", 1)
LOST = Lost("http://a.test/x", "a.test", AT)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "requests-00.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ------------------------------------------------------------------------------------------------ request log


def test_requests_and_lost_visits_are_written_and_nothing_else(path):
    written = RequestLog(path)
    for event in (Opened(0, 1), REQUESTED, LOST, Warned("x"), Stopped("done", Counts())):
        written(event)
    written.close()
    first, second = lines(path)
    assert first == {
        "type": "Requested", "url": "http://a.test/ü", "host": "a.test", "address": "192.0.2.1", "start": AT,
        "end": AT + 0.25, "status": 200, "bytes": 1234, "purpose": "page", "attempt": 1, "fault": "",
    }  # fmt: skip
    assert second == {"type": "Lost", "url": "http://a.test/x", "host": "a.test", "leased_at": AT}


def test_requests_are_with_the_operating_system_when_flush_returns_and_lost_visits_at_once(path):
    written = RequestLog(path)
    written(REQUESTED)
    written(REQUESTED)
    written.flush()
    assert len(lines(path)) == 2
    written(LOST)
    assert len(lines(path)) == 3
    written.flush()
    assert len(lines(path)) == 3
    written.close()


def test_a_log_continues_where_it_ended(path):
    for _ in range(2):
        written = RequestLog(path)
        assert written.repaired == ""
        written(REQUESTED)
        written.close()
    assert len(lines(path)) == 2


@pytest.mark.parametrize("torn", [b"{", b'{"type":"Requested","url":"http://a', b"\x00" * 300])
@pytest.mark.parametrize("whole", [0, 3])
def test_a_torn_line_is_cut_with_a_message(path, whole, torn):
    path.write_bytes(b'{"n":1}\n' * whole + torn)
    written = RequestLog(path)
    assert written.repaired == f"cut {len(torn)} bytes of a torn line from requests-00.jsonl"
    written(LOST)
    written.close()
    assert len(lines(path)) == whole + 1


def test_a_large_log_is_not_read_to_find_its_end(path):
    path.write_bytes(b'{"n":1}\n' * 500_000 + b'{"n"')
    written = RequestLog(path)
    written.close()
    assert path.stat().st_size == 8 * 500_000


def test_a_disk_that_takes_half_a_line_is_given_the_rest(path, monkeypatch):
    write = os.write
    monkeypatch.setattr(log.os, "write", lambda file, data: write(file, data[:7]))
    written = RequestLog(path)
    written(REQUESTED)
    written(LOST)
    written.close()
    assert [line["type"] for line in lines(path)] == ["Requested", "Lost"]


def test_a_disk_that_fills_up_inside_a_line_is_loud_and_the_next_start_mends_it(path, monkeypatch):
    written = RequestLog(path)
    written(LOST)
    write, room = os.write, [7]

    def full(file, data):
        if not room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(file, data[: room.pop()])

    monkeypatch.setattr(log.os, "write", full)
    with pytest.raises(OSError, match="no space"):
        written(LOST)
    written.close()
    monkeypatch.undo()
    again = RequestLog(path)
    assert "cut 7 bytes" in again.repaired
    again.close()
    assert len(lines(path)) == 1


# ------------------------------------------------------------------------------------------------ in words


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Opened(0, 3), "3 visits were in flight when the crawl stopped; they are repeated"),
        (Opened(0, 0, "the archive ends early"), "repaired: the archive ends early"),
        (SetAside("a.test", Reason("robots.unreachable", "no answer")), "set aside a.test: no answer"),
        (SetAside("a.test", Reason("crash")), "set aside a.test: crash"),
        (ScopeWidened("http://a.test/", "http://b.test/"), "http://a.test/ redirects to http://b.test/; the scope is extended"),
        (Warned("a word"), "a word"),
    ],
)  # fmt: skip
def test_important_events_are_warnings(caplog, event, text):
    with caplog.at_level(logging.INFO, "skitter"):
        say(event)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", text)]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (REQUESTED, "00:00:00.000 page 200 http://a.test/ü (192.0.2.1, 1234 bytes, 250 ms)"),
        (
            Requested("http://a.test/", "a.test", "", AT, AT + 30, 0, 0, "retry", 2, "timeout"),
            "00:00:00.000 retry timeout http://a.test/ (, 0 bytes, 30000 ms)",
        ),
        (LOST, "lost http://a.test/x"),
    ],
)
def test_every_request_is_logged_at_info(caplog, event, text):
    with caplog.at_level(logging.INFO, "skitter"):
        say(event)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", text)]


@pytest.mark.parametrize(("level", "heard"), [(logging.INFO, True), (logging.WARNING, False)])
def test_requests_are_not_even_told_where_nobody_would_read_them(caplog, level, heard):
    with caplog.at_level(level, "skitter"):
        kinds = said()
    assert (Requested in kinds, Lost in kinds, Warned in kinds) == (heard, heard, True)


@pytest.mark.parametrize("event", [Opened(0, 0), Stopped("done", Counts())])
def test_routine_events_are_not_logged(caplog, event):
    with caplog.at_level(logging.DEBUG, "skitter"):
        say(event)
    assert caplog.records == []


def test_the_requests_for_a_url_are_found_in_logs_with_torn_and_foreign_lines(tmp_path):
    path = tmp_path / "requests-00.jsonl"
    wanted = Requested("http://a.test/x", "a.test", "10.0.0.1", 2.0, 3.0, 200, 10, "page", 1)
    longer = Requested("http://a.test/xyz", "a.test", "10.0.0.1", 1.0, 1.5, 200, 10, "page", 1)
    lost = Lost("http://a.test/x", "a.test", 1.0)
    lines = [msgspec.json.encode(each) for each in (wanted, longer, lost)]
    path.write_bytes(
        b'{"type":"Other","url":"http://a.test/x"}\n' + b"\n".join(lines) + b"\n" + lines[0][:-5]
    )
    found = requests_for([path, tmp_path / "none"], {"http://a.test/x"}, 10)
    assert found == [lost, wanted]
    assert requests_for([path], {"http://a.test/x"}, 1) == [lost]
