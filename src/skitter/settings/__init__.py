"""The settings: one frozen tree, with one section per stage, named after the module that reads it.

They come from a TOML file, then the environment (`SKITTER_FETCH_DEADLINE=10s`), then flags; the later wins.
Durations and sizes carry units ("1s", "5m", "24h"; "10MiB"). An unknown key is an error that suggests the
nearest one: a misspelt politeness setting must never be ignored.
"""

from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import fields

from skitter.settings.alerts import AlertsSettings
from skitter.settings.engines import (
    ClusterSettings,
    KafkaSettings,
    PostgresSettings,
    RedisSettings,
    S3Settings,
    SearchSettings,
)
from skitter.settings.units import Bytes, Seconds, SettingsError, seconds, size

__all__ = ["LISTS", "SECTIONS", "Bytes", "Seconds", "Settings", "SettingsError", "seconds", "size"]


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
        int | None,
        "maximum number of links between a seed and a page, on the shortest way that is found; unlimited when not set",
    ] = None
    sitemaps: Annotated[
        str,
        "which sitemaps are read, besides those given by hand: off (none), announced (those that a robots.txt names), search "
        "(and the usual places of the seeds' hosts), only (like search, and no other page is crawled) or named (none, and no "
        "page is crawled that they do not list)",
    ] = "announced"
    skip_extensions: Annotated[
        tuple[str, ...],
        "links to files with these extensions are not followed; auto stands for those that no installed parser reads",
    ] = ("auto",)
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
        str,
        "how links are ordered: bfs, dfs, depth, number, importance, features, opic or larger-sites; or module:function, a "
        "function of your own",
    ] = "bfs"
    number_pattern: Annotated[str, "strategy number: a regular expression whose group 1 is the number"] = (
        r"(\d+)(?!.*\d)"
    )
    rank_file: Annotated[
        str, "strategy importance: a file that ranks domains, with lines rank,domain or domain score (0 to 1)"
    ] = ""
    importance_domain: Annotated[float, "strategy importance: weight of the rank of its domain"] = 0.4
    importance_depth: Annotated[float, "… of 1/(1 + depth)"] = 0.2
    importance_news: Annotated[float, "… of a path that looks like news"] = 0.2
    importance_new: Annotated[float, "… of never having been crawled"] = 0.2
    news_pattern: Annotated[
        str, "strategy importance: a regular expression for paths that look like news"
    ] = r"/(?:news|blog|articles?|story|stories|press|posts?|aktuell|actualites|noticias)(?:[/?]|$)|/(?:19|20)\d\d/[01]?\d(?:/|$)"
    feature_depth: Annotated[float, "strategy features: weight of 1/(1 + depth)"] = 1.0
    feature_path: Annotated[float, "… of 1/(1 + folders in its path)"] = 0.5
    feature_query: Annotated[float, "… of having no query"] = 0.5
    feature_extension: Annotated[float, "… of having no extension, or that of a page"] = 0.25
    feature_https: Annotated[float, "… of https"] = 0.25
    feature_words: Annotated[float, "… of one of `words` in its URL or in the text of its link"] = 1.0
    words: Annotated[
        tuple[str, ...],
        "strategy features: words to look for in URLs and texts of links; case does not matter",
    ] = ()
    half_life: Annotated[
        Seconds | None,
        "strategies importance and features: a link counts half after this long since its discovery; none for no decay",
    ] = None
    opic_damping: Annotated[
        float, "strategy opic: what a page passes on to its links, of what was passed on to it"
    ] = 0.85
    pressure: Annotated[
        float | None,
        "a host with more than 1,000 links waiting, and more than this many for each page stored from it, sinks by a level; "
        "none for no such rule",
    ] = None
    retries: Annotated[int, "retries after a 5xx, 429 or network error"] = 3
    retry_base: Annotated[Seconds, "wait before the first retry; doubles each time"] = Seconds(30.0)
    retry_max: Annotated[Seconds, "longest wait before a retry"] = Seconds(3600.0)
    retry_jitter: Annotated[float, "each wait is randomly longer or shorter by up to this fraction"] = 0.25
    recrawl: Annotated[
        str,
        "when pages are fetched again: off (never), adaptive (when each has probably changed), or after a time such as 12h; a "
        "crawl that does so ends only at a limit, or when it is told to",
    ] = "off"
    refresh_rate: Annotated[
        float,
        "recrawl adaptive: visits per page and day, on average over the pages of a host; which pages get more is learned",
    ] = 0.1
    refresh_share: Annotated[
        float, "of the requests to a host, at most this part goes to pages known already while new ones wait"
    ] = 0.5


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
    adaptive: Annotated[
        bool, "wait longer for a host that is slow, refuses or fails, and pause one that keeps failing"
    ] = True
    adaptive_factor: Annotated[
        float, "wait at least this many times as long as the host takes to answer; not with a delay of 0"
    ] = 2.0
    adaptive_slow: Annotated[
        float, "the delay doubles while answers take this many times as long as usual; not with a delay of 0"
    ] = 3.0
    adaptive_first: Annotated[Seconds, "least delay after a 429, 503, time-out or reset"] = Seconds(1.0)
    adaptive_max: Annotated[Seconds, "longest delay reached by doubling"] = Seconds(300.0)
    adaptive_jitter: Annotated[float, "a doubled delay is randomly longer by up to this fraction"] = 0.1
    adaptive_successes: Annotated[int, "good answers after which a doubled delay shrinks …"] = 10
    adaptive_shrink: Annotated[float, "… by this fraction, down to the delay of every host"] = 0.1
    park_after: Annotated[int, "a host that fails this many times in a row is paused"] = 10
    park: Annotated[
        tuple[Seconds, ...],
        "pauses of a host that keeps failing, one request after each; then it is given up",
    ] = (Seconds(600.0), Seconds(3600.0), Seconds(6 * 3600.0))
    per_address: Annotated[
        int | None,
        "requests in flight per IP address, over all hosts, workers and machines; none for no limit",
    ] = 8
    address_delay: Annotated[Seconds, "least time between the starts of two requests to one IP address"] = (
        Seconds(0.0)
    )
    per_domain: Annotated[
        int | None, "requests in flight per registrable domain, over all its hosts; none for no limit"
    ] = None
    domain_delay: Annotated[
        Seconds, "least time between the starts of two requests to the hosts of one registrable domain"
    ] = Seconds(0.0)
    window: Annotated[
        str,
        "when requests may be sent, such as 22:00-06:00 Europe/Berlin or Mon-Fri 19:00-07:00 UTC; several are separated by commas; always if empty",
    ] = ""


