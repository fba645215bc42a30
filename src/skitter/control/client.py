"""The other end of the control socket, for the command line."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from skitter.control.address import address_of
from skitter.control.orders import Answer, Follow, Request
from skitter.events import Deferred, Opened, ScopeWidened, SetAside, Stopped, Warned
from skitter.ports import StateError
from skitter.reporting.progress import Progress

_PATIENCE = 60.0  # seconds for an answer
_STARTING = 5.0  # seconds in which a crawl that is starting, or ending, is tried again
_AGAIN = 0.05

Followed = Progress | Opened | Deferred | SetAside | ScopeWidened | Warned | Stopped
"""A line of the stream that follows a crawl."""

_answer = msgspec.json.Decoder(Answer).decode
_followed: msgspec.json.Decoder[Followed] = msgspec.json.Decoder(Followed)


def followed_of(line: bytes) -> Followed:
    """A line of the stream. StateError if the crawl refuses to be followed."""
    try:
        return _followed.decode(line)
    except msgspec.ValidationError:
        raise StateError(_answer(line).error) from None


class NotRunningError(Exception):
    """Nobody listens at the control socket."""


class Client:
    """A connection to a running crawl."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = connection.makefile("rb")

    def ask(self, request: Request) -> Answer:
        """One request and its answer. StateError if none comes."""
        self._socket.settimeout(_PATIENCE)
        try:
            with suppress(BrokenPipeError):  # it may have refused us already, and said why
                self._socket.sendall(msgspec.json.encode(request) + b"\n")
            line = self._lines.readline()
        except TimeoutError:
            raise StateError(f"the crawl has not answered for {_PATIENCE:.0f} s") from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise StateError("the crawl ended before it answered; what it was told may or may not be kept")
        return _answer(line)

    def follow(self) -> Iterator[bytes]:
        """The lines of a crawl, until it ends."""
        self._socket.settimeout(None)
        with suppress(BrokenPipeError):
            self._socket.sendall(msgspec.json.encode(Follow()) + b"\n")
        while (line := self._line()).endswith(b"\n"):
            yield line

    def _line(self) -> bytes:
        try:
            return self._lines.readline()
        except OSError:
            return b""

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()


@contextmanager
def connected(path: Path, in_use: Callable[[], bool]) -> Iterator[Client]:
    """A connection to the crawl whose socket is here. NotRunningError if there is none.

    `in_use` says whether a crawl runs there: one that is just starting gets a moment to open its socket.
    """
    client = _connect(path, in_use)
    try:
        yield client
    finally:
        client.close()


def _connect(path: Path, in_use: Callable[[], bool]) -> Client:
    patience = time.monotonic() + _STARTING
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_of(path) as address:
                connection.connect(address)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            connection.close()
            if not in_use() or time.monotonic() > patience:
                raise NotRunningError from None
            time.sleep(_AGAIN)
        except PermissionError:
            connection.close()
            raise StateError(
                f"{path} may not be used: this is the crawl of another user; only that user can control it"
            ) from None
        except BaseException:
            connection.close()
            raise
        else:
            return Client(connection)
