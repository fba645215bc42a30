"""How a cluster does: shards, owners, mail, workers; and when it is done."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from skitter.claims import Claims, Colleague, Disk, Disks, Standing
from skitter.cluster.looks import Look, finished
from skitter.display import duration, table
from skitter.model import Counts
from skitter.ports import EngineAway
from skitter.report import total

_BETWEEN_LOOKS = 1.0


class Watched(Protocol):
    """What is asked of the engines."""

    @property
    def claims(self) -> Claims:
        """Who has what."""
        ...

    @property
    def segments(self) -> Disks | None:
        """Segments that are not in a bucket; None where there is no register of them."""
        ...

    async def unread(self) -> dict[int, int]:
        """Messages in the mail that are not taken in, by shard."""
        ...


class Status(Struct, frozen=True):
    """A cluster in numbers."""

    shards: Sequence[Standing]
    workers: Sequence[Colleague]
    unread: dict[int, int]
    hot: Sequence[int]  # shards with far more mail than the others
    disks: Sequence[Disk] = ()  # those with segments that are in no bucket yet

    @property
    def counts(self) -> Counts:
        """The crawl in numbers."""
        return total([shard.counts for shard in self.shards])


async def seen(engines: Watched) -> Status:
    """Look at it."""
    shards, workers = await engines.claims.standing(), await engines.claims.workers()
    unread = await engines.unread()
    disks = await engines.segments.disks() if engines.segments else []
    return Status(shards, workers, unread, hot(unread), disks)


def hot(unread: dict[int, int]) -> list[int]:
    """Shards whose mail is four times the mean of the others, and more than a moment's work."""
    found = []
    for shard, messages in unread.items():
        others = [number for other, number in unread.items() if other != shard]
        if messages > 20 and others and messages > 4 * sum(others) / len(others):
            found.append(shard)
    return found


async def until_finished(engines: Watched) -> Counts:
    """Return when two looks have found nothing left to do. While an engine is away, nobody can say."""
    before: Look | None = None
    while True:
        try:
            now = await _look(engines)
        except EngineAway:
            before = None
        else:
            if finished(before, now):
                return total(list(now.counts.values()))
            before = now
        await asyncio.sleep(_BETWEEN_LOOKS)


async def _look(engines: Watched) -> Look:
    # The mail first: what is sent after this look is sent by a visit that the counts still show, or will show.
    unread = sum((await engines.unread()).values())
    lost = len(await engines.segments.lost()) if engines.segments else 0  # their pages will be pending
    return Look({shard.shard: shard.counts for shard in await engines.claims.standing()}, unread + lost)


def as_fields(status: Status) -> dict[str, Any]:
    """The status as one object."""
    return {
        "counts": msgspec.to_builtins(status.counts, str_keys=True),
        "shards": [
            {
                "shard": shard.shard,
                "owner": shard.owner or None,
                "epoch": shard.epoch,
                "lease": max(0.0, shard.lease_until - shard.now) if shard.owner else None,
                "queued": shard.counts.queued,
                "leased": shard.counts.leased,
                "pages": shard.counts.pages,
                "mail": status.unread.get(shard.shard, 0),
                "hot": shard.shard in status.hot,
            }
            for shard in status.shards
        ],
        "workers": [
            {
                "name": worker.name,
                "up": worker.now - worker.started_at,
                "silent": worker.now - worker.seen_at,
                **worker.about,
            }
            for worker in status.workers
        ],
        "disks": [msgspec.to_builtins(disk) for disk in status.disks],
    }


def as_lines(status: Status) -> list[str]:
    """The status for a terminal."""
    counts, mail = status.counts, sum(status.unread.values())
    whole = f"{counts.pages:,} pages, {counts.queued:,} queued, {counts.leased:,} in flight"
    lines = [f"{whole}, {mail:,} messages in the mail", ""]
    rows = [
        (
            shard.owner or "nobody",
            f"{shard.shard}",
            f"{shard.epoch}",
            f"{shard.counts.pages:,}",
            f"{shard.counts.queued:,}",
            f"{shard.counts.leased:,}",
            f"{status.unread.get(shard.shard, 0):,}" + (" hot" if shard.shard in status.hot else ""),
        )
        for shard in status.shards
    ]
    lines += table(("owner", "shard", "epoch", "pages", "queued", "leased", "mail"), rows)
    lines += ["", *_workers(status)]
    if status.disks:
        waiting = [
            (disk.worker or "left", f"{disk.segments}", duration(disk.age), disk.name)
            for disk in status.disks
        ]
        lines += ["", *table(("not uploaded", "segments", "oldest", "disk"), waiting)]
    return lines


def _workers(status: Status) -> list[str]:
    if not status.workers:
        return ["no worker has joined; start one with: skitter work --config FILE"]
    rows = []
    for worker in status.workers:
        about = worker.about
        engines = ", ".join(f"{name} {phase}" for name, phase in about.get("engines", {}).items())
        rows.append(
            (
                worker.name,
                duration(worker.now - worker.started_at),
                f"{worker.now - worker.seen_at:.0f} s ago",
                f"{about.get('shards', 0)}",
                f"{about.get('in_flight', 0)}",
                f"{about.get('rate', 0.0):.1f}",
                engines or "-",
            )
        )
    return table(("worker", "up", "seen", "shards", "in flight", "requests/s", "breakers"), rows)
