"""A crawl that can be told to die at an exact point. Run as `python -m tests.crash.child PLAN`, PLAN being JSON.

    path, starts, overrides   the crawl; the starts are named when it is made, and not again
    workers                   0: in one process. Else by a fleet, whose workers are this program with one more argument
    die_at                    {"commit": n, "point": …}: SIGKILL in the n-th commit of this run; of a fleet, its first
                              worker to get there, once
    poison                    SIGKILL when this text is in a body that is being parsed: a page that kills the process
    opium                     the same, but the process falls asleep for good
    boot                      which start of the machine this is said to be

Dying means SIGKILL to ourselves: no handler runs, nothing is flushed, exactly as from outside.
"""

import asyncio
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from skitter import compose, seeds
from skitter.backends.rocksdb import store
from skitter.backends.rocksdb.store import RocksStore
from skitter.backends.warc import WarcArchive
from skitter.crawl import completing
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.fleet.parent import assembled
from skitter.frontier import ShardFrontier
from skitter.frontier.crashes import InHand
from skitter.reporting.log import say
from skitter.runtime.process import run
from skitter.settings.file import load

POINTS = ("before append", "torn append", "after append", "after settle")


def end_at_once():
    os.kill(os.getpid(), signal.SIGKILL)


def arrange_death(commit, point, once=None):
    """Make the n-th commit of this run the last one. `once` names a file that says that it has happened."""
    commits = 0

    def die():
        try:
            if once:
                os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        end_at_once()

    class DyingArchive(WarcArchive):
        async def append(self, packs):
            nonlocal commits
            commits += 1
            if commits == commit and point == "before append":
                die()
            if commits == commit and point == "torn append":
                mark = self.mark()
                raw = b"".join(record for packed in packs for record in packed.records)
                if mark.file:
                    with (self._directory / mark.file).open("ab", buffering=0) as file:
                        file.write(raw[: len(raw) * 2 // 3])
                die()
            places = await super().append(packs)
            if commits == commit and point == "after append":
                die()
            return places

    class DyingFrontier(ShardFrontier):
        async def settle(self, settlements, mark, now):
            accepted = await super().settle(settlements, mark, now)
            if commits == commit and point == "after settle":
                die()
            return accepted

    def dying_frontier(path, settings, *, shard=0, shards=1):
        rows = RocksStore(path, settings.frontier.block_cache)
        hand = InHand(path / "hand")
        return DyingFrontier(rows, settings, shard=shard, shards=shards, at_hand=rows, in_hand=hand)

    compose.WarcArchive = DyingArchive
    compose.rocks_frontier = dying_frontier


def arrange_poison(text, effect=end_at_once):
    """Make a page kill whoever parses it."""
    parse = completing.parse

    def deadly(url, headers, content, settings):
        if text.encode() in content:
            effect()
        return parse(url, headers, content, settings)

    completing.parse = deadly


def starts(plan):
    return [] if CrawlDirectory(Path(plan["path"])).exists else plan["starts"]


async def crawl(plan) -> int:
    settings = load(None, {}, plan["overrides"])
    given = list(seeds.named(starts(plan), settings.urls))
    async with compose.opened(Path(plan["path"]), settings, Events(), seeds=given) as running:
        await running.seed()
        print("running", flush=True)
        report = await running.run()
    return report.exit_code


def crawl_with_workers(plan) -> int:
    settings = load(None, {}, plan["overrides"] | {"crawl.workers": plan["workers"]})
    command = (sys.executable, "-m", "tests.crash.child", json.dumps(plan))
    given = list(seeds.named(starts(plan), settings.urls))
    with assembled(
        Path(plan["path"]),
        settings,
        Events(say),
        keep=lambda intake: intake.keep_links(given),
        command=command,
    ) as fleet:
        print("running", flush=True)
        return asyncio.run(fleet.run()).exit_code


def main(plan) -> int:
    is_worker = len(sys.argv) > 2
    if plan.get("workers") and not is_worker:
        return crawl_with_workers(plan)
    if "die_at" in plan:
        arrange_death(**plan["die_at"])
    if "poison" in plan:
        arrange_poison(plan["poison"])
    if "opium" in plan:
        arrange_poison(plan["opium"], partial(time.sleep, 3600))
    if "boot" in plan:
        store.boot_id = plan["boot"].encode
    if is_worker:
        # Tests import this module too, and a worker that is forked from one must find its own main module unloaded.
        from skitter.compose import fleet_worker  # noqa: PLC0415

        sys.argv[1:] = sys.argv[2:]
        return fleet_worker.main()
    return run(crawl(plan))


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
