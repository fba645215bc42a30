"""The JSON shapes of exports and `--json`.

These shapes are a contract. A missing reference is null; text that a page does not have is empty. Times are
ISO 8601 in UTC.
"""

from typing import Any

from msgspec.structs import asdict

from skitter import reasons
from skitter.model import Hints, HostRecord, Page, Reason, RobotsCopy, Statement, UrlRecord
from skitter.reporting.format import moment
from skitter.robots import usage
from skitter.runtime.windows import Windows


def page_record(page: Page, text: str) -> dict[str, Any]:
    """One page. `headers` are [name, value] pairs in the order received, because a name may occur twice."""
    return {
        "url": page.url,
        "requested_url": page.requested_url,
        "host": page.host,
        "domain": page.domain,
        "status": page.status,
        "fetched_at": moment(page.fetched_at),
        "depth": page.depth,
        "parent": page.parent or None,
        "content_type": page.content_type,
        "charset": page.charset,
        "headers": [list(field) for field in page.headers],
        "size": page.size,
        "title": page.title,
        "description": page.description,
        "author": page.author,
        "keywords": page.keywords,
        "language": page.language,
        "text": text,
        "digest": page.digest,
        "simhash": None if page.simhash is None else f"{page.simhash:016x}",
        "duplicate_of": page.duplicate_of or None,
        "canonical": page.canonical or None,
        "robots": {
            "index": page.robots.index,
            "follow": page.robots.follow,
            "ai": {use: said for use, (said, _) in usage.verdicts(page.statements).items()},
            "archive": page.robots.archive,
            "snippet": None if page.robots.snippet < 0 else page.robots.snippet,
            "unavailable_after": when(page.robots.unavailable_after),
            "rules": list(page.robots.rules),
        },
        "etag": page.etag or None,
        "last_modified": page.last_modified or None,
        "links_count": page.links_count,
        "meta": page.meta,
        "archive": place(page),
        "purpose": page.purpose.value,
        "statements": [statement(one) for one in page.statements],
        "alternates": dict(page.alternates or {}),
        "media": None if page.media is None else dict(page.media),
        "content": None if page.content is None else asdict(page.content),
    }


def statement(one: Statement) -> dict[str, Any]:
    """What is said in one place about the uses of a page: y and n by use; what is not there is unknown."""
    return {"source": one.source, "raw": one.raw, "at": when(one.at), "uses": dict(one.uses)}


def place(page: Page) -> dict[str, Any] | None:
    """The place of the answer in the archive."""
    where = page.archive
    return None if where is None else {"file": where.file, "offset": where.offset, "length": where.length}


def url_record(record: UrlRecord) -> dict[str, Any]:
    """One URL."""
    return {
        "url": record.url,
        "key": record.key,
        "state": record.state.value,
        "status": record.status or None,
        "reason": reason(record.reason),
        "depth": record.depth,
        "parent": record.parent or None,
        "priority": record.level.name.lower(),
        "score": record.score,
        "crawl_count": record.crawl_count,
        "last_crawl": when(record.last_crawl),
        "next_crawl": when(record.next_crawl),
        "hints": hints(record.hints),
        "purpose": record.purpose.value,
    }


def hints(said: Hints | None) -> dict[str, Any] | None:
    """What was said about a URL where it was found. A seed file takes the same shape."""
    if said is None:
        return None
    lastmod = None if said.lastmod is None else moment(said.lastmod)
    return {
        "lastmod": lastmod,
        "priority": said.priority,
        "rel": list(said.rel),
        "changefreq": said.changefreq or None,
        "source": said.source or None,
    }


def host_record(host: HostRecord) -> dict[str, Any]:
    """One host."""
    return {
        "host": host.host,
        "domain": host.domain,
        "pages": host.pages,
        "requests": host.requests,
        "errors": host.errors,
        "bytes": host.bytes,
        "queued": host.queued,
        "in_flight": host.in_flight,
        "delay": host.delay,
        "free_at": when(host.free_at),
        "pace": None if host.pace is None else asdict(host.pace),
        "set_aside": reason(host.aside),
    }


def robots_record(copy: RobotsCopy) -> dict[str, Any]:
    """An origin's robots.txt copy, without its text."""
    return {
        "origin": copy.origin,
        "status": copy.status or None,
        "access": copy.access,
        "fetched_at": when(copy.fetched_at),
        "expires": when(copy.expires),
        "tries": copy.tries,
        "problem": copy.problem or None,
    }


def reason(why: Reason | None) -> dict[str, str] | None:
    """The reason of a refusal or failure."""
    return None if why is None else {"code": why.code, "detail": why.detail}


def explained_reason(why: Reason | None) -> dict[str, str | None] | None:
    """A reason with its meaning and remedy; both are null for a code that this version does not know."""
    if why is None:
        return None
    entry = reasons.explained(why.code)
    return {
        "code": why.code,
        "detail": why.detail,
        "meaning": entry.meaning if entry else None,
        "remedy": entry.remedy if entry else None,
    }


def when(at: float | None) -> str | None:
    """A time, or null if there is none; 0 means none."""
    return moment(at) if at else None


def window_fields(hours: Windows, now: float) -> dict[str, Any]:
    """A window, and when it opens or closes next."""
    opens, closes = hours.closed_until(now), hours.closes_at(now)
    return {
        "window": hours.name,
        "open": not opens,
        "opens": moment(opens) if opens else None,
        "closes": None if closes is None else moment(closes),
    }
