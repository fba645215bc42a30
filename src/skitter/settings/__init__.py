"""One frozen tree of settings, a section per stage, named after the module that reads it.

They come from a TOML file, then the environment (`SKITTER_FETCH_DEADLINE=10s`), then flags: the later wins. Durations and
sizes carry units ("1s", "5m", "24h"; "10MiB"). A key that does not exist is an error that names the nearest one that
does: a misspelt politeness setting must never be ignored.
"""
# ruff: noqa: RUF009, SIM905  setting() is dataclasses.field(), and lists of words read best as words

import dataclasses
from dataclasses import dataclass

from skitter.settings.engines import (
    ClusterSettings,
    KafkaSettings,
    PostgresSettings,
    RedisSettings,
    S3Settings,
    SearchSettings,
)
from skitter.settings.units import Bytes, Seconds, SettingsError, seconds, setting, size

__all__ = ["SECTIONS", "Bytes", "Seconds", "Settings", "SettingsError", "seconds", "setting", "size"]


@dataclass(frozen=True, slots=True)
class UrlsSettings:
    """What makes two spellings one URL."""

    tracking_params: tuple[str, ...] = setting(
        (
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
        ),
        "query parameters (globs) dropped from what is fetched and from the key",
    )
    session_params: tuple[str, ...] = setting(
        (
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
        ),
        "query and path parameters (globs) dropped from the key only",
    )
    fold_trailing_slash: bool = setting(default=False, doc="treat /a and /a/ as one URL")
    fold_www: bool = setting(default=False, doc="treat www.example.org and example.org as one host in keys")
    fold_scheme: bool = setting(default=False, doc="treat http and https as one scheme in keys")


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """Which links are wanted."""

    kind: str = setting("host", "page, prefix, host, domain or any: how far from its seeds a crawl may go")
    hosts: tuple[str, ...] = setting(
        (), "only hosts that match one of these patterns, such as *.inf.ed.ac.uk"
    )
    include: tuple[str, ...] = setting(
        (), "only URLs that match one of these regular expressions (seeds excepted)"
    )
    exclude: tuple[str, ...] = setting((), "no URL that matches one of these regular expressions")
    max_depth: int | None = setting(None, "links between a seed and a page; unlimited when not set")
    max_pages_per_host: int | None = setting(None, "stored pages per host; unlimited when not set")
    skip_extensions: tuple[str, ...] = setting(
        tuple(
            "7z apk avi bin bmp bz2 css csv deb dmg doc docx eot epub exe flac flv gif gz ico img iso jar jpeg jpg js "
            "m4a m4v mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps rar rpm svg tar tgz tif "
            "tiff ttf wasm wav webm webp wmv woff woff2 xls xlsx xz zip zst".split()
        ),
        "links to paths with these endings are not followed",
    )
    max_url_length: int = setting(2000, "trap rule: longer URLs are not followed")
    max_path_segments: int = setting(20, "trap rule: deeper paths are not followed")
    max_segment_repeats: int = setting(
        3, "trap rule: a path segment, or a run of segments, may stand this often"
    )
    max_query_params: int = setting(20, "trap rule: more query parameters are not followed")
    max_query_length: int = setting(1000, "trap rule: longer query strings are not followed")
    calendar_years: int = setting(
        5, "trap rule: dates in a URL further away than this many years ahead, 50 back"
    )
    session_in_path: bool = setting(default=True, doc="trap rule: session ids in the path are not followed")


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """In which order, and how often again."""

    strategy: str = setting("bfs", "bfs, dfs, depth or number: how links are scored")
    number_pattern: str = setting(
        r"(\d+)(?!.*\d)", "strategy number: a regular expression whose group 1 is the number"
    )
    retries: int = setting(3, "requests after the first one that failed with 5xx, 429 or a network error")
    retry_base: Seconds = setting(Seconds(30.0), "wait before the first retry; doubles each time")
    retry_max: Seconds = setting(Seconds(3600.0), "longest wait before a retry")
    retry_jitter: float = setting(0.25, "each wait is this share longer or shorter, by chance")


@dataclass(frozen=True, slots=True)
class PolitenessSettings:
    """When a host may be touched again."""

    delay: Seconds = setting(Seconds(1.0), "time from the end of a response to the next request to its host")
    per_host: int = setting(1, "requests in flight per host")
    burst: int = setting(1, "requests a host that was left alone for long may get without delay between them")
    max_crawl_delay: Seconds = setting(
        Seconds(300.0), "a host that asks for a longer Crawl-delay is set aside"
    )
    max_retry_after: Seconds = setting(
        Seconds(86400.0), "a host that asks for a longer Retry-After is set aside"
    )


