"""Nothing is left behind: no task, no descriptor, no thread, no child process, however a crawl ends."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import skitter
from skitter import seeds
from skitter.compose import opened
from skitter.events import Event, Events, Settled
from skitter.model import Stop
from skitter.runtime.process import run
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import HASTY, crawl, keys, read_back, settings_for

ENOUGH = 20  # pages; then something happens


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(seed=41, hosts=6, pages_per_host=20, features=Features(foreign_share=0.3))
    with serve_process(web, latency=0.02) as running:
        yield running


@pytest.fixture(scope="module")
def warm(server, tmp_path_factory):
    """What a process opens once and keeps (RocksDB's own threads, curl's random numbers) is no leak."""
    crawl(tmp_path_factory.mktemp("warm") / "c", server.seeds(1), settings_for(server))
    return server


def descriptors():
    """What is open, by number and target."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  pathlib opens the directory in the same way
        with suppress(FileNotFoundError):  # the one that lists
            found[name] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
    return found


def children():
    """The processes we started and have not waited for."""
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def native_threads():
    """Threads of libraries, too; without those that RocksDB makes once for a process, when it first needs them."""
    names = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            names[task.name] = (task / "comm").read_text().strip()
    return {number for number, name in names.items() if not name.startswith("rocksdb:")}


class Residue:
    """What the process holds, before and after."""

    def __init__(self) -> None:
        self.before = descriptors(), set(threading.enumerate()), children(), native_threads()

    def assert_none(self):
        files, threads, started, native = self.before
        assert descriptors() == files
        assert set(threading.enumerate()) == threads
        assert children() == started
        deadline = time.monotonic() + 30  # a thread that was joined may need a moment to be gone
        while native_threads() - native and time.monotonic() < deadline:
            time.sleep(0.01)
        assert native_threads() - native == set()


def settings(server):
    return settings_for(server, scope__kind="any")


async def left_over() -> set[str]:
    """Tasks besides this one, once callbacks that are due have run."""
    await asyncio.sleep(0)
    return {repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}}


class Happening:
    """A reader of events that lets something happen once, in the middle of a crawl."""

    def __init__(self) -> None:
        self.then: Callable[[], object] | None = None
        self._pages = 0

    def __call__(self, event: Event) -> None:
        self._pages += isinstance(event, Settled) and event.page is not None
        if self._pages >= ENOUGH and self.then is not None:
            then, self.then = self.then, None
            then()


def test_after_a_complete_crawl(warm, tmp_path):
    residue = Residue()
    result = crawl(tmp_path / "c", warm.seeds(1), settings(warm))
    assert result.keys == keys(warm.truth("any", 1).pages)
    residue.assert_none()


def test_after_many_crawls_in_one_process(warm, tmp_path):
    residue = Residue()
    for number in range(5):
        crawl(tmp_path / str(number), warm.seeds(1), settings_for(warm, crawl__max_pages=5))
    residue.assert_none()


def test_after_a_stopped_crawl(warm, tmp_path):
    residue = Residue()
    middle = Happening()

    async def main():
        async with opened(tmp_path / "c", settings(warm), Events(middle)) as running:
            middle.then = running.stop
            await running.seed(seeds.named(warm.seeds(1)))
            report = await running.run()
        return report, await left_over()

    report, tasks = run(main())
    assert report.outcome == Stop.INTERRUPTED
    assert report.counts.pages >= ENOUGH
    assert tasks == set()
    residue.assert_none()


@pytest.mark.parametrize("sync", ["1h", "1ms"], ids=["", "while it syncs"])
def test_after_a_crawl_that_was_cancelled_which_loses_nothing(warm, tmp_path, sync):
    residue = Residue()
    middle = Happening()
    chosen = settings_for(warm, scope__kind="any", crawl__sync_interval=sync)

    async def main():
        task = asyncio.current_task()
        middle.then = task.cancel
        with pytest.raises(asyncio.CancelledError):  # noqa: PT012  it comes from whatever waits just then
            async with opened(tmp_path / "c", chosen, Events(middle)) as running:
                await running.seed(seeds.named(warm.seeds(1)))
                await running.run()
        task.uncancel()
        return await left_over()

    assert run(main()) == set()
    residue.assert_none()
    result = crawl(tmp_path / "c", [], settings(warm))
    assert result.report.counts.lost == 0
    assert result.keys == keys(warm.truth("any", 1).pages)


def test_after_a_bug_which_is_loud_and_leaves_the_directory_free(warm, tmp_path, monkeypatch):
    residue = Residue()
    middle = Happening()

    def broken(*_arguments):
        raise ZeroDivisionError("a bug")

    async def main():
        async with opened(tmp_path / "c", settings(warm), Events(middle)) as running:
            middle.then = partial(
                monkeypatch.setattr, running.local_shards.shards[0]._at.archive, "pack", broken
            )
            await running.seed(seeds.named(warm.seeds(1)))
            await running.run()

    async def outer():
        with pytest.raises(ZeroDivisionError):
            await main()
        return await left_over()

    assert run(outer()) == set()
    residue.assert_none()
    result = crawl(tmp_path / "c", [], settings(warm))
    assert result.keys == keys(warm.truth("any", 1).pages)


def test_after_a_caller_in_python_left_early(warm, tmp_path):
    residue = Residue()
    resolve = tuple(f"{host}:{address}" for host, address in warm.web.resolve_map().items())

    async def main():
        pages = skitter.crawl(*warm.seeds(1), directory=tmp_path / "c", **HASTY | {"fetch.resolve": resolve})
        async for _page in pages:
            break
        await pages.aclose()
        assert pages.report.outcome == Stop.INTERRUPTED
        return await left_over()

    assert run(main()) == set()
    residue.assert_none()


def test_after_reading(warm, tmp_path):
    result = crawl(tmp_path / "c", warm.seeds(1), settings_for(warm, crawl__max_pages=5))
    residue = Residue()

    async def main():
        await read_back(tmp_path / "c", result.report, [])
        return await left_over()

    assert run(main()) == set()
    residue.assert_none()
