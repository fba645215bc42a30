"""Damaged files: each is detected or harmless, never believed. The files are those of real crawls, really damaged."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.rocksdb.checking import StoreCheck
from skitter.backends.rocksdb.database import Database
from skitter.backends.rocksdb.store import RocksStore
from skitter.backends.warc.reading import members
from skitter.cli import main
from skitter.compose import open_reader
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Warned
from skitter.ports import StateError
from skitter.testing.web import Features, Server, SyntheticWeb, serve
from tests.crawl.harness import crawl, settings_for

LEFT_OPEN = """
import asyncio, os, sys
from pathlib import Path
from skitter.backends.rocksdb import rocks_frontier
from skitter.model import Link

async def fill():
    frontier = rocks_frontier(Path(sys.argv[1]))
    await frontier.open(1.0)
    for turn in range(40):
        host = f"h{turn % 7}.example.org"
        urls = [f"https://{host}/{turn}/{number}" for number in range(60)]
        await frontier.add([Link(url=url, key=url, host=host) for url in urls], [], float(turn + 1))
    await frontier.sync()
    os._exit(0)

asyncio.run(fill())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=4, pages_per_host=15, features=Features.plain())) as running:
        yield running


@pytest.fixture(scope="module")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished crawl in two runs and two shards, with several files in its archive."""
    path = tmp_path_factory.mktemp("whole") / "crawl"
    for limit in (25, 1000):
        settings = settings_for(server, crawl__max_pages=limit, crawl__shards=2, archive__max_file="64KiB")
        crawl(path, server.seeds(), settings)
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "crawl"))


def check(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["check", str(path), "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def pages_of(path: Path) -> set[str]:
    async def read() -> set[str]:
        reader = open_reader(path)
        try:
            return {page.url async for page in reader.frontier.pages()}
        finally:
            await reader.close()

    return asyncio.run(read())


def flip(path: Path, at: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        octet = file.read(1)[0]
        file.seek(at)
        file.write(bytes([octet ^ 1 << bit]))


def manifest(store: Path) -> Path:
    return store / (store / "CURRENT").read_text().strip()


def a_record(path: Path, number: int = 3) -> dict[str, Any]:
    """Where one page lies."""
    return pages_in(path)[number]


def pages_in(path: Path) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        reader = open_reader(path)
        try:
            found = [
                {
                    "url": page.url,
                    "file": page.archive.file,
                    "at": page.archive.offset,
                    "length": page.archive.length,
                }
                async for page in reader.frontier.pages()
                if page.archive
            ]
        finally:
            await reader.close()
        return sorted(found, key=lambda page: (page["file"], page["at"]))

    return asyncio.run(read())


# ---------------------------------------------------------------------------------------------- sound


def test_an_intact_crawl_is_sound(whole, capsys):
    code, said = check(capsys, whole)
    assert (code, said["sound"], said["findings"]) == (0, True, [])
    assert said["read"]["pages"] == len(pages_of(whole)) == 60
    assert main(["check", str(whole)]) == 0
    assert capsys.readouterr().out.startswith(f"{whole} is sound\n")


# A WACZ file, and its key, are made in test_wacz_signature.py.
EXAMPLES = [each for each in import_module("skitter.cli.check").parser().examples if "wacz" not in each]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_help_works(example, whole, tmp_path, capsys, monkeypatch):
    shutil.copytree(whole, tmp_path / "skitter-example.org")
    monkeypatch.chdir(tmp_path)
    assert main(example.split()[1:]) == 0
    assert capsys.readouterr().out


def test_the_counts_agree_with_the_rows_in_the_middle_of_a_crawl(server, tmp_path, capsys):
    web = SyntheticWeb(seed=5, hosts=12, pages_per_host=12, features=Features.mixed())
    with serve(web) as mixed:
        settings = settings_for(mixed, crawl__max_pages=60, crawl__shards=2, scope__kind="domain")
        crawl(tmp_path / "crawl", mixed.seeds(), settings)
    code, said = check(capsys, tmp_path / "crawl")
    assert (code, said["findings"]) == (0, [])
    assert said["read"]["urls"] > said["read"]["pages"]


def test_a_crawl_that_runs_can_be_checked(server, tmp_path, capsys):
    path, codes = tmp_path / "crawl", []
    settings = settings_for(server, archive__max_file="64KiB")

    def meanwhile(running):
        def look(_event):
            if not codes and running.local_shards.counts.pages > 20:
                asked = [sys.executable, "-m", "skitter", "check", str(path), "--json"]
                done = subprocess.run(asked, capture_output=True, timeout=60, check=False)
                codes.append((done.returncode, json.loads(done.stdout)))

        running.events.subscribe(look)

    crawl(path, server.seeds(), settings, meanwhile)
    ((code, said),) = codes
    assert (code, said["running"], said["findings"]) == (0, True, [])


# ---------------------------------------------------------------------------------------------- the store


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither read nor gone on with, in one line; and `check` says what it is."""
    capsys.readouterr()
    for command in (["pages", str(path)], ["resume", str(path), "-q"]):
        assert main(command) == 4
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1
    code, told = check(capsys, path)
    assert code == 1
    assert "state/00" in {finding["file"] for finding in told["findings"]}