class BudgetSettings(Struct, frozen=True):
    """What a host, and all hosts of a registrable domain together, may get. What a budget stops goes on when it is raised."""

    host_pages: Annotated[int | None, "stored pages (2xx) per host"] = None
    host_bytes: Annotated[Bytes | None, "bytes received per host; answers in flight come on top"] = None
    host_seconds: Annotated[
        Seconds | None, "time that a host may spend on our requests; answers in flight come on top"
    ] = None
    host_requests_per_day: Annotated[int | None, "requests per host and day (UTC), robots.txt included"] = (
        None
    )
    domain_pages: Annotated[int | None, "stored pages (2xx) of all hosts of a domain"] = None
    domain_bytes: Annotated[Bytes | None, "bytes received from all hosts of a domain"] = None
    domain_seconds: Annotated[Seconds | None, "time that all hosts of a domain may spend"] = None
    domain_requests_per_day: Annotated[int | None, "requests to all hosts of a domain per day (UTC)"] = None
    linked_first: Annotated[
        int | None,
        "stored pages of a domain to which no other domain links; with it, the pages of each domain are limited by links from "
        "others, and what is over that waits until there are more; none for no such limit",
    ] = None
    linked_more: Annotated[int, "… pages more for each other domain that links to it"] = 10
    linked_most: Annotated[int, "… pages at most, however many do"] = 10_000
    bandwidth: Annotated[
        Bytes | None,
        "bytes received per second on average, by the whole crawl; over the workers it is divided equally",
    ] = None
    memory: Annotated[
        Bytes | None,
        "memory of the crawl on one machine, without parser processes: near it, fewer pages are fetched at once",
    ] = None


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
    terms: Annotated[
        str,
        "fetch the tdmrep.json and the RSL licences of each origin: never, always, or auto: if export.respect_ai names a use",
    ] = "auto"


