"""One slow document, read by a parser process for a caller that waits: a program that asks for the links of a PDF.

The crawl itself has a pool, which does not wait, and keeps its processes.
"""

import os
import socket
import subprocess
from collections.abc import Sequence

import msgspec

from skitter.model import Document
from skitter.parse.frames import LENGTH, Begin, Read, Trouble, Work, answers, framed
from skitter.parse.pool import COMMAND
from skitter.settings import ParseSettings

_START = 60.0  # seconds for a new process until it is ready
_LONGEST = 2**30  # bytes of an answer


def read_apart(
    url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings
) -> Document:
    """Read a document as `skitter.parse.parse` would. ValueError if that is not possible, with the reason."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = subprocess.Popen(  # noqa: S603  the command is ours
                [*COMMAND, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        try:
            ours.settimeout(_START)
            _ask(ours, Begin(settings, None))
            ours.settimeout(settings.deadline)
            answer = _ask(ours, Work(url, headers, content))
        except TimeoutError:
            answer = Trouble(f"it takes longer than {settings.deadline:g} s (parse.deadline)")
        except (OSError, EOFError, msgspec.DecodeError) as problem:
            answer = Trouble(f"the process that read it ended: {problem}")
        finally:
            child.kill()
            child.wait()
    if isinstance(answer, Read):
        return answer.document
    why = answer.detail if isinstance(answer, Trouble) else "it needs more memory than parse.max_memory"
    raise ValueError(f"{url} cannot be read: {why}")


def _ask(line: socket.socket, order: Begin | Work) -> object:
    for piece in framed(order):
        line.sendall(piece)
    size = int.from_bytes(_received(line, LENGTH), "big")
    if size > _LONGEST:
        raise EOFError("its answer is too long")
    return answers.decode(_received(line, size))


def _received(line: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = line.recv(min(size - len(found), 2**20))
        if not piece:
            raise EOFError("it crashed, or took too much memory")
        found += piece
    return bytes(found)
