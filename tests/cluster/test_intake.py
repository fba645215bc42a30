"""Adding seeds to a cluster, interrupted again and again: all arrive, each once."""

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from skitter.cluster.intake import Intake
from skitter.compose.engines import Engines, opened
from skitter.model import Link
from skitter.ports import EngineAway
from skitter.settings import Settings
from tests.cluster.crawling import QUICK, ROOT, SIZES, Cluster, cluster, until
from tests.cluster.test_refused_values import nowhere

SEEDS = 5_000
MANY = 1_000_000


def seeds_file(path: Path, many: int) -> Path:
    path.write_text("".join(f"http://h{number % 500}.example/{number}\n" for number in range(many)))
    return path


def start(crawl: Cluster, *words: object, pipe: Path | None = None) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "skitter", "cluster", "add", "--config", crawl.config, *words]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with (pipe or Path(os.devnull)).open("rb") as stdin:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=crawl.path,
            env=environ,
        )


def interrupted(crawl: Cluster, file: Path, many: int, times: int, seconds: float) -> None:
    """Begin so often, and end it each time, once there is something to end; then let it finish."""
    dice, said = random.Random(5), ""
    for number in range(times):
        adding = start(crawl, "--seeds", file)
        time.sleep(seconds + dice.random() * seconds)
        sign = signal.SIGINT if number % 2 else signal.SIGKILL
        adding.send_signal(sign)
        said = adding.communicate()[0]
        print(f"{sign.name}: {said.strip()}")
        if sign is signal.SIGINT and adding.returncode == 130:
            assert "interrupted" in said
        assert "Traceback" not in said, said
    adding = start(crawl, "--seeds", file)
    said = adding.communicate()[0]
    assert adding.returncode == 0, said
    print(said)
    crawl.work(crawl__concurrency=1)  # it is to take in, not to crawl
    while (now := _added(crawl)) < many:  # however slow this machine is, as long as some arrive
        _until_more(crawl, now)
    crawl.leave()
    assert _added(crawl) == many
    assert not _leftovers(crawl)


def _until_more(crawl: Cluster, known: int) -> None:
    until(lambda: _added(crawl) > known, "more seeds arrive", every=1.0)


def _added(crawl: Cluster) -> int:
    return int(crawl.status()["counts"]["added"])


def _leftovers(crawl: Cluster) -> list[Path]:
    return list(crawl.path.glob("skitter-*-seeds*"))


def test_seeds_arrive_once_each_however_often_the_command_is_ended(tmp_path):
    with cluster(tmp_path, nowhere(), "redis", crawl__shards=2, **QUICK) as crawl:
        interrupted(crawl, seeds_file(tmp_path / "seeds.txt", SEEDS), SEEDS, times=3, seconds=0.8)


class Breaking:
    """Engines whose forwarding fails from some batch on, and that remember what was sent."""

    def __init__(self, engines: Engines, batches: int) -> None:
        self.shards, self.claims, self.forwarding = engines.shards, engines.claims, self
        self.sent: list[str] = []
        self._forwarding, self._left = engines.forwarding, batches

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        if not self._left:
            raise EngineAway("forwarding is away")
        self._left -= 1
        await self._forwarding.send(links)
        self.sent += [link.url for some in links.values() for link in some]


@pytest.mark.parametrize("size", SIZES)
def test_an_interrupted_file_continues_after_the_last_batch(size, tmp_path):
    file = seeds_file(tmp_path / "seeds.txt", SEEDS)

    async def scenario(settings: Settings) -> None:
        async with opened(settings, "") as engines:
            said: list[str] = []
            first, second = Breaking(engines, 2), Breaking(engines, 99)
            with pytest.raises(EngineAway):
                await Intake(first, settings, said.append).bring_file(file, "seeds.txt")
            intake = Intake(second, settings, said.append)
            await intake.bring_file(file, "seeds.txt")
            assert said == ["seeds.txt: lines 1 to 4000 are in; going on behind them"]
            assert intake.added == len(second.sent) == SEEDS - 4000
            assert sorted(first.sent + second.sent) == sorted(file.read_text().split())
            # All of it is in: it may be named again, like any other.
            third = Breaking(engines, 99)
            await Intake(third, settings, said.append).bring_file(file, "seeds.txt")
            assert len(third.sent) == SEEDS

    with cluster(tmp_path, nowhere(), size, crawl__shards=2) as crawl:
        asyncio.run(scenario(crawl.settings))


def test_seeds_from_a_pipe_are_kept_until_they_are_added(tmp_path):
    with cluster(tmp_path, nowhere(), "redis", crawl__shards=2) as crawl:
        file = seeds_file(tmp_path / "seeds.txt", 8 * SEEDS)
        for _ in range(5):  # it may be too quick for us
            adding = start(crawl, "--seeds", "-", pipe=file)
            until(lambda at=adding: _line(crawl, file) or at.poll() is not None, "a batch is in")
            adding.send_signal(signal.SIGINT)
            said = adding.communicate()[0]
            if adding.returncode == 130:
                break
        (copy,) = _leftovers(crawl)
        assert f"a copy of the seeds is kept in {copy.name}" in said
        assert f"continue with: skitter cluster add --config {crawl.config} --seeds {copy.name}" in said
        said = start(crawl, "--seeds", "-", pipe=file).communicate()[0]  # the same again
        assert "going on behind them" in said
        assert not _leftovers(crawl)


def _line(crawl: Cluster, file: Path) -> int:
    async def ask() -> int:
        async with opened(crawl.settings, "", looking=True) as engines:
            return await engines.claims.intake(hashlib.sha256(file.read_bytes()).hexdigest())

    return asyncio.run(ask())


@pytest.mark.soak
def test_a_million_seeds_are_interrupted_five_times(tmp_path):
    with cluster(tmp_path, nowhere(), crawl__shards=8, **QUICK) as crawl:
        file = seeds_file(tmp_path / "seeds.txt", MANY)
        interrupted(crawl, file, MANY, times=5, seconds=8)
