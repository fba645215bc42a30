"""The keywords of `skitter.crawl()`. Made by scripts/reference.py from the settings; do not edit."""

from collections.abc import Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """Settings of a crawl. Durations are seconds or text with a unit ("2s"), sizes are bytes or text ("10MiB")."""

    max_pages: int | None
    """stop after this many stored pages (2xx)"""

    max_depth: int | None
    """maximum number of links between a seed and a page; unlimited when not set"""

    max_time: str | float | None
    """stop after this time; on one machine, requests in flight get 5 s more and are then left to the next run; in a cluster, it counts from the first worker's start"""

    max_bytes: str | int | None
    """stop after receiving this much; requests in flight, and in a cluster what arrived since the last heartbeat, come on top"""

    scope: Literal["page", "prefix", "host", "domain", "any"]
    """page, prefix, host, domain or any: how far from the seeds links are followed"""

    include: Sequence[str]
    """only URLs matching one of these regular expressions (seeds are exempt)"""

    exclude: Sequence[str]
    """no URLs matching one of these regular expressions"""

    delay: str | float
    """time between the end of a response and the next request to the same host"""

    per_host: int
    """requests in flight per host"""

    concurrency: int
    """requests in flight, over all workers; in a cluster, per worker"""

    contact: str
    """a URL or e-mail address where site owners can reach you; part of the user agent"""

    user_agent: str
    """product token and comment; built from the program's name, version and contact if empty"""

    allow_private: Sequence[str]
    """private networks (CIDR) that may be visited"""

    resolve: Sequence[str]
    """HOST:ADDRESS pairs that replace DNS; the address guard still applies"""

    strategy: Literal["bfs", "dfs", "depth", "number"]
    """bfs, dfs, depth or number: how links are scored"""

    shards: int
    """parts of the crawl, each handled by one process at a time; fixed when the crawl is created; 0 for one per worker"""

    urls_tracking_params: Sequence[str]
    """query parameters (globs) removed from the fetched URL and from the key"""

    urls_session_params: Sequence[str]
    """query and path parameters (globs) removed from the key only"""

    urls_fold_trailing_slash: bool
    """treat /a and /a/ as one URL"""

    urls_fold_www: bool
    """treat www.example.org and example.org as one host in keys"""

    urls_fold_scheme: bool
    """treat http and https as one scheme in keys"""

    scope_kind: Literal["page", "prefix", "host", "domain", "any"]
    """page, prefix, host, domain or any: how far from the seeds links are followed"""

    scope_hosts: Sequence[str]
    """only hosts matching one of these patterns, such as *.inf.ed.ac.uk"""

    scope_include: Sequence[str]
    """only URLs matching one of these regular expressions (seeds are exempt)"""

    scope_exclude: Sequence[str]
    """no URLs matching one of these regular expressions"""

    scope_max_depth: int | None
    """maximum number of links between a seed and a page; unlimited when not set"""

    scope_max_pages_per_host: int | None
    """maximum number of stored pages per host; unlimited when not set"""

    scope_skip_extensions: Sequence[str]
    """links to files with these extensions are not followed"""

    scope_max_url_length: int
    """trap rule: longest URL that is followed"""

    scope_max_path_segments: int
    """trap rule: most path segments that are followed"""

    scope_max_segment_repeats: int
    """trap rule: how often a path segment, or a run of segments, may repeat"""

    scope_max_query_params: int
    """trap rule: most query parameters that are followed"""

    scope_max_query_length: int
    """trap rule: longest query string that is followed"""

    scope_calendar_years: int
    """trap rule: URLs with dates more than this many years ahead, or 50 back, are not followed"""

    scope_session_in_path: bool
    """trap rule: session ids in the path are not followed"""

    schedule_strategy: Literal["bfs", "dfs", "depth", "number"]
    """bfs, dfs, depth or number: how links are scored"""

    schedule_number_pattern: str
    """strategy number: a regular expression whose group 1 is the number"""

    schedule_retries: int
    """retries after a 5xx, 429 or network error"""

    schedule_retry_base: str | float
    """wait before the first retry; doubles each time"""

    schedule_retry_max: str | float
    """longest wait before a retry"""

    schedule_retry_jitter: float
    """each wait is randomly longer or shorter by up to this fraction"""

    politeness_delay: str | float
    """time between the end of a response and the next request to the same host"""

    politeness_per_host: int
    """requests in flight per host"""

    politeness_burst: int
    """requests that a long idle host may get without a delay between them"""

    politeness_max_crawl_delay: str | float
    """a host that asks for a longer Crawl-delay is set aside"""

    politeness_max_retry_after: str | float
    """a host that asks for a longer Retry-After is set aside"""

    robots_cache: str | float
    """how long a copy is used (RFC 9309 2.4: at most 24 hours)"""

    robots_jitter: float
    """each copy expires randomly up to this fraction earlier, so that not all expire together"""

    robots_retry_after: Sequence[str | float]
    """waits between attempts while a host fails; then it is given up"""

    robots_stale: str | float
    """how long an old copy stays in use while the host fails"""

    robots_max_redirects: int
    """redirects followed to a robots.txt (RFC 9309 2.3.1.2: at least five)"""

    fetch_user_agent: str
    """product token and comment; built from the program's name, version and contact if empty"""

    fetch_contact: str
    """a URL or e-mail address where site owners can reach you; part of the user agent"""

    fetch_accept_language: str
    """Accept-Language header; not sent when empty"""

    fetch_deadline: str | float
    """time limit for the whole request, from DNS to the last byte"""

    fetch_connect_timeout: str | float
    """time limit for DNS, connection and TLS"""

    fetch_idle_timeout: str | float
    """time limit without receiving a byte"""

    fetch_max_body: str | int
    """largest body, before and after decompression; a robots.txt has its own limit, 500 KiB"""

    fetch_max_headers: str | int
    """largest header block"""

    fetch_max_in_flight: str | int
    """memory for all bodies in flight together"""

    fetch_max_redirects: int
    """maximum number of redirects followed from one link"""

    fetch_keep_connections: int
    """idle connections kept open for later visits"""

    fetch_allow_private: Sequence[str]
    """private networks (CIDR) that may be visited"""

    fetch_resolve: Sequence[str]
    """HOST:ADDRESS pairs that replace DNS; the address guard still applies"""

    fetch_nameservers: Sequence[str]
    """DNS servers, ADDRESS or ADDRESS:PORT; the system's when empty"""

    fetch_dns_max_ttl: str | float
    """longest time a DNS answer is cached; less if its TTL is shorter"""

    fetch_dns_negative_ttl: str | float
    """how long a DNS failure is cached"""

    fetch_dns_cache: int
    """number of DNS answers cached"""

    fetch_ca_file: str
    """CA certificates (PEM) to trust instead of the system's"""

    parse_content_start: str
    """content starts after this marker …"""

    parse_content_end: str
    """… and ends before this one; pages without both are ignored"""

    parse_sloppy_anchors: bool
    """also follow anchors written like < a href = x >"""

    parse_max_input: str | int
    """at most this much of a document is parsed"""

    parse_max_links: int
    """maximum number of links taken from one page"""

    parse_pool_above: str | int
    """larger documents are parsed by a process of their own, so that nothing else waits meanwhile"""

    parse_processes: int
    """parser processes per worker, started when they are needed"""

    parse_deadline: str | float
    """a parser process that takes longer for one document is killed, and the page fails"""

    parse_max_memory: str | int
    """address space of a parser process; a document that needs more fails"""

    dedup_near: bool
    """find near-duplicates by SimHash (identical payloads are always found)"""

    dedup_distance: int
    """how many SimHash bits may differ, 0 to 3"""

    dedup_min_words: int
    """texts with fewer words are only compared exactly, because their SimHash means little"""

    archive_max_file: str | int
    """a file that exceeds this size is closed and a new one started"""

    archive_operator: str
    """operator named in the warcinfo record; the contact when empty"""

    frontier_window: int
    """hosts kept in memory for scheduling (in a cluster, for all shards of a worker together); the rest stay in the store"""

    frontier_block_cache: str | int
    """memory for cached blocks of the store"""

    crawl_max_pages: int | None
    """stop after this many stored pages (2xx)"""

    crawl_max_time: str | float | None
    """stop after this time; on one machine, requests in flight get 5 s more and are then left to the next run; in a cluster, it counts from the first worker's start"""

    crawl_max_bytes: str | int | None
    """stop after receiving this much; requests in flight, and in a cluster what arrived since the last heartbeat, come on top"""

    crawl_concurrency: int
    """requests in flight, over all workers; in a cluster, per worker"""

    crawl_shards: int
    """parts of the crawl, each handled by one process at a time; fixed when the crawl is created; 0 for one per worker"""

    crawl_min_free_disk: str | int
    """stop safely when less disk space is free"""

    crawl_commit_visits: int
    """maximum number of visits committed together"""

    crawl_sync_interval: str | float
    """time between two fsyncs"""
