"""The health check of each engine of a cluster."""

import asyncio
from functools import partial

from skitter.compose.engines import no_such_size
from skitter.engines.health import Health, Question, ask_all
from skitter.reporting.format import counted
from skitter.settings import Settings
from skitter.settings.secrets import secret

TRUTH = {"full": "PostgreSQL", "redis": "Redis"}  # by size, the engine without which nothing is known


async def health(settings: Settings) -> list[Health]:
    """Ask every engine that the settings name. SettingsError if they name none."""
    return await ask_all(_questions(settings))


def _questions(settings: Settings) -> dict[str, Question]:
    if settings.cluster.size not in TRUTH:
        raise no_such_size(settings)
    questions = {"PostgreSQL": _postgres, "Kafka": _kafka} if settings.cluster.size == "full" else {}
    questions["Redis"] = _redis
    if settings.s3.bucket:
        questions["S3"] = _s3
    if settings.search.addresses:
        questions["OpenSearch"] = _opensearch
    return {engine: partial(question, settings) for engine, question in questions.items()}


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
