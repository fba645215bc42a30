"""Taking a shard over, and giving it back: what the last owner left open, and what the archive has lost."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from skitter.backends.rocksdb.records import FAILED, QUEUED, Entry, decode_lease
from skitter.backends.rocksdb.shard import Shard
from skitter.frontier import rules
from skitter.frontier.rules import Suspicion
from skitter.model import Page, Purpose, Visit
from skitter.ports import Mark, Opened

_BOOT = b"boot"  # while a shard is open: which start of the machine it was opened in
_UNKNOWN = b"unknown"


def boot_id() -> bytes:
    """Which start of this machine it is (random(4)), where the system says so."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return _UNKNOWN


def note_boot(shard: Shard, now: float) -> None:
    """Find out whether the machine went down while the shard was open, and leave word for the next one.

    A process that is killed loses nothing that it wrote. A machine that goes down loses what was not synced: leases of the
    last second, and with them the times at which hosts were last asked.
    """
    before, boot = shard.store.get("default", _BOOT), boot_id()
    if before is not None and (before != boot or boot == _UNKNOWN):
        shard.unsure_since = now
    shard.batch.put("default", _BOOT, boot)


def forget_boot(shard: Shard) -> None:
    """All is synced: whatever happens to the machine from now on does not matter."""
    shard.batch.delete("default", _BOOT)


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
        given_up = _recover(shard, id16, visit, lease.entry, in_hand=id16 == hand, now=now)
        (aside if given_up else lost).append(visit)
        shard.hosts.touch(host8, state)
    return Opened(lost, aside, shard.ledger.mark)


def _recover(
    shard: Shard, id16: bytes, visit: Visit, entry: Entry | None, *, in_hand: bool, now: float
) -> bool:
    after = shard.suspects.get(id16, Suspicion()).once_more(in_hand=in_hand)
    shard.suspect(id16, after)
    reason = rules.crash_reason(after.crashes, after.in_hand)
    if reason is not None and visit.link.purpose is Purpose.ROBOTS:
        if entry is not None:
            shard.batch.delete("urls", id16)
        shard.keep_robots(rules.unreachable(visit.link.origin, reason.detail, now))
    elif entry is not None:
        entry.attempts, entry.crashes = visit.attempt, entry.crashes + 1
        if reason is not None:
            shard.enter(entry, FAILED, reason)
            shard.keep(id16, entry)
        else:
            shard.enqueue_again(id16, entry)
    return reason is not None


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
    number = fetch_again(shard, lambda page: rules.behind(page.archive, mark))
    shard.ledger.mark = replace(mark)
    return number


def fetch_again(shard: Shard, lost: Callable[[Page], bool]) -> int:
    """Make the pages pending again that are lost; says how many."""
    gone = [id16 for id16, page in shard.pages() if lost(page)]
    for id16 in gone:
        shard.drop_page(id16)
        entry = shard.entry(id16)
        if entry is not None and entry.state != QUEUED:
            shard.leave(entry)
            shard.set_due(id16, entry, None)
            entry.reason = None
            shard.enqueue_again(id16, entry)
    return len(gone)
