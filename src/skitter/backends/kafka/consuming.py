"""Shared by our consumers: take the available messages, and separate temporary errors from real ones."""

from confluent_kafka import Consumer, KafkaError, KafkaException

from skitter.backends.kafka.client import moving
from skitter.backends.kafka.messages import Found, found

# Errors that librdkafka reports to a consumer and handles itself.
_PASSING = {
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._PARTITION_EOF,  # noqa: SLF001
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001  it joins again by itself
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def messages_of(consumer: Consumer, limit: int, wait: float) -> list[Found]:
    """At most `limit` messages that are available or arrive within some seconds. Blocks.

    Errors that come together with messages are not raised: the messages would be lost, and a lasting error
    comes again.
    """
    messages, trouble = [], None
    for message in consumer.consume(limit, timeout=wait) if limit > 0 else ():
        error = message.error()
        if error is None:
            messages.append(found(message))
        elif error.code() not in _PASSING and not error.retriable() and not moving(error):
            trouble = error
    if trouble is not None and not messages:
        raise KafkaException(trouble)
    return messages
