"""Standard streams that may be closed, or that nobody reads any more.

A closed stream (`2>&-`, `| head -1`, a terminal that is gone) neither stops a run nor changes its exit code.
"""

import errno
import os
import stat
import sys
from typing import TextIO


def provide() -> None:
    """Open /dev/null for each closed standard stream; otherwise the next file opened would get its descriptor."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _discard(number)
    # Python sets these to None if they were closed when the interpreter started.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  open until the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def write(stream: TextIO, text: str) -> None:
    """Write and flush the text. If that fails, the stream is given up and nothing more is written to it."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:  # no reader, terminal gone, or disk full
        give_up(stream)


def result(text: str) -> None:
    """Write a result to standard output. A missing reader is ignored; a failed write to a file is raised."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        if not _unread(problem, sys.stdout):
            raise
        give_up(sys.stdout)


def _unread(problem: OSError, stream: TextIO) -> bool:
    """Whether the reader of a pipe is gone, or the terminal (EIO)."""
    gone = problem.errno == errno.EIO and stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    return gone or isinstance(problem, BrokenPipeError)


def give_up(stream: TextIO) -> None:
    """Redirect the stream to /dev/null. Otherwise Python flushes it at exit and changes the exit code to 120."""
    _discard(stream.fileno())


def _discard(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
