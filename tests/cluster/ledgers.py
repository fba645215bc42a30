"""What both engines promise of the ledger."""

import asyncio
from collections.abc import Sequence

from skitter.claims import Claims


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
