"""A running crawl is controlled from outside: the site's own log shows what it did."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

import pytest

from skitter.control.client import connected
from skitter.control.orders import Pause
from skitter.control.server import LONGEST, MOST_CLIENTS
from tests.crawl.controlled import (
    HOSTS,
    Site,
    crawling,
    in_flight_ended,
    is_quiet,
    kill_worker,
    resumed,
    said,
    skitter,
    status,
    until,
)

A, B, C, D = HOSTS  # in both shards, whichever is whose


@pytest.fixture
def site():
    made = Site()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "c"


# ------------------------------------------------------------------------------------------------ pause, continue


def test_a_paused_crawl_sends_nothing_until_it_continues(site, path):
    with crawling(path, site, A, B, C, D) as running:
        assert said("pause", path).startswith("paused")
        in_flight_ended(path)
        assert is_quiet(site)
        assert said("pause", path) == "paused already"
        shown = said("status", path)
        assert "running, but paused" in shown
        assert f"skitter continue {path}" in shown
        assert said("continue", path) == "continued"
        before = site.requests()
        until(lambda: site.requests() > before + 10)
        assert said("continue", path) == "it was not paused"
        assert running.process.poll() is None


def test_a_pause_outlives_kill_9_of_a_worker_and_of_the_parent(site, path):
    with crawling(path, site, A, B, C, D) as running:
        said("pause", path)
        in_flight_ended(path)
        kill_worker(running)
        assert is_quiet(site, seconds=2.0)
        running.kill()
    assert (path / "control").is_socket()  # left behind, and replaced by the next one
    with resumed(path) as again:
        until(lambda: status(path)["state"] == "running")
        assert is_quiet(site, seconds=2.0)
        assert said("continue", path) == "continued"
        before = site.requests()
        until(lambda: site.requests() > before + 10)
        shown = again.end()
    assert f"the crawl is paused, and nothing is fetched until it is told: skitter continue {path}" in shown


def test_a_paused_crawl_does_not_end_because_nothing_is_left(tmp_path, path):
    site = Site(pages=3)
    try:
        with crawling(path, site, A) as running:
            running.process.wait()  # three pages
        with resumed(path, "--paused") as again:
            assert is_quiet(site)
            assert again.process.poll() is None
            assert status(path)["paused"] is True
            said("add", path, site.url(A, "/more"))
            time.sleep(1.0)
            assert not site.asked("/more")
            said("continue", path)
            assert again.process.wait() == 0  # done, for nothing pauses it any more
        assert site.asked("/more") == 1
    finally:
        site.close()


def test_a_limit_of_time_ends_a_paused_crawl(site, path):
    with crawling(path, site, A, B, more=["--max-time", "8s"]) as running:
        said("pause", path)
        assert running.process.wait() == 3
    assert status(path)["paused"] is True


# ------------------------------------------------------------------------------------------------ block, unblock


def test_no_request_goes_to_a_blocked_host(site, path):
    with crawling(path, site, A, B, C, D) as running:
        assert said("block", path, A, "B.Test", "unknown.test") == "3 hosts blocked"
        assert said("block", path, A, C) == "1 host blocked (1 was blocked already)"
        in_flight_ended(path)
        frozen = {host: site.requests(host) for host in (A, B, C)}
        before = site.requests(D)
        until(lambda: site.requests(D) > before + 20)
        said("add", path, site.url(A, "/seed"))
        kill_worker(running)
        until(lambda: site.requests(D) > before + 60)
        assert {host: site.requests(host) for host in (A, B, C)} == frozen
        assert status(path)["hosts_blocked"] == 4
        assert "4 hosts blocked" in said("status", path)
        why = said("why", path, site.url(A, "/seed"))
        assert "blocked by hand" in why
        assert "skitter unblock" in why
        assert said("unblock", path, A, D) == "1 host unblocked (1 was not blocked)"
        until(lambda: site.asked("/seed"))
        assert site.requests(B) == frozen[B]


def test_a_block_outlives_kill_9_of_the_parent(site, path):
    with crawling(path, site, A, B) as running:
        said("block", path, A)
        in_flight_ended(path)
        running.kill()
    frozen, before = site.requests(A), site.requests(B)
    with resumed(path):
        until(lambda: site.requests(B) > before + 20)
        assert site.requests(A) == frozen
        said("unblock", path, A)
        said("block", path, B)
        until(lambda: site.requests(A) > frozen + 5)
    skitter("check", path)  # the counts agree with the rows, with a host that is blocked


def test_a_crawl_with_nothing_left_but_blocked_hosts_is_done_and_goes_on_when_it_is_resumed_paused(
    site, path
):
    with crawling(path, site, A) as running:
        said("block", path, A)
        assert running.process.wait() == 0
    frozen = site.requests()
    assert "1 host blocked" in said("status", path)
    with resumed(path, "--paused"):
        assert said("unblock", path, A) == "1 host unblocked"
        said("continue", path)
        until(lambda: site.requests() > frozen + 10)


# ------------------------------------------------------------------------------------------------ retry


def test_what_failed_is_tried_again_when_it_is_retried(site, path):
    bad = [site.url(host, f"/bad{host}") for host in (A, B, C)]
    with crawling(path, site, A, B, C, more=[*bad, site.url(A, "/gone")]) as running:
        until(lambda: status(path)["counts"]["failed"] == 3)
        until(lambda: site.asked("/gone"))
        tries = site.asked("/bada.test")
        assert said("retry", path, bad[0], "https://unknown.test/") == "1 URL waits again"
        until(lambda: site.asked("/bada.test") > tries)
        until(lambda: status(path)["counts"]["failed"] == 3)
        site.mended = True
        assert said("retry", path, "--host", B) == "1 URL waits again"
        until(lambda: status(path)["counts"]["failed"] == 2)
        assert said("retry", path, "--failed") == "2 URLs wait again"
        until(lambda: status(path)["counts"]["failed"] == 0)
        assert said("retry", path, "--failed") == "0 URLs wait again"
        assert said("retry", path, site.url(A, "/gone"), site.url(A, "/")) == "1 URL waits again"
        until(lambda: site.asked("/gone") == 2)
        assert running.process.poll() is None
    skitter("check", path)
    pages = [json.loads(line) for line in said("pages", path, "--json").splitlines()]
    fetched = {page["url"] for page in pages if page["status"] == 200}
    assert {*bad, site.url(A, "/gone")} <= fetched


def test_a_finished_crawl_is_resumed_paused_to_retry_what_failed(path):
    site = Site(pages=3)
    try:
        with crawling(path, site, A, more=[site.url(A, "/bad")]) as running:
            running.process.wait()
        refused = skitter("retry", path, "--failed", check=1)
        assert f"skitter resume {path} --paused" in refused.stderr
        site.mended = True
        with resumed(path, "--paused") as again:
            assert said("retry", path, "--failed") == "1 URL waits again"
            said("continue", path)
            assert again.process.wait() == 0
        assert status(path)["counts"]["failed"] == 0
    finally:
        site.close()


# ------------------------------------------------------------------------------------------------ add


def test_seeds_are_added_while_the_crawl_runs(site, path, tmp_path):
    file = tmp_path / "more.txt"
    lines = [site.url(B, f"/from-file-{number}") for number in range(3)]
    file.write_text("\n".join(["# more", lines[0], "mailto:nobody@example.org", *lines[1:]]) + "\n")
    file.write_bytes(file.read_bytes() + b"http://\xff\xfe/\n")
    with crawling(path, site, A) as running:
        assert said("add", path, site.url(C, "/new")) == "1 seed added"
        added = skitter("add", path, "--seeds", file)
        assert added.stdout == "3 seeds added\n"
        assert f"{file}:3: mailto:nobody@example.org" in added.stderr
        assert "not UTF-8" in added.stderr
        until(lambda: site.asked("/new") and all(site.asked(f"/from-file-{number}") for number in range(3)))
        until(lambda: site.requests(C) > 5)  # its links are in scope: a seed widens it
        assert running.process.poll() is None


def test_seeds_that_were_added_outlive_kill_9_of_everything(site, path):
    with crawling(path, site, A) as running:
        os.killpg(running.process.pid, signal.SIGSTOP)  # workers have a session of their own
        for worker in running.workers:
            os.kill(worker, signal.SIGSTOP)
        os.kill(running.process.pid, signal.SIGCONT)
        assert said("add", path, site.url(A, "/late")) == "1 seed added"
        workers = running.workers
        running.kill()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
    assert not site.asked("/late")
    with resumed(path):
        until(lambda: site.asked("/late"))


# ------------------------------------------------------------------------------------------------ watching


def test_a_crawl_is_followed_until_it_ends(site, path):
    with crawling(path, site, A, B) as running:
        words = [sys.executable, "-m", "skitter", "status", str(path), "--follow"]
        with (
            subprocess.Popen([*words, "--json"], stdout=subprocess.PIPE, text=True) as fields,
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as shown,
        ):
            first = json.loads(fields.stdout.readline())
            assert first["type"] == "Progress"
            said("add", path, "http://nowhere.invalid/")
            lines = [json.loads(fields.stdout.readline()) for _ in range(4)]
            said("pause", path)
            until(lambda: json.loads(fields.stdout.readline()).get("paused"))
            running.process.send_signal(signal.SIGTERM)
            lines += [json.loads(line) for line in fields.stdout]
            text = shown.stdout.read()
    assert lines[-1]["type"] == "Stopped"
    assert lines[-1]["why"] == "interrupted"
    assert lines[-1]["counts"]["pages"] == status(path)["counts"]["pages"]
    assert "the crawl has ended: interrupted" in text


def test_ctrl_c_ends_the_watching_and_not_the_crawl(site, path):
    with crawling(path, site, A) as running:
        words = [sys.executable, "-m", "skitter", "status", str(path), "-f", "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            _, errors = watching.communicate()
        assert (watching.returncode, errors) == (0, "")
        assert running.process.poll() is None


@pytest.mark.parametrize("verb", ["pause", "continue", "block", "unblock", "retry", "add"])
def test_every_example_in_the_help_works(site, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    Path("more.txt").write_text(site.url(B) + "\n")
    examples = import_module(f"skitter.cli.{verb}").parser().examples
    with crawling(Path("skitter-example.org"), site, A):
        for example in examples:
            if "--config" not in example:
                assert said(*shlex.split(example)[1:])


# ------------------------------------------------------------------------------------------------ bad input


def test_what_cannot_be_done_is_said_in_one_line_and_changes_nothing(site, path, tmp_path):
    with crawling(path, site, A):
        for words, code, text in (
            (("block", path), 2, "no host is named"),
            (("block", path, "http://a.test/"), 2, "is not a host"),
            (("block", path, "a.test:80"), 2, "names a port"),
            (("block", path, A, "a b"), 2, "is not a host"),
            (("block", path, "x" * 300), 2, "is not a host"),
            (("block", path, "\x1b[31m"), 2, "is not a host"),
            (("retry", path), 2, "nothing to retry"),
            (("retry", path, "mailto:a@example.org"), 2, "is not an http or https URL"),
            (("retry", path, "--host", "a/b"), 2, "is not a host"),
            (("add", path), 2, "nothing to add"),
            (("add", path, site.url(A, "/fine"), "ftp://example.org/"), 2, "not an http or https URL"),
            (("add", path, "--seeds", tmp_path / "none"), 2, "No such file"),
            (("pause", path, "a.test"), 2, "whole crawl"),
            (("continue",), 2, "no crawl named"),
            (("pause", tmp_path / "none"), 4, "holds no crawl"),
            (("status", tmp_path / "none", "--follow"), 4, "holds no crawl"),
        ):
            done = skitter(*words, check=code)
            assert text in done.stderr, done.stderr
            assert done.stderr.startswith("skitter: ")
            assert done.stderr.count("\n") == 1
            assert "\x1b" not in done.stderr
        assert not (path / "commands.jsonl").exists()
    assert not site.asked("/fine")
    for words in (("pause", path), ("continue", path), ("block", path, A), ("unblock", path, A),
                  ("retry", path, "--failed"), ("add", path, site.url(A)), ("status", path, "-f")):  # fmt: skip
        done = skitter(*words, check=1)
        assert f"{path} is not running; " in done.stderr
        assert done.stderr.count("\n") == 1


AS_SOMEBODY_ELSE = """
import contextlib, io, os, socket, sys
import skitter.cli
with contextlib.redirect_stdout(io.StringIO()):  # while it may still read its libraries
    skitter.cli.main(["continue", sys.argv[2]]), skitter.cli.main(["status", "--help"])
    import skitter.cli.pause
