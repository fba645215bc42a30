"""The frontier on RocksDB where the port's contract does not look: its files, its bounds, its readers."""

import asyncio
import subprocess
import sys

import pytest

from skitter.backends.rocksdb import open_reader, store
from skitter.backends.rocksdb.database import Database
from skitter.backends.rocksdb.store import RocksStore
from skitter.model import State, Verdict
from skitter.ports import StateError
from skitter.runtime.metrics import Metrics
from skitter.testing.contracts.owner import START, Owner, link
from tests.contract.grounds import RocksGround, small_settings

A = "https://a.example/"


@pytest.fixture
def ground(tmp_path):
    return RocksGround(tmp_path / "state")


def run(coroutine):
    return asyncio.run(coroutine)


# ------------------------------------------------------------------------------------------------ starts of the machine


@pytest.mark.parametrize(
    ("boots", "closed", "at_once"),
    [
        ((b"first", b"first"), False, 4),  # a process was killed: what it wrote is there
        ((b"first", b"second"), False, 0),  # the machine went down: what was not synced is gone
        ((b"first", b"second"), True, 4),
        ((b"unknown", b"unknown"), False, 0),
    ],
)
def test_after_a_loss_of_power_every_host_waits_its_delay(ground, monkeypatch, boots, closed, at_once):
    """Any of them may have been asked in the last second, of which nothing is on the disk."""

    async def main():
        monkeypatch.setattr(store, "boot_id", lambda: boots[0])
        frontier = ground.frontier(delay=3.0)
        await frontier.open(START)
        await frontier.add([link(f"https://{name}.example/") for name in "abcd"], [], START)
        await frontier.close(START) if closed else await ground.kill(frontier)
        monkeypatch.setattr(store, "boot_id", lambda: boots[1])
        again = ground.frontier(delay=3.0)
        await again.open(START + 1)
        leased = len(await again.lease(10, START + 1)), len(await again.lease(10, START + 3.9))
        due = await again.next_due(START + 3.9)
        last = len(await again.lease(10, START + 4))
        await again.close(START + 4)
        return leased, due, last

    leased, due, last = run(main())
    assert leased == (at_once, 0)
    assert due == (None if at_once else START + 4)
    assert last == 4 - at_once


# ------------------------------------------------------------------------------------------------ readers


def test_a_reader_sees_what_is_committed_while_the_owner_runs(ground):
    async def read():
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        visit = await owner.lease_page()
        reader = open_reader(ground.path)
        record = await reader.url(A + "1", "a.example")
        assert record.state is State.LEASED
        assert (await reader.counts()).queued == 1
        assert (await reader.host("a.example")).in_flight == 1
        await owner.store(visit)
        assert (await reader.url(A + "1", "a.example")).state is State.LEASED  # as it was when it was opened
        await reader.close()
        later = open_reader(ground.path)
        assert (await later.url(A + "1", "a.example")).state is State.CRAWLED
        assert later.metrics() == Metrics()
        await later.close()
        assert await owner.crawl() == [A + "2"]

    run(read())


def test_a_reader_in_another_process_needs_no_lock(ground):
    async def own():
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        code = (
            "import asyncio, sys, pathlib\n"
            "from skitter.backends.rocksdb import open_reader\n"
            "reader = open_reader(pathlib.Path(sys.argv[1]))\n"
            "print(asyncio.run(reader.counts()).queued)\n"
        )
        answer = await asyncio.to_thread(
            subprocess.check_output, [sys.executable, "-c", code, ground.path], text=True
        )
        assert answer == "1\n"
        await owner.frontier.close()

    run(own())


def test_readers_come_and_go_while_the_owner_writes_and_flushes(ground):
    async def both():
        owner = await Owner.of(ground)
        for number in range(15):
            await owner.add(*(f"{A}{number}/{n}" for n in range(200)))
            owner.frontier._store.db._families["urls"].flush()
            reader = open_reader(ground.path)
            assert (await reader.counts()).queued == 200 * (number + 1)
            assert len([record async for record in reader.urls()]) == 200 * (number + 1)
            await reader.close()

    run(both())


def test_a_reader_of_nothing_is_told_so(tmp_path):
    with pytest.raises(StateError, match="no crawl state"):
        open_reader(tmp_path)


# ------------------------------------------------------------------------------------------------ one owner, one format


