"""Numbers as eight bytes that sort like the numbers, for engines that sort bytes."""

from collections.abc import Callable
from struct import Struct
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
_U64 = Struct(">Q")
_F64 = Struct(">d")
_SIGN = 1 << 63
_ONES = (1 << 64) - 1
_SCORES = 4096  # few are in use at a time: most strategies score by depth


number8 = _U64.pack
"""An integer as bytes that sort by size."""


def number_of(key: bytes) -> int:
    """The integer of `number8`."""
    return int(_U64.unpack(key)[0])


def time8(time: float) -> bytes:
    """A time as bytes that sort by size: the bits of non-negative floating-point numbers do (IEEE 754)."""
    return _F64.pack(max(time, 0.0))


def time_of(key: bytes, start: int = 1) -> float:
    """The time in a key."""
    return float(_F64.unpack_from(key, start)[0])


# ------------------------------------------------------------------------------------------------ scores


def _packed(score: float) -> bytes:
    bits = int(_U64.unpack(_F64.pack(-score + 0.0))[0])  # + 0.0 turns minus zero into zero
    return _U64.pack(~bits & _ONES if bits & _SIGN else bits | _SIGN)


def _unpacked(packed: bytes) -> float:
    bits = int(_U64.unpack(packed)[0])
    return float(_F64.unpack(_U64.pack(bits ^ _SIGN if bits & _SIGN else ~bits & _ONES))[0])


class _Answers(dict[A, B]):
    """The answers of a function, kept. `lru_cache` does the same, and makes a tuple of a number each time it is asked."""

    def __init__(self, function: Callable[[A], B]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, question: A) -> B:
        if len(self) >= _SCORES:
            self.clear()
        answer = self[question] = self._function(question)
        return answer


score8 = _Answers(_packed).__getitem__
"""A score as bytes; larger sorts first."""

order_of = _Answers(_unpacked).__getitem__
"""The score of `score8`, negated, so that it sorts like the bytes."""
