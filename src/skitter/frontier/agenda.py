"""Which host is next: free hosts by the level and score of their first link, the others by time.

Politeness is this data structure. A host is in at most one place of it, and in none while it has nothing waiting, no
room for another visit, or visits leased ahead. A host that is not due is filed under its due time and cannot be
reached before.
"""

from skitter import urls
from skitter.frontier.levels import DRAW, DUE_AGAIN, OF_PARKED, draw_retry, retried
from skitter.frontier.memory import Window
from skitter.frontier.rows import HostRow, Span
from skitter.frontier.sortable import number8, score8, time8, time_of
from skitter.frontier.store import Source
from skitter.model import ASSET_SCORE, Level
from skitter.runtime.metrics import AgendaMetrics
from skitter.schedule.hosts import HostOrder

LATER = b"\xff"
_END = b"\xff" * 32
_LEVELS = len(Level)
_OF_ASSETS = int(Level.BACKGROUND), retried(Level.BACKGROUND)


def drawn(host: HostRow, *, only_assets: bool = False) -> tuple[int, int]:
    """The queue of the host's next link, and its turn afterwards. A robots.txt and its hops come before any page."""
    if host.hops:
        return Level.CRITICAL, host.turn
    if only_assets:
        return _asset_queue(host), host.turn
    levels = host.levels
    mask = 1 if levels[0] else 0  # written out: a host is placed three times a visit
    if levels[1]:
        mask += 2
    if levels[2]:
        mask += 4
    if levels[3]:
        mask += 8
    if levels[4]:
        mask += 16
    if not mask and any(retries := levels[_LEVELS:DUE_AGAIN]):
        return draw_retry(retries, host.turn)
    if not mask and levels[OF_PARKED] and host.extra is not None and host.extra.again:
        return OF_PARKED, host.turn
    return DRAW[mask][host.turn]


def _asset_queue(host: HostRow) -> int:
    """The queue with an asset in front; -1 if there is none. Their score puts them before whatever else is in there."""
    for queue in _OF_ASSETS:
        head = host.heads[queue]
        if host.levels[queue] and head is not None and head[0] <= -ASSET_SCORE:
            return queue
    return -1


def place_of(
    host: HostRow, now: float, *, only_assets: bool = False, order: HostOrder | None = None
) -> bytes:
    """The place of a host with room for a visit; empty if nothing waits there."""
    queue, _ = drawn(host, only_assets=only_assets)
    if queue < 0 or host.aside is not None:
        return b""
    ready_at = host.free_at if host.hops or host.held <= host.free_at else host.held
    if ready_at > now:
        return (
            LATER + time8(ready_at) + number8(urls.fingerprint(host.name, 0))
        )  # two hosts may have the same time
    head = host.heads[queue]
    if head is None:
        raise AssertionError(f"{host.name} counts links in queue {queue} and has no head there")
    level, score = _LEVELS - 1 if queue == OF_PARKED else queue % _LEVELS, -head[0]
    if order is not None and not host.hops:
        level, score = order.placed(level, score, host.lined_up(), host.pages)
    return bytes((level,)) + score8(score) + number8(head[1])  # no two links have the same sequence number


def is_ready(place: bytes) -> bool:
    """Whether a place is among the free hosts."""
    return bool(place) and place[0] != LATER[0]


class Agenda:
    """All hosts with waiting links; the first ones of each list are in memory."""

    def __init__(self, size: int, source: Source, touched: dict[str, HostRow]) -> None:
        self._source, self._touched = source, touched
        self._ready: list[Window[bytes, str]] = [
            Window(bytes((level,)), size, self._read_on) for level in Level
        ]
        self._later: Window[bytes, str] = Window(LATER, size, self._read_on)
        self.turn = 0

    def _window(self, place: bytes) -> Window[bytes, str]:
        return self._later if place[0] == LATER[0] else self._ready[place[0]]

    def move(self, name: str, old: bytes, new: bytes) -> None:
        """Move a host."""
        if old:
            self._window(old).discard(old)
        if new:
            self._window(new).push(new, name)

    # -- reading on --------------------------------------------------------------------------------------------

    def _read_on(self, window: Window[bytes, str]) -> None:
        ask = _ask(window)
        self.fill(ask, self._source.agenda(ask))

    def lacking(self) -> list[Span]:
        """What to load before the first host of every list is known."""
        return [_ask(window) for window in (*self._ready, self._later) if window.lacks(1)]

    def fill(self, ask: Span, found: list[tuple[bytes, str]]) -> None:
        """Take in an answer, which is as of the last write: hosts changed since then stay where they are."""
        horizon = found[-1][0] if len(found) >= ask.limit else None
        end = ask.before if horizon is None else horizon
        touched = self._touched
        places = [(place, name) for place, name in found if name not in touched]
        places += [(host.place, host.name) for host in touched.values() if ask.after < host.place <= end]
        self._window(ask.after).fill(places, horizon)

    # -- who is next -------------------------------------------------------------------------------------------

    def next_ready(self) -> tuple[str, int] | None:
        """The next host and the turn after it: by the draw of levels, then by score and age."""
        mask = 0
        for level, window in enumerate(self._ready):
            if window.keys or (not window.complete and window.first() is not None):
                mask |= 1 << level
        level, turn = DRAW[mask][self.turn]
        if level < 0:
            return None
        window = self._ready[level]
        return window.values[window.keys[0]], turn

    def ready(self, count: int) -> list[str]:
        """The next hosts of each level, at most `count`, as far as they are in memory."""
        return [name for window in self._ready for _, name in window.in_memory(count)]

    def later(self, until: float, count: int) -> list[tuple[float, str]]:
        """Hosts whose clock comes until then, in order, as far as they are in memory."""
        found = []
        for place, name in self._later.in_memory(count):
            if time_of(place) > until:
                break
            found.append((time_of(place), name))
        return found

    def next_later(self) -> tuple[float, str] | None:
        """The earliest clock, and its host."""
        window = self._later
        if not window.keys and (window.complete or window.first() is None):
            return None
        place = window.keys[0]
        return time_of(place), window.values[place]

    @property
    def ready_count(self) -> int:
        """How many free hosts are in memory."""
        return sum(map(len, self._ready))

    def metrics(self) -> AgendaMetrics:
        """How much is in memory."""
        return AgendaMetrics(self.ready_count, len(self._later))


def _ask(window: Window[bytes, str]) -> Span:
    first = window.horizon[0]
    return Span(window.horizon, _END if first == LATER[0] else bytes((first + 1,)), window.size)
