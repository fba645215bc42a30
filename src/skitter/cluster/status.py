"""Cluster status: engines, shards, owners, forwarded messages, workers; and when the crawl is done."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from skitter.cluster.orders import all_commands
from skitter.cluster.ports import Claims, Colleague, Disk, Disks, Standing
from skitter.cluster.quota import began
from skitter.control.orders import is_paused
from skitter.crawl.done import Activity, Snapshot, why_over
from skitter.crawl.limits import has_limit, limit_reached
from skitter.engines.health import Health
from skitter.model import Counts, Stop
from skitter.ports import EngineAway
from skitter.reporting.format import amount, count, counted, duration, moment, table
from skitter.reporting.report import TROUBLES, importance_fetched, total, trouble_lines
from skitter.reporting.trouble import all_explained
from skitter.runtime.metrics import Metrics, added_up
from skitter.runtime.metrics import as_fields as as_metrics
from skitter.settings import CrawlSettings, Settings

_BETWEEN_LOOKS = 1.0
_SHOWN = 100  # characters of a setting


class Watched(Protocol):
    """What the status needs from the engines."""

    @property
    def claims(self) -> Claims:
        """The claims of all workers."""
        ...

    @property
    def segments(self) -> Disks | None:
        """Segments that are not in a bucket; None if there is no register of them."""
        ...

    async def unread(self) -> dict[int, int]:
        """Forwarded messages that are not read yet, by shard."""
        ...


class Status(Struct, frozen=True):
    """The state of a cluster in numbers. Without the engine that knows shards and workers, there are none."""

    engines: Sequence[Health] = ()
    shards: Sequence[Standing] = ()
    workers: Sequence[Colleague] = ()
    unread: dict[int, int] | None = None  # forwarded messages not read yet, by shard; None if unknown
    disks: Sequence[Disk] = ()  # those with segments that are in no bucket yet
    elapsed: float = 0.0  # since the first worker joined
    settings: Mapping[str, str] = {}  # shared by all workers, and different from their defaults
    paused: bool = False  # by `skitter pause`

    @property
    def counts(self) -> Counts:
        """The counts of the crawl."""
        return total([shard.counts for shard in self.shards])

    @property
    def metrics(self) -> Metrics:
        """What the workers measure together, as of their last heartbeats."""
        return added_up([_measured(worker) for worker in self.workers])

    @property
    def hot(self) -> Sequence[int]:
        """Shards with far more unread messages than the others."""
        return hot(self.unread or {})

    @property
    def failed(self) -> dict[str, str]:
        """Origins that could not be reached, and why, as workers report while no host has answered them."""
        return {
            origin: why for worker in self.workers for origin, why in worker.about.get("failed", {}).items()
        }

    def limit_reached(self, limits: CrawlSettings) -> str:
        """Which limit is reached, in words; empty if none is."""
        counts = self.counts
        return limit_reached(limits, pages=counts.pages, received=counts.bytes, elapsed=self.elapsed)

    def since(self, engine: str) -> float | None:
        """When the first worker lost an engine that is still away."""
        told = [worker.about.get("engines", {}).get(engine, {}).get("since") for worker in self.workers]
        return min((since for since in told if since is not None), default=None)


async def seen(engines: Watched, health: Sequence[Health] = ()) -> Status:
    """Read the status. An engine that only forwards links may be away."""
    shards, workers = await engines.claims.standing(), await engines.claims.workers()
    unread: dict[int, int] | None = None
    if all(each.up for each in health if each.engine == "Kafka"):
        with suppress(EngineAway):
            unread = await engines.unread()
    disks = await engines.segments.disks() if engines.segments else []
    elapsed = await _elapsed(engines.claims, shards)
    paused = is_paused(await all_commands(engines.claims))
    return Status(health, shards, workers, unread, disks, elapsed, paused=paused)


async def _elapsed(claims: Claims, shards: Sequence[Standing]) -> float:
    since = await began(claims)
    return 0.0 if since is None or not shards else shards[0].now - since


def hot(unread: dict[int, int]) -> list[int]:
    """Shards with four times as many unread messages as the mean of the others, and more than a moment's work."""
    found = []
    for shard, messages in unread.items():
        others = [number for other, number in unread.items() if other != shard]
        if messages > 20 and others and messages > 4 * sum(others) / len(others):
            found.append(shard)
    return found


class End(Struct, frozen=True):
    """A crawl that is over."""

    counts: Counts
    limit: str  # the limit at which it was stopped; empty: nothing is left to do


