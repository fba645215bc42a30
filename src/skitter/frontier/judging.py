"""Changed settings: URLs that wait, or that earlier settings refused, are judged again.

A URL that is no longer wanted leaves the queue, with the reason. One that a setting refused and that is wanted now
waits as if it had been wanted from the start. What a server decided (robots.txt, an answer) stays.
"""

from collections.abc import Sequence

from skitter.frontier import counting
from skitter.frontier.adding import is_by_settings
from skitter.frontier.aside import is_blocked
from skitter.frontier.leasing import link_of
from skitter.frontier.rows import FOREIGN, QUEUED, REFUSED, UrlRow
from skitter.frontier.shard import Shard
from skitter.model import Reason
from skitter.ports import Judge


def concerns(row: UrlRow) -> bool:
    """Whether other settings may change the fate of a URL."""
    if row.origin:  # a robots.txt hop
        return False
    return row.state == QUEUED or (row.state == REFUSED and is_by_settings(row.reason))


def judge_again(shard: Shard, ids: Sequence[bytes], judge: Judge) -> tuple[int, int]:
    """Judge some URLs by the current settings; returns how many came back, and how many left."""
    came = went = 0
    for id16 in ids:
        row = shard.row(id16)
        if row is None or shard.is_out(row) or not concerns(row):
            continue
        reason = judge(link_of(row), row.reason if row.state == REFUSED else None)
        if row.state == QUEUED and reason is not None:
            _refuse(shard, row, reason)
            went += 1
        elif row.state == REFUSED and reason is None:
            came += _bring_back(shard, row)
        elif row.state == REFUSED and reason != row.reason:
            shard.leave(row)
            shard.enter(row, REFUSED, reason)
            shard.keep(row)
    return came, went


def _refuse(shard: Shard, row: UrlRow, reason: Reason) -> None:
    """A URL leaves its queue or the retry list."""
    host = shard.host(row.host)
    counting.count_waiting(shard.counts, host.aside, -1)
    if row.due is None:
        shard.take(host, row.level, row.spot())
    else:
        host.waiting -= 1
        shard.touch(host)
        shard.set_due(row, None)
    shard.enter(row, REFUSED, reason)
    shard.keep(row)
    shard.seen.refused(row.id, row.depth)


def _bring_back(shard: Shard, row: UrlRow) -> bool:
    """A URL waits for a visit, unless its host is set aside; one of another shard is forwarded."""
    if shard.names.host(row.host).foreign:
        link = link_of(row)
        shard.leave(row)
        row.state, row.reason = FOREIGN, None
        shard.keep(row)
        shard.send(link)
        shard.seen.ended(row.id)
        return True
    aside = shard.host(row.host).aside
    if aside is not None and not is_blocked(aside):
        return False
    shard.leave(row)
    row.reason = None
    if not row.seq:
        row.seq = shard.next_seq()
        shard.counts.added += 1
    shard.enqueue(row)
    return True
