"""`skitter export` as people run it: whole or not at all, whatever happens; and a display of how far it is."""

import gzip
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skitter.cli import export as command
from skitter.cli import main
from skitter.cli.progress import Transfer
from skitter.export.destination import destination
from tests.unit.crawled import crawled
from tests.unit.exporting import patched

PIPE = subprocess.PIPE
PATIENCE = 120  # seconds: only a hang fails by it
HUGE = 64 * 2**20


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, beside a crawl that the commands of this process find."""
    (tmp_path / "crawl").mkdir()
    (tmp_path / "here").mkdir()
    patched(crawled(tmp_path / "crawl"), monkeypatch.setattr)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def export(*words: str) -> int:
    return main(["export", "../crawl", *words])


ROOT = Path(__file__).resolve().parents[2]


def started(
    folder: Path, *words: str, limit: int | None = None, stdout: Any = PIPE, stderr: Any = PIPE
) -> "subprocess.Popen[bytes]":
    """The same as a process of its own, whose files may have so many octets."""
    (folder / "crawl").mkdir(exist_ok=True)
    (folder / "here").mkdir(exist_ok=True)
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    environ |= {} if limit is None else {"SKITTER_TEST_FILE_SIZE": str(limit)}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.exporting", "../crawl", *words],
        cwd=folder / "here",
        env=environ,
        stdout=stdout,
        stderr=stderr,
    )


def until_written(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until something is written under another name."""
    deadline = time.monotonic() + PATIENCE
    while not [path for path in (folder / "here").rglob("*") if path.is_file() and path.stat().st_size]:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------- where it goes


def test_the_help_and_the_choices_are_made_from_the_table(here, capsys):
    assert main(["export", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for each in command.FORMATS.values():
        assert f"{each.name}: {each.about}." in shown
    assert f"{{{','.join(command.FORMATS)}}}" in shown


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["-o", "x"], {"x"}),
        (["-o", "x.gz"], {"x.gz"}),
        (["-o", "x/"], {"x/urls-00001.jsonl"}),
        (["-o", "x", "--split", "1GB"], {"x/urls-00001.jsonl"}),
        (["-o", "x/", "--split", "700", "--gzip"], {f"x/urls-0000{n}.jsonl.gz" for n in (1, 2, 3)}),
    ],
)
def test_files_and_folders_are_whole_and_alone(here, capsys, words, files):
    assert export("--format", "urls", *words) == 0
    assert {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()} == files
    several = f" ({len(files)} file{'s' * (len(files) > 1)})" if "x/" in next(iter(files)) else ""
    assert capsys.readouterr().err == f"skitter: 6 URLs written to {words[1]}{several}\n"


def test_an_existing_file_is_replaced_and_an_empty_folder_filled(here):
    (here / "x").write_text("old")
    (here / "folder").mkdir()
    assert export("--format", "links", "-o", "x", "-q") == 0
    assert (here / "x").read_text().startswith("source,target\n")
    assert export("--format", "links", "-o", "folder", "-q") == 0
    assert [path.name for path in (here / "folder").iterdir()] == ["links-00001.csv"]


def test_standard_output_may_be_compressed(here, capfdbinary):
    assert export("--format", "links", "--gzip") == 0
    assert gzip.decompress(capfdbinary.readouterr().out).startswith(b"source,target\n")


