"""The settings: one frozen tree, with one section per stage, named after the module that reads it.

They come from a TOML file, then the environment (`SKITTER_FETCH_DEADLINE=10s`), then flags; the later wins.
Durations and sizes carry units ("1s", "5m", "24h"; "10MiB"). An unknown key is an error that suggests the
nearest one: a misspelt politeness setting must never be ignored.
"""
# ruff: noqa: SIM905  word lists are easier to read unsplit

from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import fields

from skitter.settings.engines import (
    ClusterSettings,
    KafkaSettings,
    PostgresSettings,
    RedisSettings,
    S3Settings,
    SearchSettings,
)
from skitter.settings.units import Bytes, Seconds, SettingsError, seconds, size

__all__ = ["SECTIONS", "Bytes", "Seconds", "Settings", "SettingsError", "seconds", "size"]


class UrlsSettings(Struct, frozen=True):
    """Which spellings count as the same URL."""

    tracking_params: Annotated[
        tuple[str, ...], "query parameters (globs) removed from the fetched URL and from the key"
    ] = (
        "utm_*",
        "fbclid",
        "gclid",
        "dclid",
        "gbraid",
        "wbraid",
        "msclkid",
        "yclid",
        "mc_*",
        "_ga",
        "_gl",
        "igshid",
    )
    session_params: Annotated[
        tuple[str, ...], "query and path parameters (globs) removed from the key only"
    ] = (
        "ref",
        "source",
        "sessionid",
        "session_id",
        "jsessionid",
        "phpsessid",
        "aspsessionid*",
        "sid",
        "cfid",
        "cftoken",
    )
    fold_trailing_slash: Annotated[bool, "treat /a and /a/ as one URL"] = False
    fold_www: Annotated[bool, "treat www.example.org and example.org as one host in keys"] = False
    fold_scheme: Annotated[bool, "treat http and https as one scheme in keys"] = False


class ScopeSettings(Struct, frozen=True):
    """Which links are wanted."""

    kind: Annotated[str, "page, prefix, host, domain or any: how far from the seeds links are followed"] = (
        "host"
    )
    hosts: Annotated[
        tuple[str, ...], "only hosts matching one of these patterns, such as *.inf.ed.ac.uk"
    ] = ()
    include: Annotated[
        tuple[str, ...], "only URLs matching one of these regular expressions (seeds are exempt)"
    ] = ()
    exclude: Annotated[tuple[str, ...], "no URLs matching one of these regular expressions"] = ()
    max_depth: Annotated[
        int | None, "maximum number of links between a seed and a page; unlimited when not set"
    ] = None
    max_pages_per_host: Annotated[
        int | None, "maximum number of stored pages per host; unlimited when not set"
    ] = None
    skip_extensions: Annotated[tuple[str, ...], "links to files with these extensions are not followed"] = (
        tuple(
            "7z apk avi bin bmp bz2 css csv deb dmg doc docx eot epub exe flac flv gif gz ico img iso jar jpeg jpg js "
            "m4a m4v mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps rar rpm svg tar tgz tif "
            "tiff ttf wasm wav webm webp wmv woff woff2 xls xlsx xz zip zst".split()
        )
    )
    max_url_length: Annotated[int, "trap rule: longest URL that is followed"] = 2000
    max_path_segments: Annotated[int, "trap rule: most path segments that are followed"] = 20
    max_segment_repeats: Annotated[
        int, "trap rule: how often a path segment, or a run of segments, may repeat"
    ] = 3
    max_query_params: Annotated[int, "trap rule: most query parameters that are followed"] = 20
    max_query_length: Annotated[int, "trap rule: longest query string that is followed"] = 1000
    calendar_years: Annotated[
        int, "trap rule: URLs with dates more than this many years ahead, or 50 back, are not followed"
    ] = 5
    session_in_path: Annotated[bool, "trap rule: session ids in the path are not followed"] = True


class ScheduleSettings(Struct, frozen=True):
    """The order of visits, and retries."""

    strategy: Annotated[
        str, "bfs, dfs, depth or number: how links are scored; or module:function, a function of your own"
    ] = "bfs"
    number_pattern: Annotated[str, "strategy number: a regular expression whose group 1 is the number"] = (
        r"(\d+)(?!.*\d)"
    )
    retries: Annotated[int, "retries after a 5xx, 429 or network error"] = 3
    retry_base: Annotated[Seconds, "wait before the first retry; doubles each time"] = Seconds(30.0)
    retry_max: Annotated[Seconds, "longest wait before a retry"] = Seconds(3600.0)
    retry_jitter: Annotated[float, "each wait is randomly longer or shorter by up to this fraction"] = 0.25


