"""Requests that are carried out once, however often they are sent: what an Idempotency-Key was answered is kept for a day."""

import hashlib
import sqlite3
import time
from pathlib import Path

from skitter.serve.problems import ProblemError, bad_request, conflict

_KEPT = 24 * 3600.0
LONGEST = 200  # characters of a key
_TABLE = """
create table if not exists answers (
    key text primary key, request text not null, at real not null, status integer not null, body blob not null
)
"""


class Once:
    """Answers by key, in a file that survives a restart."""

    def __init__(self, path: Path) -> None:
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute("pragma journal_mode = wal")
        self._base.execute(_TABLE)

    def begin(self, key: str, request: bytes) -> tuple[int, bytes] | None:
        """The answer to an earlier request with this key; None if it is the first. Such a one has to `end` or `forget`."""
        if not key.isprintable() or len(key) > LONGEST:
            raise bad_request(f"Idempotency-Key: 1 to {LONGEST} printable characters")
        digest, now = hashlib.sha256(request).hexdigest(), time.time()
        self._base.execute("delete from answers where at < ?", (now - _KEPT,))
        added = self._base.execute(
            "insert or ignore into answers values (?, ?, ?, 0, x'')", (key, digest, now)
        ).rowcount
        if added:
            return None
        said, status, body = self._base.execute(
            "select request, status, body from answers where key = ?", (key,)
        ).fetchone()
        if said != digest:
            raise ProblemError(422, "Another request", "this Idempotency-Key was used for another request")
        if not status:
            raise conflict(
                "a request with this Idempotency-Key is being carried out, or the server was killed meanwhile"
            )
        return status, body

    def end(self, key: str, status: int, body: bytes) -> None:
        """Keep the answer."""
        self._base.execute("update answers set status = ?, body = ? where key = ?", (status, body, key))

    def forget(self, key: str) -> None:
        """It failed, and may be tried again."""
        self._base.execute("delete from answers where key = ?", (key,))

    def close(self) -> None:
        """Close the file."""
        self._base.close()
