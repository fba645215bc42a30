"""Who owns which shard: leases in Redis, by its clock.

A shard's claim names its owner and the end of the lease; the epoch is beside it, under the same hash tag, where every
write of the store checks it. Both are kept when a lease expires: the next owner must know when that was.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec.msgpack import decode, encode

from skitter.backends.redis.client import Client, Command, unfit
from skitter.backends.redis.store import tag
from skitter.cluster.ports import Claim, Colleague, End, NoCrawl, Renewal, Standing
from skitter.frontier.rows import Meta
from skitter.ports import EngineError

_CLIENT = re.compile(rb" name=(\S+)")


class RedisClaims:
    """`skitter.cluster.ports.Claims` of one worker. Its name must be unique, also among former workers."""

    def __init__(self, client: Client, worker: str, shards: int) -> None:
        self._client = client
        self._worker = worker
        self._shards = shards
        self._lease = round(client.settings.cluster.lease * 1000)
        self._take = client.script("take")
        self._hold = client.script("hold")
        self._beat = client.script("beat")
        self._roots = client.script("roots")
        self._swap = client.script("swap")
        self._settle = client.script("settle")

    async def renew(self, epochs: Mapping[int, int], about: Mapping[str, Any]) -> Renewal:
        """Extend the leases of shards, held under these epochs. `about` is shown by `cluster status`."""
        held = list(epochs)
        answers = await self._client.send(
            lambda: [
                *(self._holding(shard, epochs[shard], self._lease) for shard in held),
                self._beat.call(
                    [self._key("started"), self._key("seen"), self._key("about"), self._key("server")],
                    [self._worker, json.dumps(about)],
                ),
                ("LLEN", self._key("roots")),
                ("HGET", self._key("settings"), "version"),
                ("LLEN", self._key("commands")),
                *(("HMGET", self._claim(shard), "owner", "until") for shard in range(self._shards)),
            ]
        )
        now, seen = answers[len(held)]
        living = [
            name for name, at in _pairs(seen) if int(at) > int(now) - self._lease and name != self._worker
        ]
        return Renewal(
            int(now) / 1000,
            frozenset(shard for shard, kept in zip(held, answers, strict=False) if kept),
            [_owner(claim, int(now)) for claim in answers[len(held) + 4 :]],
            [*living, self._worker],
            int(answers[len(held) + 2] or 0),
            int(answers[len(held) + 1]),
            int(answers[len(held) + 3]),
        )

    async def take(self, shards: Sequence[int], most: int, settings: int | None = None) -> list[Claim]:
        """Take at most `most` of these shards, if nobody owns them now."""
        taken: list[Claim] = []
        left = list(shards)
        while left and len(taken) < most:
            some, left = left[: most - len(taken)], left[most - len(taken) :]
            taken += await self._take_all(some, settings)
        return taken

    async def _take_all(self, shards: list[int], settings: int | None) -> list[Claim]:
        version = "" if settings is None else settings
        answers = await self._client.send(
            lambda: [
                self._take.call(
                    [self._claim(shard), self._epoch(shard), self._key("settings")],
                    [self._worker, self._lease, version],
                )
                for shard in shards
            ]
        )
        taken = [(shard, answer) for shard, answer in zip(shards, answers, strict=True) if len(answer) > 1]
        gone = await self._gone({answer[3].decode() for _, answer in taken if answer[2]})
        return [
            Claim(shard, epoch, now / 1000, int(lapsed) / 1000, owner.decode() not in gone)
            if lapsed
            else Claim(shard, epoch, now / 1000)
            for shard, (now, epoch, lapsed, owner) in taken
        ]

    async def _gone(self, workers: set[str]) -> set[str]:
        """Workers known to have no connection: this very server received their last heartbeat, and sees none.

        A server that does not see our own name does not see others', and one that closes idle connections proves
        nothing.
        """
        if not workers:
            return set()
        asked = sorted(workers)
        questions = ("CLIENT", "LIST"), ("INFO", "server"), ("CONFIG", "GET", "timeout")
        try:
            clients, about, idle, servers = await self._client.send(
                lambda: [*questions, ("HMGET", self._key("server"), *asked)]
            )
        except EngineError:  # the shards are taken; or we may have no right to ask
            return set()
        names = {name.decode() for name in _CLIENT.findall(clients)}
        if self._worker not in names or dict(_pairs(idle)).get("timeout") != "0":
            return set()
        here = str(about["run_id"]).encode()
        return {name for name, server in zip(asked, servers, strict=True) if server == here} - names

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back: others may take them at once."""
        if epochs:
            await self._client.send(
                lambda: [self._holding(shard, epoch, 0) for shard, epoch in epochs.items()]
            )

    async def leave(self) -> None:
        """Stop being a worker."""
        names = ("started", "seen", "about", "server")
        await self._client.send(lambda: [("HDEL", self._key(name), self._worker) for name in names])

    async def add_roots(self, roots: Sequence[str]) -> None:
        """Widen the scope of all workers, with their next heartbeat."""
        if roots:
            pairs = [
                part for root in roots for part in (root, blake2b(root.encode(), digest_size=16).digest())
            ]
            await self._client.run(self._roots, [self._key("roots"), self._key("rooted")], pairs)

    async def roots(self, after: int, limit: int) -> tuple[list[str], int]:
        """Roots after a position, and the position of the last one."""
        ask = ("LRANGE", self._key("roots"), after, after + limit - 1)
        (found,) = await self._client.send(lambda: [ask])
        return [root.decode() for root in found], after + len(found)

    async def add_command(self, words: str) -> int:
        """Keep a command; returns its number."""
        (number,) = await self._client.send(lambda: [("RPUSH", self._key("commands"), words)])
        return int(number)

    async def commands(self, after: int, limit: int) -> list[tuple[int, str]]:
        """Commands after a number, in order."""
        ask = ("LRANGE", self._key("commands"), after, after + limit - 1)
        (found,) = await self._client.send(lambda: [ask])
        return [(number, words.decode()) for number, words in enumerate(found, start=after + 1)]

    async def intake(self, digest: str) -> int:
        """The line up to which a file of seeds is stored."""
        (line,) = await self._client.send(lambda: [("HGET", self._key("intakes"), digest)])
        return int(line or 0)

    async def took_in(self, digest: str, line: int | None) -> None:
        """A file of seeds is stored up to this line; None: all of it."""
        ask = ("HDEL", digest) if line is None else ("HSET", digest, line)
        await self._client.send(lambda: [(ask[0], self._key("intakes"), *ask[1:])])

    async def add_end(self, end: End) -> None:
        """Record the mark that a new owner found."""
        field = f"{end.shard}/{end.epoch}"
        await self._client.send(lambda: [("HSET", self._key("ends"), field, encode(end))])

    async def ends(self) -> list[End]:
        """All marks that new owners found."""
        (found,) = await self._client.send(lambda: [("HVALS", self._key("ends"))])
        return [decode(each, type=End) for each in found]

    async def settings(self) -> tuple[int, str]:
        """The settings that all workers share, and their version."""
        ((version, words),) = await self._client.send(
            lambda: [("HMGET", self._key("settings"), "version", "words")]
        )
        return int(version or 0), (words or b"").decode()

    async def settle_on(self, seen: int, words: str) -> bool:
        """Replace the settings, if their version is still the one seen."""
        return bool(await self._client.run(self._settle, [self._key("settings")], [seen, words]))

    async def swap(self, seen: str, new: str) -> str:
        """Replace the quota if it is still the one seen; returns the one that is stored afterwards."""
        words: bytes = await self._client.run(self._swap, [self._key("ledger")], [seen, new])
        return words.decode()

    async def standing(self) -> list[Standing]:
        """Every shard."""
        (seconds, micros), *rows = await self._client.send(
            lambda: [
                ("TIME",),
                *(
                    command
                    for shard in range(self._shards)
                    for command in (
                        ("HMGET", self._claim(shard), "owner", "until"),
                        ("GET", self._epoch(shard)),
                        ("GET", tag(self._client.name, shard) + b"meta"),
                    )
                ),
            ]
        )
        now = int(seconds) + int(micros) / 1e6
        return [_standing(shard, rows[3 * shard : 3 * shard + 3], now) for shard in range(self._shards)]

    async def workers(self) -> list[Colleague]:
        """Every worker that has joined and not left."""
        names = ("started", "seen", "about")
        (seconds, micros), *tables = await self._client.send(
            lambda: [("TIME",), *(("HGETALL", self._key(name)) for name in names)]
        )
        now = int(seconds) + int(micros) / 1e6
        started, seen, about = (dict(_pairs(table)) for table in tables)
        return [
            Colleague(
                name,
                int(started.get(name, at)) / 1000,
                int(at) / 1000,
                json.loads(about.get(name, "{}")),
                now,
            )
            for name, at in sorted(seen.items())
        ]

    # -- keys --------------------------------------------------------------------------------------------------

    def _holding(self, shard: int, epoch: int, lease: int) -> Command:
        return self._hold.call([self._claim(shard), self._epoch(shard)], [self._worker, epoch, lease])

    def _claim(self, shard: int) -> bytes:
        return tag(self._client.name, shard) + b"claim"

    def _epoch(self, shard: int) -> bytes:
        return tag(self._client.name, shard) + b"epoch"

    def _key(self, name: str) -> bytes:
        return whole(self._client.name, name)


