"""The keywords of `skitter.crawl()`. Made by scripts/reference.py from the settings; do not edit."""

from collections.abc import Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """Settings of a crawl. Durations are seconds or text with a unit ("2s"), sizes are bytes or text ("10MiB")."""

    max_pages: int | None
    """stop after this many stored pages (2xx)"""

    max_depth: int | None
    """links between a seed and a page; unlimited when not set"""

    max_time: str | float | None
    """stop after this time (on one machine, requests in flight have 5 s more and are then left to the next run); in a cluster, since its first worker joined"""

    max_bytes: str | int | None
    """stop after receiving this much; requests in flight may add to it, and in a cluster what came since the last heartbeat"""

    scope: Literal["page", "prefix", "host", "domain", "any"]
    """page, prefix, host, domain or any: how far from its seeds a crawl may go"""

    include: Sequence[str]
    """only URLs that match one of these regular expressions (seeds excepted)"""

    exclude: Sequence[str]
    """no URL that matches one of these regular expressions"""

    delay: str | float
    """time from the end of a response to the next request to its host"""

    per_host: int
    """requests in flight per host"""

    concurrency: int
    """requests in flight in all"""

    contact: str
    """a URL or e-mail address at which site owners reach you; part of the user agent"""

    user_agent: str
    """product token and comment; made from the program's name, version and contact if empty"""

    allow_private: Sequence[str]
    """networks (CIDR) that are not public and may be visited all the same"""

    resolve: Sequence[str]
    """HOST:ADDRESS pairs that replace DNS; the address guard still applies"""

    strategy: Literal["bfs", "dfs", "depth", "number"]
    """bfs, dfs, depth or number: how links are scored"""

    shards: int
    """parts of the crawl, each worked on by one process; fixed when it is made; 0 for one per worker"""

    urls_tracking_params: Sequence[str]
    """query parameters (globs) dropped from what is fetched and from the key"""

    urls_session_params: Sequence[str]
    """query and path parameters (globs) dropped from the key only"""

    urls_fold_trailing_slash: bool
    """treat /a and /a/ as one URL"""

    urls_fold_www: bool
    """treat www.example.org and example.org as one host in keys"""

    urls_fold_scheme: bool
    """treat http and https as one scheme in keys"""

    scope_kind: Literal["page", "prefix", "host", "domain", "any"]
    """page, prefix, host, domain or any: how far from its seeds a crawl may go"""

    scope_hosts: Sequence[str]
    """only hosts that match one of these patterns, such as *.inf.ed.ac.uk"""

    scope_include: Sequence[str]
    """only URLs that match one of these regular expressions (seeds excepted)"""

    scope_exclude: Sequence[str]
    """no URL that matches one of these regular expressions"""

    scope_max_depth: int | None
    """links between a seed and a page; unlimited when not set"""

    scope_max_pages_per_host: int | None
    """stored pages per host; unlimited when not set"""

    scope_skip_extensions: Sequence[str]
    """links to paths with these endings are not followed"""

    scope_max_url_length: int
    """trap rule: longer URLs are not followed"""

    scope_max_path_segments: int
    """trap rule: deeper paths are not followed"""

    scope_max_segment_repeats: int
    """trap rule: a path segment, or a run of segments, may stand this often"""

    scope_max_query_params: int
    """trap rule: more query parameters are not followed"""

    scope_max_query_length: int
    """trap rule: longer query strings are not followed"""

    scope_calendar_years: int
    """trap rule: dates in a URL further away than this many years ahead, 50 back"""

    scope_session_in_path: bool
    """trap rule: session ids in the path are not followed"""

    schedule_strategy: Literal["bfs", "dfs", "depth", "number"]
    """bfs, dfs, depth or number: how links are scored"""

    schedule_number_pattern: str
    """strategy number: a regular expression whose group 1 is the number"""

    schedule_retries: int
    """requests after the first one that failed with 5xx, 429 or a network error"""

    schedule_retry_base: str | float
    """wait before the first retry; doubles each time"""

    schedule_retry_max: str | float
    """longest wait before a retry"""

    schedule_retry_jitter: float
    """each wait is this share longer or shorter, by chance"""

    politeness_delay: str | float
    """time from the end of a response to the next request to its host"""

    politeness_per_host: int
    """requests in flight per host"""

    politeness_burst: int
    """requests a host that was left alone for long may get without delay between them"""

    politeness_max_crawl_delay: str | float
    """a host that asks for a longer Crawl-delay is set aside"""

    politeness_max_retry_after: str | float
    """a host that asks for a longer Retry-After is set aside"""

    robots_cache: str | float
    """how long a copy is used (RFC 9309 2.4: not over 24 hours)"""

    robots_jitter: float
    """each copy is kept up to this share shorter, by chance, so that they do not expire together"""

    robots_retry_after: Sequence[str | float]
    """waits between tries while a host fails; then it is given up"""

    robots_stale: str | float
    """how long an old copy stays in force while the host fails"""

    robots_max_redirects: int
    """redirects followed to a robots.txt (RFC 9309 2.3.1.2: at least five)"""

    fetch_user_agent: str
    """product token and comment; made from the program's name, version and contact if empty"""

    fetch_contact: str
    """a URL or e-mail address at which site owners reach you; part of the user agent"""

    fetch_accept_language: str
    """Accept-Language, when set"""

    fetch_deadline: str | float
    """for the whole request, from DNS to the last byte"""

    fetch_connect_timeout: str | float
    """for DNS, connection and TLS"""

    fetch_idle_timeout: str | float
    """without a single byte"""

    fetch_max_body: str | int
    """largest body, on the wire and again after decompression; a robots.txt has a limit of its own, 500 KiB"""

    fetch_max_headers: str | int
    """largest header block"""

    fetch_max_in_flight: str | int
    """all bodies in flight together"""

    fetch_max_redirects: int
    """redirects followed from one link"""

    fetch_keep_connections: int
    """idle connections kept open for the next polite visit"""

    fetch_allow_private: Sequence[str]
    """networks (CIDR) that are not public and may be visited all the same"""

    fetch_resolve: Sequence[str]
    """HOST:ADDRESS pairs that replace DNS; the address guard still applies"""

    fetch_nameservers: Sequence[str]
    """DNS servers, ADDRESS or ADDRESS:PORT; the system's when empty"""

    fetch_dns_max_ttl: str | float
    """longest time a DNS answer is kept; shorter if its TTL says so"""

    fetch_dns_negative_ttl: str | float
    """how long a DNS failure is kept"""

    fetch_dns_cache: int
    """DNS answers kept"""

    fetch_ca_file: str
    """certificate authorities (PEM) to trust instead of the system's"""

    parse_content_start: str
    """only what stands between this marker …"""

    parse_content_end: str
    """… and this one is content; pages without them are ignored"""

    parse_sloppy_anchors: bool
    """also follow anchors written like < a href = x >"""

    parse_max_input: str | int
    """bytes of a document that are parsed"""

    parse_max_links: int
    """links taken from one page"""

    dedup_near: bool
    """look for near-duplicates by SimHash (identical payloads are always found)"""

    dedup_distance: int
    """SimHash bits that may differ, 0 to 3"""

    dedup_min_words: int
    """shorter texts are compared exactly only: their SimHash says little"""

    archive_max_file: str | int
    """a file that has grown beyond this is closed and the next one begun"""

    archive_operator: str
    """who runs the crawl, for the warcinfo record; the contact when empty"""

    frontier_window: int
    """hosts held in memory for scheduling, in a cluster by all shards together; the rest wait on disk"""

    frontier_block_cache: str | int
    """memory for blocks read from the store"""

    crawl_max_pages: int | None
    """stop after this many stored pages (2xx)"""

    crawl_max_time: str | float | None
    """stop after this time (on one machine, requests in flight have 5 s more and are then left to the next run); in a cluster, since its first worker joined"""

    crawl_max_bytes: str | int | None
    """stop after receiving this much; requests in flight may add to it, and in a cluster what came since the last heartbeat"""

    crawl_concurrency: int
    """requests in flight in all"""

    crawl_shards: int
    """parts of the crawl, each worked on by one process; fixed when it is made; 0 for one per worker"""

    crawl_min_free_disk: str | int
    """stop, with the state safe, when less is free"""

    crawl_commit_visits: int
    """visits that are made durable together, at most"""

    crawl_sync_interval: str | float
    """between two syncs to the disk itself"""
