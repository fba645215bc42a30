"""Opening and closing a shard: visits left open, pages lost from the archive, and times after the clock was set back."""

from collections.abc import Mapping, Sequence
from math import inf

from skitter import politeness
from skitter.frontier import crashes, robots_first
from skitter.frontier.aside import set_aside
from skitter.frontier.crashes import Suspicion
from skitter.frontier.held import Lease
from skitter.frontier.pages import drop_page
from skitter.frontier.rows import FAILED, QUEUED, PageRow, UrlRow
from skitter.frontier.shard import Shard
from skitter.model import Purpose, Visit
from skitter.ports import Opened

SET_BACK = 2.0  # seconds that a clock may go back unnoticed: clocks in a cluster differ by that much


def recover(
    shard: Shard,
    leases: dict[bytes, Visit],
    hand: bytes,
    free_after: float,
    asked: Mapping[str, float],
    now: float,
) -> Opened:
    """Make visits pending that were open when the last owner died. `hand` is the one in hand.

    Requests of the last owner may be in flight until `free_after`, and count. `asked` are times that hosts have named in answers
    that were never settled.
    """
    lost: list[Visit] = []
    aside: list[Visit] = []
    for id16, visit in leases.items():
        host = shard.host(visit.link.host)
        host.free_at = max(host.free_at, free_after + max(host.delay, shard.delay(host.name)))
        if shard.budgets is not None:
            shard.budgets.count_lost(shard, host, visit.leased_at)
        row = shard.rows[id16]
        shard.leases[id16] = Lease(visit, row, handed=True)
        shard.end(id16)
        shard.counts.lost += 1
        given_up = _recover(shard, id16, visit, row, in_hand=id16 == hand, now=now)
        (aside if given_up else lost).append(visit)
    for name, until in asked.items():
        host = shard.host(name)
        if (later := politeness.too_late(until - now, shard.politeness)) is not None:
            set_aside(shard, name, later, now)
        else:
            host.free_at = max(host.free_at, until)
            shard.touch(host)
    return Opened(lost, aside, shard.meta.mark)


def _recover(
    shard: Shard, id16: bytes, visit: Visit, row: UrlRow | None, *, in_hand: bool, now: float
) -> bool:
    after = shard.suspects.get(id16, Suspicion()).once_more(in_hand=in_hand)
    shard.suspect(id16, after)
    reason = crashes.crash_reason(after.crashes, after.in_hand)
    if reason is not None and visit.link.purpose is Purpose.ROBOTS:
        if row is not None:
            shard.drop(id16)
        shard.keep_robots(robots_first.unreachable(visit.link.origin, reason.detail, now))
    elif row is not None:
        row.attempts, row.crashes = visit.attempt, row.crashes + 1
        if reason is not None:
            shard.enter(row, FAILED, reason)
            shard.seen.ended(id16)
            shard.keep(row)
        else:
            shard.enqueue(row)
    return reason is not None


def resume(shard: Shard, leases: dict[bytes, Visit], out: Mapping[bytes, Lease]) -> None:
    """Continue after memory was reloaded: visits that are `out` stay in flight, those leased ahead wait again."""
    # Visits in flight come last: `end` looks at the host's flights.
    for id16 in sorted(leases, key=out.__contains__):
        row = shard.rows[id16]
        held = out.get(id16)
        visit = leases[id16] if held is None else held.visit  # it got a new time when it was handed out
        shard.host(visit.link.host)
        shard.leases[id16] = Lease(visit, row, inf if held is None else held.until, handed=True)
        shard.keep_tally(visit.link.host, 1)
        if held is None:
            shard.end(id16)
            if row is not None:
                shard.enqueue(row)
        else:
            shard.fly(visit.link.host, visit.link.purpose)
            shard.alone = id16 if visit.alone else shard.alone


def give_back(shard: Shard, now: float) -> None:
    """Make open visits pending again, without suspecting them. Those handed out may have been requested."""
    shard.save_learned()
    for id16, lease in list(shard.leases.items()):
        host = shard.host(lease.visit.link.host)
        if lease.handed:
            host.free_at = max(host.free_at, now + max(host.delay, shard.delay(host.name)))
            if shard.budgets is not None:
                shard.budgets.count_lost(shard, host, lease.visit.leased_at)
        shard.end(id16)
        if lease.row is not None:
            shard.enqueue(lease.row)


def reopen(shard: Shard, pages: Sequence[PageRow]) -> None:
    """Make pages pending again that the archive has lost."""
    for page in pages:
        drop_page(shard, page.id)
        row = shard.row(page.id)
        if row is not None and row.state != QUEUED:
            shard.leave(row)
            shard.set_due(row, None)
            row.reason = None
            shard.enqueue(row)


# ------------------------------------------------------------------------------------------------ a clock that went back


def move_clocks(shard: Shard, names: Sequence[str], by: float) -> None:
    """After the clock was set back, move host clocks by as much.

    The remaining delay of a host is counted from the last write before; it is never cut short.
    """
    for name in names:
        host = shard.host(name)
        host.free_at, host.held = max(0.0, host.free_at - by), max(0.0, host.held - by)
        shard.touch(host)


def move_retries(shard: Shard, ids: Sequence[bytes], by: float) -> None:
    """The same for URLs waiting for a retry."""
    for id16 in ids:
        row = shard.row(id16)
        if row is not None and row.state == QUEUED and row.due is not None and not row.parked:
            shard.set_due(row, max(0.0, row.due - by))
