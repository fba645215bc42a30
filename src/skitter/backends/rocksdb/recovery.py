"""Taking a shard over, and giving it back: what the last owner left open, and what the archive has lost."""

from msgspec.structs import replace

from skitter.backends import rules
from skitter.backends.rocksdb.records import FAILED, QUEUED, Entry, decode_lease
from skitter.backends.rocksdb.shard import Shard
from skitter.backends.rules import Suspicion
from skitter.model import Purpose, Visit
from skitter.ports import Mark, Opened


def recover(shard: Shard, hand: bytes, now: float) -> Opened:
    """Make the visits pending that were open when the last owner died. `hand` names the one that was worked on."""
    lost: list[Visit] = []
    aside: list[Visit] = []
    for id16, packed in list(shard.store.scan_all("leases")):
        lease = decode_lease(packed)
        visit = lease.visit()
        host8, state = shard.host(visit.link.host)
        state.free_at = max(state.free_at, now + max(state.delay, shard.delay))
        shard.leases[id16] = visit
        shard.end(id16)
        shard.counts.lost += 1
        in_hand = visit.alone or id16 == hand
        given_up = _recover(shard, id16, visit, lease.entry, in_hand=in_hand, now=now)
        (aside if given_up else lost).append(visit)
        shard.hosts.touch(host8, state)
    return Opened(lost, aside, shard.ledger.mark)


def _recover(
    shard: Shard, id16: bytes, visit: Visit, entry: Entry | None, *, in_hand: bool, now: float
) -> bool:
    after = shard.suspects.get(id16, Suspicion()).once_more(in_hand=in_hand)
    shard.suspect(id16, after)
    given_up = after.in_hand >= rules.CRASHES_IN_HAND
    reason = rules.crash_reason(after.in_hand)
    if given_up and visit.link.purpose is Purpose.ROBOTS:
        if entry is not None:
            shard.batch.delete("urls", id16)
        shard.keep_robots(rules.unreachable(visit.link.origin, reason.detail, now))
    elif entry is not None:
        entry.attempts, entry.crashes = visit.attempt, entry.crashes + 1
        if given_up:
            shard.enter(entry, FAILED, reason)
            shard.keep(id16, entry)
        else:
            shard.enqueue_again(id16, entry)
    return given_up


def give_back(shard: Shard, now: float) -> None:
    """Open visits are pending again, without a mark against them. Their requests may have been made all the same."""
    for id16, visit in list(shard.leases.items()):
        host8, state = shard.host(visit.link.host)
        state.free_at = max(state.free_at, now + max(state.delay, shard.delay))
        shard.hosts.touch(host8, state)
        entry = shard.leased.get(id16)
        shard.end(id16)
        if entry is not None:
            shard.enqueue_again(id16, entry)


def reopen(shard: Shard, mark: Mark) -> int:
    """Make the pages pending again that lie behind the mark."""
    gone = [id16 for id16, page in shard.pages() if rules.behind(page.archive, mark)]
    for id16 in gone:
        shard.drop_page(id16)
        entry = shard.entry(id16)
        if entry is not None and entry.state != QUEUED:
            shard.leave(entry)
            shard.set_due(id16, entry, None)
            entry.reason = None
            shard.enqueue_again(id16, entry)
    shard.ledger.mark = replace(mark)
    return len(gone)
