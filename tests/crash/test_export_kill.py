"""`skitter export --resume`: killed again and again, it ends with the same files as one that was left alone."""

import fcntl
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.export import journal
from skitter.export.destination import destination, unfinished
from skitter.export.writing import Lines
from skitter.runtime.process import run
from tests.crawl.harness import crawl, settings_for
from tests.rendered import html, serving

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300
PAGES = 24


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def page(number: int) -> str:
        links = "".join(f"<li><a href='/p/{n}'>to {n}</a>" for n in range(number, number + 4) if n < PAGES)
        parts = "".join(
            f"<h2>Part {n}</h2><p>{' '.join(f'word{number}x{n}x{w}' for w in range(60))}" for n in range(3)
        )
        return f"<title>Page {number}</title><body><main><h1>Page {number}</h1>{parts}</main><ul>{links}</ul>"

    folder = tmp_path_factory.mktemp("exported")
    with serving({f"/p/{n}": html(page(n)) for n in range(PAGES)}) as site:
        found = crawl(folder / "crawl", [f"{site.address}/p/0"], settings_for(None, crawl__shards=2))
    assert len(found.pages) == PAGES
    return folder / "crawl"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def killed(after: int, words: list[str]) -> int:
    """The exit code of an export that dies when it has created so many files."""
    command = [sys.executable, "-m", "tests.crash.export_child", str(after), *words]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE, capture_output=True).returncode


FORMATS = [
    (["jsonl", "--split", "6kB"], 9),
    (["chunks", "--split", "2500", "--extractor", "fast"], 14),  # less than the three chunks of a page
    (["links", "--split", "300", "--gzip"], 5),
    (["urls", "--split", "3kB"], 1),
    (["markdown", "--extractor", "fast"], 7),
    (["files"], 9),
    (["parquet"], 2),
]


@pytest.mark.parametrize(("words", "after"), FORMATS, ids=str)
def test_an_export_that_is_killed_again_and_again_ends_as_one_that_was_not(
    crawled: Path, tmp_path: Path, words: list[str], after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "parquet":
        pytest.importorskip("duckdb")
    export = ["export", str(crawled), "--format", *words]
    assert main([*export, "-o", f"{tmp_path}/whole/"]) == 0
    said = capsys.readouterr().err
    out = tmp_path / "out"
    deaths, ends = 0, signal.SIGKILL.value
    while (ended := killed(after, [*export, "-o", f"{out}/", "--resume", "-q"])) == -ends:
        assert not out.exists()
        deaths += 1
        assert deaths < 10
    assert ended == 0
    assert deaths > 1
    assert contents(out) == contents(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "out"}
    # What is said at the end counts what the dead ones have written too; but for tables, whose rows are not counted again.
    if words[0] != "parquet":
        assert killed(after, [*export, "-o", f"{tmp_path}/again/", "--resume", "-q"]) == -ends
        assert main([*export, "-o", f"{tmp_path}/again/", "--resume"]) == 0
        assert capsys.readouterr().err == said.replace("/whole/", "/again/")


@pytest.mark.parametrize("seed", range(20))
def test_every_line_is_there_once_in_whatever_order_items_come(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of a small cluster has no order that stays, and a crawl goes on: each time another order, and one item more."""
    dice = random.Random(seed)
    monkeypatch.setattr(journal, "_EVERY", 0.0)
    items = {f"item{number}": dice.randint(1, 9) for number in range(20)}

    async def write(lasts: int) -> None:
        with destination(f"{tmp_path}/out/", split=60, resumes={"of": "this"}) as into:
            lines = Lines(into, "lines", ".txt", head="head\n")
            for item in dice.sample(list(items), len(items)):
                for number in range(items[item]):
                    await lines.write(f"{item} line {number}\n", item)
                    lasts -= 1
                    if not lasts:
                        raise ZeroDivisionError

    for attempt in range(8):
        with pytest.raises(ZeroDivisionError):
            run(write(dice.randint(1, 60)))
        items[f"later{attempt}"] = 2
    run(write(-1))
    found = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in found] == [f"lines-{n:05d}.txt" for n in range(1, len(found) + 1)]
    lines = Counter(line for path in found for line in path.read_text().splitlines()[1:])
    assert lines == {f"{item} line {n}": 1 for item, number in items.items() for n in range(number)}


def test_another_export_does_not_go_on_with_it(
    crawled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(crawled), "--format", "markdown", "-o", f"{tmp_path}/out/", "--resume", "-q"]
    assert killed(3, words) == -signal.SIGKILL
    assert main([*words, "--extractor", "fast"]) == 4
    assert "begun by another export" in capsys.readouterr().err
    with (tmp_path / ".out.part.journal").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(words) == 4
        assert "another export is writing there" in capsys.readouterr().err
    assert unfinished(f"{tmp_path}/out/").is_dir()
    assert main(words) == 0
    assert len(contents(tmp_path / "out")) == PAGES


def test_a_damaged_journal_starts_over(crawled: Path, tmp_path: Path) -> None:
    words = ["export", str(crawled), "--format", "files", "-o", f"{tmp_path}/out/", "--resume", "-q"]
    assert killed(3, words) == -signal.SIGKILL
    (tmp_path / ".out.part.journal").write_bytes(b'{"exp')
    assert main(words) == 0
    assert len(contents(tmp_path / "out")) == PAGES + 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jsonl", "-o", "x.jsonl"], "this is one file; write a folder of them, as in -o pages/ --split 1GB"),
        (["jsonl", "-o", "x/"], "this is one file"),
        (["jsonl"], "this is one file"),
        (["wacz", "-o", "x.wacz"], "wacz is made in one go"),
        (["cdxj", "-o", "x/", "--split", "1GB"], "cdxj is made in one go"),
    ],
)
def test_what_cannot_be_continued_says_so(
    crawled: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(crawled), "--resume", "--format", *words]) == 2
    assert said in capsys.readouterr().err
