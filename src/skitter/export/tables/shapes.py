"""The columns of the five tables, and how a record becomes a row.

Columns that mean the same as in Common Crawl's index (github.com/commoncrawl/cc-index-table) have its name and come first;
ours follow. These names are a contract. What is not known is null; times are in UTC.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from skitter import reasons, urls
from skitter.events import Lost, Requested
from skitter.export.tables.languages import iso_639_3
from skitter.model import HostRecord, Page, UrlRecord
from skitter.robots import usage
from skitter.urls import UrlRules

Row = tuple[Any, ...]
Surt = Callable[[str], str | None]  # the SURT key of a URL

_TEXT, _WHOLE, _REAL, _YES = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"
_TIME, _SMALL, _HASH = "TIMESTAMP", "SMALLINT", "UBIGINT"
_REMEMBERED = 1 << 17  # SURT keys: the same URLs are in several tables, and a key takes 17 µs
_REDIRECT = re.compile(r"redirects \(\d+\) to (\S+)\Z")


def remembering_surt() -> Surt:
    """SURT keys, of which the last are remembered."""
    return lru_cache(_REMEMBERED)(urls.surt)


def no_surt(_url: str) -> None:
    """For tables whose column of SURT keys nobody reads: they take a third of the time."""
    return


class Table(Struct, frozen=True):
    """A table: its name, its columns with their SQL types, and the columns it is sorted by."""

    name: str
    about: str
    columns: Mapping[str, str]
    order: Sequence[str]


_URL = {
    "url_surtkey": _TEXT,
    "url": _TEXT,
    "url_host_name": _TEXT,
    "url_host_tld": _TEXT,
    "url_host_registered_domain": _TEXT,
    "url_protocol": _TEXT,
    "url_path": _TEXT,
    "url_query": _TEXT,
}

PAGES = Table(
    "pages",
    "one row for each stored answer",
    _URL
    | {
        "fetch_time": _TIME,
        "fetch_status": _SMALL,
        "content_digest": _TEXT,
        "content_mime_type": _TEXT,
        "content_mime_detected": _TEXT,
        "content_charset": _TEXT,
        "content_languages": _TEXT,
        "warc_filename": _TEXT,
        "warc_record_offset": _WHOLE,
        "warc_record_length": _WHOLE,
        "crawl": _TEXT,
        "key": _TEXT,
        "requested_url": _TEXT,
        "depth": _WHOLE,
        "parent": _TEXT,
        "size": _WHOLE,
        "title": _TEXT,
        "description": _TEXT,
        "author": _TEXT,
        "keywords": _TEXT,
        "language": _TEXT,
        "simhash": _HASH,
        "duplicate_of": _TEXT,
        "identical": _YES,
        "canonical": _TEXT,
        "canonical_key": _TEXT,
        "robots_index": _YES,
        "robots_follow": _YES,
        "robots_archive": _YES,
        "ai": _TEXT,
        "etag": _TEXT,
        "last_modified": _TEXT,
        "links_count": _WHOLE,
        "purpose": _TEXT,
        "alternates": _TEXT,
        "published": _TEXT,
        "modified": _TEXT,
        "media": _TEXT,
        "meta": _TEXT,
    },
    ("url_surtkey", "fetch_time"),
)
LINKS = Table(
    "links",
    "one row for each URL that a stored page links to, however often it does",
    {"source": _TEXT, "target": _TEXT},
    ("source", "target"),
)
URLS = Table(
    "urls",
    "one row for each URL with its state and reason, including those that wait, failed or were refused",
    _URL
    | {
        "fetch_time": _TIME,
        "fetch_status": _SMALL,
        "fetch_redirect": _TEXT,
        "redirect_key": _TEXT,
        "key": _TEXT,
        "state": _TEXT,
        "reason": _TEXT,
        "detail": _TEXT,
        "depth": _WHOLE,
        "parent": _TEXT,
        "priority": _TEXT,
        "score": _REAL,
        "attempts": _WHOLE,
        "crawl_count": _WHOLE,
        "first_seen": _TIME,
        "next_crawl": _TIME,
        "listed_by": _TEXT,
        "purpose": _TEXT,
    },
    ("url_surtkey", "url"),
)
REQUESTS = Table(
    "requests",
    "one row for each request, from the request log",
    {
        "url_surtkey": _TEXT,
        "url": _TEXT,
        "url_host_name": _TEXT,
        "fetch_time": _TIME,
        "fetch_status": _SMALL,
        "seconds": _REAL,
        "bytes": _WHOLE,
        "purpose": _TEXT,
        "attempt": _WHOLE,
        "fault": _TEXT,
        "address": _TEXT,
        "retry_after": _TEXT,
    },
    ("url_surtkey", "fetch_time"),
)
HOSTS = Table(
    "hosts",
    "one row for each host",
    {
        "url_host_name": _TEXT,
        "url_host_tld": _TEXT,
        "url_host_registered_domain": _TEXT,
        "pages": _WHOLE,
        "requests": _WHOLE,
        "errors": _WHOLE,
        "bytes": _WHOLE,
        "queued": _WHOLE,
        "in_flight": _WHOLE,
        "delay": _REAL,
        "free_at": _TIME,
        "latency": _REAL,
        "slowed_by": _TEXT,
        "failures": _WHOLE,
        "parked": _WHOLE,
        "reason": _TEXT,
        "detail": _TEXT,
    },
    ("url_host_registered_domain", "url_host_name"),
)
TABLES: Mapping[str, Table] = {table.name: table for table in (PAGES, LINKS, URLS, REQUESTS, HOSTS)}


def page_row(page: Page, crawl: str, rules: UrlRules, surt: Surt) -> Row:
    """A page as a row of PAGES; `crawl` is the name of its crawl."""
    place, content = page.archive, page.content
    ai = {use: said for use, (said, _) in usage.verdicts(page.statements).items()}
    return (
        *_url_cells(page.url, surt),
        _time(page.fetched_at),
        page.status,
        page.digest.removeprefix("sha1:") or None,
        _text(next((value for name, value in page.headers if name == "content-type"), "")),
        _text(page.content_type),
        _text(page.charset),
        iso_639_3(page.language),
        None if place is None else place.file,
        None if place is None else place.offset,
        None if place is None else place.length,
        _text(crawl),
        _text(page.key),
        _text(page.requested_url),
        page.depth,
        _text(page.parent),
        page.size,
        _text(page.title),
        _text(page.description),
        _text(page.author),
        _text(page.keywords),
        _text(page.language),
        page.simhash,
        _text(page.duplicate_of),
        page.identical,
        _text(page.canonical),
        _text(_canonical_key(page, rules)),
        page.robots.index,
        page.robots.follow,
        page.robots.archive,
        ", ".join(f"{use}={said}" for use, said in ai.items()) or None,
        _text(page.etag),
        _text(page.last_modified),
        page.links_count,
        page.purpose.value,
        _json(page.alternates),
        _text(content.published if content else ""),
        _text(content.modified if content else ""),
        _json(page.media),
        _json(page.meta),
    )


def _canonical_key(page: Page, rules: UrlRules) -> str:
    if page.canonical == page.url:
        return page.key
    return (urls.key(page.canonical, rules) or "") if page.canonical else ""


def url_row(record: UrlRecord, rules: UrlRules, surt: Surt) -> Row:
    """A URL as a row of URLS."""
    why, target = record.reason, redirect_target(record)
    return (
        *_url_cells(record.url, surt),
        _time(record.last_crawl),
        record.status or None,
        target,
        urls.key(target, rules) if target else None,
        _text(record.key),
        record.state.value,
        None if why is None else why.code,
        _text("" if why is None else why.detail),
        record.depth,
        _text(record.parent),
        record.level.name.lower(),
        record.score,
        record.attempts,
        record.crawl_count,
        _time(record.first_seen),
        _time(record.next_crawl),
        _text(record.hints.source if record.hints else ""),
        record.purpose.value,
    )


def redirect_target(record: UrlRecord) -> str | None:
    """Where a URL redirects to; null if it does not. The reason of its record names the target."""
    if record.reason is None or record.reason.code != reasons.REDIRECT:
        return None
    found = _REDIRECT.search(record.reason.detail)
    return found[1] if found else None


def request_row(request: Requested | Lost, surt: Surt) -> Row:
    """A line of the request log as a row of REQUESTS. A request that was lost has no answer."""
    head = (surt(request.url), request.url, request.host)
    if isinstance(request, Lost):
        return (*head, _time(request.leased_at), None, None, None, None, None, "lost", None, None)
    return (
        *head,
        _time(request.start),
        request.status or None,
        max(0.0, request.end - request.start),
        request.bytes,
        request.purpose,
        request.attempt,
        request.fault or None,
        request.address or None,
        _text(request.retry_after) if isinstance(request.retry_after, str) else None,
    )


def host_row(host: HostRecord) -> Row:
    """A host as a row of HOSTS."""
    pace, aside = host.pace, host.aside
    return (
        host.host,
        _tld(host.host),
        host.domain or None,
        host.pages,
        host.requests,
        host.errors,
        host.bytes,
        host.queued,
        host.in_flight,
        host.delay,
        _time(host.free_at),
        pace.latency if pace is not None and pace.samples else None,
        pace.cause or None if pace is not None and pace.wait else None,
        pace.failures if pace is not None else 0,
        pace.parked if pace is not None else 0,
        None if aside is None else aside.code,
        _text("" if aside is None else aside.detail),
    )


def _url_cells(url: str, surt: Surt) -> Row:
    parts = urls.split(url)
    if parts is None:
        return (url, url, None, None, None, None, None, None)
    host = parts.host
    return (
        surt(url),
        url,
        host,
        _tld(host),
        urls.registrable_domain(host) or None,
        parts.scheme,
        parts.path,
        parts.query or None,
    )


@lru_cache(1 << 12)
def _tld(host: str) -> str | None:
    """The last label of a name; null for an address, as in Common Crawl's index."""
    return None if urls.address(host) is not None else host.rpartition(".")[2] or None


def _time(at: float | None) -> datetime | None:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None) if at else None


def _text(text: str) -> str | None:
    """Text that can be written as UTF-8; null for none. A lone surrogate becomes a question mark."""
    if not text or text.isascii():
        return text or None
    return text.encode("utf-8", "replace").decode()


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if not value else msgspec.json.encode(value).decode()