os.setgroups([]); os.setgid(65534); os.setuid(65534)
if sys.argv[1] == "pause":
    sys.exit(skitter.cli.main(sys.argv[1:]))
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[2] + "/control")
    with contextlib.suppress(OSError):
        connection.sendall(b'{"do":"pause"}' + bytes([10]))
    print(connection.recv(1000).decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_crawl_of_another_user_is_not_controlled(site):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "c"
        with crawling(path, site, A):
            assert (path / "control").stat().st_mode & 0o777 == 0o600

            def as_somebody_else(what):
                words = [sys.executable, "-c", AS_SOMEBODY_ELSE, what, str(path)]
                return subprocess.run(words, capture_output=True, text=True, check=False)

            done = as_somebody_else("pause")
            assert done.returncode == 4, done
            assert "this is the crawl of another user" in done.stderr
            assert done.stderr.count("\n") == 1
            (path / "control").chmod(0o777)  # who is at the other end is asked as well
            assert "this is the crawl of another user" in as_somebody_else("dial").stdout
            assert status(path)["paused"] is False


# ------------------------------------------------------------------------------------------------ on the socket


def line_of(file):
    return json.loads(file.readline())


@pytest.fixture
def dial(path):
    """Connects to the control socket; everything is closed at the end."""
    with ExitStack() as stack:

        def connect():
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(path / "control"))
            return connection, stack.enter_context(connection.makefile("rb"))

        yield connect


