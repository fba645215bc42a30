"""Commands that many shards of a worker send at the same time share a round trip, and each gets its own answer."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.exceptions import ResponseError

from skitter.backends.redis.client import Client
from skitter.ports import EngineAway
from skitter.settings import Settings
from skitter.testing.contracts.owner import asynchronous
from tests.cluster.redis import cleaned, server, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with cleaned(settings_for(engine("redis"))) as mine:
        yield mine


@asynchronous
async def test_questions_asked_at_the_same_time_are_one_round_trip(settings):
    client = Client(settings)

    async def ask(number: int) -> int:
        answers = await client.send(lambda: [("ECHO", str(number)), ("ECHO", "x")])
        assert answers[1] == b"x"
        return int(answers[0])

    await ask(0)
    before = client.trips
    assert await asyncio.gather(*(ask(number) for number in range(50))) == list(range(50))
    assert client.trips == before + 1
    await client.close()


@asynchronous
async def test_a_wrong_command_fails_for_its_asker_alone(settings):
    client = Client(settings)
    wrong, right = await asyncio.gather(
        client.send(lambda: [("NO", "SUCH")]),
        client.send(lambda: [("ECHO", "x")]),
        return_exceptions=True,
    )
    assert isinstance(wrong, ResponseError)
    assert right == [b"x"]
    await client.close()


@asynchronous
async def test_an_asker_that_goes_away_takes_the_answer_from_nobody(settings):
    client = Client(settings)
    asking = [asyncio.create_task(client.send(lambda: [("ECHO", "x")])) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    ends = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError)
    assert ends[1:] == [[b"x"], [b"x"]]
    await client.close()


def test_everybody_hears_that_the_server_is_gone_and_when_it_is_back(tmp_path):
    async def use(settings: Settings, mine) -> None:
        client = Client(settings)
        await client.send(lambda: [("PING",)])
        mine.kill()
        ends = await asyncio.gather(
            *(client.send(lambda: [("PING",)]) for _ in range(5)), return_exceptions=True
        )
        assert [type(end) for end in ends] == [EngineAway] * 5
        mine.start()
        assert await client.send(lambda: [("ECHO", "x")]) == [b"x"]
        await client.close()

    with server(tmp_path, "--appendonly", "yes") as mine:
        asyncio.run(use(settings_for(mine.engine), mine))
