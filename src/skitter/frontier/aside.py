"""Hosts that nothing more is wanted from, and hosts that are wanted again."""

from skitter.frontier import rules
from skitter.frontier.rows import HostRow
from skitter.frontier.shard import Shard
from skitter.model import Reason


def set_aside(shard: Shard, name: str, reason: Reason) -> None:
    """Nothing more is wanted from a host. What waits there is refused from now on, without being touched."""
    host = shard.host(name)
    if host.aside is not None:
        return
    shard.put_back(name)
    rules.count_waiting(shard.counts, None, -host.queued())
    rules.count_waiting(shard.counts, reason, host.queued() - host.hops)
    host.aside = reason
    shard.counts.hosts_aside += 1
    shard.touch(host)


def take_back(shard: Shard, host: HostRow) -> None:
    """A host is wanted again, with all that waits there, which was loaded."""
    rules.count_waiting(shard.counts, host.aside, host.hops - host.queued())
    rules.count_waiting(shard.counts, None, host.queued())
    host.aside = None
    shard.counts.hosts_aside -= 1
    shard.touch(host)
    for loaded in shard.parked.pop(host.name):
        row = shard.rows.get(loaded.id) or loaded
        if row.parked:
            row.parked = False
            shard.set_due(row, row.due)
