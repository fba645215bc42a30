"""Progress: what is shown, on a terminal and on a pipe."""

import io
from collections.abc import Callable

import pytest

from skitter.cli.progress import (
    PlainScreen,
    SilentScreen,
    TerminalScreen,
    line,
    remaining,
    render,
    screen,
)
from skitter.model import Counts
from skitter.reporting.progress import Progress
from skitter.reporting.waiting import Asked, Pause, Waiting

NOW = Progress(
    counts=Counts(pages=1200, queued=3400, hosts=12, failed=3, statuses={200: 1200, 503: 2}, bytes=3 * 2**20),
    in_flight=8,
    hosts_ready=4,
    rate=10.0,
    elapsed=125.0,
    waiting=Waiting([Asked("https://example.org/" + "a" * 200, 0.5), Asked("https://example.org/b", 12.0)]),
)


def with_limits(**limits: float) -> Progress:
    fields = {name: getattr(NOW, name) for name in NOW.__struct_fields__}
    return Progress(**(fields | limits))


def test_the_block_shows_rate_pages_queue_hosts_errors_bytes_time_and_urls():
    assert render(NOW, 80) == [
        "1,200 pages · 10.0/s · 3.0 MiB · 2m 05s",
        "3,400 waiting · 8 in flight · 12 hosts, 4 ready · 2 error answers · 3 given up",
        "  https://example.org/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "  https://example.org/b (12s)",
    ]


def paused(in_flight: int) -> Progress:
    counts = Counts(pages=3, queued=5, hosts=2)
    pauses = [
        Pause("slow.example", 12.0, "Crawl-delay 30 s"),
        Pause("https://down.example", 3500.0, "no robots.txt (timeout)"),
    ]
    asked = [Asked("https://example.org/b", 0.1)] if in_flight else []
    return Progress(counts=counts, in_flight=in_flight, waiting=Waiting(asked, pauses, 12.0))


def test_pausing_hosts_are_shown_with_the_reason_beside_running_requests():
    assert render(paused(in_flight=1), 100)[2:] == [
        "  https://example.org/b",
        "  pausing: slow.example: Crawl-delay 30 s (12s left)",
        "  pausing: https://down.example: no robots.txt (timeout) (58m 20s left)",
    ]


def test_an_idle_crawl_shows_what_it_waits_for():
    assert render(paused(in_flight=0), 100)[2] == "  waiting for slow.example: Crawl-delay 30 s (12s left)"
    assert line(paused(in_flight=0)).endswith("; waiting for slow.example: Crawl-delay 30 s (12s left)")
    assert "waiting for" not in line(paused(in_flight=1))
    retry = Progress(counts=Counts(queued=1), waiting=Waiting(next_in=25.0))
    assert render(retry, 100)[2:] == ["  waiting: the next request (a retry) is due in 25s"]


def test_one_of_a_kind_is_not_many():
    one = Progress(counts=Counts(pages=1, hosts=1, failed=1, statuses={404: 1}))
    block = "\n".join(render(one, 80))
    assert "1 page ·" in block
    assert "1 host ·" in block
    assert block.endswith("1 error answer · 1 given up")
    assert "1 page (" in line(one)


@pytest.mark.parametrize("width", [0, 1, 7, 20, 79])
def test_no_line_is_wider_than_the_terminal(width):
    assert all(len(text) <= width for text in render(with_limits(max_pages=5000), width))


def test_no_url_drives_the_terminal():
    assert not any(
        "\x1b" in text
        for text in render(Progress(counts=Counts(), waiting=Waiting([Asked("\x1b[2J", 0)])), 80)
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        ({"max_pages": 2200}, 100.0),
        ({"max_pages": 100}, 0.0),
        ({"max_pages": 2200, "rate": 0.0}, None),
        ({"max_time": 200.0}, 75.0),
        ({"max_time": 200.0, "max_pages": 1300}, 10.0),
        ({"max_bytes": 6 * 2**20}, 125.0),
    ],
)
def test_the_time_left_is_that_of_the_nearest_limit(limits, expected):
    assert remaining(with_limits(**limits)) == expected


def test_the_time_left_is_shown_when_there_is_a_limit():
    assert render(with_limits(max_pages=2200), 80)[0].endswith("· 1m 40s left")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO) -> list[str]:
    """What a terminal shows after everything written so far: knows only line ends, cursor-up and clear-below."""
    rows: list[str] = []
    rest = stream.getvalue()
    while rest:
        if rest.startswith("\x1b["):
            code = rest[2:].lstrip("0123456789")[0]
            number, _, rest = rest[2:].partition(code)
            assert code in "FJ"
            rows = rows[: len(rows) - int(number)] if code == "F" else rows
            continue
        text, _, rest = rest.partition("\n")
        rows.append(text)
    return rows


def test_on_a_terminal_the_block_is_redrawn_in_place():
    stream = Terminal()
    shown = TerminalScreen(stream)
    shown.show(NOW, 0.0)
    shown.show(with_limits(rate=11.0), 1.0)
    assert len(drawn(stream)) == 4
    assert "11.0/s" in drawn(stream)[0]


def test_on_a_terminal_it_is_redrawn_four_times_a_second_at_most():
    stream = Terminal()
    shown = TerminalScreen(stream)
    for step in range(1001):
        shown.show(NOW, step / 1000)
    assert stream.getvalue().count("1,200 pages") <= 5


def test_a_remark_stays_above_the_block():
    stream = Terminal()
    shown = TerminalScreen(stream)
    shown.show(NOW, 0.0)
    shown.say("a host was set aside\x1b[2J")
    shown.show(NOW, 1.0)
    assert drawn(stream)[0] == "a host was set aside\\x1b[2J"
    assert len(drawn(stream)) == 5


def test_at_the_end_the_block_is_erased_and_messages_stay():
    stream = Terminal()
    shown = TerminalScreen(stream)
    shown.show(NOW, 0.0)
    shown.say("remark")
    shown.end()
    assert drawn(stream) == ["remark"]


def test_on_a_pipe_there_is_a_plain_line_every_ten_seconds():
    stream = io.StringIO()
    shown = PlainScreen(stream)
    for second in range(31):
        shown.show(NOW, float(second))
    assert stream.getvalue().splitlines() == [line(NOW)] * 3
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("make", "environ", "quiet", "kind"),
    [
        (Terminal, {}, False, TerminalScreen),
        (Terminal, {"TERM": "dumb"}, False, PlainScreen),
        (io.StringIO, {}, False, PlainScreen),
        (Terminal, {}, True, SilentScreen),
    ],
)
def test_the_screen_fits_the_stream(make: Callable[[], io.StringIO], environ, quiet, kind):
    assert isinstance(screen(make(), environ, quiet=quiet), kind)


def test_quiet_writes_nothing():
    stream = io.StringIO()
    silent = screen(stream, {}, quiet=True)
    silent.show(NOW, 0.0)
    silent.say("x")
    silent.end()
    assert stream.getvalue() == ""