async def until_finished(engines: Watched, settings: Settings) -> End:
    """Return when two checks have found nothing left to do, or when all workers have stopped at a limit.

    While an engine is away, it cannot tell.
    """
    before: Snapshot | None = None
    while True:
        try:
            # First: what is found after the last worker has left no longer changes.
            alone = has_limit(settings.crawl) and await _nobody_works(engines, settings)
            limit = await _limit(engines, settings.crawl) if alone else ""
            now = await snapshot(engines)
        except EngineAway:
            before = None
        else:
            if why := why_over(before, now, at_limit=bool(limit)):
                counts = total([part.counts for part in now.parts.values()])
                return End(counts, limit if why is Stop.LIMIT else "")
            before = now
        await asyncio.sleep(_BETWEEN_LOOKS)


async def snapshot(engines: Watched) -> Snapshot:
    """All shards and all unread messages, read one after the other; `crawl.done` decides from it whether the crawl is over."""
    # Messages first: one that is sent later comes from a visit that the counts still show, or will show.
    unread = sum((await engines.unread()).values())
    lost = len(await engines.segments.lost()) if engines.segments else 0  # their pages will be pending
    parts = {
        shard.shard: Activity(shard.counts, not shard.counts.queued, shard.counts.leased)
        for shard in await engines.claims.standing()
    }
    return Snapshot(parts, unread + lost)


async def all_complete(engines: Watched, lease: float) -> object | None:
    """Something that changes with everything that is done, if no worker has an asset left to fetch; None if one may have.

    A shard without an owner was handed over by a worker that left; whoever takes it changes the answer.
    """
    if sum((await engines.unread()).values()):
        return None
    shards, workers = await engines.claims.standing(), await engines.claims.workers()
    done = {
        worker.name
        for worker in workers
        if worker.now - worker.seen_at < lease and worker.about.get("complete") is True
    }
    if any(shard.counts.leased or shard.owner not in {*done, ""} for shard in shards):
        return None
    return [(shard.shard, shard.epoch, shard.counts.seen, shard.counts.requests) for shard in shards]


async def _nobody_works(engines: Watched, settings: Settings) -> bool:
    """Whether no worker is left that could finish what was in flight when a limit was reached."""
    workers = await engines.claims.workers()
    return not any(worker.now - worker.seen_at < settings.cluster.lease for worker in workers)


async def _limit(engines: Watched, limits: CrawlSettings) -> str:
    """Which limit is reached, in words; empty if none is."""
    shards = await engines.claims.standing()
    return Status(shards=shards, elapsed=await _elapsed(engines.claims, shards)).limit_reached(limits)


def as_fields(status: Status, limits: CrawlSettings) -> dict[str, Any]:
    """The status as one object."""
    return {
        "engines": {
            each.engine: {
                "up": each.up,
                "since": None if each.up else status.since(each.engine),
                "said": each.said,
            }
            for each in status.engines
        },
        "counts": msgspec.to_builtins(status.counts, str_keys=True) if status.shards else None,
        "importance_fetched_at_least": importance_fetched(status.counts),
        "limits": {
            "max_pages": limits.max_pages,
            "max_bytes": limits.max_bytes,
            "max_time": limits.max_time,
            "elapsed": status.elapsed,
            "reached": status.limit_reached(limits) or None,
        },
        "settings": dict(status.settings),
        "paused": status.paused,
        "shards": [
            {
                "shard": shard.shard,
                "owner": shard.owner or None,
                "epoch": shard.epoch,
                "lease": max(0.0, shard.lease_until - shard.now) if shard.owner else None,
                "queued": shard.counts.queued,
                "leased": shard.counts.leased,
                "pages": shard.counts.pages,
                "unread": None if status.unread is None else status.unread.get(shard.shard, 0),
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
                "metrics": as_metrics(_measured(worker)),
            }
            for worker in status.workers
        ],
        "disks": [msgspec.to_builtins(disk) for disk in status.disks],
        "metrics": as_metrics(status.metrics),
    }


def _measured(worker: Colleague) -> Metrics:
    """One of another version may measure other things: what is known of it counts."""
    try:
        return msgspec.convert(worker.about.get("metrics", {}), Metrics)
    except msgspec.ValidationError:
        return Metrics()


