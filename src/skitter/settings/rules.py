"""Which values a setting accepts: ranges of numbers, with the reason, and patterns for text.

A rule raises SettingsError with a message that says what to write instead. Rules are found by the setting's dotted name;
a setting without one accepts any text, and any number from zero up.
"""

import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from skitter.runtime import windows
from skitter.settings import SettingsError
from skitter.settings.exploding import explodes
from skitter.settings.json_paths import steps
from skitter.settings.units import address_of


class Range(Struct, frozen=True):
    """Smallest and largest value, with the reason."""

    low: float = 0
    high: float = math.inf
    why: str = ""


ANY = Range()
_SHARE = Range(0, 1, "it is a fraction")
_POSITIVE = Range(1)

RANGES: Mapping[str, Range] = {
    "export.chunk_size": Range(200, 1_000_000, "less holds no paragraph, more no model reads"),
    **dict.fromkeys(
        (
            "scope.max_url_length",
            "scope.max_path_segments",
            "scope.max_segment_repeats",
            "politeness.per_host",
            "politeness.burst",
            "politeness.adaptive_successes",
            "politeness.park_after",
            "politeness.per_address",
            "politeness.per_domain",
            "fetch.max_body",
            "fetch.max_headers",
            "fetch.max_sitemap",
            "fetch.max_in_flight",
            "fetch.dns_cache",
            "fetch.render_requests",
            "fetch.render_pages",
            "parse.max_input",
            "parse.max_pages",
            "parse.max_text",
            "archive.max_file",
            "frontier.window",
            "budget.host_pages",
            "budget.host_bytes",
            "budget.host_requests_per_day",
            "budget.domain_pages",
            "budget.linked_first",
            "budget.linked_most",
            "budget.domain_bytes",
            "budget.domain_requests_per_day",
            "budget.bandwidth",
            "crawl.max_pages",
            "group.in_flight",
            "group.pages",
            "group.bytes",
            "group.requests_per_day",
            "crawl.max_bytes",
            "crawl.concurrency",
            "crawl.commit_visits",
            "cluster.breaker_tests",
            "postgres.connections",
            "kafka.documents_partitions",
            "kafka.errors_partitions",
            "kafka.replication",
            "search.bulk",
            "s3.segment",
            "s3.spool",
        ),
        _POSITIVE,
    ),
    **dict.fromkeys(
        (
            "budget.host_seconds",
            "budget.domain_seconds",
            "fetch.deadline",
            "fetch.connect_timeout",
            "fetch.idle_timeout",
            "fetch.render_deadline",
            "parse.deadline",
            "crawl.max_time",
            "cluster.lease",
            "cluster.renew",
            "postgres.timeout",
            "s3.segment_time",
            "crawl.sync_interval",
            "group.seconds",
        ),
        Range(0.001, why="it must be longer than zero"),
    ),
    "s3.part": Range(5 * 2**20, 5 * 2**30, "S3 accepts parts of 5 MiB to 5 GiB"),
    "budget.memory": Range(64 * 2**20, why="a process needs about that much before it fetches anything"),
    "crawl.workers": Range(0, 256, "0 means one per core, and 256 are plenty for one machine"),
    "crawl.shards": Range(0, 4096, "0 means one per worker, and more were not measured"),
    "crawl.worker_patience": Range(1, why="a busy worker needs a moment to answer"),
    "schedule.retry_jitter": _SHARE,
    **dict.fromkeys(
        (
            *(f"schedule.importance_{part}" for part in ("domain", "depth", "news", "new")),
            *(
                f"schedule.feature_{part}"
                for part in ("depth", "path", "query", "extension", "https", "words")
            ),
        ),
        Range(-1000, 1000, "weights are compared with each other"),
    ),
    "schedule.half_life": Range(60, why="a queue cannot be told apart by less"),
    "schedule.opic_damping": Range(0.01, 0.99, "something must be passed on, and something must stay"),
    "schedule.pressure": Range(0.1, 1e6, "it is a number of links for each page"),
    "politeness.adaptive_jitter": _SHARE,
    "politeness.adaptive_shrink": Range(0.001, 0.9, "a delay must shrink, and not to nothing at once"),
    "politeness.adaptive_slow": Range(1.5, why="answers vary that much on a healthy server"),
    "politeness.adaptive_first": Range(0.001, why="a delay of zero cannot double"),
    "robots.jitter": _SHARE,
    "robots.cache": Range(1, 86400, "RFC 9309 2.4: a copy must not be used for more than 24 hours"),
    "robots.max_redirects": Range(5, why="RFC 9309 2.3.1.2: at least five must be followed"),
    "fetch.browsers": Range(1, 64, "each takes some 200 MB of memory"),
    "fetch.render_memory": Range(256 * 2**20, why="a browser needs that much for an ordinary page"),
    "fetch.render_scroll": Range(0, 1000, "a page that long is a trap"),
    "parse.processes": Range(1, 256, "256 are plenty for one machine"),
    "parse.max_memory": Range(256 * 2**20, why="a parser needs that much for an ordinary document"),
    **dict.fromkeys(
        (
            "alerts.error_share",
            "alerts.disk_share",
            "alerts.unheard_share",
            "alerts.challenge_share",
            "alerts.coverage_share",
        ),
        _SHARE,
    ),
    "alerts.every": Range(1, 300, "rules look at the numbers of ten minutes"),
    "alerts.stalled_after": Range(60, why="a request may take half a minute"),
    "dedup.distance": Range(0, 3, "the near-duplicate index cannot find more"),
}


