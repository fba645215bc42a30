"""Sets hosts aside, and takes them back."""

from msgspec.structs import replace

from skitter import reasons
from skitter.frontier import counting, robots_first
from skitter.frontier.rows import HostRow
from skitter.frontier.shard import Shard
from skitter.model import Level, Reason

# Reasons that may pass: a seed that names the host takes it back.
_PASSING = (
    reasons.ROBOTS_UNREACHABLE,
    reasons.RETRY_AFTER,
    reasons.CRAWL_DELAY,
    reasons.HOST_FAILING,
)


def is_passing(aside: Reason | None) -> bool:
    """Whether a host was set aside for a reason that a seed overrules."""
    return aside is not None and aside.code.startswith(_PASSING)


def is_blocked(aside: Reason | None) -> bool:
    """Whether a person has blocked a host: what is added there waits, and nothing but `unblock` takes it back."""
    return aside is not None and aside.code == reasons.BLOCKED


def is_over_budget(aside: Reason | None) -> bool:
    """Whether a host waits until more domains link to its own."""
    return aside is not None and aside.code == reasons.BUDGET_LINKED


def takes_in(aside: Reason | None) -> bool:
    """Whether what is added on a host waits there: it may be taken back at any time."""
    return aside is None or is_blocked(aside) or is_over_budget(aside)


def set_aside(shard: Shard, name: str, reason: Reason, now: float) -> None:
    """Set a host aside. What waits there counts as refused from now on; its rows are not touched."""
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
    """Robots.txt hops waiting here will not be fetched: tell their origins, which need not wait.

    Hops are queued ahead of every page, so they come first.
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
    """Take a host back, with everything waiting there."""
    parked = shard.parked[host.name]
    counting.count_waiting(shard.counts, host.aside, -host.queued())
    counting.count_waiting(shard.counts, None, host.queued())
    host.aside = None
    if host.extra is not None and host.extra.pace is not None:  # it may fail as often as any other
        host.extra = replace(host.extra, pace=replace(host.extra.pace, failures=0, parked=0))
    shard.counts.hosts_aside -= 1
    shard.touch(host)
    for row in parked:
        if row.parked:
            row.parked = False
            shard.set_due(row, row.due)
    shard.parked[host.name] = []