class FetchSettings(Struct, frozen=True):
    """Requests: identity, limits and timeouts, DNS and TLS."""

    user_agent: Annotated[
        str, "product token and comment; built from the program's name, version and contact if empty"
    ] = ""
    contact: Annotated[
        str, "a URL or e-mail address where site owners can reach you; part of the user agent"
    ] = ""
    accept_language: Annotated[str, "Accept-Language header; not sent when empty"] = ""
    headers: Annotated[
        tuple[str, ...],
        "more header fields, as a table or as a list of NAME: VALUE; no secrets, they are kept",
    ] = ()
    cookies: Annotated[str, "cookies that are sent: a Netscape file (cookies.txt) that only you can read"] = (
        ""
    )
    keep_cookies: Annotated[
        bool, "also send back what a host sets; kept per host, in memory, while the process runs"
    ] = False
    secrets: Annotated[
        str, "logins, tokens and client certificates for sites: a TOML file that only you can read"
    ] = ""
    identity: Annotated[
        str, "directory made by `skitter identity init`: requests are signed with its key (Web Bot Auth)"
    ] = ""
    proxy: Annotated[
        str,
        "http://HOST:PORT or socks5://HOST:PORT through which every request goes; its login is in fetch.secrets",
    ] = ""
    http2: Annotated[
        bool,
        "speak HTTP/2 with servers that offer it (only over TLS); false keeps every answer byte for byte",
    ] = True
    deadline: Annotated[Seconds, "time limit for the whole request, from DNS to the last byte"] = Seconds(
        30.0
    )
    connect_timeout: Annotated[Seconds, "time limit for DNS, connection and TLS"] = Seconds(10.0)
    idle_timeout: Annotated[Seconds, "time limit without receiving a byte"] = Seconds(15.0)
    max_body: Annotated[
        Bytes,
        "largest body, before and after decompression; a robots.txt has its own limit, 500 KiB",
    ] = Bytes(10 * 2**20)
    max_sitemap: Annotated[
        Bytes,
        "most that is read of a sitemap or feed, before and after decompression; the archive has the first max_body of it",
    ] = Bytes(50 * 2**20)
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
    render: Annotated[
        str,
        "show pages to a browser, so that their scripts run: never, always, or auto: those whose URL pattern turned out to need it",
    ] = "never"
    browser: Annotated[
        str, "the browser: a Chromium or its headless shell, as a path or command; found if empty"
    ] = ""
    browsers: Annotated[int, "browsers per worker, each with one page at a time; started when needed"] = 1
    render_deadline: Annotated[
        Seconds, "time limit for rendering one page; what it is by then counts, if it can still say that"
    ] = Seconds(30.0)
    render_quiet: Annotated[
        Seconds, "a loaded page is complete when it has requested nothing for this long"
    ] = Seconds(0.5)
    render_gap: Annotated[
        Seconds,
        "time between the starts of two requests of a rendered page to one host; afterwards its host is owed its delay for each",
    ] = Seconds(0.1)
    render_requests: Annotated[int, "most requests that one rendered page may cause"] = 100
    render_post: Annotated[bool, "rendered pages may also send POST, and not only GET and HEAD"] = False
    render_skip: Annotated[
        tuple[str, ...],
        "kinds of resources that a rendered page does not get: image, media, font, stylesheet, script, xhr, fetch",
    ] = ("image", "media", "font")
    render_memory: Annotated[Bytes, "a browser that uses more is killed, and the page is not rendered"] = (
        Bytes(2**30)
    )
    render_pages: Annotated[int, "a browser is replaced by a new one after this many pages"] = 100
    render_scroll: Annotated[
        int, "scroll a rendered page to its end so many times, while that loads more"
    ] = 0
    render_click: Annotated[str, "and click this each time, such as button.load-more: a CSS selector"] = ""
    screenshots: Annotated[
        bool, "archive a picture of every rendered page; it then gets its images and fonts, too"
    ] = False