def _one_of(*words: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in words:
            raise SettingsError(f"{value!r} is not one of {', '.join(words[:-1])} or {words[-1]}")

    return check


def _strategy(value: str) -> None:
    if ":" not in value:
        try:
            _one_of("bfs", "dfs", "depth", "number", "importance", "features", "opic", "larger-sites")(value)
        except SettingsError as problem:
            raise SettingsError(f"{problem}, nor module:function") from None
    elif not re.fullmatch(r"[^:\s]+:[^\W\d]\w*", value):
        raise SettingsError(
            f"{value!r} is not module:function; write for example scorer:score for the function score in scorer.py"
        )


def is_file_name(plugin: str) -> bool:
    """Whether a plug-in is named by its file; otherwise it is a module."""
    return plugin.endswith(".py") or os.sep in plugin


def _plugin(value: str) -> None:
    if not is_file_name(value) and not all(part.isidentifier() for part in value.split(".")):
        raise SettingsError(
            f"{value!r} is neither a file nor a module; write for example scorer.py, ./scorer or package.module"
        )


def _pattern(value: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(value)
    except re.error as problem:
        raise SettingsError(f"{value!r} is not a regular expression: {problem}") from None
    if explodes(compiled):
        raise SettingsError(
            f"{value!r} would take longer than anybody waits for some URLs: a repetition in it can read the same text in many"
            " ways; write it without one repetition inside another, as in [a-z]+ for ([a-z]+)+"
        )
    return compiled


def _number_pattern(value: str) -> None:
    if _pattern(value).groups < 1:
        raise SettingsError(rf"{value!r} has no group 1; put the number in parentheses, as in page=(\d+)")


def _word(value: str) -> None:
    if not value.strip():
        raise SettingsError("an empty word is in every URL")


def _network(value: str) -> None:
    try:
        ipaddress.ip_network(value)
    except ValueError as problem:
        raise SettingsError(
            f"{value!r} is not a network ({problem}); write for example 10.0.0.0/8 or ::1/128"
        ) from None


def _pair(value: str) -> None:
    host, _, address = value.partition(":")
    if not re.fullmatch(r"[^\s/?#@\[\]%]+", host) or not _is_address(address):
        raise SettingsError(
            f"{value!r} is not HOST:ADDRESS; write for example example.org:192.0.2.1 or example.org:[2001:db8::1]"
        )


def _accept_language(value: str) -> None:
    """RFC 9110 12.5.4: language ranges, each with an optional weight."""
    if value and not re.fullmatch(r"[A-Za-z0-9*,;=.\- ]+", value):
        raise SettingsError(f"{value!r} is not a list of languages; write for example en, de;q=0.5")


def _nameserver(value: str) -> None:
    address, _, port = value.rpartition(":")
    if not (
        _is_address(value)
        or (_is_address(address) and port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    ):
        raise SettingsError(
            f"{value!r} is not a DNS server; write an address such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53"
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return False
    return True


def _field_value(value: str) -> None:
    """For a header field: printable ASCII without line breaks (RFC 9110 5.5)."""
    if not value.isascii() or not value.isprintable():
        raise SettingsError(
            f"{value!r} has characters that are not allowed in a header field; write printable ASCII only"
        )
    if value != value.strip():
        raise SettingsError(f"{value!r} begins or ends with a space; remove it")


# Names of browsers and large crawlers. Posing as one of them would hide who we are.
_NOT_US = frozenset(
    {
        "mozilla",
        "opera",
        "googlebot",
        "bingbot",
        "duckduckbot",
        "applebot",
        "yandexbot",
        "baiduspider",
        "slurp",
    }
)


def _user_agent(value: str) -> None:
    _field_value(value)
    # RFC 9309 2.2.1: the product token is what robots.txt files refer to; only letters, "_" and "-" are allowed.
    if value and not re.match(r"[A-Za-z_-]+(?:[/ ]|\Z)", value):
        raise SettingsError(
            f"{value!r} does not begin with a product token of letters, - or _; write for example mybot/1.0 (+https://example.org/bot)"
        )
    token = re.split(r"[/ ]", value.lower())[0]
    if token in _NOT_US:
        raise SettingsError(
            f"{token} belongs to somebody else; a crawler must say who it is: write for example mybot/1.0 (+https://example.org/bot)"
        )


def _robot(value: str) -> None:
    if not re.fullmatch(r"[a-z_-]*", value):
        raise SettingsError(f"{value!r} is not a product token in lower case; write for example mybot")


# Fields that are ours to set: who we are, what the connection does, what the answer may be like.
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "from",
        "host",
        "keep-alive",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "forwarded",
        "x-forwarded-for",
    }
)
_SECRET = re.compile(r"auth|cookie|api-?key|token|secret|passw|credential|session", re.IGNORECASE)


def header_line(value: str) -> None:
    """A header field of one's own, NAME: VALUE. The message quotes its name only, for it may be a secret."""
    name, colon, text = value.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        shown = name if colon else "".join(name.split()[:1])  # what follows may be a secret here, too
        raise SettingsError(f"{shown[:40]!r} is not NAME: VALUE; write for example X-Project: archive")
    if not re.fullmatch(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?", text.strip()):
        raise SettingsError(
            f"the value of {name} is empty or not printable ASCII; write for example {name}: text"
        )
    if name.lower() in _OURS or name.lower().startswith(("if-", "proxy-")):
        instead = {"user-agent": "; set fetch.user_agent", "from": "; set fetch.contact"}.get(
            name.lower(), ""
        )
        raise SettingsError(f"{name} is set by the crawler itself{instead}")


def _public_header_line(value: str) -> None:
    """These are kept in crawl.toml and in the archive."""
    header_line(value)
    name = value.partition(":")[0]
    if _SECRET.search(name):
        where = (
            "a cookie file (fetch.cookies)"
            if name.lower() == "cookie"
            else "the secrets file (fetch.secrets)"
        )
        raise SettingsError(
            f"{name} looks like a secret, and settings are kept in files and records; write it into {where}"
        )


def _proxy(value: str) -> None:
    found = re.fullmatch(r"(?:http|socks5)://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@?#:\[\]]+):([0-9]{1,5})/?", value)
    if value and (found is None or int(found[1]) not in range(1, 65536)):
        raise SettingsError(
            f"{value!r} is not a proxy; write http://HOST:PORT or socks5://HOST:PORT, and its login into [proxy] of the secrets file"
        )


def _extension(value: str) -> None:
    if not re.fullmatch(r"[^./?#\s]+", value):
        raise SettingsError(f"{value!r} is not a file extension; write it without a dot, as in pdf")


def _languages(value: str) -> None:
    if value and not re.fullmatch(r"[A-Za-z][A-Za-z_/]{1,30}(?:\+[A-Za-z][A-Za-z_/]{1,30}){0,9}", value):
        raise SettingsError(
            f"{value!r} are no languages of tesseract; write for example eng or deu+eng (`tesseract --list-langs`)"
        )


def _perhaps_a_path(value: str) -> None:
    if value:
        steps(value)


def _parameter(value: str) -> None:
    if not re.fullmatch(r"[^\s&=#?]*", value):
        raise SettingsError(f"{value!r} is not the name of a query parameter; write for example cursor")


def _window(value: str) -> None:
    for part in windows.split(value):
        try:
            windows.read(part)
        except ValueError as problem:
            raise SettingsError(str(problem)) from None


def _host_pattern(value: str) -> None:
    if not re.fullmatch(r"[^\s/?#@]+", value):
        raise SettingsError(
            f"{value!r} is not a host pattern; write only a host name, as in www.example.org or *.example.org"
        )


def _host_name(value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9.-]+", value):
        raise SettingsError(f"{value!r} is not a host name; write for example crawler.example.org")


def _address(value: str) -> None:
    host, _, port = value.rpartition(":")
    if (
        not host
        or "@" in value
        or "/" in value
        or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    ):
        raise SettingsError(
            f"{value!r} is not HOST:PORT; write for example 10.0.0.7:5432; secrets do not belong here"
        )


def _web_address(value: str) -> None:
    if value and not re.fullmatch(r"https?://[^\s/@?#]+(?::\d+)?/?", value):
        raise SettingsError(f"{value!r} is not http(s)://HOST:PORT; secrets do not belong here")


def _crawl_name(value: str) -> None:
    """Used as a PostgreSQL schema (63 bytes) and as a prefix of Redis keys and Kafka groups."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", value):
        raise SettingsError(
            f"{value!r} is not a name; write lower-case letters, digits and _, as in my_crawl"
        )


def _index_name(value: str) -> None:
    """Index names that OpenSearch accepts, without characters that have a meaning in a URL."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,254}", value):
        raise SettingsError(
            f"{value!r} is not an index name; write lower-case letters, digits, ., _ and -, as in web_pages"
        )


def _served_at(value: str) -> None:
    if value not in ("", "off"):
        address_of(value)


def _webhook(value: str) -> None:
    if value and not re.fullmatch(r"https?://[^\s/@?#]+(?::\d+)?(?:/[\x21-\x7e]*)?", value):
        raise SettingsError(
            f"{value!r} is not http(s)://HOST/PATH in ASCII; a login does not belong here, and a secret is in alerts.secret_file"
        )


ALERT_RULES = (
    "queue_large",
    "stalled",
    "slow",
    "no_archive_record",
    "politeness_violation",
    "coverage",
    "error_rate",
    "certificate_trouble",
    "robots_trouble",
    "challenged",
    "worker_down",
    "disk_low",
    "disk_full_soon",
    "clock_skew",
    "worker_silent",
    "breaker_open",
    "lag",
)
"""The names of the alert rules (`reporting.alerting.rules`)."""


RULES: Mapping[str, Callable[[str], object]] = {
    "cluster.size": _one_of("none", "redis", "full"),
    "cluster.name": _crawl_name,
    "redis.addresses": _address,
    "postgres.addresses": _address,
    "kafka.addresses": _address,
    "kafka.mechanism": _one_of("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "s3.endpoint": _web_address,
    "s3.layout": _one_of("segments", "pages"),
    "search.addresses": _web_address,
    "search.index": _index_name,
    "export.respect_ai": _one_of("train-ai", "search", "ai-input", "train-ai-images", "tdm"),
    "robots.terms": _one_of("auto", "always", "never"),
    "scope.kind": _one_of("page", "prefix", "host", "domain", "any"),
    "scope.sitemaps": _one_of("off", "announced", "search", "only", "named"),
    "archive.assets": _one_of("off", "same-host", "all"),
    "scope.hosts": _host_pattern,
    "group.hosts": _host_pattern,
    "scope.include": _pattern,
    "scope.exclude": _pattern,
    "scope.skip_extensions": _extension,
    "schedule.strategy": _strategy,
    "schedule.number_pattern": _number_pattern,
    "schedule.news_pattern": _pattern,
    "schedule.words": _word,
    "politeness.window": _window,
    "group.window": _window,
    "fetch.user_agent": _user_agent,
    "parse.agent": _robot,
    "parse.extractor": _one_of("trafilatura", "fast"),
    "parse.ocr": _languages,
    "parse.follow_json": steps,
    "parse.items_json": steps,
    "parse.next_json": _perhaps_a_path,
    "parse.next_param": _parameter,
    "fetch.contact": _field_value,
    "fetch.accept_language": _accept_language,
    "fetch.headers": _public_header_line,
    "fetch.proxy": _proxy,
    "fetch.render": _one_of("never", "auto", "always"),
    "fetch.render_skip": _one_of("image", "media", "font", "stylesheet", "script", "xhr", "fetch"),
    "fetch.allow_private": _network,
    "fetch.resolve": _pair,
    "fetch.nameservers": _nameserver,
    "crawl.plugins": _plugin,
    "metrics.address": _served_at,
    "metrics.hosts": _host_name,
    "alerts.webhook": _webhook,
    "alerts.allow_private": _network,
    "alerts.rules": _one_of(*ALERT_RULES),
}
