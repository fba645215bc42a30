"""Commands of a person to a cluster: kept on the engine that is the truth, applied by every shard, whoever owns it."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skitter.cluster.ports import Claims
from skitter.frontier.obeying import SOURCE
from skitter.ports import Command, Obeyed

_AT_ONCE = 1_000  # commands
_LOOK = 0.5  # seconds between two checks of the workers
_decode = msgspec.json.Decoder(Command).decode


async def add_command(claims: Claims, command: Command) -> Command:
    """Keep a command for all shards; returns it with its number."""
    return replace(command, number=await claims.add_command(msgspec.json.encode(command).decode()))


async def all_commands(claims: Claims, after: int = 0) -> list[Command]:
    """Every command after a number, in order."""
    found: list[Command] = []
    while some := await claims.commands(after, _AT_ONCE):
        found += [replace(_decode(words), number=number) for number, words in some]
        after = some[-1][0]
    return found


class HowFar(Struct, frozen=True):
    """How far a command has come."""

    workers: int  # that are alive
    lacking: Sequence[str]  # those that have not applied it to all of their shards
    in_flight: int  # their requests
    free: int  # shards without an owner that have not applied it
    result: Obeyed  # what it has changed so far, as workers report


async def obeyed_by_all(claims: Claims, number: int, lease: float) -> HowFar:
    """Wait until every live worker has applied a command; some may not have after some leases."""
    now = await _progress(claims, number, lease)
    for _ in range(round(3 * lease / _LOOK)):
        if not now.lacking:
            break
        await asyncio.sleep(_LOOK)
        now = await _progress(claims, number, lease)
    return now


async def _progress(claims: Claims, number: int, lease: float) -> HowFar:
    alive = [worker for worker in await claims.workers() if worker.now - worker.seen_at < lease]
    lacking = {worker.name for worker in alive if worker.about.get("commands", 0) < number}
    free = 0
    for shard in await claims.standing():
        if int(shard.positions.get(SOURCE, "0")) < number:
            if shard.owner and shard.lease_until > shard.now:
                lacking.add(shard.owner)
            else:
                free += 1
    told = [worker.about.get("obeyed", {}).get(str(number), (0, 0)) for worker in alive]
    return HowFar(
        len(alive),
        sorted(lacking),
        sum(worker.about.get("in_flight", 0) for worker in alive),
        free,
        Obeyed(number, sum(each[0] for each in told), sum(each[1] for each in told)),
    )
