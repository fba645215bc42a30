"""Which host is next: those that are free by the level and score of their first link, the others by time.

Politeness is this data structure, as in the frontier on disk: a host stands in one place of it at most, and in none while
it has nothing to give, no room for another visit, or visits that are taken out already.
"""

from skitter import urls
from skitter.frontier import rules
from skitter.frontier.rows import HostRow, Span
from skitter.frontier.sortable import number8, score8, time8, time_of
from skitter.frontier.window import Window
from skitter.model import Level

LATER = b"\xff"
_END = b"\xff" * 32


def drawn(host: HostRow) -> tuple[int, int]:
    """The level of the host's next link, and its turn afterwards. A robots.txt, and its hops, come before any page."""
    if host.hops:
        return Level.CRITICAL, host.turn
    mask = sum((count > 0) << level for level, count in enumerate(host.levels))
    return rules.DRAW[mask][host.turn]


def place_of(host: HostRow, now: float) -> bytes:
    """Where a host with room for a visit belongs; nowhere when it has nothing to give."""
    level, _ = drawn(host)
    if level < 0 or host.aside is not None:
        return b""
    name8 = number8(urls.fingerprint(host.name, 0))  # makes the place unique
    ready_at = host.ready_at()
    if ready_at > now:
        return LATER + time8(ready_at) + name8
    head = host.heads[level]
    if head is None:
        raise AssertionError(f"{host.name} counts links of level {level} and has no head there")
    return bytes((level,)) + score8(-head[0]) + number8(head[1]) + name8


def is_ready(place: bytes) -> bool:
    """Whether a host stands among those that are free."""
    return bool(place) and place[0] != LATER[0]


class Agenda:
    """Every host that has something to give, the first ones of each list in memory."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ready: list[Window[bytes, str]] = [Window(bytes((level,)), size) for level in Level]
        self._later: Window[bytes, str] = Window(LATER, size)
        self.turn = 0

    def _window(self, place: bytes) -> Window[bytes, str]:
        return self._later if place[0] == LATER[0] else self._ready[place[0]]

    def move(self, name: str, old: bytes, new: bytes) -> None:
        """A host stands elsewhere."""
        if old:
            self._window(old).discard(old)
        if new:
            self._window(new).push(new, name)

    # -- reading ahead -----------------------------------------------------------------------------------------

    def lacking(self) -> list[Span]:
        """What has to be asked for before the first host of every list is known."""
        spans = [
            Span(window.horizon, bytes((level + 1,)), self._size)
            for level, window in enumerate(self._ready)
            if window.lacks(1)
        ]
        if self._later.lacks(1):
            spans.append(Span(self._later.horizon, _END, self._size))
        return spans

    def fill(self, span: Span, places: list[tuple[bytes, str]], horizon: bytes | None) -> None:
        """The answer to one of these."""
        self._window(span.after).fill(places, horizon)

    # -- who is next -------------------------------------------------------------------------------------------

    def next_ready(self) -> tuple[str, int] | None:
        """The host that is next and the turn after it, by the draw of levels, then by score and age."""
        heads = [window.first() for window in self._ready]
        mask = sum(1 << level for level, head in enumerate(heads) if head is not None)
        level, turn = rules.DRAW[mask][self.turn]
        head = heads[level] if level >= 0 else None
        return None if head is None else (head[1], turn)

    def ready(self, count: int) -> list[str]:
        """Hosts that are soon next, so many of each level."""
        return [name for window in self._ready for _, name in window.heads(count)]

    def later(self, until: float, count: int) -> list[tuple[float, str]]:
        """Hosts whose clock comes until then, in order."""
        found = []
        for place, name in self._later.heads(count):
            if time_of(place) > until:
                break
            found.append((time_of(place), name))
        return found

    def next_later(self) -> float | None:
        """The earliest clock."""
        first = self._later.first()
        return None if first is None else time_of(first[0])

    @property
    def ready_count(self) -> int:
        """How many free hosts are in memory."""
        return sum(map(len, self._ready))

    def statistics(self) -> dict[str, float]:
        """How much is in memory."""
        return {"ready": self.ready_count, "later": len(self._later)}
