"""The process that reads slow documents: `python -m skitter.parse.process SOCKET`.

One document at a time, for the pool at the other end of the socket. When that end is closed, the process exits. It
limits itself: memory and time of a document, no core files, and less of the CPU than the crawl if both want it.
"""

import math
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from skitter.parse import parse, parse_asset
from skitter.parse.frames import LENGTH, Begin, OutOfMemory, Read, Ready, Trouble, Work, framed, orders

_NICER = 5  # the crawl gets three times as much of a busy CPU
# Whoever started this may have died, and then nobody ends a parser that hangs.
_ORPHANED = 10.0  # seconds after the deadline
_KILLED_SOONER = "500"  # of 1000: if the machine runs out of memory, this process is to die, not the crawl


def main() -> int:
    """Read documents until the pool hangs up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the crawl receives them, and decides
    with socket.socket(fileno=int(sys.argv[1])) as line:
        begin = _hear(line)
        if not isinstance(begin, Begin):
            return 0
        _limit_memory(begin.settings.max_memory)
        _step_back()
        _say(line, framed(Ready()))
        while isinstance(work := _hear(line), Work):
            try:
                _limit_time(begin.settings.deadline)
                _say(line, _read(work, begin))
            except MemoryError:
                # Nobody knows in which state this left the parser's libraries.
                _say(line, framed(OutOfMemory()))
                break
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _read(work: Work, begin: Begin) -> tuple[bytes, bytes]:
    try:
        given, settings = (work.url, work.headers, work.content), work.settings or begin.settings
        document = parse_asset(*given, settings, work.asset) if work.asset else parse(*given, settings)
        return framed(Read(document, _simhash(document.text, begin.min_words)))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  a parser's bug costs one page, and is recorded with its name
        return framed(Trouble(f"{type(error).__name__}: {error}"))


def _simhash(text: str, min_words: int | None) -> int | None:
    if min_words is None:
        return None
    from skitter.dedup.simhash import simhash  # noqa: PLC0415  it loads numpy

    return simhash(text, min_words)


# ------------------------------------------------------------------------------------------------ limits


def _limit_memory(size: int) -> None:
    _lower(resource.RLIMIT_AS, size)
    _lower(resource.RLIMIT_CORE, 0)


def _limit_time(deadline: float) -> None:
    """Whatever runs too long is ended by the kernel, should the pool not do it."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + deadline) + 1)
    signal.setitimer(signal.ITIMER_REAL, deadline + _ORPHANED)


def _lower(kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _step_back() -> None:
    os.nice(_NICER)
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text(_KILLED_SOONER)


# ------------------------------------------------------------------------------------------------ the line


def _hear(line: socket.socket) -> Begin | Work | None:
    length = _received(line, LENGTH)
    packed = length and _received(line, int.from_bytes(length, "big"))
    return orders.decode(packed) if packed else None


def _received(line: socket.socket, size: int) -> bytearray | None:
    """Exactly so many bytes; None if the other end is gone."""
    whole = bytearray(size)
    rest = memoryview(whole)
    while rest:
        try:
            count = line.recv_into(rest)
        except ConnectionError:
            return None
        if not count:
            return None
        rest = rest[count:]
    return whole


def _say(line: socket.socket, pieces: tuple[bytes, bytes]) -> None:
    with suppress(ConnectionError):  # the next look at the line finds that out
        for piece in pieces:
            line.sendall(piece)


if __name__ == "__main__":
    # Nothing is open. The interpreter would first free every object, and the kernel need not.
    os._exit(main())
