"""What a parser process and its pool say to each other: tagged structs in MessagePack, each with its length in front.

The process reads hostile documents, so the pool does not trust it: an answer that is too long, or not one of these,
counts as no answer.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from skitter.model import Document
from skitter.settings import ParseSettings


class Begin(Struct, frozen=True, tag=True):
    """The first message to a process: how documents are read."""

    settings: ParseSettings
    min_words: int | None  # of a text that gets a SimHash; None if none does


class Work(Struct, frozen=True, tag=True):
    """A document to read."""

    url: str
    headers: Sequence[tuple[str, str]]
    content: bytes
    settings: ParseSettings | None = None  # of its site, if they differ
    asset: str = ""  # the kind of asset it is; empty for a page


class Ready(Struct, frozen=True, tag=True):
    """The process has loaded the parsers."""


class Read(Struct, frozen=True, tag=True):
    """What was found in the document, and the SimHash of its text."""

    document: Document
    simhash: int | None = None


class Trouble(Struct, frozen=True, tag=True):
    """Why the document could not be read, in plain words."""

    detail: str


class OutOfMemory(Struct, frozen=True, tag=True):
    """The document needs more memory than a process may have; this one ends now."""


LENGTH = 4  # bytes
Answer = Ready | Read | Trouble | OutOfMemory
Order = Begin | Work

_encode = msgspec.msgpack.Encoder().encode
orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def framed(message: Order | Answer) -> tuple[bytes, bytes]:
    """The length of a message, and the message."""
    packed = _encode(message)
    return len(packed).to_bytes(LENGTH, "big"), packed
