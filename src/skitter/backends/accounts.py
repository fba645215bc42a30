"""What every shard has used of the budget of a group, for all who spend it: in one process, or of the workers of a fleet.

Those of a cluster are in `redis`. A shard has one owner at a time, who alone writes its account, before it reads the others:
of two that ask at the same time at least one sees the other.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from skitter.ports import Account

_ENTRY = struct.Struct("@d6d")  # 1 if it was written in this run, and the account
_TRIES = 50  # for the lock


class MemoryAccounts:
    """`skitter.ports.Accounts` of one process."""

    may_be_away = False

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Account]] = {}

    async def exchange(self, group: str, shard: int, own: Account) -> Sequence[Account] | None:
        """Write the account of a shard; returns those of the others."""
        accounts = self._groups.setdefault(group, {})
        accounts[shard] = own
        return [account for other, account in accounts.items() if other != shard]

    async def close(self) -> None:
        """There is nothing to release."""


class SharedAccounts:
    """`skitter.ports.Accounts` of the workers of a fleet: a table in a file that all have mapped into memory.

    The file is not durable: a run starts without one, and so do workers that are replaced for other settings. Every shard
    writes what it has used when it is opened; until all have, what they have used together is not known. The account of a
    worker that died stays until its shard is opened again.
    """

    may_be_away = False  # so nobody sets anything aside

    def __init__(self, path: Path, groups: Sequence[str], shards: int) -> None:
        self._places = {name: number * shards * _ENTRY.size for number, name in enumerate(groups)}
        self._shards = shards
        # Opened here, after the fork: processes that share a descriptor share its lock.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        whole = max(1, len(groups)) * shards * _ENTRY.size
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if os.fstat(self._file).st_size != whole:
                os.ftruncate(self._file, 0)
                os.posix_fallocate(self._file, 0, whole)
            self._table = mmap.mmap(self._file, whole)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    async def exchange(self, group: str, shard: int, own: Account) -> Sequence[Account] | None:
        """Write the account of a shard; returns those of the others, or None if that must be asked again."""
        if not self._locked():
            return None
        try:
            first = self._places[group]
            _ENTRY.pack_into(self._table, first + shard * _ENTRY.size, 1.0, *own[:6])
            places = [first + other * _ENTRY.size for other in range(self._shards) if other != shard]
            entries = [_ENTRY.unpack_from(self._table, place) for place in places]
            return [_read(entry) for entry in entries] if all(entry[0] for entry in entries) else None
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _locked(self) -> bool:
        for _ in range(_TRIES):
            with suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            os.sched_yield()
        return False

    async def close(self) -> None:
        """Leave the table to others."""
        if not self._table.closed:
            self._table.close()
            os.close(self._file)


def _read(numbers: tuple[float, ...]) -> Account:
    _, pages, received, seconds, day, requests, out = numbers
    return Account(int(pages), int(received), seconds, int(day), int(requests), int(out))
