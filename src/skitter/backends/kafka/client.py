"""How our clients connect to the brokers, and the error messages if they cannot.

librdkafka retries for ever and reports to a callback; an operator who mistyped a port wants one line. So the
first contact is made here, with a deadline, and its failure is translated into the setting that is wrong.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from skitter.ports import EngineAway, EngineError
from skitter.settings.engines import KafkaSettings
from skitter.settings.secrets import secret

T = TypeVar("T")

_FIRST_CONTACT = 10.0  # seconds; a broker that is starting needs about five
_ANSWER = 30.0  # seconds for one administrative request
# KIP-98: needed for idempotent producers and for deleting records; brokers have it since 2017.
_OLDEST = "0.11"


def unfit(setting: str, fix: str) -> EngineError:
    """What is wrong with the setting, and what to do, in one line."""
    return EngineError(" ".join(f"Kafka: {setting}: {fix}".split()))


def away(what: str) -> EngineAway:
    """The brokers cannot do what they were asked right now."""
    return EngineAway(" ".join(f"Kafka: {what}".split()))


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """The common configuration of producers, consumers and administrators, in librdkafka's terms."""
    return {
        "bootstrap.servers": ",".join(settings.addresses),
        "client.id": "skitter",
        # A restarted broker is found within a second.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        # Errors are returned where they matter; standard error belongs to the crawl.
        "log_level": 0,
        **_security(settings),
    }


def _security(settings: KafkaSettings) -> dict[str, Any]:
    login = bool(settings.mechanism)
    chosen: dict[str, Any] = {
        "security.protocol": ("SASL_" if login else "") + ("SSL" if settings.tls else "PLAINTEXT")
    }
    if settings.tls and settings.ca_file:
        chosen["ssl.ca.location"] = settings.ca_file
    if login:
        chosen["sasl.mechanism"] = settings.mechanism
        chosen["sasl.username"] = settings.username
        chosen["sasl.password"] = secret("kafka.password_file", settings.password_file)
    return chosen


async def reach(settings: KafkaSettings) -> tuple[AdminClient, ClusterMetadata]:
    """An administrator, and the brokers' metadata; EngineError if they cannot be reached."""
    said: list[KafkaError] = []
    try:
        options: dict[str, Any] = {**connection(settings), "error_cb": said.append}
        admin = AdminClient(options)
    except KafkaException as problem:  # librdkafka refuses the configuration: an unusable mechanism or file
        raise explained(problem, settings) from None
    try:
        return admin, await asyncio.to_thread(admin.list_topics, timeout=_FIRST_CONTACT)
    except KafkaException as problem:
        await asyncio.to_thread(admin.poll, 0)  # lets the callback run
        raise explained(problem, settings, said) from None


async def answers(futures: Mapping[Any, "Future[T]"]) -> dict[Any, T | KafkaError]:
    """The brokers' answers to an administrative request, per topic or partition."""
    keys = list(futures)
    waiting = asyncio.gather(*(asyncio.wrap_future(futures[key]) for key in keys), return_exceptions=True)
    try:
        results = await asyncio.wait_for(waiting, _ANSWER)
    except TimeoutError:
        raise away("no answer to an administrative request") from None
    found: dict[Any, T | KafkaError] = {}
    for key, result in zip(keys, results, strict=True):
        if isinstance(result, KafkaException):
            found[key] = error_of(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            found[key] = result
    return found


def error_of(problem: KafkaException) -> KafkaError:
    """The error inside the exception."""
    error: KafkaError = problem.args[0]
    return error


_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # a broker that has just started does not know its topics yet
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    # A leader was just elected, and one side does not know yet; happens after a broker was frozen.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}


def moving(error: KafkaError) -> bool:
    """Whether a partition has no leader at the moment, or one that cannot answer yet."""
    return error.code() in _MOVING


_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.ILLEGAL_SASL_STATE)  # noqa: SLF001
_RIGHTS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
_OLD = (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE)  # noqa: SLF001
# Error codes, the setting behind them, and what to do.
_CAUSES = (
    (
        _LOGIN,
        "kafka.username",
        "{said}; correct kafka.username, kafka.mechanism or the password (SKITTER_KAFKA_PASSWORD or its file)",
    ),
    ((KafkaError.UNSUPPORTED_SASL_MECHANISM,), "kafka.mechanism", "{said}; use one that the brokers offer"),
    ((KafkaError._SSL,), "kafka.tls", "{said}; correct kafka.tls or kafka.ca_file"),  # noqa: SLF001
    (_RIGHTS, "kafka.username", "{said}; give this user the right to do it"),
    (_OLD, "kafka.addresses", f"the brokers are too old ({{said}}); run Kafka {_OLDEST} or newer"),
    ((KafkaError._INVALID_ARG,), "kafka.mechanism", "{said}; correct the [kafka] section"),  # noqa: SLF001
)
# Failures whose text says more than their code: a refused part of the configuration, a failed handshake.
_WORDS = (
    (
        "sasl.password",
        "kafka.username",
        "a mechanism needs a name and a password; set kafka.username, and kafka.password_file or SKITTER_KAFKA_PASSWORD",
    ),
    ("ssl.ca.location", "kafka.ca_file", "{said}; name a readable file of certificates"),
    ("SSL handshake", "kafka.tls", "{said}; correct kafka.tls or kafka.ca_file"),
)


def explained(
    problem: KafkaException, settings: KafkaSettings, said: Sequence[KafkaError] = ()
) -> EngineError:
    """The setting behind a failure. What the callback reported is closer to the cause than the timeout."""
    errors = [*reversed(said), error_of(problem)]
    for words, setting, fix in _WORDS:
        for error in errors:
            if words in error.str():
                return unfit(setting, fix.format(said=error.str()))
    for codes, setting, fix in _CAUSES:
        for error in errors:
            if error.code() in codes:
                return unfit(setting, fix.format(said=error.str()))
    where = ", ".join(settings.addresses)
    # A broker that requires TLS closes connections without it.
    fix = "start Kafka or correct the address" + ("" if settings.tls else ", or set kafka.tls")
    return unfit("kafka.addresses", f"no broker answers at {where} ({errors[0].str()}); {fix}")
