"""What a frontier acknowledged survives a real `kill -9` of its owner at any moment."""

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skitter import urls
from skitter.model import Place, Purpose, State
from skitter.ports import Frontier, Mark
from tests.cluster.redis import FrontierGround, cleaned, settings_for
from tests.contract.mortal import AGAIN, HINTS, found, ground_at
from tests.engines import engine

ROOT = Path(__file__).resolve().parents[2]


class Witness:
    """Everything that owners acknowledged before they were killed."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.crawled: set[str] = set()
        self.in_flight: set[str] = set()
        self.mark = 0

    def hear(self, said: dict[str, Any]) -> None:
        self.known |= set(said.get("added", [])) | set(said.get("links", []))
        self.in_flight |= set(said.get("leased", []))
        self.in_flight -= set(said.get("settled", []))
        self.crawled |= {url for url in said.get("settled", []) if not url.endswith("/robots.txt")}
        self.mark = max(self.mark, said.get("mark", 0))


def run_and_kill(place: str, seed: int, lines: int, witness: Witness) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.mortal", place, str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child, child.stdout as pipe:
        for number in range(lines):
            line = pipe.readline()
            assert line, "the owner died by itself"
            said = json.loads(line)
            if number == 0:
                check_opening(said, witness)
            witness.hear(said)
        child.kill()
        rest = pipe.read().splitlines(keepends=True)
    for line in rest:
        if line.endswith(b"\n"):  # the last line may be cut
            witness.hear(json.loads(line))


def check_opening(said: dict[str, Any], witness: Witness) -> None:
    """Acknowledged leases that were not settled are found, unless their settlement was written but not reported."""
    assert said["mark"] >= witness.mark
    unheard = witness.in_flight - set(said["opened"])
    assert not unheard or said["mark"] > witness.mark, unheard
    witness.in_flight = set()


async def check(place: str, witness: Witness) -> None:
    ground = ground_at(place)
    frontier = ground.frontier()
    await frontier.open(time.time())
    counts = await frontier.counts()
    states = {record.url: record.state async for record in frontier.urls()}
    assert witness.known <= set(states)
    for url in witness.crawled:
        assert states[url] is State.CRAWLED
        assert await frontier.page(url, urls.host(url)) is not None
    assert len(states) == counts.added
    assert list(states.values()).count(State.CRAWLED) == counts.crawled == counts.pages
    assert list(states.values()).count(State.QUEUED) == counts.queued
    assert sum([host.queued async for host in frontier.hosts()]) == counts.queued
    records = [record async for record in frontier.urls()]
    assert {record.hints for record in records} == {HINTS}
    crawled = [record for record in records if record.state is State.CRAWLED]
    assert all(record.last_crawl and record.next_crawl == record.last_crawl + AGAIN for record in crawled)
    assert await finish(frontier, 1e5) == {url for url, state in states.items() if state is State.QUEUED}
    assert await finish(frontier, 2.5 * AGAIN) == set(states)  # when they are due again
    await frontier.close()
    if isinstance(ground, FrontierGround):
        await ground.release()


async def finish(frontier: Frontier, later: float) -> set[str]:
    """Crawl what is left, or is due by then, each page once."""
    left: list[str] = []
    now = time.time() + later
    while await frontier.next_due(now) is not None:
        now += 1
        visits = await frontier.lease(1000, now)
        left += [visit.link.url for visit in visits if visit.link.purpose is Purpose.PAGE]
        place = Place("00-00001.warc.gz", 0, 0)
        await frontier.settle(
            [found(visit, [], place, now) for visit in visits], Mark("00-00001.warc.gz", 0), now
        )
    assert len(left) == len(set(left))
    return set(left)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_survives(tmp_path, seed):
    live_and_die(str(tmp_path / "state"), seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_acknowledged_survives_on_redis(tmp_path, seed):
    with cleaned(settings_for(engine("redis"))) as mine:
        place = f"redis://{mine.redis.addresses[0]}/{mine.cluster.name}#{tmp_path / 'hand'}"
        live_and_die(place, seed)


def live_and_die(place: str, seed: int) -> None:
    dice = random.Random(seed)
    witness = Witness()
    for round_ in range(4):
        run_and_kill(place, 10 * seed + round_, dice.randint(1, 150), witness)
    assert witness.crawled
    asyncio.run(check(place, witness))