class PolitenessSettings(Struct, frozen=True):
    """When a host may be visited again."""

    delay: Annotated[Seconds, "time between the end of a response and the next request to the same host"] = (
        Seconds(1.0)
    )
    per_host: Annotated[int, "requests in flight per host"] = 1
    burst: Annotated[int, "requests that a long idle host may get without a delay between them"] = 1
    max_crawl_delay: Annotated[Seconds, "a host that asks for a longer Crawl-delay is set aside"] = Seconds(
        300.0
    )
    max_retry_after: Annotated[Seconds, "a host that asks for a longer Retry-After is set aside"] = Seconds(
        86400.0
    )
    per_address: Annotated[
        int | None,
        "requests in flight per IP address, over all hosts, workers and machines; none for no limit",
    ] = 8
    address_delay: Annotated[Seconds, "least time between the starts of two requests to one IP address"] = (
        Seconds(0.0)
    )


class RobotsSettings(Struct, frozen=True):
    """How long a robots.txt is used, and retries when it cannot be fetched. Ignoring it is not an option."""

    cache: Annotated[Seconds, "how long a copy is used (RFC 9309 2.4: at most 24 hours)"] = Seconds(86400.0)
    jitter: Annotated[
        float, "each copy expires randomly up to this fraction earlier, so that not all expire together"
    ] = 0.1
    retry_after: Annotated[
        tuple[Seconds, ...], "waits between attempts while a host fails; then it is given up"
    ] = (Seconds(60.0), Seconds(600.0), Seconds(3600.0))
    stale: Annotated[Seconds, "how long an old copy stays in use while the host fails"] = Seconds(
        30 * 86400.0
    )
    max_redirects: Annotated[int, "redirects followed to a robots.txt (RFC 9309 2.3.1.2: at least five)"] = 10


class FetchSettings(Struct, frozen=True):
    """Requests: identity, limits and timeouts, DNS and TLS."""

    user_agent: Annotated[
        str, "product token and comment; built from the program's name, version and contact if empty"
    ] = ""
    contact: Annotated[
        str, "a URL or e-mail address where site owners can reach you; part of the user agent"
    ] = ""
    accept_language: Annotated[str, "Accept-Language header; not sent when empty"] = ""
    deadline: Annotated[Seconds, "time limit for the whole request, from DNS to the last byte"] = Seconds(
        30.0
    )
    connect_timeout: Annotated[Seconds, "time limit for DNS, connection and TLS"] = Seconds(10.0)
    idle_timeout: Annotated[Seconds, "time limit without receiving a byte"] = Seconds(15.0)
    max_body: Annotated[
        Bytes,
        "largest body, before and after decompression; a robots.txt has its own limit, 500 KiB",
    ] = Bytes(10 * 2**20)
    max_headers: Annotated[Bytes, "largest header block"] = Bytes(256 * 2**10)
    max_in_flight: Annotated[Bytes, "memory for all bodies in flight together"] = Bytes(256 * 2**20)
    max_redirects: Annotated[int, "maximum number of redirects followed from one link"] = 10
    keep_connections: Annotated[int, "idle connections kept open for later visits"] = 1024
    allow_private: Annotated[tuple[str, ...], "private networks (CIDR) that may be visited"] = ()
    resolve: Annotated[
        tuple[str, ...], "HOST:ADDRESS pairs that replace DNS; the address guard still applies"
    ] = ()
    nameservers: Annotated[
        tuple[str, ...], "DNS servers, ADDRESS or ADDRESS:PORT; the system's when empty"
    ] = ()
    dns_max_ttl: Annotated[Seconds, "longest time a DNS answer is cached; less if its TTL is shorter"] = (
        Seconds(3600.0)
    )
    dns_negative_ttl: Annotated[Seconds, "how long a DNS failure is cached"] = Seconds(60.0)
    dns_cache: Annotated[int, "number of DNS answers cached"] = 50_000
    ca_file: Annotated[str, "CA certificates (PEM) to trust instead of the system's"] = ""