async def prepare(client: Client, shards: int) -> bool:
    """Record how many shards a crawl has, for good. True if that was not known before."""
    key = whole(client.name, "shards")
    made, written = await client.send(lambda: [("SETNX", key, shards), ("GET", key)])
    if int(written) != shards:
        raise unfit(
            "crawl.shards",
            f"the crawl {client.name} was begun with {int(written)} shards, not {shards}; use these, or another cluster.name",
        )
    return bool(made)


async def shards_of(client: Client) -> int:
    """How many shards a crawl has."""
    (written,) = await client.send(lambda: [("GET", whole(client.name, "shards"))])
    if written is None:
        missing = f"there is no crawl {client.name} here; run `skitter cluster init`, or correct the name"
        raise NoCrawl(str(unfit("cluster.name", missing)))
    return int(written)


def whole(name: str, what: str) -> bytes:
    """A key that belongs to no shard."""
    return f"{{{name}}}:{what}".encode()


def _pairs(answer: Any) -> list[tuple[str, str]]:  # noqa: ANN401  a list or a map, by the protocol
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return [(key.decode(), value.decode()) for key, value in pairs]


def _owner(claim: list[bytes | None], now: int) -> str:
    owner, until = claim
    return owner.decode() if owner and until and int(until) > now else ""


def _standing(shard: int, rows: list[Any], now: float) -> Standing:
    (owner, until), epoch, packed = rows
    meta = Meta() if packed is None else decode(packed, type=Meta)
    return Standing(
        shard,
        owner.decode() if owner else "",
        int(epoch or 0),
        int(until or 0) / 1000,
        meta.counts,
        meta.positions,
        now,
    )
