"""A server that dies, restarts or says nothing for a while costs time, and nothing that it acknowledged."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from skitter.engines.retry import patiently
from skitter.frontier.rows import Batch, Meta, Wanted
from skitter.ports import EngineAway
from skitter.settings import Settings
from skitter.testing.contracts.store import full_url
from tests.cluster.postgres import claim, schema, settings_for
from tests.engines import frozen, kill, our_engine, restart, start


@pytest.fixture
def settings() -> Iterator[Settings]:
    with schema(settings_for(our_engine("postgres"))) as settings:
        yield settings


def disturbed(settings: Settings, disturb) -> None:
    """Write for as long as the trouble lasts, and a little longer; then look what is there."""

    async def scenario():
        store = await claim(settings)
        written: list[int] = []
        trouble = asyncio.create_task(asyncio.to_thread(disturb))
        waits = 0
        while not trouble.done() or len(written) < 100:
            number = len(written) + 1
            rows = {(row := full_url(100 * number + n)).id: row for n in range(20)}
            before = time.monotonic()
            await patiently(lambda rows=rows, number=number: store.write(Batch(Meta(seq=number), urls=rows)))
            waits += time.monotonic() - before > 0.1
            written.append(number)
            await asyncio.sleep(0.005)
        await trouble
        assert waits, "the trouble came too late to prove anything"
        assert (await store.meta()).seq == written[-1]
        wanted = [full_url(100 * number + n).id for number in written for n in range(20)]
        assert len((await store.load(Wanted(urls=wanted))).urls) == len(wanted)
        await store.close()

    asyncio.run(scenario())


def crash() -> None:
    time.sleep(0.3)
    kill("postgres")
    time.sleep(0.5)
    start("postgres")


def test_what_was_acknowledged_survives_kill_9_of_the_server(settings):
    disturbed(settings, crash)


def test_what_was_acknowledged_survives_a_restart(settings):
    def calm() -> None:
        time.sleep(0.3)
        restart("postgres")
        time.sleep(0.5)

    disturbed(settings, calm)


def test_a_frozen_server_is_waited_for(settings):
    def freeze() -> None:
        time.sleep(0.3)
        with frozen("postgres"):
            time.sleep(2)

    disturbed(settings, freeze)


def test_a_server_that_is_gone_is_an_engine_away_and_nothing_else_is_said(settings, caplog):
    async def scenario():
        store = await claim(settings)
        await asyncio.to_thread(kill, "postgres")
        try:
            for _ in range(3):
                with pytest.raises(EngineAway, match="PostgreSQL: "):
                    await store.meta()
                await asyncio.sleep(0.5)  # the pool tries to come back by itself
        finally:
            await asyncio.to_thread(start, "postgres")
        assert (await patiently(store.meta)).seq == 0
        assert caplog.text == ""
        await store.close()

    asyncio.run(scenario())
