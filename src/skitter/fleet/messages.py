"""Messages between a parent and its workers: tagged structs in MessagePack, each with its length in front.

Links pass through the parent without being decoded there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from skitter.events import Deferred, Opened, Requested, ScopeWidened, SetAside, Warned
from skitter.model import Counts, HostRecord, Link, Stop
from skitter.ports import Command, Obeyed
from skitter.reporting.waiting import Waiting
from skitter.runtime.metrics import Metrics
from skitter.seeds import BadSeed

# ------------------------------------------------------------------------------------------------ to a worker


class Start(Struct, frozen=True, tag=True):
    """The first message. `life` counts the workers started so far, so that no two use the same numbers."""

    directory: str
    shards: Sequence[int]
    workers: int
    life: int
    tell_requests: bool = False  # for -v
    held: bool = False  # nothing is leased until Go


class Seeds(Struct, frozen=True, tag=True):
    """Seeds to judge and bring to their owners."""

    number: int
    seeds: Sequence[Link]
    bad: Sequence[BadSeed] = ()


class Go(Struct, frozen=True, tag=True):
    """Visits may be leased."""


class Ask(Struct, frozen=True, tag=True):
    """Asks a worker for its Account, and tells it how many pages it may store in all."""

    round: int
    max_pages: int | None = None
    complete: bool = False  # lease only what the stored pages need


class Again(Struct, frozen=True, tag=True):
    """These shards have a new worker: unacknowledged links sent to the old one may be lost."""

    shards: Sequence[int]


class Roots(Struct, frozen=True, tag=True):
    """Roots that another worker has added to the scope; from a worker, its own."""

    roots: Sequence[str]


class Commands(Struct, frozen=True, tag=True):
    """Commands that are kept, in order: apply those that are new."""

    commands: Sequence[Command]


class Halt(Struct, frozen=True, tag=True):
    """Finish what is in flight, save, and report. `at_once`: cancel what is in flight."""

    why: Stop
    at_once: bool = False


# ------------------------------------------------------------------------------------------------ from a worker


class Ready(Struct, frozen=True, tag=True):
    """Its shards are open. Commands up to this number are applied, some of them just now."""

    counts: Counts
    applied: int = 0
    results: Sequence[Obeyed] = ()
    went: int = 0  # waiting URLs that changed settings no longer want
    came: int = 0  # URLs that earlier settings refused, and that are wanted now


class Seeded(Struct, frozen=True, tag=True):
    """The seeds are with their owners."""

    number: int


class Applied(Struct, frozen=True, tag=True):
    """The shards have applied the commands up to a number."""

    number: int
    results: Sequence[Obeyed]


class Idle(Struct, frozen=True, tag=True):
    """There is nothing to do here; perhaps all is done."""


class Account(Struct, frozen=True, tag=True):
    """The answer to Ask."""

    round: int
    counts: Counts
    in_flight: int
    idle: bool  # nothing is due, or only later
    max_pages: int | None  # as many as it may store, or already might
    wants_pages: bool  # it has work that only this limit holds back
    metrics: Metrics
    waiting: Waiting = Waiting()  # what it is waiting for
    hopeless: bool = False  # only failed hosts are waiting, and none has ever answered


class Heard(Struct, frozen=True, tag=True):
    """An event for the log or the screen."""

    event: Opened | Deferred | SetAside | ScopeWidened | Warned | Requested


class Ended(Struct, frozen=True, tag=True):
    """The worker has saved everything and exits."""

    why: Stop
    counts: Counts
    hosts: Sequence[HostRecord]
    metrics: Metrics
    work_left: bool
    failed: Mapping[str, str] = {}  # origins that could not be reached, and why


class Broken(Struct, frozen=True, tag=True):
    """The worker cannot go on, and neither could another one: a full disk, a store of another version."""

    problem: str
    settings: bool = False  # the settings are wrong, or a plug-in


class Importing(Struct, frozen=True, tag=True):
    """The worker is about to import a plug-in, which may end it; empty when all are imported."""

    plugin: str


# ------------------------------------------------------------------------------------------------ from worker to worker


class Carry(Struct, frozen=True, tag=True):
    """Links for a shard. The number is the sender's, and comes back with the acknowledgement."""

    to: int
    sender: int  # a shard of the sending worker
    number: int
    size: int
    links: msgspec.Raw


class Carried(Struct, frozen=True, tag=True):
    """The links of that number are safe with their owner."""

    sender: int
    number: int


Message = (
    Start
    | Seeds
    | Go
    | Ask
    | Again
    | Roots
    | Commands
    | Halt
    | Ready
    | Seeded
    | Applied
    | Idle
    | Account
    | Heard
    | Ended
    | Broken
    | Importing
    | Carry
    | Carried
)

# ------------------------------------------------------------------------------------------------ the wire

_encode = msgspec.msgpack.Encoder().encode
_decode: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_LENGTH = 4  # bytes


class Line:
    """One end of the socket between a parent and a worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, message: Message) -> None:
        """Send a message. One to a dead worker is lost, and its death is soon known."""
        if not self._writer.is_closing():
            body = _encode(message)
            self._writer.write(len(body).to_bytes(_LENGTH, "big") + body)

    async def hear(self) -> Message | None:
        """The next message; None if the other end is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
            return _decode.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def sent(self) -> None:
        """Return when everything said is on its way, and would survive the end of this process."""
        while self._writer.transport.get_write_buffer_size():  # noqa: ASYNC110  a message or two
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close, after everything that was sent."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
