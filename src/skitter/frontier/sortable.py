"""Numbers as eight bytes that sort like the numbers, for engines that sort bytes."""

from functools import lru_cache
from struct import Struct

_U64 = Struct(">Q")
_F64 = Struct(">d")
_SIGN = 1 << 63
_ONES = (1 << 64) - 1


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


@lru_cache(maxsize=4096)  # few scores are in use at a time: most strategies score by depth
def score8(score: float) -> bytes:
    """A score as bytes; larger sorts first."""
    bits = int(_U64.unpack(_F64.pack(-score + 0.0))[0])  # + 0.0 turns minus zero into zero
    return _U64.pack(~bits & _ONES if bits & _SIGN else bits | _SIGN)


@lru_cache(maxsize=4096)
def order_of(packed: bytes) -> float:
    """The score of `score8`, negated, so that it sorts like the bytes."""
    bits = int(_U64.unpack(packed)[0])
    return float(_F64.unpack(_U64.pack(bits ^ _SIGN if bits & _SIGN else ~bits & _ONES))[0])