class ParseSettings(Struct, frozen=True):
    """What is extracted from a body."""

    content_start: Annotated[str, "content starts after this marker …"] = ""
    content_end: Annotated[str, "… and ends before this one; pages without both are ignored"] = ""
    main: Annotated[
        bool,
        "extract the main content of every page while crawling, as text and as Markdown; without it, exports derive it from the archive",
    ] = False
    extractor: Annotated[
        str,
        "who finds the main content: trafilatura (the extra skitter[main]), or fast, which is ours and needs no library",
    ] = "trafilatura"
    sloppy_anchors: Annotated[bool, "also follow anchors written like < a href = x >"] = False
    max_input: Annotated[Bytes, "at most this much of a document is parsed"] = Bytes(5 * 2**20)
    max_links: Annotated[int, "maximum number of links taken from one page"] = 10_000
    agent: Annotated[
        str,
        "the robot that X-Robots-Tag and meta elements may name; the product token of the user agent when empty",
    ] = ""
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
    assets: Annotated[
        bool, "collect what a page needs to be shown; always done where archive.assets is not off"
    ] = False
    ocr: Annotated[
        str,
        "languages in which text in images is read, as in eng or deu+eng, by the program tesseract; not at all when empty",
    ] = ""
    exif_location: Annotated[bool, "keep where a photo was taken, which is personal data"] = False
    follow_json: Annotated[
        tuple[str, ...],
        "in the answers of an API: where the URLs to follow are, as in $.items[*].url; then no other string is a link",
    ] = ()
    next_json: Annotated[
        str, "… and where the next part of a list is: a URL, or with next_param a cursor; as in $.next"
    ] = ""
    next_param: Annotated[str, "… the query parameter that gets the cursor, as in cursor"] = ""
    items_json: Annotated[
        tuple[str, ...],
        "… and where the items are that `skitter export --format items` writes, as in $.items[*]",
    ] = ()
    max_pages: Annotated[int, "at most this many pages of a PDF, or chapters of a book, are read"] = 2_000
    max_text: Annotated[
        int, "at most this many characters of text are taken from a PDF, Office document or book"
    ] = 10_000_000


class DedupSettings(Struct, frozen=True):
    """Which pages count as duplicates."""

    near: Annotated[bool, "find near-duplicates by SimHash (identical payloads are always found)"] = True
    distance: Annotated[int, "how many SimHash bits may differ, 0 to 3"] = 3
    min_words: Annotated[
        int, "texts with fewer words are only compared exactly, because their SimHash means little"
    ] = 32


class LearningSettings(Struct, frozen=True):
    """What a crawl learns while it runs."""

    patterns: Annotated[
        bool, "learn which URL patterns bring nothing new; they come last, and in the end they are parked"
    ] = False
    parameters: Annotated[
        bool,
        "learn which query parameters change nothing, and do not fetch what repeats a page by such a one",
    ] = False
    keep: Annotated[
        tuple[str, ...],
        "paths that are fetched whatever was learned of them, with * for any characters, such as /archive/*",
    ] = ()


class ArchiveSettings(Struct, frozen=True):
    """The WARC files."""

    max_file: Annotated[Bytes, "a file that exceeds this size is closed and a new one started"] = Bytes(2**30)
    operator: Annotated[str, "operator named in the warcinfo record; the contact when empty"] = ""
    assets: Annotated[
        str,
        "also fetch what pages need to be shown (style sheets, scripts, pictures, fonts, media, frames), whatever the scope: "
        "off, same-host (as their page) or all",
    ] = "off"


