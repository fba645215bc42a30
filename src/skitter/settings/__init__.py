"""One frozen tree of settings, a section per stage, named after the module that reads it.

They come from a TOML file, then the environment (`SKITTER_FETCH_DEADLINE=10s`), then flags: the later wins. Durations and
sizes carry units ("1s", "5m", "24h"; "10MiB"). A key that does not exist is an error that names the nearest one that
does: a misspelt politeness setting must never be ignored.
"""
# ruff: noqa: SIM905  lists of words read best as words

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
    """What makes two spellings one URL."""

    tracking_params: Annotated[
        tuple[str, ...], "query parameters (globs) dropped from what is fetched and from the key"
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
        tuple[str, ...], "query and path parameters (globs) dropped from the key only"
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

    kind: Annotated[str, "page, prefix, host, domain or any: how far from its seeds a crawl may go"] = "host"
    hosts: Annotated[
        tuple[str, ...], "only hosts that match one of these patterns, such as *.inf.ed.ac.uk"
    ] = ()
    include: Annotated[
        tuple[str, ...], "only URLs that match one of these regular expressions (seeds excepted)"
    ] = ()
    exclude: Annotated[tuple[str, ...], "no URL that matches one of these regular expressions"] = ()
    max_depth: Annotated[int | None, "links between a seed and a page; unlimited when not set"] = None
    max_pages_per_host: Annotated[int | None, "stored pages per host; unlimited when not set"] = None
    skip_extensions: Annotated[tuple[str, ...], "links to paths with these endings are not followed"] = tuple(
        "7z apk avi bin bmp bz2 css csv deb dmg doc docx eot epub exe flac flv gif gz ico img iso jar jpeg jpg js "
        "m4a m4v mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps rar rpm svg tar tgz tif "
        "tiff ttf wasm wav webm webp wmv woff woff2 xls xlsx xz zip zst".split()
    )
    max_url_length: Annotated[int, "trap rule: longer URLs are not followed"] = 2000
    max_path_segments: Annotated[int, "trap rule: deeper paths are not followed"] = 20
    max_segment_repeats: Annotated[
        int, "trap rule: a path segment, or a run of segments, may stand this often"
    ] = 3
    max_query_params: Annotated[int, "trap rule: more query parameters are not followed"] = 20
    max_query_length: Annotated[int, "trap rule: longer query strings are not followed"] = 1000
    calendar_years: Annotated[
        int, "trap rule: dates in a URL further away than this many years ahead, 50 back"
    ] = 5
    session_in_path: Annotated[bool, "trap rule: session ids in the path are not followed"] = True


class ScheduleSettings(Struct, frozen=True):
    """In which order, and how often again."""

    strategy: Annotated[str, "bfs, dfs, depth or number: how links are scored"] = "bfs"
    number_pattern: Annotated[str, "strategy number: a regular expression whose group 1 is the number"] = (
        r"(\d+)(?!.*\d)"
    )
    retries: Annotated[int, "requests after the first one that failed with 5xx, 429 or a network error"] = 3
    retry_base: Annotated[Seconds, "wait before the first retry; doubles each time"] = Seconds(30.0)
    retry_max: Annotated[Seconds, "longest wait before a retry"] = Seconds(3600.0)
    retry_jitter: Annotated[float, "each wait is this share longer or shorter, by chance"] = 0.25


class PolitenessSettings(Struct, frozen=True):
    """When a host may be touched again."""

    delay: Annotated[Seconds, "time from the end of a response to the next request to its host"] = Seconds(
        1.0
    )
    per_host: Annotated[int, "requests in flight per host"] = 1
    burst: Annotated[
        int, "requests a host that was left alone for long may get without delay between them"
    ] = 1
    max_crawl_delay: Annotated[Seconds, "a host that asks for a longer Crawl-delay is set aside"] = Seconds(
        300.0
    )
    max_retry_after: Annotated[Seconds, "a host that asks for a longer Retry-After is set aside"] = Seconds(
        86400.0
    )


class RobotsSettings(Struct, frozen=True):
    """How long a robots.txt is relied on, and what happens when there is none. That it is obeyed is no setting."""

    cache: Annotated[Seconds, "how long a copy is used (RFC 9309 2.4: not over 24 hours)"] = Seconds(86400.0)
    jitter: Annotated[
        float, "each copy is kept up to this share shorter, by chance, so that they do not expire together"
    ] = 0.1
    retry_after: Annotated[
        tuple[Seconds, ...], "waits between tries while a host fails; then it is given up"
    ] = (Seconds(60.0), Seconds(600.0), Seconds(3600.0))
    stale: Annotated[Seconds, "how long an old copy stays in force while the host fails"] = Seconds(
        30 * 86400.0
    )
    max_redirects: Annotated[int, "redirects followed to a robots.txt (RFC 9309 2.3.1.2: at least five)"] = 10


class FetchSettings(Struct, frozen=True):
    """The request, its limits, and who we say we are."""

    user_agent: Annotated[
        str, "product token and comment; made from the program's name, version and contact if empty"
    ] = ""
    contact: Annotated[
        str, "a URL or e-mail address at which site owners reach you; part of the user agent"
    ] = ""
    accept_language: Annotated[str, "Accept-Language, when set"] = ""
    deadline: Annotated[Seconds, "for the whole request, from DNS to the last byte"] = Seconds(30.0)
    connect_timeout: Annotated[Seconds, "for DNS, connection and TLS"] = Seconds(10.0)
    idle_timeout: Annotated[Seconds, "without a single byte"] = Seconds(15.0)
    max_body: Annotated[
        Bytes,
        "largest body, on the wire and again after decompression; a robots.txt has a limit of its own, 500 KiB",
    ] = Bytes(10 * 2**20)
    max_headers: Annotated[Bytes, "largest header block"] = Bytes(256 * 2**10)
    max_in_flight: Annotated[Bytes, "all bodies in flight together"] = Bytes(256 * 2**20)
    max_redirects: Annotated[int, "redirects followed from one link"] = 10
    keep_connections: Annotated[int, "idle connections kept open for the next polite visit"] = 1024
    allow_private: Annotated[
        tuple[str, ...], "networks (CIDR) that are not public and may be visited all the same"
    ] = ()
    resolve: Annotated[
        tuple[str, ...], "HOST:ADDRESS pairs that replace DNS; the address guard still applies"
    ] = ()
    nameservers: Annotated[
        tuple[str, ...], "DNS servers, ADDRESS or ADDRESS:PORT; the system's when empty"
    ] = ()
    dns_max_ttl: Annotated[Seconds, "longest time a DNS answer is kept; shorter if its TTL says so"] = (
        Seconds(3600.0)
    )
    dns_negative_ttl: Annotated[Seconds, "how long a DNS failure is kept"] = Seconds(60.0)
    dns_cache: Annotated[int, "DNS answers kept"] = 50_000
    ca_file: Annotated[str, "certificate authorities (PEM) to trust instead of the system's"] = ""


class ParseSettings(Struct, frozen=True):
    """What is read out of a body."""

    content_start: Annotated[str, "only what stands between this marker …"] = ""
    content_end: Annotated[str, "… and this one is content; pages without them are ignored"] = ""
    sloppy_anchors: Annotated[bool, "also follow anchors written like < a href = x >"] = False
    max_input: Annotated[Bytes, "bytes of a document that are parsed"] = Bytes(5 * 2**20)
    max_links: Annotated[int, "links taken from one page"] = 10_000


class DedupSettings(Struct, frozen=True):
    """When two pages are one."""

    near: Annotated[bool, "look for near-duplicates by SimHash (identical payloads are always found)"] = True
    distance: Annotated[int, "SimHash bits that may differ, 0 to 3"] = 3
    min_words: Annotated[int, "shorter texts are compared exactly only: their SimHash says little"] = 32


class ArchiveSettings(Struct, frozen=True):
    """The WARC files."""

    max_file: Annotated[Bytes, "a file that has grown beyond this is closed and the next one begun"] = Bytes(
        2**30
    )
    operator: Annotated[str, "who runs the crawl, for the warcinfo record; the contact when empty"] = ""


class FrontierSettings(Struct, frozen=True):
    """The store of one shard."""

    window: Annotated[
        int, "hosts held in memory for scheduling, in a cluster by all shards together; the rest wait on disk"
    ] = 20_000
    block_cache: Annotated[Bytes, "memory for blocks read from the store"] = Bytes(16 * 2**20)


class CrawlSettings(Struct, frozen=True):
    """The run as a whole."""

    max_pages: Annotated[int | None, "stop after this many stored pages (2xx)"] = None
    max_time: Annotated[
        Seconds | None,
        "stop after this time (on one machine, requests in flight have 5 s more and are then left to the next run); in a cluster, since its first worker joined",
    ] = None
    max_bytes: Annotated[
        Bytes | None,
        "stop after receiving this much; requests in flight may add to it, and in a cluster what came since the last heartbeat",
    ] = None
    concurrency: Annotated[int, "requests in flight in all"] = 100
    workers: Annotated[int, "processes that share the work; 0 for one per core"] = 0
    shards: Annotated[
        int, "parts of the crawl, each worked on by one process; fixed when it is made; 0 for one per worker"
    ] = 0
    worker_patience: Annotated[
        Seconds, "a worker that does not answer for so long is ended and started again"
    ] = Seconds(60.0)
    min_free_disk: Annotated[Bytes, "stop, with the state safe, when less is free"] = Bytes(500 * 2**20)
    commit_visits: Annotated[int, "visits that are made durable together, at most"] = 64
    sync_interval: Annotated[Seconds, "between two syncs to the disk itself"] = Seconds(1.0)


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
