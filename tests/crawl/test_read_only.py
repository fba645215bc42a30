"""Reading commands on a read-only file system, and in another user's directory."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve
from tests.crawl.harness import crawl, pages_and_words, settings_for

COMMANDS = (
    ["status", "DIR"],
    ["pages", "DIR", "--sort", "url"],
    ["why", "DIR", "URL"],
    ["export", "DIR", "--format", "jsonl"],
    ["export", "DIR", "--format", "cdxj"],
    ["sql", "DIR", "pages-by-status"],
    ["report", "DIR", "--html"],
    ["check", "DIR"],
    ["search", "DIR", "WORD"],
)
# Every command in one process, twice: once as it is, so that all is imported (Python itself may lie where nobody else may
# look), and once as somebody else if a folder for temporary files is named.
ALL_OF_THEM = """
import contextlib, io, json, os, sys, tempfile
from skitter.cli import main

def all_of_them():
    told = []
    for words in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        told.append([words[0], code, bool(out.getvalue()), err.getvalue()])
    return told

told = all_of_them()
if len(sys.argv) > 2:
    tempfile.tempdir = sys.argv[2]
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    told = all_of_them()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def finished() -> Iterator[tuple[Path, str, str]]:
    """A crawl in a folder that everybody may look into, one of its URLs, and a word of that page."""
    folder = Path(tempfile.mkdtemp(prefix="skitter-test-"))
    folder.chmod(0o755)
    with serve(SyntheticWeb(seed=3, hosts=2, pages_per_host=5, features=Features.plain())) as server:
        crawl(folder / "crawl", server.seeds(), settings_for(server, crawl__shards=2))
    yield (folder / "crawl", *pages_and_words(folder / "crawl"))
    shutil.rmtree(folder)


def asked(finished: tuple[Path, str, str]) -> list[str]:
    path, url, word = finished
    names = {"DIR": str(path), "URL": url, "WORD": word}
    every = [[names.get(part, part) for part in command] for command in COMMANDS]
    return [sys.executable, "-c", ALL_OF_THEM, json.dumps(every)]


def all_answer(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    for name, code, has_answered, said in json.loads(done.stdout):
        assert (code, has_answered) == (0, True), said
        assert ("is updated in a temporary copy" in said) == (name == "search")


def files(path: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in path.rglob("*")}


def can_mount() -> bool:
    tried = ["unshare", "--mount", "sh", "-c", "mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp"]
    try:
        return subprocess.run(tried, capture_output=True, timeout=30, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_reading_commands_work_on_a_read_only_file_system(finished):
    if not can_mount():
        pytest.skip("this needs the right to mount (unshare --mount)")
    path, before = finished[0], files(finished[0])
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && ! touch "$1/x" 2>/dev/null && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(path), *asked(finished)]
    all_answer(subprocess.run(command, capture_output=True, text=True, timeout=300, check=False))
    assert files(path) == before


def test_reading_commands_work_in_another_users_directory(finished, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("this needs the right to be somebody else (root)")
    scratch = Path(tempfile.mkdtemp(prefix="skitter-test-"))
    scratch.chmod(0o777)
    try:
        command = [*asked(finished), str(scratch)]
        all_answer(
            subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
        )
        assert list(scratch.iterdir()) == []
    finally:
        shutil.rmtree(scratch)