class ParseSettings(Struct, frozen=True):
    """What is extracted from a body."""

    content_start: Annotated[str, "content starts after this marker …"] = ""
    content_end: Annotated[str, "… and ends before this one; pages without both are ignored"] = ""
    sloppy_anchors: Annotated[bool, "also follow anchors written like < a href = x >"] = False
    max_input: Annotated[Bytes, "at most this much of a document is parsed"] = Bytes(5 * 2**20)
    max_links: Annotated[int, "maximum number of links taken from one page"] = 10_000
    pool_above: Annotated[
        Bytes, "larger documents are parsed by a process of their own, so that nothing else waits meanwhile"
    ] = Bytes(256 * 2**10)
    processes: Annotated[int, "parser processes per worker, started when they are needed"] = 1
    deadline: Annotated[
        Seconds, "a parser process that takes longer for one document is killed, and the page fails"
    ] = Seconds(30.0)
    max_memory: Annotated[Bytes, "address space of a parser process; a document that needs more fails"] = (
        Bytes(2**30)
    )


class DedupSettings(Struct, frozen=True):
    """Which pages count as duplicates."""

    near: Annotated[bool, "find near-duplicates by SimHash (identical payloads are always found)"] = True
    distance: Annotated[int, "how many SimHash bits may differ, 0 to 3"] = 3
    min_words: Annotated[
        int, "texts with fewer words are only compared exactly, because their SimHash means little"
    ] = 32


class ArchiveSettings(Struct, frozen=True):
    """The WARC files."""

    max_file: Annotated[Bytes, "a file that exceeds this size is closed and a new one started"] = Bytes(2**30)
    operator: Annotated[str, "operator named in the warcinfo record; the contact when empty"] = ""


class FrontierSettings(Struct, frozen=True):
    """Memory of a shard's store."""

    window: Annotated[
        int,
        "hosts kept in memory for scheduling (in a cluster, for all shards of a worker together); the rest stay in the store",
    ] = 20_000
    block_cache: Annotated[Bytes, "memory for cached blocks of the store"] = Bytes(16 * 2**20)


class CrawlSettings(Struct, frozen=True):
    """Limits, processes and durability of a run."""

    max_pages: Annotated[int | None, "stop after this many stored pages (2xx)"] = None
    max_time: Annotated[
        Seconds | None,
        "stop after this time; on one machine, requests in flight get 5 s more and are then left to the next run; in a cluster, it counts from the first worker's start",
    ] = None
    max_bytes: Annotated[
        Bytes | None,
        "stop after receiving this much; requests in flight, and in a cluster what arrived since the last heartbeat, come on top",
    ] = None
    concurrency: Annotated[int, "requests in flight, over all workers; in a cluster, per worker"] = 100
    workers: Annotated[int, "number of processes; 0 for one per core"] = 0
    shards: Annotated[
        int,
        "parts of the crawl, each handled by one process at a time; fixed when the crawl is created; 0 for one per worker",
    ] = 0
    worker_patience: Annotated[
        Seconds, "a worker that does not answer for this long is killed and restarted"
    ] = Seconds(60.0)
    min_free_disk: Annotated[Bytes, "stop safely when less disk space is free"] = Bytes(500 * 2**20)
    commit_visits: Annotated[int, "maximum number of visits committed together"] = 64
    sync_interval: Annotated[Seconds, "time between two fsyncs"] = Seconds(1.0)
    plugins: Annotated[
        tuple[str, ...],
        "Python files or modules of your own, imported by every process that crawls; they run with its rights",
    ] = ()


class Settings(Struct, frozen=True):
    """All settings of a crawl."""

    urls: UrlsSettings = UrlsSettings()
    scope: ScopeSettings = ScopeSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    robots: RobotsSettings = RobotsSettings()
    fetch: FetchSettings = FetchSettings()
    parse: ParseSettings = ParseSettings()
    dedup: DedupSettings = DedupSettings()
    archive: ArchiveSettings = ArchiveSettings()
    frontier: FrontierSettings = FrontierSettings()
    crawl: CrawlSettings = CrawlSettings()
    cluster: ClusterSettings = ClusterSettings()
    redis: RedisSettings = RedisSettings()
    postgres: PostgresSettings = PostgresSettings()
    kafka: KafkaSettings = KafkaSettings()
    s3: S3Settings = S3Settings()
    search: SearchSettings = SearchSettings()


SECTIONS: dict[str, type[Any]] = {field.name: field.type for field in fields(Settings)}
