"""What both engines promise of the ledger, and of where the files of former owners end."""

import asyncio
from collections.abc import Sequence

from skitter.cluster.ports import Claims, End
from skitter.ports import Mark


async def assert_swaps(workers: Sequence[Claims], times: int = 25) -> None:
    """Nobody overwrites what it has not seen: of many who count at once, no step is lost."""
    one = workers[0]
    assert await one.swap("", "") == ""
    assert await one.swap("wrong", "1") == ""
    assert await one.swap("", "0 at first") == "0 at first"
    assert await one.swap("", "7") == "0 at first"
    tries = 0

    async def count(number: int, claims: Claims) -> None:
        nonlocal tries
        words = await claims.swap("", "")
        for done in range(times):
            while True:
                tries += 1
                new = f"{int(words.split()[0]) + 1} by {number} after {done}"
                words = await claims.swap(words, new)
                if words == new:
                    break

    await asyncio.gather(*(count(number, claims) for number, claims in enumerate(workers)))
    assert (await one.swap("", "")).split()[0] == str(times * len(workers))
    assert tries > times * len(workers), "nobody was in another's way"


async def assert_ends(claims: Claims) -> None:
    """What new owners have found is there for everybody, each once."""
    assert await claims.ends() == []
    found = [
        End(0, 5, Mark("00-a", 7), "one:/w"),
        End(0, 6, Mark("00-b", 2**40)),
        End(0, 9, Mark("00-b", 2**40)),
        End(1, 5, Mark()),
    ]
    for end in (*found, found[0]):
        await claims.add_end(end)
    assert sorted(await claims.ends(), key=lambda end: (end.shard, end.epoch)) == found
