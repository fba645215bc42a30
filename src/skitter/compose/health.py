"""How the engines of a cluster are: each is asked one cheap question, all at the same time.

For people who look (`cluster status`, `doctor`). Workers ask through their breakers, and only when nobody has heard from an
engine for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from skitter.cluster.status import Health
from skitter.compose.engines import no_such_size
from skitter.ports import EngineError
from skitter.reporting.format import counted
from skitter.settings import Settings
from skitter.settings.secrets import secret

_DEADLINE = 12.0  # seconds: a little more than first contacts have, which can say more than that it was over

Question = Callable[[Settings], Awaitable[str]]
TRUTH = {"full": "PostgreSQL", "redis": "Redis"}  # by size, the engine without which nothing is known


async def health(settings: Settings) -> list[Health]:
    """Every engine that the settings name. SettingsError when they name none."""
    return list(await asyncio.gather(*(_asked(*each, settings) for each in _questions(settings))))


def _questions(settings: Settings) -> Sequence[tuple[str, Question]]:
    if settings.cluster.size not in TRUTH:
        raise no_such_size(settings)
    questions: list[tuple[str, Question]] = [("Redis", _redis)]
    if settings.cluster.size == "full":
        questions = [("PostgreSQL", _postgres), ("Kafka", _kafka), *questions]
    if settings.s3.bucket:
        questions.append(("S3", _s3))
    if settings.search.addresses:
        questions.append(("OpenSearch", _opensearch))
    return questions


async def _asked(engine: str, question: Question, settings: Settings) -> Health:
    try:
        async with asyncio.timeout(_DEADLINE):
            return Health(engine, up=True, said=await question(settings))
    except TimeoutError:
        return Health(engine, up=False, said=f"{engine} says nothing for {_DEADLINE:g} s")
    except EngineError as problem:
        return Health(engine, up=False, said=str(problem))


async def _postgres(settings: Settings) -> str:
    from skitter.backends.postgres.pool import connect  # noqa: PLC0415  its library is an extra

    pool = await connect(settings, 1)
    try:
        await pool.check()
    finally:
        await pool.close()
    return ""


async def _kafka(settings: Settings) -> str:
    from skitter.backends.kafka.client import reach  # noqa: PLC0415  its library is an extra

    _, there = await reach(settings.kafka)
    return counted(len(there.brokers), "broker")


async def _redis(settings: Settings) -> str:
    from skitter.backends.redis.client import connect  # noqa: PLC0415  its library is an extra

    client = await connect(settings, durable=settings.cluster.size == "redis")
    await client.close()
    return ""


async def _s3(settings: Settings) -> str:
    from skitter.backends.s3.bucket import reach  # noqa: PLC0415  its library is an extra

    await asyncio.to_thread(reach, settings.s3)
    return ""


async def _opensearch(settings: Settings) -> str:
    from skitter.backends.opensearch.http import Cluster  # noqa: PLC0415  as the others

    cluster = Cluster(settings.search, secret("search.password_file", settings.search.password_file))
    try:
        return await cluster.health()
    finally:
        await cluster.close()
