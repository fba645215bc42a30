"""The SQLite index: killed writers, other versions, damage, and readers during a write."""

import asyncio
import signal
import sqlite3
import subprocess
import sys

import pytest

from skitter.backends.sqlite_fts import FtsIndex
from skitter.export.search.text import Results, query
from skitter.ports import StateError
from skitter.testing.contracts.search import entry, found

WRITER = """
import asyncio, sys
from pathlib import Path
from skitter.backends.sqlite_fts import FtsIndex
from skitter.testing.contracts.search import entry

async def main():
    index = FtsIndex(Path(sys.argv[1]))
    await index.open()
    for batch in range(10_000):
        await index.index([entry(f"https://a.example/{batch}/{n}", "Word", f"text {batch}") for n in range(10)])
        print(batch, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "search.sqlite"


def ask(path, text):
    async def answer() -> tuple[Results, int]:
        index = FtsIndex(path)
        await index.open()
        try:
            return await index.search(query(text), 1000), await index.count()
        finally:
            await index.close()

    return asyncio.run(answer())


def fill(path, *entries):
    async def answer() -> None:
        index = FtsIndex(path)
        await index.open()
        await index.index(entries)
        await index.close()

    asyncio.run(answer())


def test_acknowledged_pages_survive_kill_9_and_batches_are_atomic(path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 20:
                break
        # It writes on while others read.
        results, _ = ask(path, "word")
        assert results.total >= 210
        writer.send_signal(signal.SIGKILL)
        last = int([line, *writer.stdout.read().split()][-1])
    results, count = ask(path, "word")
    assert count == results.total
    assert count in ((last + 1) * 10, (last + 2) * 10)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    db.close()


def test_replaced_versions_leave_no_words_in_the_index(path):
    fill(path, entry("https://a.example/1", "One", "ancient 東京"))
    fill(path, entry("https://a.example/1", "Two", "modern", 2e9))
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    db.close()


def test_a_file_of_another_version_is_emptied_and_used(path):
    fill(path, entry("https://a.example/1", "One"))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("DROP TABLE notes")
    db.close()
    results, count = ask(path, "one")
    assert (found(results), count) == ([], 0)
    fill(path, entry("https://a.example/1", "One"))
    assert found(ask(path, "one")[0]) == ["https://a.example/1"]


def test_a_file_that_is_not_an_index_is_reported(path):
    path.write_bytes(b"something else" * 1000)
    with pytest.raises(
        StateError, match=r"search\.sqlite: file is not a database; delete it: it is made again"
    ):
        ask(path, "x")


def test_a_place_where_no_file_can_be_is_named(tmp_path):
    with pytest.raises(
        StateError, match=r"nowhere/search\.sqlite: unable to open database file; see that it can be written"
    ):
        ask(tmp_path / "nowhere" / "search.sqlite", "x")


def test_two_may_make_it_at_once(path):
    two = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("10_000", "20"), str(path)], stdout=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    assert [process.wait(120) for process in two] == [0, 0]
    assert ask(path, "word")[1] == 200


def test_notes_stay_with_the_index(path):
    async def main() -> None:
        index = FtsIndex(path)
        await index.open()
        assert index.note("filled") == ""
        index.leave_note("filled", "a")
        index.leave_note("filled", "b")
        await index.close()
        await index.open()
        assert index.note("filled") == "b"
        await index.close()

    asyncio.run(main())


def test_a_batch_that_fails_leaves_nothing(path):
    async def main() -> None:
        index = FtsIndex(path)
        await index.open()
        with pytest.raises(AttributeError):
            await index.index([entry("https://a.example/1", "One"), None])  # type: ignore[list-item]
        assert await index.count() == 0
        await index.index([entry("https://a.example/1", "One")])
        assert await index.count() == 1
        await index.close()

    asyncio.run(main())
