"""Permits of the workers of a cluster: leased from Redis, a few for each address in use, and used without asking.

A worker leases permits of an address when it first needs one, renews them while it uses them, and returns them when
the address was idle for a while. One round trip serves many addresses, and only new ones wait for it. A lease ends by
the clock of Redis; the worker trusts it for less, counted from before it asked. If several workers need more than there
are, they get equal parts, or take turns if there are fewer permits than workers. If requests have to be some time
apart, an address belongs to one worker at a time.

While Redis is away, a worker keeps to its part: the limit divided by the workers, but at least one. It gives up the
rest of its leases at once, and takes a larger part only when every lease of others has ended. When Redis is back, it
does not ask for more than its part until the others are back as well. So the limit holds, unless it is smaller than
the number of workers, or only some of them cannot reach Redis.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil, inf, isinf

from skitter.backends.permits import turns
from skitter.backends.redis.client import Client, Command
from skitter.model import NotNow
from skitter.ports import Clock, EngineAway, PermitTerms
from skitter.settings import Settings

_TERM = 10.0  # seconds of a lease
_TRUSTED = 0.8 * _TERM
_RENEW = 3.0  # seconds after which a lease is renewed
_IDLE = 2.0  # seconds after which permits that nobody uses are returned
_TENURE = 1.0  # seconds that permits are kept, if another worker waits for them
_EVERY = 1.0  # seconds between two looks at all leases
_BREATH = 0.05  # … if something has to be returned
_AGAIN = 0.25  # seconds between two questions for an address whose permits others have
_PATIENCE = 1.0  # seconds that a visit waits for an answer
_MODEST = 15.0  # seconds after an outage: the longest pause of a breaker, and a round
_TOGETHER = 250  # addresses in one call of the script


class _Held:
    """An address in use."""

    __slots__ = (
        "ask_after",
        "asking",
        "before",
        "count",
        "free_at",
        "in_flight",
        "promised",
        "renewed_at",
        "room",
        "typical",
        "used_at",
    )

    def __init__(self, now: float, typical: float) -> None:
        self.in_flight = 0
        self.count = 0  # permits leased
        self.room = 0  # of these may be used
        self.renewed_at = -inf
        self.ask_after = 0.0
        self.asking = 0  # visits that wait for an answer
        self.used_at = now
        self.free_at = 0.0  # when the next request may begin
        self.before = 0.0  # the same without the last permit
        self.promised = 0.0
        self.typical = typical


class RedisPermits:
    """`skitter.ports.Permits` of one worker. `run` has to run beside it."""

    def __init__(
        self,
        client: Client,
        worker: str,
        settings: Settings,
        clock: Clock,
        terms: PermitTerms | None = None,
        kind: str = "",
    ) -> None:
        """Permits of addresses, unless `terms` are of keys of another kind."""
        terms = terms or turns.of_address(settings.politeness)
        self._least = (
            settings.cluster.commit_interval + turns.LEAST
        )  # until a visit that is put off is settled
        self.workers: Callable[[], int] = lambda: 1  # of the cluster, as far as known
        self._client = client
        self._worker = worker
        self._limit, self._delay = terms.limit, terms.delay
        self._floor = 0.0  # no key with a delay is used before
        # Requests that have to be apart cannot be divided: one worker has the address.
        self._all = 1 if self._delay else int(self._limit)
        self._clock = clock
        self._script = client.script("permits")
        self._prefix = f"{{{client.name}}}:permits:{kind}".encode()
        self._held: dict[str, _Held] = {}
        self._typical = turns.TYPICAL
        self._batch: set[str] = set()
        self._asking: asyncio.Future[None] | None = None
        self._hurry = asyncio.Event()
        self._away_since: float | None = None
        self._modest_until = -inf
        self._busy, self._too_soon = terms.busy, terms.too_soon

    def begin(self) -> None:
        """Keys may have been used a moment ago."""
        self._floor = self._clock.monotonic() + self._delay if self._delay else 0.0

    # -- asking ------------------------------------------------------------------------------------------------

    async def ask(self, address: str) -> NotNow | None:
        """None: granted. Else when to ask again. A new address costs a round trip, shared with others."""
        now = self._clock.monotonic()
        held = self._held.get(address)
        if held is None:
            held = self._held[address] = _Held(now, self._typical)
        held.used_at = now
        if now < self._floor:
            held.free_at = max(held.free_at, self._floor)
        if held.in_flight >= self._room(held, now) and self._may_get_more(held, now):
            held.asking += 1
            try:
                await self._more(address)
            finally:
                held.asking -= 1
            now = self._clock.monotonic()
        room = self._room(held, now)
        if held.in_flight >= room or now < held.free_at:
            return self._refused(held, room, now)
        held.in_flight += 1
        if self._delay:
            held.before, held.free_at = held.free_at, now + self._delay * self._alone(now)
        return None

    def give_back(self, address: str, used: float | None) -> None:
        """The request has ended, after so many seconds; None: nothing was sent."""
        held = self._held.get(address)
        if held is None:  # closed
            return
        held.in_flight -= 1
        held.used_at = self._clock.monotonic()
        if used is None:
            if (
                self._delay and not held.in_flight
            ):  # else a permit that was granted since is in use, and counts
                held.free_at = held.before
        else:
            held.before = held.free_at
            held.typical = turns.smoothed(held.typical, used)
            self._typical = turns.smoothed(self._typical, used)
        if held.count > held.room and self._units(held) < held.count:  # others wait for it
            self._hurry.set()

    def _room(self, held: _Held, now: float) -> float:
        """How many requests may be in flight at an address."""
        if self._away_since is None:
            return self._requests(held.room) if now < held.renewed_at + _TRUSTED else 0
        if now < self._away_since + _TERM:
            return min(self._requests(held.room), self._part())
        return self._part()

    def _requests(self, permits: int) -> float:
        """The requests that so many permits are for."""
        return self._limit if self._delay and permits else permits

    def _units(self, held: _Held) -> int:
        """The permits that its requests in flight need."""
        return min(held.in_flight, 1) if self._delay else held.in_flight

    def _part(self) -> float:
        """The part of one worker."""
        return self._limit if isinf(self._limit) else max(1, self._limit // self.workers())

    def _alone(self, now: float) -> int:
        """How many workers may be sending without knowing of each other."""
        return self.workers() if self._away_since is not None or now < self._modest_until else 1

    def _may_get_more(self, held: _Held, now: float) -> bool:
        return (
            self._away_since is None
            and held.in_flight < self._limit
            and now >= held.free_at
            and now >= held.ask_after
        )

    def _refused(self, held: _Held, room: float, now: float) -> NotNow:
        step = turns.step(held.typical, max(room, self._part()), self._delay * self._alone(now))
        # Permits that others have come back with the next round at the soonest.
        free_at = held.free_at if room else max(held.free_at, now + _TENURE / 2)
        held.promised = turns.next_turn(held.promised, step, now, free_at, self._least)
        reason = self._too_soon if held.in_flight < room else self._busy
        return NotNow(reason, self._clock.now() + held.promised - now)

    # -- leases ------------------------------------------------------------------------------------------------

    async def _more(self, address: str) -> None:
        """Ask for an address, together with others that are asked for at this moment."""
        if self._asking is None:
            self._batch = set()
            self._asking = asyncio.ensure_future(self._ask_together(self._batch))
        self._batch.add(address)
        await asyncio.shield(self._asking)

    async def _ask_together(self, batch: set[str]) -> None:
        await asyncio.sleep(0)
        self._asking = None
        await self._lease([address for address in batch if address in self._held])

    async def run(self) -> None:
        """Renew leases, return what is not used, and notice when Redis is back. Ends by cancellation."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._hurry.wait()
            self._hurry.clear()
            await self._look_after()
            await asyncio.sleep(_BREATH)

    async def _look_after(self) -> None:
        now = self._clock.monotonic()
        idle = [
            address
            for address, held in self._held.items()
            if not held.in_flight and now > max(held.used_at + _IDLE, held.free_at)
        ]
        await self._return(idle)
        due = [address for address, held in self._held.items() if self._is_due(held, now)]
        if due or self._away_since is not None:
            await self._lease(due)

    def _is_due(self, held: _Held, now: float) -> bool:
        return (
            now >= held.renewed_at + _RENEW
            or held.count > max(held.room, self._units(held))
            or (held.in_flight >= held.room and self._may_get_more(held, now))
        )

    async def _lease(self, addresses: Sequence[str]) -> None:
        for at in range(0, max(1, len(addresses)), _TOGETHER):
            some = addresses[at : at + _TOGETHER]
            asked = self._clock.monotonic()
            questions = [self._question(address, asked) for address in some]
            answers = await self._told([self._prefix + each.encode() for each in some], questions)
            if answers is None:
                return
            for address, answer in zip(some, answers, strict=True):
                self._answered(address, answer, asked)

    def _question(self, address: str, now: float) -> tuple[int, int, int]:
        """Permits that we want, those that we may use until the answer is here, and the wait for the next request."""
        held = self._held[address]
        units = self._units(held)
        want = min(self._all, 2 * units + held.asking + 1)
        if now < self._modest_until and not self._delay:
            want = min(want, int(self._part()))
        trusted = now < held.renewed_at + _TRUSTED
        held.room = min(held.room, max(units, want)) if trusted else 0
        return want, max(units, held.room), self._wait(held, now)

    def _answered(self, address: str, answer: Sequence[int], asked: float) -> None:
        held = self._held.get(address)
        if held is None:  # returned meanwhile; so is this, when its lease ends
            return
        now = self._clock.monotonic()
        held.count, held.room, wait = answer
        held.renewed_at = asked
        held.free_at = max(held.free_at, now + wait / 1000)
        held.ask_after = now + _AGAIN if self._requests(held.room) <= held.in_flight else 0.0
        if held.count > max(held.room, self._units(held)):
            self._hurry.set()

    async def _return(self, addresses: Sequence[str]) -> None:
        """Return permits. From here on, whoever needs one asks for it."""
        now = self._clock.monotonic()
        leased = []
        for address in addresses:
            held = self._held.pop(address)
            if held.renewed_at > -inf:
                leased.append((address, (0, 0, self._wait(held, now))))
        for at in range(0, len(leased), _TOGETHER):
            some = leased[at : at + _TOGETHER]
            await self._told([self._prefix + each.encode() for each, _ in some], [words for _, words in some])

    def _wait(self, held: _Held, now: float) -> int:
        """Milliseconds until the next request may begin."""
        return max(0, ceil((held.free_at - now) * 1000)) if self._delay else 0

    async def close(self) -> None:
        """Return everything, if Redis can be told."""
        await self._return(list(self._held))

    # -- Redis -------------------------------------------------------------------------------------------------

    async def _told(
        self, keys: Sequence[bytes], questions: Sequence[tuple[int, int, int]]
    ) -> list[list[int]] | None:
        """The answers of Redis; None if it is away."""
        term, delay, tenure = [round(1000 * each) for each in (_TERM, self._delay, _TENURE)]
        arguments = [
            self._worker,
            term,
            self._all,
            delay,
            tenure,
            *(word for each in questions for word in each),
        ]
        command: Command = self._script.call(keys, arguments) if keys else ("PING",)
        try:
            async with asyncio.timeout(_PATIENCE):
                (answers,) = await self._client.send(lambda: [command])
        except (EngineAway, TimeoutError):
            if self._away_since is None:
                self._away_since = self._clock.monotonic()
            return None
        if self._away_since is not None:
            self._away_since, self._modest_until = None, self._clock.monotonic() + _MODEST
        return answers if keys else []
