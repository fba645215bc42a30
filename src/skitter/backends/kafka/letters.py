"""What lies in a message, and what becomes of one that nobody can read.

Headers say which crawl sent it, what it is and of which version; the value is MessagePack. Whatever does not fit goes to the
dead-letter topic as it came, with the reason and where it was found in its headers, so that one bad message never stops a
partition, and an operator can put it back.
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
_KEPT = 64 * 2**10  # bytes of a message that is too large to be set aside whole
_NAMED = 100  # bytes of a header that is not what it should be


class Found(Struct, frozen=True, gc=False):
    """A message as it was found."""

    topic: str
    partition: int
    offset: int
    value: bytes
    key: bytes | None = None
    headers: Headers = ()


class Unreadable(Struct, frozen=True):
    """A message that cannot be read, and why."""

    found: Found
    reason: str


def found(message: Message) -> Found:
    """A message in our words."""
    pairs: Any = message.headers() or ()  # its type is that of what may be sent: a list, or a dictionary
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
    """The headers of a message of ours."""
    return (("skitter-crawl", crawl.encode()), ("skitter-type", kind.encode()), ("skitter-version", VERSION))


def read(message: Found, crawl: str, kind: str, decoder: "msgspec.msgpack.Decoder[T]") -> T | Unreadable:
    """What a message says, if it is for us."""
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
    """The message as it is set aside."""
    message = unreadable.found
    where = f"{message.topic}/{message.partition}/{message.offset}"
    reason = (("dead-reason", unreadable.reason.encode()), ("dead-from", where.encode()))
    return Outgoing(topic, message.value, message.key, headers=(*message.headers, *reason))


async def bury(sender: Sender, topic: str, letters: Sequence[Unreadable]) -> None:
    """Set messages aside; returns when they are safe there."""
    large = await sender.offer([dead(topic, letter) for letter in letters])
    # A stranger may be allowed larger messages than we are; its beginning and the reason are worth keeping.
    await sender.send(
        Outgoing(each.topic, each.value[:_KEPT], headers=(*each.headers[-2:], ("dead-cut", b"1")))
        for each in (failure.message for failure in large)
    )