def as_lines(status: Status, limits: CrawlSettings) -> list[str]:
    """The status for a terminal."""
    counts, unread = status.counts, status.unread
    messages = (
        "how many messages are unread is not known"
        if unread is None
        else f"{counted(sum(unread.values()), 'message')} unread"
    )
    whole = f"{counts.pages:,} pages, {counts.queued:,} queued, {counts.leased:,} in flight"
    paused = ["paused: nothing is fetched until `skitter continue`"] if status.paused else []
    lines = [
        *paused,
        f"{whole}, {messages}",
        *_limits(status, limits),
        *_settings(status),
        *_unreachable(status),
        *(
            f"alert: {each.name}: {', '.join(each.about['alerts'])}"
            for each in status.workers
            if each.about.get("alerts")
        ),
    ]
    lines += ["", *engine_lines(status), ""]
    rows = [
        (
            shard.owner or "nobody",
            f"{shard.shard}",
            f"{shard.epoch}",
            f"{shard.counts.pages:,}",
            f"{shard.counts.queued:,}",
            f"{shard.counts.leased:,}",
            "?"
            if unread is None
            else f"{unread.get(shard.shard, 0):,}" + (" hot" if shard.shard in status.hot else ""),
        )
        for shard in status.shards
    ]
    lines += table(("owner", "shard", "epoch", "pages", "queued", "leased", "unread"), rows)
    lines += ["", *_workers(status)]
    if status.disks:
        waiting = [
            (disk.worker or "left", f"{disk.segments}", duration(disk.age), disk.name)
            for disk in status.disks
        ]
        lines += ["", *table(("not uploaded", "segments", "oldest", "disk"), waiting)]
    return lines


def _limits(status: Status, limits: CrawlSettings) -> list[str]:
    """How far the crawl is from its limits, in one line, if it has any."""
    counts, parts = status.counts, []
    if limits.max_pages is not None:
        parts.append(f"{count(counts.pages)} of {count(limits.max_pages)} pages")
    if limits.max_bytes is not None:
        parts.append(f"{amount(counts.bytes)} of {amount(limits.max_bytes)}")
    if limits.max_time is not None:
        parts.append(f"{duration(status.elapsed)} of {duration(limits.max_time)}")
    if not parts:
        return []
    stop = "; reached" if status.limit_reached(limits) else ""
    return [f"limits: {', '.join(parts)}{stop}"]


def _unreachable(status: Status) -> list[str]:
    """While no host has ever answered: which ones failed, why, and what to do."""
    if status.counts.bytes or not (failed := status.failed):
        return []
    troubles = all_explained(failed)[:TROUBLES]
    return ["no host has answered yet", *(f"  {line}" for each in troubles for line in trouble_lines(each))]


def _settings(status: Status) -> list[str]:
    """The shared settings that are not defaults; long ones are cut."""
    shown = [
        f"  {key} = {value[:_SHOWN]}{'…' * (len(value) > _SHOWN)}" for key, value in status.settings.items()
    ]
    return ["", *shown] if shown else []


def engine_lines(status: Status) -> list[str]:
    """One line for each engine: up, or away since when and why."""
    width = max((len(each.engine) for each in status.engines), default=0)
    return [f"  {each.engine:<{width}}  {_how(each, status)}" for each in status.engines]


def _how(engine: Health, status: Status) -> str:
    if engine.up:
        return f"up ({engine.said})" if engine.said else "up"
    since = status.since(engine.engine)
    when = "" if since is None else f" since {moment(since)}"
    return f"away{when}: {engine.said}"


def _breakers(about: Mapping[str, Any], now: float) -> str:
    """The breakers that are not closed, and for how long the engine has been away."""
    engines: Mapping[str, Mapping[str, Any]] = about.get("engines", {})
    troubled = [
        f"{engine} {told['breaker']} ({duration(now - (told['since'] or now))})"
        for engine, told in engines.items()
        if told["breaker"] != "closed"
    ]
    return ", ".join(troubled) or ("all closed" if engines else "-")


def _workers(status: Status) -> list[str]:
    if not status.workers:
        return ["no worker is here; start one with: skitter work --config FILE"]
    rows = []
    for worker in status.workers:
        about = worker.about
        rows.append(
            (
                worker.name,
                duration(worker.now - worker.started_at),
                f"{worker.now - worker.seen_at:.0f} s ago",
                f"{about.get('shards', 0)}",
                f"{about.get('in_flight', 0)}",
                f"{about.get('rate', 0.0):.1f}",
                _breakers(about, worker.now),
            )
        )
    return table(("worker", "up", "seen", "shards", "in flight", "requests/s", "breakers"), rows)
