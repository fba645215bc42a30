"""A crawl that can be told to die at an exact point. Run as `python -m tests.crash.child PLAN`, PLAN being JSON.

    path, starts, overrides   the crawl
    die_at                    {"commit": n, "point": …}: SIGKILL in the n-th commit of this run
    poison                    SIGKILL when this text is in a body that is being parsed: a page that kills the process

Dying means SIGKILL to ourselves: no handler runs, nothing is flushed, exactly as from outside.
"""

import json
import os
import signal
import sys
from pathlib import Path

from skitter import compose, seeds, visit
from skitter.backends.rocksdb import RocksFrontier
from skitter.backends.warc import WarcArchive
from skitter.events import Events
from skitter.process import run
from skitter.settings.file import load

POINTS = ("before append", "torn append", "after append", "after settle")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def arrange_death(commit, point):
    """Make the n-th commit of this run the last one."""
    commits = 0

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

    class DyingFrontier(RocksFrontier):
        async def settle(self, settlements, mark, now):
            accepted = await super().settle(settlements, mark, now)
            if commits == commit and point == "after settle":
                die()
            return accepted

    compose.WarcArchive = DyingArchive
    compose.RocksFrontier = DyingFrontier


def arrange_poison(text):
    """Make a page kill whoever parses it."""
    parse = visit.parse

    def deadly(url, headers, content, settings):
        if text.encode() in content:
            die()
        return parse(url, headers, content, settings)

    visit.parse = deadly


async def crawl(plan) -> int:
    settings = load(None, {}, plan["overrides"])
    async with compose.opened(Path(plan["path"]), settings, Events()) as running:
        await running.seed(seeds.named(plan["starts"], settings.urls))
        print("running", flush=True)
        report = await running.run()
    return report.exit_code


if __name__ == "__main__":
    the_plan = json.loads(sys.argv[1])
    if "die_at" in the_plan:
        arrange_death(**the_plan["die_at"])
    if "poison" in the_plan:
        arrange_poison(the_plan["poison"])
    sys.exit(run(crawl(the_plan)))
