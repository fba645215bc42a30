"""Permits of the workers of a fleet: a table in a file that all of them have mapped into memory.

The table has buckets of a few entries. An entry belongs to an address while anybody uses it, or its next request has
to wait:

    address (16 bytes) · next request · last turn promised · typical seconds of a request · one count per worker

A worker asks under a lock, so that the sum of the counts is exact and never above the limit. It gives back without
one: nobody else writes its count. A worker that cannot have the lock at once (its holder was interrupted, or stopped)
gets no permit this time, rather than stop everything else it does. The kernel releases the lock of a process that
dies; its counts are cleared when its successor opens the table. Until then its permits are not used by others.

The file is not durable: a run starts without one. Times are those of CLOCK_MONOTONIC, which all processes of a machine
share.
"""

import fcntl
import mmap
import os
import socket
import struct
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from skitter.backends.permits import turns
from skitter.model import NotNow
from skitter.ports import Clock, PermitTerms

_WAYS = 8  # entries of a bucket
_BUCKETS = 2048  # for 16,384 addresses in use at once
_START = 64  # bytes in front, so that no entry is at 0
_ADDRESS = 16
_TIMES = struct.Struct("@ddd")  # next request, last turn promised, typical seconds
_HEAD = _ADDRESS + _TIMES.size
_COUNT = struct.Struct("@I")  # of a worker. In native form and aligned, it is written in one step
_TIME = struct.Struct("@d")
_TYPICAL_AT = _ADDRESS + 16
_TRIES = 20  # for the lock
_AT_ONCE, _UNLOCK = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN
_flock = fcntl.flock  # looked up once: it is called twice for every request


