"""`skitter reload`: which workers are replaced, seen from the parent."""

import asyncio
import errno
import os

import pytest
from msgspec.structs import replace

from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.fleet.messages import Halt, Ready
from skitter.fleet.parent import Fleet
from skitter.fleet.processes import WorkerProcess
from skitter.fleet.reloading import Reloading
from skitter.model import Counts
from skitter.settings import BudgetSettings, Settings
from skitter.settings.file import dump


class Heard:
    """The line to a worker: what it was told."""

    def __init__(self):
        self.messages = []

    def say(self, message):
        self.messages.append(message)


def test_a_worker_that_opens_its_shards_by_the_settings_of_before_is_replaced_as_well(tmp_path):
    """It was starting when the settings changed: nobody knows which of them it has read."""

    async def main():
        directory = CrawlDirectory(tmp_path / "c")
        directory.prepare()
        running, starting = (WorkerProcess(number, [number], line=Heard()) for number in range(2))
        running.ready = True
        reloading = Reloading(directory, [running, starting])
        replacing = asyncio.create_task(reloading.replace(["politeness.delay = 2s, was 1s"]))
        await asyncio.sleep(0)
        assert [type(message) for message in running.line.messages] == [Halt]
        starting.ready = True
        reloading.welcome(starting, Ready(Counts(), went=5))
        assert reloading.is_leaving(starting)
        assert [type(message) for message in starting.line.messages] == [Halt]
        for worker in (running, starting):
            assert reloading.left(worker)
            assert not replacing.done()
            reloading.welcome(worker, Ready(Counts(), went=1))
            await asyncio.sleep(0)
        return await replacing

    assert asyncio.run(main()).said.endswith("in force, 2 URLs left the queue")


def test_a_worker_that_dies_before_it_was_ready_is_not_replaced_twice(tmp_path):
    """Its successor reads the settings of now."""

    async def main():
        directory = CrawlDirectory(tmp_path / "c")
        directory.prepare()
        starting = WorkerProcess(0, [0], line=Heard())
        reloading = Reloading(directory, [starting])
        replacing = asyncio.create_task(reloading.replace(["politeness.delay = 2s, was 1s"]))
        await asyncio.sleep(0)
        assert not reloading.left(starting)
        starting.ready = True
        reloading.welcome(starting, Ready(Counts()))
        await replacing
        return starting.line.messages

    assert asyncio.run(main()) == []


def test_settings_that_could_not_be_kept_are_not_in_force(tmp_path, monkeypatch):
    """Once there is room on the disk again, the same command works."""

    def full(_settings):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main():
        directory = CrawlDirectory(tmp_path / "c")
        directory.prepare()
        fleet = Fleet(directory, directory.fitted(Settings(), 1), Events(), lock=-1, workers=1)
        other = replace(fleet.settings, budget=BudgetSettings(host_pages=7))
        monkeypatch.setattr(directory, "make", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                await fleet.reload(dump(other))
        return fleet.settings.budget.host_pages

    assert asyncio.run(main()) is None
