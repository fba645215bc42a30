"""Commands: what is kept of them, what is understood, and what is said about them."""

import os

import pytest
from msgspec.structs import replace

from skitter import urls
from skitter.control.address import address_of
from skitter.control.log import CommandLog, read
from skitter.control.orders import (
    BadOrderError,
    Block,
    Continue,
    Pause,
    Retry,
    Unblock,
    command_of,
    host_of,
    in_words,
    is_paused,
    request_of,
)
from skitter.ports import Command, Do, Obeyed, StateError

RULES = urls.DEFAULT_RULES
PAUSE = Command(0, Do.PAUSE)
BLOCK = Command(0, Do.BLOCK, ["a.example"], at=1.5)


# ------------------------------------------------------------------------------------------------ the log


def test_what_is_appended_is_read_back_with_its_number(tmp_path):
    path = tmp_path / "commands.jsonl"
    assert read(path) == []
    log = CommandLog(path)
    kept = [
        log.append(PAUSE),
        log.append(BLOCK),
        log.append(Command(0, Do.RETRY, (), [("k", "h")], failed=True)),
    ]
    assert [command.number for command in kept] == [1, 2, 3]
    assert [replace(each, hosts=list(each.hosts), urls=list(each.urls)) for each in kept] == [
        replace(each, hosts=list(each.hosts), urls=list(each.urls)) for each in read(path)
    ]
    assert CommandLog(path).append(PAUSE).number == 4
    assert [command.number for command in CommandLog(path).after(2)] == [3, 4]


def test_a_line_torn_by_a_crash_counts_for_nothing_wherever_it_is_torn(tmp_path):
    path = tmp_path / "commands.jsonl"
    log = CommandLog(path)
    log.append(PAUSE)
    first = path.read_bytes()
    log.append(BLOCK)
    whole = path.read_bytes()
    for end in range(len(first), len(whole)):
        path.write_bytes(whole[:end])
        assert [command.do for command in read(path)] == [Do.PAUSE]
        again = CommandLog(path)
        assert again.append(replace(BLOCK, do=Do.UNBLOCK)).number == 2
        assert [command.do for command in read(path)] == [Do.PAUSE, Do.UNBLOCK]


@pytest.mark.parametrize(
    "damage",
    [b"nonsense\n", b'{"number":1,"do":"explode"}\n', b'{"number":7,"do":"pause"}\n', b"\xff\n", b"\n"],
)
def test_a_damaged_log_is_refused_with_its_name_and_line(tmp_path, damage):
    path = tmp_path / "commands.jsonl"
    path.write_bytes(damage)
    with pytest.raises(StateError, match=r"commands\.jsonl: line 1"):
        read(path)


def test_a_command_that_could_not_be_kept_leaves_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "commands.jsonl"
    log = CommandLog(path)
    log.append(PAUSE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        log.append(BLOCK)
    monkeypatch.undo()
    assert log.append(replace(BLOCK, do=Do.UNBLOCK)).number == 2
    assert [command.do for command in read(path)] == [Do.PAUSE, Do.UNBLOCK]


def test_paused_is_the_last_word_on_it():
    words = [Do.PAUSE, Do.BLOCK, Do.CONTINUE, Do.RETRY, Do.PAUSE, Do.UNBLOCK]
    commands = [Command(number, do) for number, do in enumerate(words, start=1)]
    assert [is_paused(commands[:length]) for length in range(7)] == [
        False,
        True,
        True,
        False,
        False,
        True,
        True,
    ]


# ------------------------------------------------------------------------------------------------ what is understood


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("example.org", "example.org"),
        (" EXAMPLE.org ", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("example.org:443", "example.org"),
    ],
)
def test_a_host_is_named_as_people_type_it(text, name):
    assert host_of(text) == name


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "http://a.example", "a.example/", "user@a.example", "a.example:8080", "x" * 300, "\x00", "a..b:x",
     "*.example.org", "\udc80", "a\nb"],
)  # fmt: skip
def test_what_is_no_host_is_refused_in_one_line(text):
    with pytest.raises(BadOrderError) as problem:
        host_of(text)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 250


def test_requests_become_commands():
    assert command_of(Pause(), RULES, 2.0) == Command(0, Do.PAUSE, at=2.0)
    assert command_of(Continue(), RULES, 2.0) == Command(0, Do.CONTINUE, at=2.0)
    assert command_of(Block(["B.example", "b.example", "a.example"]), RULES, 0.0).hosts == [
        "b.example",
        "a.example",
    ]
    assert command_of(Unblock(["a.example"]), RULES, 0.0).do is Do.UNBLOCK
    retry = command_of(Retry(["example.org/a#x", "https://example.org/a"], ["c.example"]), RULES, 0.0)
    assert (retry.urls, retry.hosts, retry.failed) == (
        [("https://example.org/a", "example.org")],
        ["c.example"],
        False,
    )
    for empty in (Block([]), Unblock([]), Retry()):
        with pytest.raises(BadOrderError):
            command_of(empty, RULES, 0.0)


def test_a_request_is_decoded_or_refused_in_one_line():
    assert request_of(b'{"do":"block","hosts":["a"]}') == Block(["a"])
    for line in (
        b"",
        b"{",
        b"null",
        b'{"do":"x"}',
        b'{"hosts":["a"]}',
        b'{"do":"pause","x":1}',
        b"\xff",
        b"[" * 9999,
    ):
        with pytest.raises(BadOrderError) as problem:
            request_of(line)
        assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("do", "changed", "same", "whole", "said"),
    [
        (Do.BLOCK, 3, 1, True, "3 hosts blocked (1 was blocked already)"),
        (Do.BLOCK, 1, 0, True, "1 host blocked"),
        (Do.UNBLOCK, 0, 2, True, "0 hosts unblocked (2 were not blocked)"),
        (Do.RETRY, 12, 0, True, "12 URLs wait again"),
        (Do.RETRY, 1, 0, True, "1 URL waits again"),
        (Do.RETRY, 0, 0, True, "0 URLs wait again"),
        (Do.RETRY, 5, 0, False, "5 URLs wait again; not all workers have answered yet"),
        (Do.BLOCK, 0, 0, False, "1 host will be blocked in a moment"),
    ],
)
def test_answers_say_what_has_happened(do, changed, same, whole, said):
    command = Command(1, do, ["a.example"])
    assert in_words(command, Obeyed(1, changed, same), whole=whole) == said


def test_a_long_path_has_a_short_address(tmp_path):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with address_of(folder / "control") as address:
        assert len(address) < 100
        assert os.stat(os.path.dirname(address)).st_ino == folder.stat().st_ino  # noqa: PTH116, PTH120  /proc/self/fd/N
