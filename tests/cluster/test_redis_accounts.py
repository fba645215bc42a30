"""What shards have used of the budget of a group, told through Redis."""

import asyncio

from skitter.backends.redis.accounts import RedisAccounts
from skitter.backends.redis.client import Client
from skitter.ports import Account
from tests.cluster.redis import cleaned, settings_for
from tests.engines import engine, frozen, our_engine
from tests.unit.test_group_budgets import A, B, budgets, page_of, visit


def test_what_the_others_have_used_is_known_when_all_have_told_it():
    """Redis may have lost what shards told that have nothing to do since; nothing is spent until they tell it again."""

    async def main(options):
        client = Client(options)
        try:
            accounts = RedisAccounts(client, 2)
            early = await accounts.exchange("g", 0, Account(out=1))
            told = await accounts.exchange("g", 1, Account(9, 10, 1.5, 3, 4))
            known = await accounts.exchange("g", 0, Account(out=1))
            await client.send(lambda: [("DEL", f"{{{client.name}}}:accounts:g")])
            return early, told, known, await accounts.exchange("g", 0, Account(out=1))
        finally:
            await client.close()

    with cleaned(settings_for(engine("redis"))) as options:
        early, told, known, lost = asyncio.run(main(options))
    assert (early, lost) == (None, None)
    assert told == [Account(out=1)]
    assert known == [Account(9, 10, 1.5, 3, 4)]


def test_without_redis_shards_spend_the_shares_that_they_have_set_aside():
    """And tell it when it is back, so that the other knows what is left."""
    our_engine("redis")

    async def made(shard, url, times):
        granted = 0
        for now in range(times):
            one = visit(url, float(now))
            if await shard.claim(one, float(now)) is None:
                granted += 1
                await shard.settled([page_of(one)])
        return granted

    async def main(options):
        client = Client(options)
        try:
            first, second = budgets('[group.g]\nhosts = ["*.g.test"]\npages = 20\n', RedisAccounts(client, 2))
            for shard in (second, first):
                await shard._exchange("g")
            assert (await made(first, A, 2), await made(second, B, 2)) == (2, 2)
            with frozen("redis"):
                alone = await asyncio.gather(made(first, A, 6), made(second, B, 6))
            await until_told(first)
            await until_told(second)
            return alone, await made(first, A, 20)
        finally:
            await client.close()

    with cleaned(settings_for(engine("redis"))) as options:
        alone, after = asyncio.run(main(options))
    assert alone == [4, 4]  # a quarter each of the 16 to 18 that were left
    assert 4 + sum(alone) + after == 20


async def until_told(shard):
    """Redis answers again."""
    for _ in range(100):
        await shard.tell(0.0)
        if not shard._untold:
            return
        await asyncio.sleep(0.2)
    raise AssertionError("Redis does not come back")
