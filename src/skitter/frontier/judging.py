"""Changed settings, and a changed robots.txt: URLs that wait, or that were refused before, are judged again.

A URL that is no longer wanted or allowed leaves the queue, with the reason. One that a setting refused and that is
wanted now waits as if it had been wanted from the start; so does one that a robots.txt refused and allows now. Settings
do not change what a server decided (robots.txt, an answer), and a robots.txt not what settings decided.
"""

from collections.abc import Sequence

from skitter import reasons, urls
from skitter.frontier import counting
from skitter.frontier.adding import is_by_settings
from skitter.frontier.aside import takes_in
from skitter.frontier.leasing import link_of, take_from_aside
from skitter.frontier.levels import OF_PARKED
from skitter.frontier.rows import FOREIGN, QUEUED, REFUSED, UrlRow
from skitter.frontier.shard import Shard
from skitter.model import Reason
from skitter.ports import Judge, RulesOf

# What a rule has refused that was learned comes back in the same way: if the rule still holds, it is refused again when
# its turn comes.
_BY_RULES = frozenset(
    {
        reasons.ROBOTS,
        reasons.ROBOTS_UNREACHABLE,
        reasons.ROBOTS_UNKNOWN,
        reasons.WINDOW_NEVER,
        reasons.REPEAT_PARAMETER,
    }
)
_WAITS_BY_SETTINGS = frozenset({reasons.WINDOW, reasons.BUDGET_DAY, reasons.BUDGET_WAIT})


def concerns(row: UrlRow) -> bool:
    """Whether other settings may change the fate of a URL."""
    if row.origin:  # a robots.txt hop
        return False
    return row.state == QUEUED or (row.state == REFUSED and is_by_settings(row.reason))


def concerns_rules(row: UrlRow) -> bool:
    """Whether another robots.txt may change the fate of a URL."""
    if row.origin:
        return False
    return row.state == QUEUED or (
        row.state == REFUSED and row.reason is not None and row.reason.code in _BY_RULES
    )


def judge_by_rules(shard: Shard, ids: Sequence[bytes], rules: RulesOf) -> tuple[int, int]:
    """Judge some URLs by the robots.txt of their origin now; returns how many came back, and how many left."""
    came = went = 0
    for id16 in ids:
        row = shard.row(id16)
        if row is None or shard.is_out(row) or not concerns_rules(row):
            continue
        judge = rules.get(urls.origin(row.url))
        if judge is None:
            continue
        reason = judge(row.url)
        if row.state == QUEUED and reason is not None:
            _refuse(shard, row, reason)
            shard.seen.ended(row.id)
            went += 1
        elif row.state == REFUSED and reason is None:
            came += bring_back(shard, row)
    return came, went


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
            came += bring_back(shard, row)
        elif row.state == QUEUED and row.due is not None and _waits_by_settings(row) and not row.parked:
            _wait_no_longer(shard, row)
        elif row.state == QUEUED and row.level == OF_PARKED and shard.is_kept(row.url):
            take_from_aside(shard, shard.host(row.host), row)
        elif row.state == REFUSED and reason != row.reason:
            shard.leave(row)
            shard.enter(row, REFUSED, reason)
            shard.keep(row)
    return came, went


def _waits_by_settings(row: UrlRow) -> bool:
    return row.reason is not None and row.reason.code in _WAITS_BY_SETTINGS


def _wait_no_longer(shard: Shard, row: UrlRow) -> None:
    """A URL that waits for a time is in its queue again."""
    host = shard.host(row.host)
    if host.aside is None:
        shard.leave(row)
        host.waiting -= 1
        shard.touch(host)
        shard.set_due(row, None)
        shard.enqueue(row)


def release(shard: Shard, names: Sequence[str]) -> None:
    """What holds the pages of these hosts is looked at again. Their clocks stay as they are."""
    for name in names:
        host = shard.host(name)
        host.held = 0.0
        shard.touch(host)


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


def bring_back(shard: Shard, row: UrlRow) -> bool:
    """A URL waits for a visit, unless its host is set aside; one of another shard is forwarded."""
    if shard.names.host(row.host).foreign:
        link = link_of(row)
        shard.leave(row)
        row.state, row.reason = FOREIGN, None
        shard.keep(row)
        shard.send(link)
        shard.seen.ended(row.id)
        return True
    if not takes_in(shard.host(row.host).aside):
        return False
    shard.leave(row)
    row.reason = None
    if not row.seq:
        row.seq = shard.next_seq()
        shard.counts.added += 1
    shard.enqueue(row)
    return True
