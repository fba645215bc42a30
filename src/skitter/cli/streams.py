"""The standard streams of the command: there may be none, or nobody may read them any more.

Whoever closes them (`2>&-`, `| head -1`, a terminal that is gone) wants no text. That stops nothing and changes no exit code.
"""

import errno
import os
import stat
import sys
from typing import TextIO


def provide() -> None:
    """Open /dev/null for each standard stream that is closed: else the next file opened would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _discard(number)
    # For a stream that was closed when the interpreter started, Python has None.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  open until the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def write(stream: TextIO, text: str) -> None:
    """Write the text out now. If it cannot be written, the stream is given up: nothing more is written to it."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:  # nobody reads it, its terminal is gone, its disk is full
        give_up(stream)


def result(text: str) -> None:
    """Write what a run came to on standard output. Nobody has to read it; but who wants it in a file is told if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        if not _unread(problem, sys.stdout):
            raise
        give_up(sys.stdout)


def _unread(problem: OSError, stream: TextIO) -> bool:
    """Whether the other end of a pipe is closed, or a terminal is gone, which says EIO."""
    gone = problem.errno == errno.EIO and stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    return gone or isinstance(problem, BrokenPipeError)


def give_up(stream: TextIO) -> None:
    """Lead the stream to /dev/null. Python would try to write what is left at exit, and change the exit code to 120."""
    _discard(stream.fileno())


def _discard(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