def test_a_binary_format_asks_for_its_files_by_name(here, capsys):
    assert export("--format", "parts", "-o", "out/") == 0
    assert capsys.readouterr().err == "skitter: 2 parts written to out/ (2 files)\n"
    assert {path.name: path.read_bytes() for path in (here / "out").iterdir()} == {
        "table.bin": b"\0\xfftable.bin",
        "index.bin": b"\0\xffindex.bin",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["urls", "--split", "10MB"], "standard output cannot be split; name a folder"),
        (["urls", "-o", "x/", "--split", "0"], "too small"),
        (["urls", "-o", "x/", "--split", "much"], "--split: "),
        (["parts"], "parts cannot go to standard output; name a file with -o"),
        (["parts", "-o", "x.gz"], "parts can be neither split nor compressed"),
        (["parts", "-o", "x/", "--split", "1MB"], "parts can be neither split nor compressed"),
        (["jsonl", "--respect-ai", "train-ia"], "--respect-ai: 'train-ia' is not one of train-ai, search"),
        (["urls", "-o", "full/"], "full/: there is something already"),
        (["urls", "-o", "full/file", "--split", "1MB"], "full/file: there is something already"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(here, capsys, words, said):
    (here / "full").mkdir()
    (here / "full" / "file").write_text("kept")
    assert export("--format", *words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert [path.name for path in here.rglob("*")] == ["full", "file"]
    assert (here / "full" / "file").read_text() == "kept"


def test_a_folder_in_a_folder_that_is_not_there_is_named_as_asked_for(here, capsys):
    assert export("--format", "csv", "-o", "nodir/x/") == 4
    assert capsys.readouterr().err == "skitter: nodir/x/: No such file or directory\n"
    assert list(here.iterdir()) == []


# ---------------------------------------------------------------------------------------------- what can go wrong

PLACES = (
    ["-o", "out"],
    ["-o", "out.gz"],
    ["-o", "out/", "--split", "100kB"],
    ["-o", "out/", "--split", "1MB", "--gzip"],
)


@pytest.mark.parametrize("words", PLACES, ids=" ".join)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_export_leaves_nothing_behind_and_says_so(tmp_path, words, sign):
    process = started(tmp_path, "--format", "endless", *words)
    until_written(tmp_path, process)
    process.send_signal(sign)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert said.decode() == f"skitter: interrupted; {words[1]} was not written\n"
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("words", PLACES, ids=" ".join)
def test_a_killed_export_leaves_nothing_under_the_name_and_the_next_one_works(tmp_path, words):
    process = started(tmp_path, "--format", "endless", *words)
    until_written(tmp_path, process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert not (tmp_path / "here" / words[1]).exists()
    assert all(path.name.endswith(".part") for path in (tmp_path / "here").iterdir())
    again = started(tmp_path, "--format", "urls", *words)
    assert again.communicate(timeout=PATIENCE) is not None
    assert again.returncode == 0
    assert (tmp_path / "here" / words[1]).exists()


@pytest.mark.parametrize("words", PLACES[:3], ids=" ".join)
def test_a_file_that_cannot_grow_is_one_line_and_no_leftovers(tmp_path, words):
    (tmp_path / "here").mkdir()
    if words[1] == "out":
        (tmp_path / "here" / "out").write_text("old")
    process = started(tmp_path, "--format", "endless", *words, limit=50_000)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4
    assert said.decode() == f"skitter: {words[1]}: File too large\n"
    left = list((tmp_path / "here").iterdir())
    assert [path.read_text() for path in left] == (["old"] if words[1] == "out" else [])


def test_a_full_disk_is_one_line(tmp_path):
    for words in (["-o", "/dev/full"], ["-o", "/dev/full", "--gzip"]):
        process = started(tmp_path, "--format", "endless", *words)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 4
        assert said.decode() == "skitter: /dev/full: No space left on device\n"
    with Path("/dev/full").open("wb") as full:
        process = started(tmp_path, "--format", "endless", stdout=full)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4
    assert said.decode() == "skitter: standard output: No space left on device\n"


def test_a_small_export_to_a_full_disk_fails_too(tmp_path):
    """What fits into buffers is found out when it is closed."""
    for words in (["-o", "/dev/full"], ["-o", "/dev/full", "--gzip"]):
        process = started(tmp_path, "--format", "urls", *words)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 4
        assert said.decode() == "skitter: /dev/full: No space left on device\n"


def test_a_reader_that_has_enough_is_no_failure(tmp_path):
    process = started(tmp_path, "--format", "endless")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"0 xxx")
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(PATIENCE) == 0


def test_a_named_pipe_gets_the_lines_and_stays(tmp_path):
    (tmp_path / "here").mkdir()
    os.mkfifo(tmp_path / "here" / "pipe")
    process = started(tmp_path, "--format", "links", "-o", "pipe")
    assert (tmp_path / "here" / "pipe").read_bytes().startswith(b"source,target\n")
    assert process.communicate(timeout=PATIENCE)[1] == b"skitter: 5 links written to pipe\n"
    assert (tmp_path / "here" / "pipe").is_fifo()


def broken_off(name: str, **options: Any) -> None:
    """An export that fails when much of it is written."""
    with destination(name, **options) as files:
        files.open("a").write(b"x" * HUGE)
        raise ZeroDivisionError


@pytest.mark.parametrize("options", [{}, {"compress": True}, {"split": 10}])
def test_a_failure_in_the_writer_is_not_hidden_by_cleaning_up(tmp_path, options):
    with pytest.raises(ZeroDivisionError):
        broken_off(str(tmp_path / "out"), **options)
    assert list(tmp_path.iterdir()) == []


def test_everything_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    """Each file is synced, then the folder that holds them, then they get their name, then the folder of that."""
    log: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        log.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        real_sync(handle)

    def replace(self: Path, target: Path) -> None:
        log.append(f"name {target.name}")
        real_replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    with destination(f"{tmp_path}/out", split=10) as files:
        for name in ("a", "b"):
            files.open(name).write(b"x")
    draft = f".out.{os.getpid()}.part"
    assert log == ["sync a", "sync b", f"sync {draft}", "name out", f"sync {tmp_path.name}"]
    log.clear()
    with destination(f"{tmp_path}/file.gz", compress=True) as files:
        files.open("any").write(b"x")
    assert log == [f"sync .file.gz.{os.getpid()}.part", "name file.gz", f"sync {tmp_path.name}"]


# ---------------------------------------------------------------------------------------------- how far it is


def test_the_display_has_count_total_rate_size_and_time_left():
    half = Transfer(done=1000, total=3000, one="page", many="pages", written=5 * 2**20, elapsed=10.0)
    assert half.block(80) == ["1,000 of 3,000 pages · 100/s · 5.0 MiB · 10s · 20s left"]
    assert half.line() == "skitter: 10s: 1,000 of 3,000 pages (100/s), 5.0 MiB, 20s left"
    assert len(half.block(20)[0]) == 20
    unknown = Transfer(done=1, one="link", many="links", elapsed=0.0)
    assert unknown.block(80) == ["1 link · 0/s · 0.0s"]
    more = Transfer(done=5, total=4, one="URL", many="URLs", elapsed=1.0)
    assert more.block(80) == ["5 URLs · 5/s · 1.0s"]


def test_a_terminal_shows_a_line_that_is_redrawn_and_taken_away(tmp_path):
    ours, theirs = pty.openpty()
    process = started(tmp_path, "--format", "endless", "-o", "out", stderr=theirs)
    os.close(theirs)
    shown = b""
    while shown.count(b" left\r\n") < 3:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while more := os.read(ours, 4096):
            shown += more
    except OSError:  # the terminal is closed with the process
        pass
    os.close(ours)
    assert process.wait(PATIENCE) == 130
    assert re.search(
        rb"[\d,]+ of 1,000,000 lines \xc2\xb7 [\d,]+/s \xc2\xb7 [\d.]+ [KM]iB \xc2\xb7 .* left\r\n", shown
    )
    assert shown.count(b"\x1b[1F\x1b[J") >= 3
    assert shown.endswith(b"\x1b[1F\x1b[Jskitter: interrupted; out was not written\r\n")
    assert process.stdout is not None
    process.stdout.close()


def test_with_q_nothing_is_shown_even_on_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    process = started(tmp_path, "--format", "urls", "-o", "out", "-q", stderr=theirs)
    os.close(theirs)
    assert process.wait(PATIENCE) == 0
    with pytest.raises(OSError, match="Input/output error"):
        os.read(ours, 100)
    os.close(ours)
    assert process.stdout is not None
    process.stdout.close()