class SharedPermits:
    """`skitter.ports.Permits` of one worker among `workers`, by its number."""

    def __init__(
        self, path: Path, number: int, workers: int, terms: PermitTerms, clock: Clock, buckets: int = _BUCKETS
    ) -> None:
        self._limit, self._delay = terms.limit, terms.delay
        self._floor = 0.0  # no key with a delay is used before
        self._buckets = buckets
        self._clock = clock
        self._size = -(-(_HEAD + workers * _COUNT.size) // 8) * 8
        self._counts = struct.Struct(f"@{workers}I").unpack_from
        self._own = _HEAD + number * _COUNT.size
        self._places: dict[str, int] = {}  # the entry of each address that we hold permits of
        self._out: dict[str, int] = {}
        self._typical = turns.TYPICAL  # seconds of a request of ours, at any address
        self._busy, self._too_soon = terms.busy, terms.too_soon
        self._bucket = lru_cache(maxsize=4096)(self._bucket_of)
        # Opened here, after the fork: processes that share a descriptor share its lock.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        whole = _START + buckets * _WAYS * self._size
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if os.fstat(self._file).st_size != whole:
                os.ftruncate(self._file, 0)
                # Zeros: no entry is in use. A disk that is full says so here, and not at the first write.
                os.posix_fallocate(self._file, 0, whole)
            self._table = mmap.mmap(self._file, whole)
            self._forget_predecessor(whole)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _forget_predecessor(self, whole: int) -> None:
        for place in range(_START + self._own, whole, self._size):
            if _COUNT.unpack_from(self._table, place)[0]:
                _COUNT.pack_into(self._table, place, 0)

    def begin(self) -> None:
        """Keys may have been used a moment ago."""
        self._floor = self._clock.monotonic() + self._delay if self._delay else 0.0

    # -- asking ------------------------------------------------------------------------------------------------

    async def ask(self, address: str) -> NotNow | None:
        """None: granted. Else when to ask again."""
        lock = self._file
        try:
            _flock(lock, _AT_ONCE)
        except BlockingIOError:
            if not self._locked_after_all():
                now = self._clock.monotonic()
                return self._later(now + turns.LEAST, now)
        try:
            return self._ask(address)
        finally:
            _flock(lock, _UNLOCK)

    def _locked_after_all(self) -> bool:
        for _ in range(_TRIES):
            os.sched_yield()
            with suppress(BlockingIOError):
                _flock(self._file, _AT_ONCE)
                return True
        return False

    def _ask(self, address: str) -> NotNow | None:
        table = self._table
        place = self._places.get(address) or self._found(address)
        if place is None:
            now = self._clock.monotonic()
            return self._later(now + turns.LEAST, now)
        if sum(self._counts(table, place + _HEAD)) >= self._limit:
            return self._refused(place, full=True)
        if self._delay:
            now = self._clock.monotonic()
            if now < self._floor:
                free_at = max(self._floor, _TIME.unpack_from(table, place + _ADDRESS)[0])
                _TIME.pack_into(table, place + _ADDRESS, free_at)
            if now < _TIME.unpack_from(table, place + _ADDRESS)[0]:
                return self._refused(place, full=False)
            _TIME.pack_into(table, place + _ADDRESS, now + self._delay)
        self._places[address] = place
        mine = self._out[address] = self._out.get(address, 0) + 1
        _COUNT.pack_into(table, place + self._own, mine)
        return None

    def _refused(self, place: int, *, full: bool) -> NotNow:
        now = self._clock.monotonic()
        free_at, promised, typical = _TIMES.unpack_from(self._table, place + _ADDRESS)
        step = turns.step(typical, self._limit, self._delay)
        promised = turns.next_turn(promised, step, now, free_at)
        _TIMES.pack_into(self._table, place + _ADDRESS, free_at, promised, typical)
        return self._later(promised, now, full=full)

    def _later(self, turn: float, now: float, *, full: bool = True) -> NotNow:
        return NotNow(self._busy if full else self._too_soon, self._clock.now() + turn - now)

    def _bucket_of(self, address: str) -> tuple[bytes, int]:
        """The address in 16 bytes, or a digest of another key, and its first entry."""
        try:
            packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
            packed = packed if len(packed) == _ADDRESS else b"\0" * 10 + b"\xff\xff" + packed
        except OSError:
            packed = blake2b(address.encode(), digest_size=_ADDRESS).digest()
        return packed, _START + crc32(packed) % self._buckets * _WAYS * self._size

    def _found(self, address: str) -> int | None:
        """The entry of an address, or one that nobody uses, now its own; None if there is none."""
        table = self._table
        packed, first = self._bucket(address)
        entries = range(first, first + _WAYS * self._size, self._size)
        for place in entries:
            if table[place : place + _ADDRESS] == packed:
                return place
        now = self._clock.monotonic()
        for place in entries:
            if self._is_unused(place, now):
                table[place : place + _ADDRESS] = packed
                _TIMES.pack_into(table, place + _ADDRESS, 0.0, 0.0, self._typical)
                return place
        return None

    def _is_unused(self, place: int, now: float) -> bool:
        free_at, promised, _ = _TIMES.unpack_from(self._table, place + _ADDRESS)
        return max(free_at, promised) <= now and not any(self._counts(self._table, place + _HEAD))

    # -- giving back -------------------------------------------------------------------------------------------

    def give_back(self, address: str, used: float | None) -> None:
        """The request has ended, after so many seconds; None: nothing was sent, and a turn has passed unused."""
        place = self._places.get(address)
        if place is None:  # closed
            return
        left = self._out[address] - 1
        if left:
            self._out[address] = left
        else:  # from the moment that the count is zero, the entry may be another address's
            del self._out[address], self._places[address]
        if used is not None:
            self._typical = turns.smoothed(self._typical, used)
            (typical,) = _TIME.unpack_from(self._table, place + _TYPICAL_AT)
            _TIME.pack_into(self._table, place + _TYPICAL_AT, turns.smoothed(typical, used))
        _COUNT.pack_into(self._table, place + self._own, left)

    async def close(self) -> None:
        """Whatever is still out is given back: nothing is sent any more."""
        if self._table.closed:
            return
        for place in self._places.values():
            _COUNT.pack_into(self._table, place + self._own, 0)
        self._places.clear()
        self._table.close()
        os.close(self._file)
