"""The keywords of `skitter.crawl()`. Made by scripts/reference.py from the settings; do not edit."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """Settings of a crawl. Durations are seconds or text with a unit ("2s"), sizes are bytes or text ("10MiB")."""

    max_pages: int | None
    """stop after this many stored pages (2xx)"""

    max_depth: int | None
    """maximum number of links between a seed and a page, on the shortest way that is found; unlimited when not set"""

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

    per_address: int | None
    """requests in flight per IP address, over all hosts, workers and machines; none for no limit"""

    address_delay: str | float
    """least time between the starts of two requests to one IP address"""

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

    sitemaps: str
    """which sitemaps are read, besides those given by hand: off (none), announced (those that a robots.txt names), search (and the usual places of the seeds' hosts), only (like search, and no other page is crawled) or named (none, and no page is crawled that they do not list)"""

    strategy: str
    """how links are ordered: bfs, dfs, depth, number, importance, features, opic or larger-sites; or module:function, a function of your own"""

    recrawl: str
    """when pages are fetched again: off (never), adaptive (when each has probably changed), or after a time such as 12h; a crawl that does so ends only at a limit, or when it is told to"""

    shards: int
    """parts of the crawl, each handled by one process at a time; fixed when the crawl is created; 0 for one per worker"""

    assets: str
    """also fetch what pages need to be shown (style sheets, scripts, pictures, fonts, media, frames), whatever the scope: off, same-host (as their page) or all"""

    main: bool
    """extract the main content of every page while crawling, as text and as Markdown; without it, exports derive it from the archive"""

    render: str
    """show pages to a browser, so that their scripts run: never, always, or auto: those whose URL pattern turned out to need it"""

    metrics: str
    """HOST:PORT where /metrics is served while the crawl runs; PORT alone is for this machine only; nothing is served if empty"""

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
    """maximum number of links between a seed and a page, on the shortest way that is found; unlimited when not set"""

    scope_sitemaps: str
    """which sitemaps are read, besides those given by hand: off (none), announced (those that a robots.txt names), search (and the usual places of the seeds' hosts), only (like search, and no other page is crawled) or named (none, and no page is crawled that they do not list)"""

    scope_skip_extensions: Sequence[str]
    """links to files with these extensions are not followed; auto stands for those that no installed parser reads"""

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

    schedule_strategy: str
    """how links are ordered: bfs, dfs, depth, number, importance, features, opic or larger-sites; or module:function, a function of your own"""

    schedule_number_pattern: str
    """strategy number: a regular expression whose group 1 is the number"""

    schedule_rank_file: str
    """strategy importance: a file that ranks domains, with lines rank,domain or domain score (0 to 1)"""

    schedule_importance_domain: float
    """strategy importance: weight of the rank of its domain"""

    schedule_importance_depth: float
    """… of 1/(1 + depth)"""

    schedule_importance_news: float
    """… of a path that looks like news"""

    schedule_importance_new: float
    """… of never having been crawled"""

    schedule_news_pattern: str
    """strategy importance: a regular expression for paths that look like news"""

    schedule_feature_depth: float
    """strategy features: weight of 1/(1 + depth)"""

    schedule_feature_path: float
    """… of 1/(1 + folders in its path)"""

    schedule_feature_query: float
    """… of having no query"""

    schedule_feature_extension: float
    """… of having no extension, or that of a page"""

    schedule_feature_https: float
    """… of https"""

    schedule_feature_words: float
    """… of one of `words` in its URL or in the text of its link"""

    schedule_words: Sequence[str]
    """strategy features: words to look for in URLs and texts of links; case does not matter"""

    schedule_half_life: str | float | None
    """strategies importance and features: a link counts half after this long since its discovery; none for no decay"""

    schedule_opic_damping: float
    """strategy opic: what a page passes on to its links, of what was passed on to it"""

    schedule_pressure: float | None
    """a host with more than 1,000 links waiting, and more than this many for each page stored from it, sinks by a level; none for no such rule"""

    schedule_retries: int
    """retries after a 5xx, 429 or network error"""

    schedule_retry_base: str | float
    """wait before the first retry; doubles each time"""

    schedule_retry_max: str | float
    """longest wait before a retry"""

    schedule_retry_jitter: float
    """each wait is randomly longer or shorter by up to this fraction"""

    schedule_recrawl: str
    """when pages are fetched again: off (never), adaptive (when each has probably changed), or after a time such as 12h; a crawl that does so ends only at a limit, or when it is told to"""

    schedule_refresh_rate: float
    """recrawl adaptive: visits per page and day, on average over the pages of a host; which pages get more is learned"""

    schedule_refresh_share: float
    """of the requests to a host, at most this part goes to pages known already while new ones wait"""

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

    politeness_adaptive: bool
    """wait longer for a host that is slow, refuses or fails, and pause one that keeps failing"""

    politeness_adaptive_factor: float
    """wait at least this many times as long as the host takes to answer; not with a delay of 0"""

    politeness_adaptive_slow: float
    """the delay doubles while answers take this many times as long as usual; not with a delay of 0"""

    politeness_adaptive_first: str | float
    """least delay after a 429, 503, time-out or reset"""

    politeness_adaptive_max: str | float
    """longest delay reached by doubling"""

    politeness_adaptive_jitter: float
    """a doubled delay is randomly longer by up to this fraction"""

    politeness_adaptive_successes: int
    """good answers after which a doubled delay shrinks …"""

    politeness_adaptive_shrink: float
    """… by this fraction, down to the delay of every host"""

    politeness_park_after: int
    """a host that fails this many times in a row is paused"""

    politeness_park: Sequence[str | float]
    """pauses of a host that keeps failing, one request after each; then it is given up"""

    politeness_per_address: int | None
    """requests in flight per IP address, over all hosts, workers and machines; none for no limit"""

    politeness_address_delay: str | float
    """least time between the starts of two requests to one IP address"""

    politeness_per_domain: int | None
    """requests in flight per registrable domain, over all its hosts; none for no limit"""

    politeness_domain_delay: str | float
    """least time between the starts of two requests to the hosts of one registrable domain"""

    politeness_window: str
    """when requests may be sent, such as 22:00-06:00 Europe/Berlin or Mon-Fri 19:00-07:00 UTC; several are separated by commas; always if empty"""

    budget_host_pages: int | None
    """stored pages (2xx) per host"""

    budget_host_bytes: str | int | None
    """bytes received per host; answers in flight come on top"""

    budget_host_seconds: str | float | None
    """time that a host may spend on our requests; answers in flight come on top"""

    budget_host_requests_per_day: int | None
    """requests per host and day (UTC), robots.txt included"""

    budget_domain_pages: int | None
    """stored pages (2xx) of all hosts of a domain"""

    budget_domain_bytes: str | int | None
    """bytes received from all hosts of a domain"""

    budget_domain_seconds: str | float | None
    """time that all hosts of a domain may spend"""

    budget_domain_requests_per_day: int | None
    """requests to all hosts of a domain per day (UTC)"""

    budget_linked_first: int | None
    """stored pages of a domain to which no other domain links; with it, the pages of each domain are limited by links from others, and what is over that waits until there are more; none for no such limit"""

    budget_linked_more: int
    """… pages more for each other domain that links to it"""

    budget_linked_most: int
    """… pages at most, however many do"""

    budget_bandwidth: str | int | None
    """bytes received per second on average, by the whole crawl; over the workers it is divided equally"""

    budget_memory: str | int | None
    """memory of the crawl on one machine, without parser processes: near it, fewer pages are fetched at once"""

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

    robots_terms: str
    """fetch the tdmrep.json and the RSL licences of each origin: never, always, or auto: if export.respect_ai names a use"""

    fetch_user_agent: str
    """product token and comment; built from the program's name, version and contact if empty"""

    fetch_contact: str
    """a URL or e-mail address where site owners can reach you; part of the user agent"""

    fetch_accept_language: str
    """Accept-Language header; not sent when empty"""

    fetch_headers: Sequence[str]
    """more header fields, as a table or as a list of NAME: VALUE; no secrets, they are kept"""

    fetch_cookies: str
    """cookies that are sent: a Netscape file (cookies.txt) that only you can read"""

    fetch_keep_cookies: bool
    """also send back what a host sets; kept per host, in memory, while the process runs"""

    fetch_secrets: str
    """logins, tokens and client certificates for sites: a TOML file that only you can read"""

    fetch_identity: str
    """directory made by `skitter identity init`: requests are signed with its key (Web Bot Auth)"""

    fetch_proxy: str
    """http://HOST:PORT or socks5://HOST:PORT through which every request goes; its login is in fetch.secrets"""

    fetch_http2: bool
    """speak HTTP/2 with servers that offer it (only over TLS); false keeps every answer byte for byte"""

    fetch_deadline: str | float
    """time limit for the whole request, from DNS to the last byte"""

    fetch_connect_timeout: str | float
    """time limit for DNS, connection and TLS"""

    fetch_idle_timeout: str | float
    """time limit without receiving a byte"""

    fetch_max_body: str | int
    """largest body, before and after decompression; a robots.txt has its own limit, 500 KiB"""

    fetch_max_sitemap: str | int
    """most that is read of a sitemap or feed, before and after decompression; the archive has the first max_body of it"""

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

    fetch_render: str
    """show pages to a browser, so that their scripts run: never, always, or auto: those whose URL pattern turned out to need it"""

    fetch_browser: str
    """the browser: a Chromium or its headless shell, as a path or command; found if empty"""

    fetch_browsers: int
    """browsers per worker, each with one page at a time; started when needed"""

    fetch_render_deadline: str | float
    """time limit for rendering one page; what it is by then counts, if it can still say that"""

    fetch_render_quiet: str | float
    """a loaded page is complete when it has requested nothing for this long"""

    fetch_render_gap: str | float
    """time between the starts of two requests of a rendered page to one host; afterwards its host is owed its delay for each"""

    fetch_render_requests: int
    """most requests that one rendered page may cause"""

    fetch_render_post: bool
    """rendered pages may also send POST, and not only GET and HEAD"""

    fetch_render_skip: Sequence[str]
    """kinds of resources that a rendered page does not get: image, media, font, stylesheet, script, xhr, fetch"""

    fetch_render_memory: str | int
    """a browser that uses more is killed, and the page is not rendered"""

    fetch_render_pages: int
    """a browser is replaced by a new one after this many pages"""

    fetch_render_scroll: int
    """scroll a rendered page to its end so many times, while that loads more"""

    fetch_render_click: str
    """and click this each time, such as button.load-more: a CSS selector"""

    fetch_screenshots: bool
    """archive a picture of every rendered page; it then gets its images and fonts, too"""

    parse_content_start: str
    """content starts after this marker …"""

    parse_content_end: str
    """… and ends before this one; pages without both are ignored"""

    parse_main: bool
    """extract the main content of every page while crawling, as text and as Markdown; without it, exports derive it from the archive"""

    parse_extractor: str
    """who finds the main content: trafilatura (the extra skitter[main]), or fast, which is ours and needs no library"""

    parse_sloppy_anchors: bool
    """also follow anchors written like < a href = x >"""

    parse_max_input: str | int
    """at most this much of a document is parsed"""

    parse_max_links: int
    """maximum number of links taken from one page"""

    parse_agent: str
    """the robot that X-Robots-Tag and meta elements may name; the product token of the user agent when empty"""

    parse_pool_above: str | int
    """larger documents are parsed by a process of their own, so that nothing else waits meanwhile"""

    parse_processes: int
    """parser processes per worker, started when they are needed"""

    parse_deadline: str | float
    """a parser process that takes longer for one document is killed, and the page fails"""

    parse_max_memory: str | int
    """address space of a parser process; a document that needs more fails"""

    parse_assets: bool
    """collect what a page needs to be shown; always done where archive.assets is not off"""

    parse_ocr: str
    """languages in which text in images is read, as in eng or deu+eng, by the program tesseract; not at all when empty"""

    parse_exif_location: bool
    """keep where a photo was taken, which is personal data"""

    parse_follow_json: Sequence[str]
    """in the answers of an API: where the URLs to follow are, as in $.items[*].url; then no other string is a link"""

    parse_next_json: str
    """… and where the next part of a list is: a URL, or with next_param a cursor; as in $.next"""

    parse_next_param: str
    """… the query parameter that gets the cursor, as in cursor"""

    parse_items_json: Sequence[str]
    """… and where the items are that `skitter export --format items` writes, as in $.items[*]"""

    parse_max_pages: int
    """at most this many pages of a PDF, or chapters of a book, are read"""

    parse_max_text: int
    """at most this many characters of text are taken from a PDF, Office document or book"""

    dedup_near: bool
    """find near-duplicates by SimHash (identical payloads are always found)"""

    dedup_distance: int
    """how many SimHash bits may differ, 0 to 3"""

    dedup_min_words: int
    """texts with fewer words are only compared exactly, because their SimHash means little"""

    learning_patterns: bool
    """learn which URL patterns bring nothing new; they come last, and in the end they are parked"""

    learning_parameters: bool
    """learn which query parameters change nothing, and do not fetch what repeats a page by such a one"""

    learning_keep: Sequence[str]
    """paths that are fetched whatever was learned of them, with * for any characters, such as /archive/*"""

    archive_max_file: str | int
    """a file that exceeds this size is closed and a new one started"""

    archive_operator: str
    """operator named in the warcinfo record; the contact when empty"""

    archive_assets: str
    """also fetch what pages need to be shown (style sheets, scripts, pictures, fonts, media, frames), whatever the scope: off, same-host (as their page) or all"""

    export_respect_ai: Sequence[str]
    """uses: train-ai, search, ai-input, train-ai-images, tdm; pages that say no to one of these are left out of exports and indexes"""

    export_chunk_size: int
    """the most characters of a piece of a page in the export for retrieval (chunks)"""

    export_noarchive: bool
    """copies of pages that ask for noarchive are shown: by replay, and in the formats cdxj and wacz"""

    export_sign: str
    """a file with the private key (ECDSA, P-384) that signs WACZ files; empty for no signature"""

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

    crawl_plugins: Sequence[str]
    """Python files or modules of your own, imported by every process that crawls; they run with its rights"""

    metrics_address: str
    """HOST:PORT where /metrics is served while the crawl runs; PORT alone is for this machine only; nothing is served if empty"""

    metrics_hosts: Sequence[str]
    """names by which this machine is asked for its metrics, besides its host name, localhost and addresses"""

    alerts_webhook: str
    """URL that gets a POST with JSON when an alert begins and when it ends; nothing is sent if empty"""

    alerts_command: Sequence[str]
    """program and arguments, run when an alert begins and when it ends, with the same JSON on its standard input"""

    alerts_secret_file: str
    """file with the secret that signs webhooks (HMAC-SHA256); or the variable SKITTER_ALERTS_SECRET; unsigned without"""

    alerts_allow_private: Sequence[str]
    """private networks (CIDR) that webhooks may be sent to"""

    alerts_rules: Sequence[str]
    """names of the rules that are watched; all if empty"""

    alerts_every: str | float
    """time between two looks at the metrics"""

    alerts_queue_size: int
    """rule queue_large: more URLs waiting than this"""

    alerts_error_share: float
    """rule error_rate: more than this part of the requests of ten minutes fail"""

    alerts_error_requests: int
    """rules error_rate and challenged: of at least this many requests"""

    alerts_disk_share: float
    """rule disk_low: less than this part of the disk is free"""

    alerts_disk_ahead: str | float
    """rule disk_full_soon: the disk would be full within this time"""

    alerts_stalled_after: str | float
    """rule stalled: work waits, and no request has ended for this long"""

    alerts_slow_rate: float
    """rule slow: fewer requests a second than this end, though hosts are free"""

    alerts_archive_age: str | float
    """rule no_archive_record: pages come, and nothing was archived for this long"""

    alerts_lag_messages: int
    """rule lag: more forwarded messages of a topic wait than this"""

    alerts_tls_failures: int
    """rule certificate_trouble: more TLS failures than this in half an hour"""

    alerts_unheard_share: float
    """rule robots_trouble: more than this part of the robots.txt requests of half an hour fail"""

    alerts_challenge_share: float
    """rule challenged: more than this part of the answers of half an hour are challenges"""

    alerts_clock_skew: str | float
    """rule clock_skew: clocks differ by more than this"""

    alerts_expected_pages: int
    """rule coverage: pages that the run before had; 0 if there is nothing to compare with"""

    alerts_coverage_share: float
    """rule coverage: the crawl ends with less than this part of `expected_pages`"""

    site: Sequence[Mapping[str, object]]
    """settings of single sites, such as [{"match": "*.example.org", "politeness.delay": "5s"}]"""

    group: Mapping[str, Mapping[str, object]]
    """hosts that count as one, such as {"cdn": {"hosts": ["*.cdn.example"], "delay": "2s"}}"""
