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


async def assert_commands(workers: Sequence[Claims], times: int = 10) -> None:
    """Of many who add at once, nobody's command is lost, and reading on from any number misses none."""
    one = workers[0]
    assert await one.commands(0, 10) == []
    assert (await one.renew({}, {})).commands == 0
    seen: list[str] = []
    done = asyncio.Event()

    async def read_on() -> None:
        after = 0
        while not done.is_set() or (await one.renew({}, {})).commands > after:
            for number, words in await one.commands(after, 3):
                assert number > after
                after = number
                seen.append(words)
            await asyncio.sleep(0)

    async def add(number: int, claims: Claims) -> None:
        had = 0
        for turn in range(times):
            got = await claims.add_command(f'{{"do": "{number}", "turn": {turn}, "text": "ü"}}')
            assert got > had
            had = got

    reading = asyncio.create_task(read_on())
    await asyncio.gather(*(add(number, claims) for number, claims in enumerate(workers)))
    done.set()
    await reading
    stored = await one.commands(0, 10_000)
    assert [words for _, words in stored] == seen
    assert len(seen) == len(set(seen)) == times * len(workers)
    assert (await one.renew({}, {})).commands == stored[-1][0]


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