def test_a_halved_manifest_is_neither_read_nor_gone_on_with(damaged, capsys):
    file = manifest(damaged / "state/00")
    os.truncate(file, file.stat().st_size // 2)
    refused(damaged, capsys)


def test_a_manifest_cut_anywhere_is_not_believed(whole, tmp_path):
    size = manifest(whole / "state/00").stat().st_size
    for length in (*range(0, size, size // 30), size - 1):
        copy = Path(shutil.copytree(whole / "state/00", tmp_path / "state"))
        os.truncate(manifest(copy), length)
        for read_only in (True, False):
            with pytest.raises(StateError, match=rf"has {length} bytes, and {size} were written"):
                Database(copy, 1 << 20, read_only=read_only)
        shutil.rmtree(copy)


def test_bits_flipped_in_a_manifest_are_not_believed(whole, tmp_path):
    store, dice = whole / "state/00", random.Random(4)
    for _ in range(40):
        copy = Path(shutil.copytree(store, tmp_path / "state", dirs_exist_ok=True))
        file = manifest(copy)
        flip(file, dice.randrange(file.stat().st_size), dice.randrange(8))
        for read_only in (True, False):
            with pytest.raises(StateError, match=r"is not what was written"):
                Database(copy, 1 << 20, read_only=read_only)
        shutil.rmtree(copy)


def test_a_store_without_its_current_file_is_not_started_empty(damaged, capsys):
    (damaged / "state/00/CURRENT").unlink()
    refused(damaged, capsys)


def test_every_file_of_the_store_is_noticed_or_harmless(whole, tmp_path, monkeypatch):
    """Any file, deleted, cut or with a bit flipped: the same rows, or a complaint."""
    monkeypatch.setattr("skitter.backends.rocksdb.database._OPEN_TRIES", 1)  # nobody replaces files meanwhile
    whole_rows, dice = rows(whole / "state/00"), random.Random(7)
    for name in sorted(path.name for path in (whole / "state/00").iterdir()):
        if name.startswith(("LOG", "OPTIONS")):
            continue  # for people only; RocksDB does not read them
        for way in (delete, cut, flipped):
            copy = Path(shutil.copytree(whole / "state/00", tmp_path / "state"))
            way(copy / name, dice)
            assert reopened(copy) in (None, whole_rows), f"{name} {way.__name__}"
            shutil.rmtree(copy)


def test_a_log_left_by_a_crash_is_read_completely_or_not_at_all(tmp_path):
    subprocess.run([sys.executable, "-c", LEFT_OPEN, str(tmp_path / "whole")], check=True, timeout=60)
    (log,) = (path for path in (tmp_path / "whole").glob("*.log") if path.stat().st_size)
    whole_rows, dice = rows(tmp_path / "whole"), random.Random(9)
    assert len(whole_rows["urls"]) == 2400
    for way in (delete, *[cut] * 8, *[flipped] * 8):
        copy = Path(shutil.copytree(tmp_path / "whole", tmp_path / "copy"))
        way(copy / log.name, dice)
        assert reopened(copy) is None
        assert (way is delete) or (copy / log.name).exists()  # what is refused is not changed either
        shutil.rmtree(copy)
    assert reopened(tmp_path / "whole") == whole_rows


def test_a_shard_with_lost_state_keeps_its_archive(damaged, capsys):
    files = sorted(path.name for path in (damaged / "archive").iterdir())
    shutil.rmtree(damaged / "state/01")
    (damaged / "state/01").mkdir()
    assert main(["resume", str(damaged), "-q"]) == 4
    assert "holds an archive, but its state" in capsys.readouterr().err
    assert sorted(path.name for path in (damaged / "archive").iterdir()) == files


def test_counts_that_differ_from_the_rows_are_reported(damaged, capsys):
    store = Database(damaged / "state/00", 1 << 20)
    families = {name: list(store.scan_all(name)) for name in ("pages", "urls")}
    store._families["pages"].delete(families["pages"][0][0])
    store.close()
    code, said = check(capsys, damaged)
    problems = [finding["problem"] for finding in said["findings"]]
    assert code == 1
    assert any(problem.startswith("its count of pages is") for problem in problems)
    assert any("the state knows nothing of the page at" in problem for problem in problems)


# ---------------------------------------------------------------------------------------------- the archive


def test_bits_flipped_in_the_archive_are_found_and_the_page_is_fetched_again(server, damaged, capsys):
    page, before = a_record(damaged), pages_of(damaged)
    flip(damaged / "archive" / page["file"], page["at"] + page["length"] // 2)
    code, said = check(capsys, damaged)
    (finding,) = said["findings"]
    assert (code, finding["pages"], finding["urls"]) == (1, 1, [page["url"]])
    assert finding["file"] == f"archive/{page['file']}"
    assert "fetch 1 page again with: skitter check" in said["advice"][0]

    code, said = check(capsys, damaged, "--repair")
    assert (code, said["repaired"]) == (0, [f"state/{page['file'][:2]}: 1 page pending again"])
    assert [finding["damage"] for finding in said["findings"]] == [False]
    assert said["advice"] == [f"continue with: skitter resume {damaged}"]
    crawl(damaged, [], settings_for(server, crawl__shards=2, archive__max_file="64KiB"))
    code, said = check(capsys, damaged)
    assert code == 0
    assert pages_of(damaged) == before


def test_every_flipped_bit_in_a_file_of_the_archive_is_found_or_harmless(whole, tmp_path, capsys):
    copy, dice = Path(shutil.copytree(whole, tmp_path / "crawl")), random.Random(2)
    file = copy / "archive" / a_record(copy)["file"]
    untouched = file.read_bytes()
    harmless = 0
    for _ in range(15):
        flip(file, dice.randrange(len(untouched)), dice.randrange(8))
        code, said = check(capsys, copy)
        damage = [finding for finding in said["findings"] if finding["damage"]]
        # A robots.txt, or the record that opens the file: no page needs it, and it is told all the same.
        assert said["findings"] or contents(file) == contents(whole / "archive" / file.name)
        assert code == (1 if damage else 0)
        assert all(finding["pages"] for finding in damage)
        harmless += not damage
        file.write_bytes(untouched)
    assert harmless < 10


def test_a_missing_or_truncated_archive_file_is_reported(damaged, capsys):
    page = a_record(damaged, -1)
    (damaged / "archive" / a_record(damaged, 0)["file"]).unlink()
    os.truncate(damaged / "archive" / page["file"], page["at"] + 7)
    code, said = check(capsys, damaged)
    assert code == 1
    gone, short = (finding for finding in said["findings"] if finding["damage"])
    assert gone["problem"] == "the file is gone"
    assert gone["pages"] > 1
    assert page["url"] in short["urls"]


def test_a_run_says_that_files_of_the_archive_are_gone(server, damaged):
    first = next(iter(sorted((damaged / "archive").glob("00-*-00000.warc.gz"))))
    first.unlink()
    done = crawl(damaged, [], settings_for(server, crawl__shards=2, archive__max_file="64KiB"))
    warnings = [event.text for event in done.events if isinstance(event, Warned)]
    assert any("1 file of the archive cannot be found (00-*-00000.warc.gz)" in text for text in warnings)


def test_the_directory_of_a_clusters_worker_is_checked_as_far_as_it_goes(damaged, capsys):
    """Its state is on engines; its files are here."""
    page, directory = a_record(damaged), CrawlDirectory(damaged)
    made_with = directory.read_settings()
    shutil.rmtree(damaged / "state")
    directory.write_settings(replace(made_with, cluster=replace(made_with.cluster, size="redis")))
    code, said = check(capsys, damaged)
    assert (code, [finding["damage"] for finding in said["findings"]]) == (0, [False])
    flip(damaged / "archive" / page["file"], page["at"] + page["length"] // 2)
    code, said = check(capsys, damaged)
    assert (code, said["findings"][1]["file"]) == (1, f"archive/{page['file']}")
    assert said["advice"] == [
        "archive: restore the damaged files from a copy; their other pages can still be read"
    ]


# ---------------------------------------------------------------------------------------------- mending the store


def test_a_state_with_a_shortened_manifest_is_rebuilt_from_its_tables(damaged, capsys):
    before = pages_of(damaged)
    file = manifest(damaged / "state/00")
    os.truncate(file, int(file.stat().st_size * 0.8))
    code, said = check(capsys, damaged, "--repair")
    assert (code, said["sound"]) == (0, True)
    assert said["repaired"] == ["state/00: rebuilt from its tables; what it was is in repair/00.damaged"]
    assert pages_of(damaged) == before
    assert main(["resume", str(damaged), "-q"]) == 0


def test_a_state_that_does_not_agree_with_itself_is_left_as_it_is(damaged, capsys):
    tables = sorted((damaged / "state/00").glob("*.sst"), key=lambda path: path.stat().st_size)
    tables[-1].unlink()
    left = sorted(path.name for path in (damaged / "state/00").iterdir())
    code, said = check(capsys, damaged, "--repair")
    assert code == 1
    assert said["repaired"][0].startswith("state/00: cannot be mended; bring it back from a backup")
    assert sorted(path.name for path in (damaged / "state/00").iterdir()) == left


# ---------------------------------------------------------------------------------------------- small files


def test_small_files_are_read_too(damaged, capsys):
    (damaged / "roots.txt").write_bytes(b"")
    log = damaged / "log/requests-00.jsonl"
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([*lines[:3], b"{half", *lines[3:]]))
    code, said = check(capsys, damaged)
    assert code == 1
    assert {finding["file"] for finding in said["findings"]} == {"roots.txt", "log/requests-00.jsonl"}
    assert any("line 4 is no JSON" in finding["problem"] for finding in said["findings"])


def test_a_directory_without_a_crawl_is_not_checked(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 4
    assert "holds no crawl" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------- ways of damaging


def rows(store: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    opened = RocksStore(store, 1 << 20, read_only=True)
    try:
        for problem in StoreCheck(opened, lambda _rows: None).problems():
            raise StateError(problem)
        return {name: list(opened.db.scan_all(name)) for name in ("urls", "pages", "queue", "hosts")}
    finally:
        opened.db.close()


def reopened(store: Path) -> dict[str, list[tuple[bytes, bytes]]] | None:
    """What the next owner finds, and leaves; None if it is told that something is wrong."""

    async def own() -> None:
        frontier = rocks_frontier(store)
        await frontier.open(2.0)
        await frontier.close(2.0)

    try:
        before = rows(store)
        asyncio.run(own())
        after = rows(store)
    except StateError:
        return None
    assert after["pages"] == before["pages"]
    assert len(after["urls"]) == len(before["urls"])
    return before


def delete(path: Path, _dice: random.Random) -> None:
    path.unlink()


def cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(max(1, path.stat().st_size)))


def flipped(path: Path, dice: random.Random) -> None:
    if path.stat().st_size:
        flip(path, dice.randrange(path.stat().st_size), dice.randrange(8))


def contents(file: Path) -> list[bytes]:
    return [record for record, _ in members(file)]
