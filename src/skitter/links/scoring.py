"""Scores by a function of the user's own (`schedule.strategy = "module:function"`).

The function is not ours. If it raises, or returns no finite number, that link gets the default score, the reason is
written down with its URL, and the crawl continues.
"""

import math
import time
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import msgspec

from skitter.events import Events, Warned
from skitter.plugins import FoundLink, Scorer, described, place_of

DEFAULT_SCORE = 0.0
_KINDS = 20  # kinds of failures reported by a process; the report counts all failures
_WRITTEN = 10_000  # failures written down by a process


class UserScorer:
    """Asks the user's function for the score of a link."""

    def __init__(self, function: Scorer, events: Events, log: Path) -> None:
        """`log` is where failures are written down, one a line; all workers of a crawl append to it."""
        self._function = function
        self._file = getattr(getattr(function, "__code__", None), "co_filename", "")
        self._events = events
        self._log = log
        self._kinds: set[str] = set()
        self.failures = 0

    def score(self, link: FoundLink, key: str) -> float:
        """The score of a link; whatever the function does, a finite number."""
        try:
            score = self._function(link)
            if type(score) is float and math.isfinite(score):
                return score
            return _number(score)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the user's code, not ours: this link is scored by default
            return self._failed(error, link, key)

    def _failed(self, error: BaseException, link: FoundLink, key: str) -> float:
        self.failures += 1
        place, what = self._place(error), described(error)
        kind = f"{type(error).__name__} {place}"
        if kind not in self._kinds and len(self._kinds) < _KINDS:
            self._kinds.add(kind)
            text = f"{place}: your scorer failed for {link.url}: {what}; such links get the score {DEFAULT_SCORE:g}"
            self._events.emit(Warned(text, once=f"scorer {kind}"))
        if self.failures <= _WRITTEN:
            self._write(
                {
                    "time": time.time(),
                    "url": link.url,
                    "key": key,
                    "parent": link.parent,
                    "score": DEFAULT_SCORE,
                    "place": place,
                    "problem": what,
                }
            )
        return DEFAULT_SCORE

    def _place(self, error: BaseException) -> str:
        """FILE:LINE that raised; for a value that is no number, the first line of the function."""
        if isinstance(error, NotANumber):
            code = getattr(self._function, "__code__", None)
            return f"{self._file}:{code.co_firstlineno}" if code else repr(self._function)
        return place_of(error, self._file)

    def _write(self, fields: Mapping[str, object]) -> None:
        try:
            with self._log.open("ab", buffering=0) as file:
                file.write(msgspec.json.encode(fields) + b"\n")
        except OSError:  # a full disk must not fail the crawl over a remark
            return


class NotANumber(Exception):  # noqa: N818  it is the value that is none
    """A scorer returned something that is not a finite number."""


def _number(score: object) -> float:
    if type(score) is not bool and isinstance(score, Real):
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise NotANumber(f"{score!r:.100} is not a finite number")


def failure_of(log: Path, key: str) -> dict[str, Any] | None:
    """The first failure written down for a URL, when it got its score; None if there is none."""
    wanted = msgspec.json.encode(key)
    try:
        with log.open("rb") as file:
            for line in file:
                if wanted in line and (fields := _read(line, key)) is not None:
                    return fields
    except OSError:
        return None
    return None


def _read(line: bytes, key: str) -> dict[str, Any] | None:
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:  # torn by a crash
        return None
    return fields if fields.get("key") == key else None