def test_a_second_owner_is_refused(ground):
    async def own():
        owner = await Owner.of(ground)
        with pytest.raises(StateError, match="in use"):
            await ground.frontier().open(START)
        await owner.frontier.close()
        owner = await Owner.of(ground)
        await owner.frontier.close()

    run(own())


def test_another_format_is_refused_and_says_what_to_do(ground):
    written_as(ground, b"99")
    with pytest.raises(StateError, match=r"format 99.*another version of Skitter"):
        run(ground.frontier().open(START))
    with pytest.raises(StateError, match="format 99"):
        open_reader(ground.path)


@pytest.mark.parametrize("earlier", [b"1", b"2"])
def test_an_earlier_format_is_refused_in_one_line_that_names_the_version_that_reads_it(ground, earlier):
    written_as(ground, earlier)
    for use in (lambda: run(ground.frontier().open(START)), lambda: open_reader(ground.path)):
        with pytest.raises(
            StateError, match=rf"has format {earlier.decode()}, which Skitter 0.1 reads"
        ) as told:
            use()
        assert "this version reads format 3" in str(told.value)
        assert "\n" not in str(told.value)


def written_as(ground, found):
    db = Database(ground.path, 1 << 20)
    db.commit({"default": {b"format": found}})
    db.close()


def test_a_frontier_that_is_not_open_says_so(ground):
    with pytest.raises(StateError, match="not open"):
        run(ground.frontier().lease(1, START))
    run(ground.frontier().close())


def test_a_damaged_directory_is_reported(ground):
    ground.path.mkdir(parents=True)
    (ground.path / "CURRENT").write_text("nonsense")
    with pytest.raises(StateError, match="cannot be opened"):
        run(ground.frontier().open(START))
    with pytest.raises(StateError, match="cannot be opened"):
        open_reader(ground.path)


class FullDisk:
    """A database whose disk is full, in rocksdict's way of saying so."""

    def __init__(self, database):
        self._database = database

    def write(self, _batch):
        raise Exception("IO error: No space left on device")  # noqa: TRY002  as rocksdict does

    def flush_wal(self, _sync):
        raise Exception("IO error: No space left on device")  # noqa: TRY002  as rocksdict does

    def close(self):
        self._database.close()
        raise Exception("IO error: No space left on device")  # noqa: TRY002  as rocksdict does

    def __getattr__(self, name):
        return getattr(self._database, name)


def test_after_a_failed_write_nothing_more_is_acknowledged_and_what_was_is_safe(ground):
    async def fail():
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        db = owner.frontier._store.db
        db._db = FullDisk(db._db)
        with pytest.raises(StateError, match=r"No space left.*make room"):
            await owner.add(A + "2")
        with pytest.raises(StateError, match="No space left"):
            await owner.frontier.sync()
        with pytest.raises(StateError, match="has failed"):
            await owner.add(A + "3")
        db._db = db._db._database
        with pytest.raises(StateError, match="has failed"):
            await owner.lease()
        owner = await owner.restarted()
        assert await owner.crawl() == [A + "1"]

    run(fail())


def test_closing_after_a_failed_write_does_not_hide_it(ground):
    async def fail():
        owner = await Owner.of(ground)
        db = owner.frontier._store.db
        db._db = FullDisk(db._db)
        with pytest.raises(StateError, match="cannot be written"):
            await owner.add(A + "1")
        await owner.frontier.close()
        await (await Owner.of(ground)).frontier.close()

    run(fail())


def test_a_disk_that_is_full_when_the_frontier_is_closed_is_reported_and_the_directory_let_go(ground):
    async def fail():
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        db = owner.frontier._store.db
        db._db = FullDisk(db._db)
        with pytest.raises(StateError, match=r"cannot be written.*make room"):
            await owner.frontier.close()
        again = await Owner.of(ground)
        assert await again.crawl() == [A + "1"]
        await again.frontier.close()

    run(fail())


def test_a_store_that_cannot_be_closed_says_so_if_nothing_was_said_before(ground):
    db = Database(ground.path, 1 << 20)
    db._db = FullDisk(db._db)
    with pytest.raises(StateError, match="No space left"):
        db.close()


class Unreadable:
    def get(self, _key):
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002  as rocksdict does

    def iter(self, _bounds):
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002  as rocksdict does


def test_a_disk_that_cannot_be_read_is_reported(ground):
    db = Database(ground.path, 1 << 20)
    db._families["urls"] = Unreadable()
    for read in (
        lambda: db.get("urls", b"x"),
        lambda: list(db.scan_all("urls")),
        lambda: list(db.scan("urls", b"", b"x")),
    ):
        with pytest.raises(StateError, match=r"cannot be read.*checksum"):
            read()
    db.close()