def test_a_request_that_makes_no_sense_gets_one_line_and_changes_nothing(site, path, dial):
    with crawling(path, site, A):
        connection, file = dial()
        for request in (
            b"nonsense", b"", b"[]", b"null", b'{"do":"explode"}', b'{"do":"block"}', b'{"do":"block","hosts":"a"}',
            b'{"do":"block","hosts":[]}', b'{"do":"block","hosts":["a b"]}', b'{"do":"pause","more":1}', b"\xff\xfe",
            b'{"do":"retry"}', b'{"do":"add","seeds":["mailto:x"]}', b"[" * 100_000,
        ):  # fmt: skip
            connection.sendall(request + b"\n")
            answer = line_of(file)
            assert list(answer) == ["error"], request
        connection.sendall(b'{"do":"pause"}\n{"do":"continue"}\n')  # and the connection is still good
        assert line_of(file)["said"].startswith("paused")
        assert line_of(file) == {"said": "continued"}
        connection.sendall(b"x" * (LONGEST + 100) + b"\n")
        assert "at most" in line_of(file)["error"]
        assert file.readline() == b""
        assert len((path / "commands.jsonl").read_text().splitlines()) == 2


def test_several_clients_at_once_are_fine(site, path, dial):
    with crawling(path, site, A, B):
        one, two = dial(), dial()
        for connection, _ in (one, two):
            connection.sendall(b'{"do":"block","hosts":["a.test"]}\n')
        answers = sorted(line_of(file)["said"] for _, file in (one, two))
        assert answers == ["0 hosts blocked (1 was blocked already)", "1 host blocked"]


