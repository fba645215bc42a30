"""Terminals that close and streams that nobody reads: a crawl only stops when it is told to."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.crawl.directory import CrawlDirectory
from skitter.testing.web import Features, Server, SyntheticWeb, serve

PATIENCE = 120  # seconds: only a hang fails by it


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=1, pages_per_host=5, features=Features.plain())) as running:
        yield running


def words(server: Server, *more: str) -> list[str]:
    """A crawl with one worker that may visit the server."""
    pairs = [f"--resolve={host}:{address}" for host, address in server.web.resolve_map().items()]
    return [
        *(sys.executable, "-m", "skitter", "crawl", server.seeds()[0], "-o", "d", "--workers", "1"),
        *("--allow-private", "127.0.0.0/8", "--set", "crawl.min_free_disk=1MiB", *pairs, *more),
    ]


def waiting(server: Server) -> list[str]:
    """A crawl that says every request, and then waits politely for longer than anybody looks on."""
    return words(server, "--delay", "300s", "-v")


def ended(process: int) -> int:
    """The exit code of a child of ours; one that does not end is killed."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        gone, status = os.waitpid(process, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_closing_the_terminal_stops_the_crawl_as_a_signal_does(server, tmp_path):
    process, terminal = pty.fork()
    if not process:
        os.chdir(tmp_path)
        os.execv(sys.executable, waiting(server))
    shown = b""
    while b" robots " not in shown:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert ended(process) == 130
    with CrawlDirectory(tmp_path / "d").locked():
        pass  # nobody works on it unseen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_first_signal_stops_a_crawl_without_readers(server, tmp_path, number):
    with subprocess.Popen(
        waiting(server), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert any(" robots " in line for line in process.stderr)
        process.stderr.close()
        process.stdout.close()
        process.send_signal(number)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize("flags", [[], ["-v"], ["--json"], ["-q"]])
def test_a_reader_that_has_enough_changes_neither_the_crawl_nor_its_exit_code(server, tmp_path, flags):
    command = words(server, "--delay", "0", "--max-pages", "3", *flags)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 3


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_a_crawl_needs_no_standard_streams(server, tmp_path, closed):
    shut = "; ".join(f"os.close({number})" for number in closed)
    command = words(server, "--delay", "0", "--max-pages", "3", "-v")
    program = f"import os; {shut}; os.execv({sys.executable!r}, {command!r})"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 3, run.stderr
    assert "Traceback" not in run.stderr
    assert "died" not in run.stderr
    assert ("Crawl stopped" in run.stdout) == (1 not in closed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_failed_report_is_an_error_but_failed_progress_is_not(server, tmp_path):
    command = words(server, "--delay", "0", "--max-pages", "2", "-v")
    with Path("/dev/full").open("wb") as full:
        unseen = subprocess.run(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, timeout=PATIENCE, check=False
        )
        assert unseen.returncode == 3
        assert b"Crawl stopped" in unseen.stdout
        lost = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert lost.returncode == 4
    assert b"No space left on device" in lost.stderr


def test_an_unread_error_message_keeps_its_exit_code(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "skitter", "resume", "nowhere"], cwd=tmp_path, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.wait(PATIENCE) == 4