@dataclass(frozen=True, slots=True)
class RobotsSettings:
    """How long a robots.txt is relied on, and what happens when there is none. That it is obeyed is no setting."""

    cache: Seconds = setting(Seconds(86400.0), "how long a copy is used (RFC 9309 2.4: not over 24 hours)")
    jitter: float = setting(
        0.1, "each copy is kept up to this share shorter, by chance, so that they do not expire together"
    )
    retry_after: tuple[Seconds, ...] = setting(
        (Seconds(60.0), Seconds(600.0), Seconds(3600.0)),
        "waits between tries while a host fails; then it is given up",
    )
    stale: Seconds = setting(
        Seconds(30 * 86400.0), "how long an old copy stays in force while the host fails"
    )
    max_redirects: int = setting(10, "redirects followed to a robots.txt (RFC 9309 2.3.1.2: at least five)")


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The request, its limits, and who we say we are."""

    user_agent: str = setting(
        "", "product token and comment; made from the program's name, version and contact if empty"
    )
    contact: str = setting(
        "", "a URL or e-mail address at which site owners reach you; part of the user agent"
    )
    accept_language: str = setting("", "Accept-Language, when set")
    deadline: Seconds = setting(Seconds(30.0), "for the whole request, from DNS to the last byte")
    connect_timeout: Seconds = setting(Seconds(10.0), "for DNS, connection and TLS")
    idle_timeout: Seconds = setting(Seconds(15.0), "without a single byte")
    max_body: Bytes = setting(Bytes(10 * 2**20), "largest body, on the wire and again after decompression")
    max_headers: Bytes = setting(Bytes(256 * 2**10), "largest header block")
    max_in_flight: Bytes = setting(Bytes(256 * 2**20), "all bodies in flight together")
    max_redirects: int = setting(10, "redirects followed from one link")
    keep_connections: int = setting(1024, "idle connections kept open for the next polite visit")
    allow_private: tuple[str, ...] = setting(
        (), "networks (CIDR) that are not public and may be visited all the same"
    )
    resolve: tuple[str, ...] = setting(
        (), "HOST:ADDRESS pairs that replace DNS; the address guard still applies"
    )
    nameservers: tuple[str, ...] = setting(
        (), "DNS servers, ADDRESS or ADDRESS:PORT; the system's when empty"
    )
    dns_max_ttl: Seconds = setting(
        Seconds(3600.0), "longest time a DNS answer is kept; shorter if its TTL says so"
    )
    dns_negative_ttl: Seconds = setting(Seconds(60.0), "how long a DNS failure is kept")
    dns_cache: int = setting(50_000, "DNS answers kept")
    ca_file: str = setting("", "certificate authorities (PEM) to trust instead of the system's")


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """What is read out of a body."""

    content_start: str = setting("", "only what stands between this marker …")
    content_end: str = setting("", "… and this one is content; pages without them are ignored")
    sloppy_anchors: bool = setting(default=False, doc="also follow anchors written like < a href = x >")
    max_input: Bytes = setting(Bytes(5 * 2**20), "bytes of a document that are parsed")
    max_links: int = setting(10_000, "links taken from one page")


@dataclass(frozen=True, slots=True)
class DedupSettings:
    """When two pages are one."""

    near: bool = setting(
        default=True, doc="look for near-duplicates by SimHash (identical payloads are always found)"
    )
    distance: int = setting(3, "SimHash bits that may differ, 0 to 3")
    min_words: int = setting(32, "shorter texts are compared exactly only: their SimHash says little")


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The WARC files."""

    max_file: Bytes = setting(
        Bytes(2**30), "a file that has grown beyond this is closed and the next one begun"
    )
    operator: str = setting("", "who runs the crawl, for the warcinfo record; the contact when empty")


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """The store of one shard."""

    window: int = setting(20_000, "hosts held in memory for scheduling; the rest wait on disk")
    block_cache: Bytes = setting(Bytes(16 * 2**20), "memory for blocks read from the store")


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """The run as a whole."""

    max_pages: int | None = setting(None, "stop after this many stored pages (2xx)")
    max_time: Seconds | None = setting(
        None, "stop after this time; in a cluster, since its first worker joined"
    )
    max_bytes: Bytes | None = setting(
        None,
        "stop after this much was received; what is in flight comes on top, in a cluster also what came since the last sign of life",
    )
    concurrency: int = setting(100, "requests in flight in all")
    workers: int = setting(0, "processes that share the work; 0 for one per core")
    shards: int = setting(
        0, "parts of the crawl, each worked on by one process; fixed when it is made; 0 for one per worker"
    )
    worker_patience: Seconds = setting(
        Seconds(60.0), "a worker that does not answer for so long is ended and started again"
    )
    min_free_disk: Bytes = setting(Bytes(500 * 2**20), "stop, with the state safe, when less is free")
    commit_visits: int = setting(64, "visits that are made durable together, at most")
    sync_interval: Seconds = setting(Seconds(1.0), "between two syncs to the disk itself")


@dataclass(frozen=True, slots=True)
class Settings:
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


SECTIONS: dict[str, type] = {f.name: f.type for f in dataclasses.fields(Settings) if isinstance(f.type, type)}
