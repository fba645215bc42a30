"""Ctrl-C, limits and a full disk: a crawl stops when told to, says so, and loses nothing."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from skitter.model import State
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crash.test_kill import state_of
from tests.crawl.harness import archives, keys, requested
from tests.warc_readers import assert_all_readers_agree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(seed=31, hosts=10, pages_per_host=30, features=Features(foreign_share=0.3))
    with serve_process(web, latency=0.02) as running:
        yield running


def skitter(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "skitter", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, **options,
    )  # fmt: skip


def crawl_command(server, path, *more):
    resolve = [f"--resolve={host}:{address}" for host, address in server.web.resolve_map().items()]
    return skitter(
        "crawl", *server.seeds(1), "-o", path, "--scope=any", "--delay=0s", "--allow-private=127.0.0.0/8",
        "--set=crawl.min_free_disk=1MiB", *resolve, *more,
    )  # fmt: skip


def wait_for_requests(server, more, child):
    had = len(server.log())
    deadline = time.monotonic() + 60
    while len(server.log()) < had + more and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize(("times", "sign"), [(1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM)])
def test_interrupting_loses_nothing_and_says_so(server, tmp_path, times, sign):
    child = crawl_command(server, tmp_path / "c", "--json")
    wait_for_requests(server, 30, child)
    for _ in range(times):
        os.kill(child.pid, sign)
        time.sleep(0.01)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert "Traceback" not in errors
    if times == 1:
        assert json.loads(output)["outcome"] == "interrupted"
    resumed = skitter("resume", tmp_path / "c", "--json")
    output, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    report = json.loads(output)
    assert report["outcome"] == "done"
    assert report["counts"]["lost"] == 0
    assert state_of(tmp_path / "c").keys == keys(server.truth("any", 1).pages)
    assert_all_readers_agree(*archives(tmp_path / "c"))


def test_a_limit_stops_exactly_with_exit_code_3_and_resume_continues(server, tmp_path):
    child = crawl_command(server, tmp_path / "c", "--max-pages=25", "--json")
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 3, errors
    report = json.loads(output)
    assert report["counts"]["pages"] == 25
    assert report["outcome"] == "limit"
    more = crawl_command(server, tmp_path / "c", "--max-pages=40", "--json")
    output, errors = more.communicate(timeout=60)
    assert more.returncode == 3, errors
    assert json.loads(output)["counts"]["pages"] == 40


def test_time_is_a_limit_too(server, tmp_path):
    child = crawl_command(server, tmp_path / "c", "--max-time=1s", "--delay=5s", "--json")
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 3, errors
    assert json.loads(output)["outcome"] == "limit"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_page_that_hangs_does_not_keep_a_crawl_beyond_its_time(tmp_path, workers):
    """Its request is broken off, and made again by the next run. It would hang for ten minutes."""
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # the kernel takes the connection, and nobody answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        options = ["--allow-private=127.0.0.0/8", "--set=crawl.min_free_disk=1MiB", f"--workers={workers}"]
        slow = ["--set=fetch.deadline=600s", "--set=fetch.idle_timeout=600s"]
        child = skitter("crawl", url, "-o", tmp_path / "c", "--max-time=2s", "--json", *options, *slow)
        output, errors = child.communicate(timeout=300)
    assert child.returncode == 3, errors
    report = json.loads(output)
    assert 7 <= report["elapsed"] < 300
    texts = [file.read_text() for file in (tmp_path / "c" / "log").glob("requests-*.jsonl")]
    logs = [json.loads(line) for text in texts for line in text.splitlines()]
    requests = [(line["type"], line["url"]) for line in logs if line["type"] != "Terms"]
    assert requests == [("Lost", f"{url}robots.txt")]
    state = state_of(tmp_path / "c")
    assert [(record.url, record.state) for record in state.records.values()] == [(url, State.QUEUED)]


def test_too_little_free_disk_drains_and_exits_with_4(server, tmp_path):
    free = shutil.disk_usage(tmp_path).free
    child = crawl_command(
        server, tmp_path / "c", f"--set=crawl.min_free_disk={free * 2}", "--delay=1s", "--json"
    )
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 4, errors
    assert json.loads(output)["outcome"] == "disk"
    assert "free" in errors
    resumed = crawl_command(server, tmp_path / "c", "--json")
    output, errors = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, errors
    assert state_of(tmp_path / "c").keys == keys(server.truth("any", 1).pages)


def test_two_crawls_cannot_share_a_directory(server, tmp_path):
    first = crawl_command(server, tmp_path / "c", "--delay=5s")
    wait_for_requests(server, 1, first)
    second = skitter("resume", tmp_path / "c")
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 4
    assert str(first.pid) in errors
    reading = skitter("status", tmp_path / "c", "--json")
    output, errors = reading.communicate(timeout=60)
    assert reading.returncode == 0, errors
    assert json.loads(output)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)


def test_nothing_that_could_be_crawled_is_exit_code_1(tmp_path):
    child = skitter(
        "crawl",
        "http://127.0.0.1:1/",
        "not a url at all",
        "ftp://example.org/",
        "-o",
        tmp_path / "c",
        "--json",
    )
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 1, errors
    assert json.loads(output)["counts"]["pages"] == 0
    assert "Traceback" not in errors
    reasons = {record.url: record.reason for record in state_of(tmp_path / "c").records.values()}
    assert reasons["not a url at all"]
    assert reasons["ftp://example.org/"]
    assert reasons["http://127.0.0.1:1/"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, small enough to be filled."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(mount)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"needs the right to mount a small file system: {done.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def fill(path, leave):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    while shutil.disk_usage(path.parent).free:
        os.write(file, bytes(4096))
    os.ftruncate(file, os.fstat(file).st_size - leave)
    os.close(file)


@pytest.mark.parametrize("leave", [0, 300_000], ids=["from the start", "in the middle"])
def test_a_disk_that_is_full_for_a_while_loses_nothing(server, small_disk, leave):
    path, filler = small_disk / "c", small_disk / "filler"
    child = crawl_command(server, path, "--set=crawl.min_free_disk=0", "--max-pages=40", "--json")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 3, errors
    fill(filler, leave)
    child = crawl_command(server, path, "--set=crawl.min_free_disk=0", "--max-pages=1000", "--json")
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 4, errors
    assert "Traceback" not in errors
    filler.unlink()
    child = crawl_command(server, path, "--set=crawl.min_free_disk=0", "--max-pages=1000", "--json")
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert state_of(path).keys == keys(server.truth("any", 1).pages)
    assert_all_readers_agree(*archives(path))


def test_an_archive_shortened_by_a_loss_of_power_is_fetched_again(server, tmp_path):
    child = crawl_command(server, tmp_path / "c", "--max-pages=60")
    child.communicate(timeout=60)
    file = archives(tmp_path / "c")[-1]
    os.truncate(file, file.stat().st_size * 2 // 3)
    child = crawl_command(server, tmp_path / "c", "--max-pages=1000", "--json")
    output, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    assert "archive" in errors
    left = state_of(tmp_path / "c")
    assert left.keys == keys(server.truth("any", 1).pages)
    assert_all_readers_agree(*archives(tmp_path / "c"))
    assert json.loads(output)["counts"]["pages"] == len(left.keys)


def test_a_host_that_could_not_be_crawled_is_tried_again_when_its_seed_is_named_again(server, tmp_path):
    """Whoever forgot --allow-private need not start another crawl."""
    resolve = [f"--resolve={host}:{address}" for host, address in server.web.resolve_map().items()]
    first = skitter(
        "crawl", *server.seeds(1), "-o", tmp_path / "c", "--scope=any", "--delay=0s", "--json", *resolve
    )
    output, errors = first.communicate(timeout=60)
    assert first.returncode == 1, errors
    assert "--allow-private" in errors
    again = crawl_command(server, tmp_path / "c", "--json")
    output, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert state_of(tmp_path / "c").keys == keys(server.truth("any", 1).pages)
    assert json.loads(output)["counts"]["hosts_aside"] == 0


def test_requests_that_are_broken_off_are_in_the_log_and_owed_their_delay(server, tmp_path):
    """Stopped at once with a request in flight: the server may be at work on it still."""
    had = len(server.log())
    child = crawl_command(server, tmp_path / "c", "--delay=2s")
    wait_for_requests(server, 2, child)
    os.kill(child.pid, signal.SIGINT)
    os.kill(child.pid, signal.SIGINT)
    child.communicate(timeout=60)
    resumed = skitter("resume", tmp_path / "c", "--max-time=4s", "--json")
    resumed.communicate(timeout=60)
    requests = server.log()[had:]
    for host in {request.host for request in requests}:
        starts = [request.start for request in requests if request.host == host]
        assert all(after - before >= 2.0 - 0.01 for before, after in pairwise(starts)), host
    assert len(requested(tmp_path / "c")) >= len(requests)
