"""What `cluster status` shows of engines and breakers: up or away, since when, and who misses them."""

import asyncio
import json

import pytest

from skitter.cluster.ports import Colleague, Standing
from skitter.cluster.status import Status, as_fields, as_lines, engine_lines, seen, until_finished
from skitter.engines.health import Health
from skitter.model import Counts
from skitter.ports import EngineAway
from skitter.settings import Settings

NOW = 1_700_000_000.0
LIMITS = Settings().crawl  # none
UP = [Health("PostgreSQL", up=True, said=""), Health("Kafka", up=True, said="1 broker")]
AWAY = [UP[0], Health("Kafka", up=False, said="Kafka: no broker answers")]


def breaker(state: str = "closed", since: float | None = None) -> dict[str, object]:
    return {"breaker": state, "since": since}


def worker(name: str, **engines: dict[str, object]) -> Colleague:
    about = {"rate": 1.5, "shards": 1, "in_flight": 2, "engines": engines}
    return Colleague(name, NOW - 60, NOW - 1, about, NOW)


def status(health: list[Health], *workers: Colleague, unread: dict[int, int] | None = None) -> Status:
    shard = Standing(0, "w1", 3, NOW + 9, Counts(), {}, NOW)
    return Status(health, [shard], workers, unread)


CALM = status(UP, worker("w1", PostgreSQL=breaker(), Kafka=breaker()), worker("old version"), unread={0: 5})
TROUBLED = status(
    AWAY,
    worker("w1", PostgreSQL=breaker(), Kafka=breaker("open", NOW - 90)),
    worker("w2", PostgreSQL=breaker(), Kafka=breaker("half-open", NOW - 100)),
    worker("w3", PostgreSQL=breaker(), Kafka=breaker()),
)


def test_an_engine_is_up_or_away_since_the_first_worker_missed_it():
    assert engine_lines(CALM) == ["  PostgreSQL  up", "  Kafka       up (1 broker)"]
    assert (
        engine_lines(TROUBLED)[1]
        == "  Kafka       away since 2023-11-14T22:11:40.000Z: Kafka: no broker answers"
    )
    assert as_fields(TROUBLED, LIMITS)["engines"] == {
        "PostgreSQL": {"up": True, "since": None, "said": ""},
        "Kafka": {"up": False, "since": NOW - 100, "said": "Kafka: no broker answers"},
    }


def test_an_engine_that_answers_is_up_also_while_workers_still_test_it():
    found = status(UP, worker("w1", Kafka=breaker("half-open", NOW - 9)), unread={})
    assert as_fields(found, LIMITS)["engines"]["Kafka"] == {"up": True, "since": None, "said": "1 broker"}
    assert any(line.endswith("Kafka half-open (9.0s)") for line in as_lines(found, LIMITS))


def test_every_worker_shows_the_breakers_that_are_not_closed():
    shown = as_lines(TROUBLED, LIMITS)[-3:]
    assert [line.partition("1.5")[2].strip() for line in shown] == [
        "Kafka open (1m 30s)",
        "Kafka half-open (1m 40s)",
        "all closed",
    ]
    assert [line.partition("1.5")[2].strip() for line in as_lines(CALM, LIMITS)[-2:]] == ["all closed", "-"]
    told = as_fields(TROUBLED, LIMITS)["workers"]
    assert [each["engines"]["Kafka"]["breaker"] for each in told] == ["open", "half-open", "closed"]


def test_mail_that_nobody_can_count_is_no_number():
    assert as_lines(TROUBLED, LIMITS)[0].endswith("in flight, how many messages are unread is not known")
    assert as_fields(TROUBLED, LIMITS)["shards"][0]["unread"] is None
    assert as_lines(CALM, LIMITS)[0].endswith("5 messages unread")
    assert as_fields(CALM, LIMITS)["shards"][0]["unread"] == 5
    assert json.loads(json.dumps(as_fields(TROUBLED, LIMITS))) == as_fields(TROUBLED, LIMITS)


def test_without_the_truth_nothing_is_made_up():
    fields = as_fields(Status([Health("PostgreSQL", up=False, said="gone")]), LIMITS)
    assert fields["counts"] is None
    assert fields["shards"] == fields["workers"] == fields["disks"] == []
    assert fields["engines"]["PostgreSQL"] == {"up": False, "since": None, "said": "gone"}


class Watched:
    """A cluster whose unread messages cannot be counted, or only after a long wait."""

    segments = None

    def __init__(self) -> None:
        self.claims = self
        self.asked = 0

    async def standing(self) -> list[Standing]:
        return list(CALM.shards)

    async def workers(self) -> list[Colleague]:
        return []

    async def swap(self, seen: str, new: str) -> str:
        return ""

    async def commands(self, after: int, limit: int) -> list[tuple[int, str]]:
        return []

    async def unread(self) -> dict[int, int]:
        self.asked += 1
        raise EngineAway("Kafka: no broker answers")


@pytest.mark.parametrize(("health", "asked"), [(UP, 1), (AWAY, 0)])
def test_status_works_while_the_engine_that_forwards_links_is_away(health, asked):
    watched = Watched()
    found = asyncio.run(seen(watched, health))
    assert (found.unread, len(found.shards), watched.asked) == (None, 1, asked)


def test_while_no_host_has_answered_the_status_says_which_ones_failed_and_what_to_do():
    told = {"failed": {"https://a.example": "tls: wrong version number"}}
    found = status(UP, Colleague("w1", NOW - 60, NOW - 1, told, NOW), unread={})
    lines = as_lines(found, LIMITS)
    at = lines.index("no host has answered yet")
    assert lines[at + 1 : at + 3] == [
        "  https://a.example: tls: wrong version number",
        "    The server does not speak https: try http://a.example/",
    ]
    answered = Standing(0, "w1", 3, NOW + 9, Counts(bytes=1), {}, NOW)
    assert "no host has answered yet" not in as_lines(Status(UP, [answered], found.workers, {}), LIMITS)


class LosingPages:
    """A cluster that has nothing to do but pages that were lost, which are found again at the fourth look."""

    def __init__(self) -> None:
        self.looks = 0
        self.claims = self.segments = self

    async def unread(self):
        return {}

    async def standing(self):
        return []

    async def lost(self):
        self.looks += 1
        return ["a segment"] if self.looks < 4 else []


def test_a_crawl_is_not_finished_while_pages_of_lost_segments_are_not_pending(monkeypatch):
    monkeypatch.setattr("skitter.cluster.status._BETWEEN_LOOKS", 0.0)
    watched = LosingPages()
    asyncio.run(until_finished(watched, Settings()))
    assert watched.looks == 5
