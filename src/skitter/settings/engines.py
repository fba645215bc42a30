"""Settings of a crawl on many machines: the cluster as a whole, then one section per engine.

An engine may have several addresses, tried in turn. Secrets are no settings, so that they are in no command line, no
`crawl.toml` and no log: each comes from the environment, or from a file that a setting names (see `SECRETS`).
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
}
"""The setting that names the file of a secret, and the variable that holds it instead."""


class ClusterSettings(Struct, frozen=True):
    """Many machines, one crawl."""

    size: Annotated[
        str,
        "none: one machine; redis: a few machines around one Redis; full: Kafka, PostgreSQL, Redis, S3 and a search index",
    ] = "none"
    name: Annotated[str, "tells crawls on the same engines apart: schema, key prefix and group"] = "skitter"
    lease: Annotated[Seconds, "a shard whose worker is silent for so long is taken by another"] = Seconds(
        15.0
    )
    renew: Annotated[Seconds, "between two signs of life of a worker"] = Seconds(3.0)
    lease_ahead: Annotated[
        Seconds, "visits are taken out so long before their hosts are free, many at a time"
    ] = Seconds(1.0)
    commit_interval: Annotated[
        Seconds,
        "visits of a worker that finish within this time are settled together; hosts that are left alone for longer do not notice",
    ] = Seconds(0.5)
    breaker_tests: Annotated[
        int, "an engine that was away counts as back when so many calls or health checks went well"
    ] = 10


class RedisSettings(Struct, frozen=True):
    """Redis: the frontier of a small cluster, the shared cache of a full one."""

    addresses: Annotated[tuple[str, ...], "host:port of the server, and of its replicas"] = (
        "127.0.0.1:6379",
    )
    database: Annotated[int, "number of the database"] = 0
    username: Annotated[str, "who logs in, where the server wants a name"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_REDIS_PASSWORD"] = ""
    tls: Annotated[bool, "speak TLS"] = False
    ca_file: Annotated[str, "certificates that are trusted instead of the system's"] = ""


class PostgresSettings(Struct, frozen=True):
    """PostgreSQL: the truth about every URL."""

    addresses: Annotated[tuple[str, ...], "host:port, tried in turn until one takes writes"] = (
        "127.0.0.1:5432",
    )
    database: Annotated[str, "name of the database"] = "skitter"
    user: Annotated[str, "who logs in"] = "skitter"
    password_file: Annotated[str, "file with the password; or the variable SKITTER_POSTGRES_PASSWORD"] = ""
    tls: Annotated[bool, "speak TLS, and check the certificate"] = False
    ca_file: Annotated[str, "certificates that are trusted instead of the system's"] = ""
    connections: Annotated[int, "open connections of one worker, at most"] = 4
    timeout: Annotated[Seconds, "a statement that takes longer has failed"] = Seconds(30.0)


class KafkaSettings(Struct, frozen=True):
    """Kafka: links on their way to their shard, pages on their way to the index."""

    addresses: Annotated[tuple[str, ...], "host:port of some brokers"] = ("127.0.0.1:9092",)
    links_high: Annotated[str, "topic of critical and high links"] = "discovered-urls-high"
    links_medium: Annotated[str, "topic of normal links"] = "discovered-urls-medium"
    links_low: Annotated[str, "topic of low and background links"] = "discovered-urls-low"
    documents: Annotated[str, "topic of stored pages with their text"] = "crawled-documents"
    errors: Annotated[str, "topic of what could not be fetched"] = "crawl-errors"
    dead_letters: Annotated[str, "topic of messages that nobody can read"] = "dead-letters"
    documents_partitions: Annotated[
        int, "of the documents topic: so many `skitter index` can share it; link topics have one per shard"
    ] = 10
    errors_partitions: Annotated[int, "of the errors topic"] = 5
    documents_retention: Annotated[
        Seconds, "documents are kept for so long, read or not; 0 is for ever; waiting links never go by age"
    ] = Seconds(7 * 86400.0)
    errors_retention: Annotated[Seconds, "errors are kept for so long; 0 is for ever"] = Seconds(30 * 86400.0)
    dead_letters_retention: Annotated[Seconds, "dead letters are kept for so long; 0 is for ever"] = Seconds(
        0.0
    )
    replication: Annotated[int, "copies of each partition; 3 where there are brokers enough"] = 1
    document_text: Annotated[Bytes, "the text of a document message is cut here"] = Bytes(512 * 2**10)
    tls: Annotated[bool, "speak TLS, and check the certificate"] = False
    ca_file: Annotated[str, "certificates that are trusted instead of the system's"] = ""
    mechanism: Annotated[str, "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; none when empty"] = ""
    username: Annotated[str, "who logs in"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_KAFKA_PASSWORD"] = ""


class S3Settings(Struct, frozen=True):
    """S3, or what speaks like it: where the archive goes."""

    bucket: Annotated[str, "bucket that segments are uploaded to; it must exist"] = ""
    prefix: Annotated[str, "begins the name of every object"] = ""
    endpoint: Annotated[str, "http(s)://host:port of a server that is not Amazon's"] = ""
    region: Annotated[str, "region of the bucket"] = "us-east-1"
    access_key: Annotated[str, "who logs in; empty for the credentials of the machine"] = ""
    secret_key_file: Annotated[str, "file with the secret key; or the variable SKITTER_S3_SECRET_KEY"] = ""
    ca_file: Annotated[str, "certificates that are trusted besides the system's"] = ""
    layout: Annotated[str, "segments: WARC files; pages: also one {date}/{hash}.html.gz per page"] = (
        "segments"
    )
    segment: Annotated[Bytes, "a segment of this size is finished and uploaded"] = Bytes(64 * 10**6)
    segment_time: Annotated[Seconds, "… and so is one of this age"] = Seconds(60.0)
    part: Annotated[Bytes, "larger segments are uploaded in parts of this size"] = Bytes(8 * 2**20)
    spool: Annotated[Bytes, "no visits are made while so much waits on this disk for its upload"] = Bytes(
        4 * 10**9
    )


class SearchSettings(Struct, frozen=True):
    """OpenSearch or Elasticsearch: the index of pages."""

    addresses: Annotated[tuple[str, ...], "http(s)://host:port of some nodes"] = ()
    index: Annotated[str, "name of the index"] = "web_pages"
    username: Annotated[str, "who logs in"] = ""
    password_file: Annotated[str, "file with the password; or the variable SKITTER_SEARCH_PASSWORD"] = ""
    ca_file: Annotated[str, "certificates that are trusted instead of the system's"] = ""
    bulk: Annotated[int, "pages in one request, at most"] = 500
