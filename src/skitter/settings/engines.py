"""Settings of a crawl on many machines: the cluster, then one section per engine.

An engine may have several addresses, tried in turn. Secrets are not settings, so that they never appear on a command
line, in `crawl.toml` or in a log: each comes from the environment, or from a file that a setting names (see `SECRETS`).
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from skitter.settings.units import Bytes, Seconds

SECRETS: Mapping[str, str] = {
    "redis.password_file": "SKITTER_REDIS_PASSWORD",
    "postgres.password_file": "SKITTER_POSTGRES_PASSWORD",
    "kafka.password_file": "SKITTER_KAFKA_PASSWORD",
    "s3.secret_key_file": "SKITTER_S3_SECRET_KEY",
    "search.password_file": "SKITTER_SEARCH_PASSWORD",
    "alerts.secret_file": "SKITTER_ALERTS_SECRET",
}
"""For each secret: the setting that names its file, and the environment variable to use instead."""


class ClusterSettings(Struct, frozen=True):
    """The cluster: its size, leases and batching."""

    size: Annotated[
        str,
        "none: one machine; redis: a few machines with one Redis; full: Kafka, PostgreSQL, Redis, S3 and a search index",
    ] = "none"
    name: Annotated[str, "name of the crawl on its engines: schema, key prefix and consumer group"] = (
        "skitter"
    )
    lease: Annotated[Seconds, "a shard whose worker is silent for this long is taken by another"] = Seconds(
        15.0
    )
    renew: Annotated[Seconds, "time between two heartbeats of a worker"] = Seconds(3.0)
    lease_ahead: Annotated[
        Seconds, "how long before its host is free a visit may be leased; longer means fewer round trips"
    ] = Seconds(1.0)
    commit_interval: Annotated[
        Seconds,
        "visits of a worker that finish within this time are settled in one batch; does not slow down hosts with a longer delay",
    ] = Seconds(0.5)
    breaker_tests: Annotated[
        int, "an engine that was away counts as back after this many successful calls or health checks"
    ] = 10


class RedisSettings(Struct, frozen=True):
    """Redis: the frontier of a small cluster, the shared cache of a full one."""

    addresses: Annotated[tuple[str, ...], "host:port of the server, and of its replicas"] = (
        "127.0.0.1:6379",
    )
    database: Annotated[int, "database number"] = 0
    username: Annotated[str, "user name, if the server requires one"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_REDIS_PASSWORD"] = ""
    tls: Annotated[bool, "use TLS"] = False
    ca_file: Annotated[str, "CA certificates (PEM) to trust instead of the system's"] = ""


class PostgresSettings(Struct, frozen=True):
    """PostgreSQL: the state of a full cluster."""

    addresses: Annotated[tuple[str, ...], "host:port, tried in turn until one is writable"] = (
        "127.0.0.1:5432",
    )
    database: Annotated[str, "database name"] = "skitter"
    user: Annotated[str, "user name"] = "skitter"
    password_file: Annotated[str, "file with the password; or the variable SKITTER_POSTGRES_PASSWORD"] = ""
    tls: Annotated[bool, "use TLS and verify the certificate"] = False
    ca_file: Annotated[str, "CA certificates (PEM) to trust instead of the system's"] = ""
    connections: Annotated[int, "maximum number of connections per worker"] = 4
    timeout: Annotated[Seconds, "a statement that takes longer fails"] = Seconds(30.0)


class KafkaSettings(Struct, frozen=True):
    """Kafka: forwarded links, and pages for the search index."""

    addresses: Annotated[tuple[str, ...], "host:port of some brokers"] = ("127.0.0.1:9092",)
    links_high: Annotated[str, "topic of critical and high links"] = "discovered-urls-high"
    links_medium: Annotated[str, "topic of normal links"] = "discovered-urls-medium"
    links_low: Annotated[str, "topic of low and background links"] = "discovered-urls-low"
    documents: Annotated[str, "topic of stored pages with their text"] = "crawled-documents"
    errors: Annotated[str, "topic of URLs that could not be fetched"] = "crawl-errors"
    dead_letters: Annotated[str, "topic of unreadable messages"] = "dead-letters"
    documents_partitions: Annotated[
        int,
        "partitions of the documents topic: up to this many `skitter index` can share it; link topics have one per shard",
    ] = 10
    errors_partitions: Annotated[int, "partitions of the errors topic"] = 5
    documents_retention: Annotated[
        Seconds, "how long documents are kept, read or not; 0 for ever; waiting links never expire"
    ] = Seconds(7 * 86400.0)
    errors_retention: Annotated[Seconds, "how long errors are kept; 0 for ever"] = Seconds(30 * 86400.0)
    dead_letters_retention: Annotated[Seconds, "how long dead letters are kept; 0 for ever"] = Seconds(0.0)
    replication: Annotated[int, "copies of each partition; 3 if there are enough brokers"] = 1
    document_text: Annotated[Bytes, "maximum size of the text in a document message"] = Bytes(512 * 2**10)
    tls: Annotated[bool, "use TLS and verify the certificate"] = False
    ca_file: Annotated[str, "CA certificates (PEM) to trust instead of the system's"] = ""
    mechanism: Annotated[str, "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; none when empty"] = ""
    username: Annotated[str, "user name"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_KAFKA_PASSWORD"] = ""


class S3Settings(Struct, frozen=True):
    """S3, or a compatible server: the archive."""

    bucket: Annotated[str, "bucket for the archive's segments; it must exist"] = ""
    prefix: Annotated[str, "prefix of every object name"] = ""
    endpoint: Annotated[str, "http(s)://host:port of a server other than Amazon's"] = ""
    region: Annotated[str, "region of the bucket"] = "us-east-1"
    access_key: Annotated[str, "access key; empty to use the machine's credentials"] = ""
    secret_key_file: Annotated[str, "file with the secret key; or the variable SKITTER_S3_SECRET_KEY"] = ""
    ca_file: Annotated[str, "CA certificates (PEM) to trust besides the system's"] = ""
    layout: Annotated[str, "segments: WARC files; pages: also one {date}/{hash}.html.gz per page"] = (
        "segments"
    )
    segment: Annotated[Bytes, "a segment of this size is closed and uploaded"] = Bytes(64 * 10**6)
    segment_time: Annotated[Seconds, "… and so is one of this age"] = Seconds(60.0)
    part: Annotated[Bytes, "larger segments are uploaded in parts of this size"] = Bytes(8 * 2**20)
    spool: Annotated[Bytes, "no visits start while this much waits on disk to be uploaded"] = Bytes(4 * 10**9)


class SearchSettings(Struct, frozen=True):
    """OpenSearch or Elasticsearch: the index of pages."""

    addresses: Annotated[tuple[str, ...], "http(s)://host:port of some nodes"] = ()
    index: Annotated[str, "name of the index"] = "web_pages"
    username: Annotated[str, "user name"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_SEARCH_PASSWORD"] = ""
    ca_file: Annotated[str, "CA certificates (PEM) to trust instead of the system's"] = ""
    bulk: Annotated[int, "maximum number of pages per request"] = 500
