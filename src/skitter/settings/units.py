"""Durations and sizes with their units."""

import re
from typing import NewType

from skitter.runtime.hiding import hidden

Seconds = NewType("Seconds", float)
Bytes = NewType("Bytes", int)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\Z")
_DURATION_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, None: 1}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?)?B?\Z")
_SIZE_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE_UNITS |= {"ki": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_MOST_DIGITS = 24  # of a number: what has more is no time and no size, and a few hundred would be infinite


class SettingsError(ValueError):
    """An unknown setting or an invalid value. The message says where, and what to write instead."""

    def __init__(self, message: str) -> None:
        super().__init__(hidden(message))  # it quotes the value


def seconds(text: str | float) -> Seconds:
    """'1s', '1.5m', '24h', '250ms' or a plain number of seconds."""
    match = _DURATION.match(str(text).strip())
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise SettingsError(f"{text!r} is not a duration; write for example 1s, 5m, 24h or 250ms")
    return Seconds(float(match[1]) * _DURATION_UNITS[match[2]])


_ADDRESS = re.compile(r"(?:(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]*):)?([0-9]{1,5})\Z")


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT, [ADDRESS]:PORT or PORT, as host and port. Without a host it is this machine alone."""
    found = _ADDRESS.match(text.strip())
    if found is None or int(found[2]) > 65535:
        raise SettingsError(f"{text!r} is not HOST:PORT; write for example 127.0.0.1:9464")
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


def size(text: str | int) -> Bytes:
    """'10MiB', '500kB' or a plain number of bytes."""
    match = _SIZE.match(str(text).strip())
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise SettingsError(f"{text!r} is not a size; write for example 10MiB, 500kB or 1024")
    return Bytes(int(float(match[1]) * _SIZE_UNITS[match[2] or ""]))