def test_a_client_that_stops_reading_is_dropped_and_nobody_waits_for_it(site, path, dial):
    with crawling(path, site, A, B) as running:
        deaf, unread = dial()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b'{"do":"follow"}\n')
        assert line_of(unread)["type"] == "Progress"
        other, file = dial()
        bad = json.dumps({"do": "add", "name": "f", "seeds": ["mailto:" + "x" * 190] * 1000}).encode() + b"\n"
        for _ in range(15):  # each of them is a warning to everybody who follows
            other.sendall(bad)
            assert line_of(file)["changed"] == 0
        before = site.requests()
        until(lambda: site.requests() > before + 30)
        warned = 0
        with suppress(ConnectionResetError):
            while warned < 15_000 and (line := unread.readline()):
                warned += b"Warned" in line
        assert warned < 15_000  # it ends where it was dropped
        assert running.process.poll() is None
        assert said("pause", path).startswith("paused")


def test_there_is_a_limit_on_clients(site, path, dial):
    with crawling(path, site, A):
        connections = [dial() for _ in range(MOST_CLIENTS)]
        connections[-1][0].sendall(b'{"do":"continue"}\n')
        assert line_of(connections[-1][1])["said"] == "it was not paused"
        _, file = dial()
        assert "others are connected" in line_of(file)["error"]
        for connection, file in connections:
            file.close()
            connection.close()
        until(lambda: skitter("continue", path, check=None).returncode == 0)


