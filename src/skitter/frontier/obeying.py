"""Applies the commands of a person: hosts are blocked and unblocked, URLs that failed are tried again.

Each step may be repeated: applied twice, it changes nothing more. Before a step, everything that it reads must be in
memory (see `prefetch`).
"""

from collections.abc import Sequence

from skitter import reasons, urls
from skitter.frontier import counting
from skitter.frontier.adding import is_by_settings
from skitter.frontier.aside import is_blocked, is_passing, set_aside, take_back, takes_in
from skitter.frontier.levels import LEVELS
from skitter.frontier.rows import CRAWLED, FAILED, REFUSED, HostRow, UrlRow
from skitter.frontier.shard import Shard
from skitter.model import Reason

SOURCE = "control"
"""The key of the last applied command, among the positions in the store."""
_BLOCKED = Reason(reasons.BLOCKED, "blocked by hand (skitter block)")
_ERROR = 400  # the first status that is an error


def block(shard: Shard, names: Sequence[str], now: float) -> tuple[int, int]:
    """Block hosts, known or not; returns how many were not blocked before, and how many were.

    One that was set aside for another reason is blocked from now on: a seed would take it back.
    """
    changed = 0
    for name in names:
        host = shard.host(name)
        if is_blocked(host.aside):
            continue
        if host.aside is None:
            set_aside(shard, name, _BLOCKED, now)
        else:
            counting.count_waiting(shard.counts, host.aside, -host.queued())
            counting.count_waiting(shard.counts, _BLOCKED, host.queued())
            host.aside = _BLOCKED
            shard.touch(host)
        changed += 1
    return changed, len(names) - changed


def unblock(shard: Shard, names: Sequence[str]) -> tuple[int, int]:
    """Unblock hosts; returns how many were blocked, and how many were not.

    Whatever else a host was set aside for before is forgotten: its next answers decide again.
    """
    changed = 0
    for name in names:
        host = shard.hosts[name]
        if host is not None and is_blocked(host.aside):
            _take_back(shard, host)
            changed += 1
    return changed, len(names) - changed


def give_another_chance(shard: Shard, names: Sequence[str]) -> None:
    """Take hosts back that were set aside because they could not or would not answer."""
    for name in names:
        host = shard.hosts[name]
        if host is not None and is_passing(host.aside):
            _take_back(shard, host)


def _take_back(shard: Shard, host: HostRow) -> None:
    take_back(shard, host)
    for origin in origins_of(host.name):
        shard.forget_ban(origin)


def origins_of(name: str) -> tuple[str, str]:
    """The origins of a host whose robots.txt is requested again when it is taken back."""
    return f"https://{name}", f"http://{name}"


def retry(shard: Shard, ids: Sequence[bytes], *, named: bool) -> int:
    """Let URLs wait as if they were new, if they failed; returns how many. `named`: a person asks for these very URLs."""
    again = 0
    for id16 in ids:
        row = shard.row(id16)
        if row is None or shard.is_out(row) or not has_failed(row, named=named):
            continue
        host = shard.host(row.host)
        if not takes_in(host.aside):
            continue
        shard.leave(row)
        if row.due is not None:  # a page that is fetched again at times
            shard.set_due(row, None)
        row.reason, row.attempts, row.level = None, 0, row.level % len(LEVELS)
        shard.enqueue(row)  # it keeps its age: those that failed together come in the order they were found
        shard.forget_ban(urls.origin(row.url))
        again += 1
    return again


def has_failed(row: UrlRow, *, named: bool) -> bool:
    """Whether a URL was given up; for one that is named, also whether the server refused it or answered with an error.

    What the settings refused is not tried again: they would refuse it again.
    """
    if row.origin:  # a robots.txt hop
        return False
    if row.state == FAILED:
        return True
    if not named:
        return False
    if row.state == CRAWLED:
        return row.status >= _ERROR
    return row.state == REFUSED and bool(row.seq) and not is_by_settings(row.reason)
