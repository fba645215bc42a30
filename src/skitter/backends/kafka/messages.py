"""The format of a message, and the dead-letter topic for unreadable ones.

Headers name the crawl, the type and the version; the value is MessagePack. Whatever does not fit goes to the
dead-letter topic unchanged, with the reason and its origin in its headers, so that one bad message never
stops a partition, and an operator can put it back.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from confluent_kafka import Message
from msgspec import Struct

from skitter.backends.kafka.sending import Headers, Outgoing, Sender
from skitter.engines.damaged import DAMAGED

T = TypeVar("T")

VERSION = b"1"
_KEPT = 64 * 2**10  # bytes kept of a message that is too large for the dead-letter topic
_NAMED = 100  # bytes shown of an unexpected header


class Found(Struct, frozen=True, gc=False):
    """A message as received."""

    topic: str
    partition: int
    offset: int
    value: bytes
    key: bytes | None = None
    headers: Headers = ()


class Unreadable(Struct, frozen=True):
    """An unreadable message, with the reason."""

    found: Found
    reason: str


def found(message: Message) -> Found:
    """A decoded message."""
    pairs: Any = message.headers() or ()  # the type of what may be sent: a list, or a dictionary
    headers = [(name, value or b"") for name, value in pairs]
    return Found(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        value=message.value() or b"",
        key=message.key(),
        headers=headers,
    )


def label(crawl: str, kind: str) -> Headers:
    """The headers of our messages."""
    return (("skitter-crawl", crawl.encode()), ("skitter-type", kind.encode()), ("skitter-version", VERSION))


def read(message: Found, crawl: str, kind: str, decoder: "msgspec.msgpack.Decoder[T]") -> T | Unreadable:
    """Decode a message, if it is for us."""
    headers = dict(message.headers)
    if "skitter-type" not in headers:
        return Unreadable(message, "not a message of Skitter")
    for name, expected in label(crawl, kind):
        if headers.get(name) != expected:
            other = headers.get(name, b"")[:_NAMED].decode("utf-8", "replace")
            return Unreadable(message, f"{name} is {other!r}, not {expected.decode()!r}")
    try:
        return decoder.decode(message.value)
    except DAMAGED as problem:
        return Unreadable(message, f"damaged: {problem}")


def dead(topic: str, unreadable: Unreadable) -> Outgoing:
    """The message for the dead-letter topic."""
    message = unreadable.found
    where = f"{message.topic}/{message.partition}/{message.offset}"
    reason = (("dead-reason", unreadable.reason.encode()), ("dead-from", where.encode()))
    return Outgoing(topic, message.value, message.key, headers=(*message.headers, *reason))


async def bury(sender: Sender, topic: str, unreadable: Sequence[Unreadable]) -> None:
    """Send messages to the dead-letter topic; returns when they are acknowledged."""
    large = await sender.offer([dead(topic, each) for each in unreadable])
    # Another producer may be allowed larger messages than we are; the beginning and the reason are worth
    # keeping.
    await sender.send(
        Outgoing(each.topic, each.value[:_KEPT], headers=(*each.headers[-2:], ("dead-cut", b"1")))
        for each in (failure.message for failure in large)
    )
