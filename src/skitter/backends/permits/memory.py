"""Permits of one process: a count for every address in use."""

from skitter.backends.permits import turns
from skitter.model import NotNow
from skitter.ports import Clock, PermitTerms

_SWEEP = 1024  # addresses with turns before those that nobody waits for are forgotten


class _Turns:
    """What is known of an address where somebody was refused, or where requests have to be apart."""

    __slots__ = ("before", "free_at", "promised", "typical")

    def __init__(self, typical: float) -> None:
        self.free_at = 0.0  # when the next request may begin
        self.before = 0.0  # the same without the last permit
        self.promised = 0.0  # the last turn that was promised
        self.typical = typical  # seconds of a request


class MemoryPermits:
    """`skitter.ports.Permits` of one process."""

    def __init__(self, terms: PermitTerms, clock: Clock) -> None:
        self._limit, self._delay = terms.limit, terms.delay
        self._floor = 0.0  # no key with a delay is used before
        self._clock = clock
        self._out: dict[str, int] = {}
        self._turns: dict[str, _Turns] = {}
        self._sweep_at = _SWEEP
        self._typical = turns.TYPICAL  # seconds of a request, at any address
        self._busy, self._too_soon = terms.busy, terms.too_soon

    def begin(self) -> None:
        """Keys may have been used a moment ago."""
        self._floor = self._clock.monotonic() + self._delay if self._delay else 0.0

    async def ask(self, address: str) -> NotNow | None:
        """None: granted. Else when to ask again."""
        out = self._out.get(address, 0)
        if out >= self._limit:
            return self._refused(address, self._of(address))
        if self._delay:
            known, now = self._of(address), self._clock.monotonic()
            if now < known.free_at or now < self._floor:
                known.free_at = max(known.free_at, self._floor)
                return self._refused(address, known)
            known.before, known.free_at = known.free_at, now + self._delay
        self._out[address] = out + 1
        return None

    def give_back(self, address: str, used: float | None) -> None:
        """The request has ended, after so many seconds; None: nothing was sent."""
        out = self._out[address]
        if out > 1:
            self._out[address] = out - 1
        else:
            del self._out[address]
        if self._delay:
            known = self._of(address)
            if used is not None:
                known.before = known.free_at
            elif out == 1:  # else a permit that was granted since is in use, and counts
                known.free_at = known.before
        if used is None:
            return
        self._typical += (used - self._typical) * turns.WEIGHT
        if self._turns and (waited := self._turns.get(address)) is not None:
            waited.typical = turns.smoothed(waited.typical, used)

    async def close(self) -> None:
        """There is nothing to release."""

    def _refused(self, address: str, known: _Turns) -> NotNow:
        now = self._clock.monotonic()
        after = turns.step(known.typical, self._limit, self._delay)
        known.promised = turns.next_turn(known.promised, after, now, known.free_at)
        is_full = self._out.get(address, 0) >= self._limit
        reason = self._busy if is_full else self._too_soon
        return NotNow(reason, self._clock.now() + known.promised - now)

    def _of(self, address: str) -> _Turns:
        known = self._turns.get(address)
        if known is None:
            if len(self._turns) >= self._sweep_at:
                self._sweep()
            known = self._turns[address] = _Turns(self._typical)
        return known

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        self._turns = {
            address: known
            for address, known in self._turns.items()
            if address in self._out or max(known.free_at, known.promised) > now
        }
        self._sweep_at = max(_SWEEP, 2 * len(self._turns))