def test_a_frontier_that_cannot_be_opened_lets_the_directory_go(ground):
    ground.path.mkdir(parents=True)
    (ground.path / "hand").mkdir()
    with pytest.raises(OSError, match="hand"):
        run(ground.frontier().open(START))
    (ground.path / "hand").rmdir()

    async def take():
        owner = await Owner.of(ground)
        await owner.frontier.close()

    run(take())


def test_syncing_needs_no_changes_and_keeps_them(ground):
    async def sync():
        owner = await Owner.of(ground)
        await owner.frontier.sync()
        await owner.add(A + "1")
        await owner.frontier.sync()
        owner = await owner.killed()
        assert (await owner.url(A + "1")).state is State.QUEUED

    run(sync())


# ------------------------------------------------------------------------------------------------ bounds


def test_more_hosts_than_fit_into_memory(tmp_path):
    ground = RocksGround(tmp_path, small_settings(window=8))

    async def crawl():
        owner = await Owner.of(ground)
        names = [f"https://h{number}.example/" for number in range(300)]
        await owner.add(*(link(name, score=number) for number, name in enumerate(names)))
        assert owner.frontier.metrics().hosts.states <= 300
        await owner.add(A)
        assert owner.frontier.metrics().hosts.states <= 9
        order = [visit.link.host for visit in await owner.lease(300)]
        assert order[:3] == ["h299.example", "h298.example", "h297.example"]
        assert len(set(order)) == 300

    run(crawl())


def test_hosts_wait_their_turn_also_beyond_the_window_of_clocks(tmp_path):
    ground = RocksGround(tmp_path, small_settings(window=5))

    async def crawl():
        owner = await Owner.of(ground)
        names = [f"https://h{number}.example/" for number in range(60)]
        await owner.add(*names, *(name + "2" for name in names))
        visits = await owner.lease_pages(60)
        for number, visit in enumerate(reversed(visits)):
            later = Verdict(state=State.CRAWLED, host_free=owner.now + 1 + number)
            await owner.settle(visit, later)
        handed_out = []
        for _ in range(60):
            owner.now += 1
            handed_out += [visit.link.host for visit in await owner.lease()]
        assert handed_out == [visit.link.host for visit in reversed(visits)]

    run(crawl())


def test_a_host_with_many_links_is_read_from_where_it_was_left(ground, monkeypatch):
    monkeypatch.setattr("skitter.frontier.memory._READ_AHEAD", (8, 8))

    async def crawl():
        owner = await Owner.of(ground)
        await owner.add(*(link(f"{A}{number}", score=-number) for number in range(500)))
        starts = []
        read = RocksStore.heads

        def spied(rows, ask):
            starts.append(ask.after)
            return read(rows, ask)

        monkeypatch.setattr(RocksStore, "heads", spied)
        assert await owner.crawl(500) == [f"{A}{number}" for number in range(500)]
        assert starts == sorted(starts)
        assert len(set(starts)) == len(starts) <= 500 / 8 + 1

    run(crawl())


# ------------------------------------------------------------------------------------------------ in hand


def test_what_is_in_hand_is_left_to_whoever_opens_next(ground):
    code = (
        "import asyncio, os, signal, sys, pathlib\n"
        "from skitter.backends.rocksdb import rocks_frontier\n"
        "from skitter.testing.contracts.owner import link, allowed\n"
        "from skitter.model import Settlement, State, Verdict\n"
        "from skitter.ports import Mark\n"
        "async def main():\n"
        "    frontier = rocks_frontier(pathlib.Path(sys.argv[1]))\n"
        "    await frontier.open(1e6)\n"
        "    await frontier.add([link('https://a.example/1')], [], 1e6)\n"
        "    (visit,) = await frontier.lease(1, 1e6)\n"
        "    frontier.in_hand(visit)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    child = subprocess.run([sys.executable, "-c", code, ground.path], check=False)
    assert child.returncode == -9

    async def blame():
        frontier = ground.frontier()
        opened = await frontier.open(2e6)
        assert [visit.link.url for visit in opened.lost] == [A + "robots.txt"]
        (visit,) = await frontier.lease(1, 2e6 + 1)
        assert visit.alone
        await frontier.close()

    run(blame())