class ExportSettings(Struct, frozen=True):
    """What exports and search indexes leave out because somebody asks for that, and the size of their pieces."""

    respect_ai: Annotated[
        tuple[str, ...],
        "uses: train-ai, search, ai-input, train-ai-images, tdm; pages that say no to one of these are left out of exports and indexes",
    ] = ()
    chunk_size: Annotated[
        int, "the most characters of a piece of a page in the export for retrieval (chunks)"
    ] = 2_000
    noarchive: Annotated[
        bool, "copies of pages that ask for noarchive are shown: by replay, and in the formats cdxj and wacz"
    ] = False
    sign: Annotated[
        str, "a file with the private key (ECDSA, P-384) that signs WACZ files; empty for no signature"
    ] = ""


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


class MetricsSettings(Struct, frozen=True):
    """Where a running crawl shows its metrics to Prometheus."""

    address: Annotated[
        str,
        "HOST:PORT where /metrics is served while the crawl runs; PORT alone is for this machine only; nothing is served if empty",
    ] = ""
    hosts: Annotated[
        tuple[str, ...],
        "names by which this machine is asked for its metrics, besides its host name, localhost and addresses",
    ] = ()


class SiteSettings(Struct, frozen=True):
    """An overlay: settings that hold for the URLs that a pattern matches. `sites` applies them."""

    match: str
    values: dict[str, Any]  # by dotted key, in the types of the tree


class GroupSettings(Struct, frozen=True):
    """Hosts that count as one: they share one delay, one number of requests in flight, one window and one budget."""

    name: str
    hosts: Annotated[tuple[str, ...], "its hosts, as patterns such as *.cdn.example"] = ()
    delay: Annotated[Seconds | None, "least time between the starts of two requests to its hosts"] = None
    in_flight: Annotated[int | None, "requests in flight over all of its hosts"] = None
    window: Annotated[
        str, "when its hosts are visited, such as 22:00-06:00 Europe/Berlin; always if empty"
    ] = ""
    pages: Annotated[int | None, "stored pages of all its hosts together"] = None
    bytes: Annotated[Bytes | None, "bytes received from all its hosts together"] = None
    seconds: Annotated[Seconds | None, "time spent on requests to all its hosts together"] = None
    requests_per_day: Annotated[int | None, "requests to all its hosts together in one day (UTC)"] = None


class Settings(Struct, frozen=True):
    """All settings of a crawl."""

    urls: UrlsSettings = UrlsSettings()
    scope: ScopeSettings = ScopeSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    budget: BudgetSettings = BudgetSettings()
    robots: RobotsSettings = RobotsSettings()
    fetch: FetchSettings = FetchSettings()
    parse: ParseSettings = ParseSettings()
    dedup: DedupSettings = DedupSettings()
    learning: LearningSettings = LearningSettings()
    archive: ArchiveSettings = ArchiveSettings()
    export: ExportSettings = ExportSettings()
    frontier: FrontierSettings = FrontierSettings()
    crawl: CrawlSettings = CrawlSettings()
    metrics: MetricsSettings = MetricsSettings()
    alerts: AlertsSettings = AlertsSettings()
    cluster: ClusterSettings = ClusterSettings()
    redis: RedisSettings = RedisSettings()
    postgres: PostgresSettings = PostgresSettings()
    kafka: KafkaSettings = KafkaSettings()
    s3: S3Settings = S3Settings()
    search: SearchSettings = SearchSettings()
    site: tuple[SiteSettings, ...] = ()
    group: tuple[GroupSettings, ...] = ()


LISTS = ("site", "group")  # what a crawl may have several of; they have no defaults
SECTIONS: dict[str, type[Any]] = {
    field.name: field.type for field in fields(Settings) if field.name not in LISTS
}
