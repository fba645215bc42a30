"""Hosts that nothing more is wanted from, and hosts that are wanted again."""

from skitter.frontier import counting, robots_first
from skitter.frontier.rows import HostRow
from skitter.frontier.shard import Shard
from skitter.model import Level, Reason

# Why a host may be set aside that is worth another look when somebody names it: what these say of it can change.
_PASSING = ("robots.unreachable", "retry-after", "crawl-delay")


def is_passing(aside: Reason | None) -> bool:
    """Whether a host is set aside for a reason that a named seed overrules."""
    return aside is not None and aside.code.startswith(_PASSING)


def set_aside(shard: Shard, name: str, reason: Reason, now: float) -> None:
    """Nothing more is wanted from a host. What waits there is refused from now on, without being touched."""
    host = shard.host(name)
    if host.aside is not None:
        return
    shard.put_back(name)
    _answer_hops(shard, host, reason, now)
    counting.count_waiting(shard.counts, None, -host.queued())
    counting.count_waiting(shard.counts, reason, host.queued())
    host.aside = reason
    shard.counts.hosts_aside += 1
    shard.touch(host)


def _answer_hops(shard: Shard, host: HostRow, reason: Reason, now: float) -> None:
    """Hops of robots.txt files that wait here will not be asked for: their origins are told, and need not wait.

    They were queued before every page, so they come first.
    """
    while host.hops:
        window = shard.queue(host, Level.CRITICAL)
        first = window.first()
        if first is None or not (hop := shard.waiting(window, first[0])).origin:
            raise AssertionError(f"{host.name} counts {host.hops} hops of robots.txt files and has none")
        spot = first[0]
        shard.rows.get(hop.id) or shard.adopt(hop)
        shard.take(host, Level.CRITICAL, spot)
        shard.drop(hop.id)
        shard.counts.queued -= 1
        host.hops -= 1
        shard.keep_robots(robots_first.hop_refused(hop.origin, hop.url, host.name, reason, now))


def take_back(shard: Shard, host: HostRow) -> None:
    """A host is wanted again, with all that waits there."""
    parked = shard.parked[host.name]
    counting.count_waiting(shard.counts, host.aside, -host.queued())
    counting.count_waiting(shard.counts, None, host.queued())
    host.aside = None
    shard.counts.hosts_aside -= 1
    shard.touch(host)
    for row in parked:
        if row.parked:
            row.parked = False
            shard.set_due(row, row.due)
    shard.parked[host.name] = []
