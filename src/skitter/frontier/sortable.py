"""Numbers as eight bytes whose order is that of the numbers, for engines that sort bytes."""

from functools import lru_cache
from struct import Struct

_U64 = Struct(">Q")
_F64 = Struct(">d")
_SIGN = 1 << 63
_ONES = (1 << 64) - 1


number8 = _U64.pack
"""A count that sorts by size."""


def number_of(key: bytes) -> int:
    """The count that `number8` spelt."""
    return int(_U64.unpack(key)[0])


def time8(time: float) -> bytes:
    """A time that sorts by size: the bits of floating-point numbers that are not negative do (IEEE 754)."""
    return _F64.pack(max(time, 0.0))


def time_of(key: bytes, start: int = 1) -> float:
    """The time that stands in a key."""
    return float(_F64.unpack_from(key, start)[0])


@lru_cache(maxsize=4096)  # few scores are in use at a time: most strategies score by depth
def score8(score: float) -> bytes:
    """A score that sorts larger first."""
    bits = int(_U64.unpack(_F64.pack(-score + 0.0))[0])  # + 0.0 makes of minus zero a zero
    return _U64.pack(~bits & _ONES if bits & _SIGN else bits | _SIGN)


@lru_cache(maxsize=4096)
def order_of(packed: bytes) -> float:
    """The score that `score8` spelt, with the other sign: in the order of the bytes."""
    bits = int(_U64.unpack(packed)[0])
    return float(_F64.unpack(_U64.pack(bits ^ _SIGN if bits & _SIGN else ~bits & _ONES))[0])
