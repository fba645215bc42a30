"""Settings of a crawl on many machines: the cluster as a whole, then one section per engine.

An engine may have several addresses, tried in turn. Secrets are no settings, so that they are in no command line, no
`crawl.toml` and no log: each comes from the environment, or from a file that a setting names (see `SECRETS`).
"""
# ruff: noqa: FBT003, RUF009  setting() is dataclasses.field()

from collections.abc import Mapping
from dataclasses import dataclass

from skitter.settings.units import Bytes, Seconds, setting

SECRETS: Mapping[str, str] = {
    "redis.password_file": "SKITTER_REDIS_PASSWORD",
    "postgres.password_file": "SKITTER_POSTGRES_PASSWORD",
    "kafka.password_file": "SKITTER_KAFKA_PASSWORD",
    "s3.secret_key_file": "SKITTER_S3_SECRET_KEY",
    "search.password_file": "SKITTER_SEARCH_PASSWORD",
}
"""The setting that names the file of a secret, and the variable that holds it instead."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Many machines, one crawl."""

    size: str = setting(
        "none",
        "none: one machine; redis: a few machines around one Redis; full: Kafka, PostgreSQL, Redis, S3 and a search index",
    )
    name: str = setting("skitter", "tells crawls on the same engines apart: schema, key prefix and group")
    lease: Seconds = setting(Seconds(15.0), "a shard whose worker is silent for so long is taken by another")
    renew: Seconds = setting(Seconds(3.0), "between two signs of life of a worker")
    lease_ahead: Seconds = setting(
        Seconds(1.0), "visits are taken out so long before their hosts are free, many at a time"
    )
    commit_interval: Seconds = setting(
        Seconds(0.5),
        "visits of a worker that finish within this time are settled together; hosts that are left alone for longer do not notice",
    )


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Redis: the frontier of a small cluster, the shared cache of a full one."""

    addresses: tuple[str, ...] = setting(("127.0.0.1:6379",), "host:port of the server, and of its replicas")
    database: int = setting(0, "number of the database")
    username: str = setting("", "who logs in, where the server wants a name")
    password_file: str = setting("", "file with the password; or the variable SKITTER_REDIS_PASSWORD")
    tls: bool = setting(False, "speak TLS")
    ca_file: str = setting("", "certificates that are trusted instead of the system's")


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """PostgreSQL: the truth about every URL."""

    addresses: tuple[str, ...] = setting(
        ("127.0.0.1:5432",), "host:port, tried in turn until one takes writes"
    )
    database: str = setting("skitter", "name of the database")
    user: str = setting("skitter", "who logs in")
    password_file: str = setting("", "file with the password; or the variable SKITTER_POSTGRES_PASSWORD")
    tls: bool = setting(False, "speak TLS, and check the certificate")
    ca_file: str = setting("", "certificates that are trusted instead of the system's")
    connections: int = setting(4, "open connections of one worker, at most")
    timeout: Seconds = setting(Seconds(30.0), "a statement that takes longer has failed")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Kafka: links on their way to their shard, pages on their way to the index."""

    addresses: tuple[str, ...] = setting(("127.0.0.1:9092",), "host:port of some brokers")
    links_high: str = setting("discovered-urls-high", "topic of critical and high links")
    links_medium: str = setting("discovered-urls-medium", "topic of normal links")
    links_low: str = setting("discovered-urls-low", "topic of low and background links")
    documents: str = setting("crawled-documents", "topic of stored pages with their text")
    errors: str = setting("crawl-errors", "topic of what could not be fetched")
    dead_letters: str = setting("dead-letters", "topic of messages that nobody can read")
    partitions: int = setting(12, "of the documents and errors topics; link topics have one per shard")
    replication: int = setting(1, "copies of each partition; 3 where there are brokers enough")
    document_text: Bytes = setting(Bytes(512 * 2**10), "the text of a document message is cut here")
    tls: bool = setting(False, "speak TLS, and check the certificate")
    ca_file: str = setting("", "certificates that are trusted instead of the system's")
    mechanism: str = setting("", "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; none when empty")
    username: str = setting("", "who logs in")
    password_file: str = setting("", "file with the password; or the variable SKITTER_KAFKA_PASSWORD")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """S3, or what speaks like it: where the archive goes."""

    bucket: str = setting("", "bucket that segments are uploaded to; it must exist")
    prefix: str = setting("", "begins the name of every object")
    endpoint: str = setting("", "http(s)://host:port of a server that is not Amazon's")
    region: str = setting("us-east-1", "region of the bucket")
    access_key: str = setting("", "who logs in; empty for the credentials of the machine")
    secret_key_file: str = setting("", "file with the secret key; or the variable SKITTER_S3_SECRET_KEY")
    ca_file: str = setting("", "certificates that are trusted besides the system's")
    layout: str = setting("segments", "segments: WARC files; pages: also one {date}/{hash}.html.gz per page")
    segment: Bytes = setting(Bytes(64 * 10**6), "a segment of this size is finished and uploaded")
    segment_time: Seconds = setting(Seconds(60.0), "… and so is one of this age")
    part: Bytes = setting(Bytes(8 * 2**20), "larger segments are uploaded in parts of this size")
    spool: Bytes = setting(
        Bytes(4 * 10**9), "no visits are made while so much waits on this disk for its upload"
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """OpenSearch or Elasticsearch: the index of pages."""

    addresses: tuple[str, ...] = setting((), "http(s)://host:port of some nodes")
    index: str = setting("web_pages", "name of the index")
    username: str = setting("", "who logs in")
    password_file: str = setting("", "file with the password; or the variable SKITTER_SEARCH_PASSWORD")
    ca_file: str = setting("", "certificates that are trusted instead of the system's")
    bulk: int = setting(500, "pages in one request, at most")
