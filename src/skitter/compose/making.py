"""`cluster init` of a full cluster: checks everything first, and creates nothing unless all of it fits."""

import asyncio

from skitter.backends.kafka import topics
from skitter.backends.kafka.client import reach as reach_kafka
from skitter.backends.kafka.lag import made_anew, used
from skitter.backends.kafka.whose import senders
from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.migrate import look, migrate, open_pool
from skitter.backends.postgres.notes import Topics, note, noted
from skitter.backends.s3.bucket import reach as reach_bucket
from skitter.compose.full import not_the_same
from skitter.ports import EngineError
from skitter.reporting.format import counted
from skitter.settings import Settings

_OWN = "name topics of its own under [kafka] for this crawl"


async def make_full(settings: Settings) -> list[str]:
    """Create schema and topics."""
    shards = settings.crawl.shards
    kafka = await _fits(settings)
    made = [f"PostgreSQL: migration {number} applied" for number in await migrate(settings, shards)]
    if (await noted(settings)).get(settings.cluster.name) != kafka:
        await note(settings, kafka.kafka, sorted(kafka.names))
    # Before there are topics to read: without them no worker starts.
    made += await _begin_again(settings)
    made += [f"Kafka: topic {name} made" for name in await topics.create(settings.kafka, shards)]
    return made + await topics.differences(settings.kafka, shards)


async def _fits(settings: Settings) -> Topics:
    """The topics of this crawl. EngineError unless it can use them and the bucket."""
    is_made = await look(settings)
    if settings.s3.bucket:
        await asyncio.to_thread(reach_bucket, settings.s3)
    await topics.look(settings.kafka, settings.crawl.shards)
    _, there = await reach_kafka(settings.kafka)
    names = frozenset(topic.name for topic in topics.wanted(settings.kafka, settings.crawl.shards))
    mine = Topics(str(there.cluster_id), names)
    crawls = await noted(settings)
    for crawl, its in crawls.items():
        if crawl != settings.cluster.name and its.kafka == mine.kafka and (same := names & its.names):
            raise _of_another(sorted(same), crawl)
    known = crawls.get(settings.cluster.name)
    await _are_ours(settings, sorted(names - known.names if known else names), is_made=is_made)
    return mine


async def _are_ours(settings: Settings, strange: list[str], *, is_made: bool) -> None:
    """EngineError if topics that are new to this crawl were used by others."""
    sent = await senders(settings.kafka, settings.cluster.name, strange) if strange else {}
    for crawl in sorted(set(sent.values()) - {"", settings.cluster.name}):
        raise _of_another([topic for topic, by in sent.items() if by == crawl], crawl)
    if not is_made and (others := await used(settings.kafka)):
        raise EngineError(
            f"Kafka: {counted(len(others), 'topic')} in use, by another crawl ({', '.join(others)}); {_OWN}, or delete what"
            " is left of an earlier one"
        )


def _of_another(names: list[str], crawl: str) -> EngineError:
    which = f"topic {names[0]} is" if len(names) == 1 else f"topics {', '.join(names)} are"
    return EngineError(f"Kafka: {which} used by the crawl {crawl!r}; {_OWN}")


async def _begin_again(settings: Settings) -> list[str]:
    """Reset stored positions if a topic is not the one that they belong to.

    A worker that started at such a position would skip whatever is before it. Links are added once, however often
    they are read, so starting at the beginning is harmless.
    """
    pool = await open_pool(settings)
    try:
        claims = Claims(pool, "")
        anew = await made_anew(
            settings.kafka, {each.shard: each.positions for each in await claims.standing()}
        )
        if anew and (held := await claims.begin_again(anew)):
            fix = f"workers still own {counted(len(held), 'shard')}; stop all workers and run `skitter cluster init` again"
            raise EngineError(f"Kafka: {not_the_same(anew)}, and {fix}")
    finally:
        await pool.close()
    lost = "links that waited in the old one are lost, and come back when their pages are fetched again"
    return [f"Kafka: topic {topic} is read from its beginning; {lost}" for topic in anew]