def test_the_path_of_the_directory_may_be_long(site, tmp_path):
    path = tmp_path / ("long" * 30) / ("er" * 60) / "c"
    with crawling(path, site, A):
        assert said("pause", path).startswith("paused")
        assert said("continue", path) == "continued"
    assert not (path / "control").exists()


# ------------------------------------------------------------------------------------------------ programs


PROGRAM = """
import skitter, sys
with skitter.crawl(*{urls!r}, directory=sys.argv[1], delay="50ms", crawl_min_free_disk="1MiB",
                   allow_private=["127.0.0.0/8"], resolve=["a.test:127.0.0.1", "b.test:127.0.0.1"]) as pages:
    for page in pages:
        pass
"""


def test_a_crawl_of_a_program_is_controlled_in_the_same_way(site, path):
    program = PROGRAM.format(urls=[site.url(A), site.url(B)])
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], start_new_session=True)
    try:
        until(lambda: site.requests() > 20)
        assert said("block", path, A) == "1 host blocked"
        in_flight_ended(path)
        frozen, before = site.requests(A), site.requests(B)
        until(lambda: site.requests(B) > before + 10)
        assert site.requests(A) == frozen
        assert said("pause", path).startswith("paused")
        in_flight_ended(path)
        assert is_quiet(site)
        assert said("add", path, site.url(B, "/new")) == "1 seed added"
        assert json.loads(first_line(path))["paused"] is True
        said("continue", path)
        until(lambda: site.asked("/new"))
        process.kill()
        process.wait()
        with resumed(path):
            before = site.requests(B)
            until(lambda: site.requests(B) > before + 10)
            assert site.requests(A) == frozen
    finally:
        process.kill()
        process.wait()


def first_line(path: Path) -> bytes:
    with connected(path / "control", lambda: True) as client:
        return next(client.follow())


def test_the_answer_to_a_request_is_read_by_the_client_of_the_command_line(site, path):
    with crawling(path, site, A), connected(path / "control", lambda: True) as client:
        assert client.ask(Pause()).said.startswith("paused")
        assert client.ask(Pause()).said == "paused already"


def test_a_command_is_in_force_if_everything_died_between_the_log_and_the_shards(site, path):
    with crawling(path, site, A, B) as running:
        running.kill()
    until(lambda: status(path)["state"] != "running")
    frozen, before = site.requests(A), site.requests(B)
    kept = b'{"number":1,"do":"block","hosts":["a.test"]}\n'
    (path / "commands.jsonl").write_bytes(kept + b'{"number":2,"do":"pau')
    with resumed(path):
        until(lambda: site.requests(B) > before + 20)
        assert site.requests(A) == frozen
        assert said("pause", path).startswith("paused")
        lines = (path / "commands.jsonl").read_bytes().splitlines()
        assert (lines[0] + b"\n", len(lines)) == (kept, 2)
        assert json.loads(lines[1])["do"] == "pause"
    (path / "commands.jsonl").write_bytes(b"nonsense\n")
    refused = skitter("resume", path, check=4)
    assert "commands.jsonl: line 1 is no command" in refused.stderr
