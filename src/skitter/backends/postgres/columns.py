"""Rows of a shard as columns, and back.

Values that people query are in columns; what only the owner of a shard needs is packed beside them. Nothing is stored
twice. PostgreSQL's text cannot hold the character NUL, which a server may put into a title: it is replaced there, and
kept in the packed part if the exact value matters.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import NODEFAULT, Struct, json, structs
from msgspec.msgpack import Decoder, Encoder

from skitter.frontier.crashes import Suspicion
from skitter.frontier.rows import Extra, HostExtra, HostRow, Meta, PageRow, Spot, UrlRow
from skitter.model import Counts, Page, Place, Reason, RobotsCopy, Visit
from skitter.ports import Mark
from skitter.schedule.learning.learned import Learned

# By the numbers of `rows`: QUEUED, CRAWLED, FAILED, REFUSED, FOREIGN.
STATES = ("pending", "crawled", "error", "refused", "foreign")
_CODES = {name: code for code, name in enumerate(STATES)}

Arguments = dict[str, Any]
Record = Sequence[Any]
"""A row as the database returns it: its columns in the order of its table."""

_encode = Encoder().encode
_page = Decoder(Page).decode
_visit = Decoder(Visit).decode
_learned = Decoder(Learned).decode
_counts = json.Decoder(Counts).decode
_positions = json.Decoder(dict[str, str]).decode

_SIGN = 1 << 63
_WHOLE = 1 << 64


def signed(number: int | None) -> int | None:
    """64 bits as a PostgreSQL bigint."""
    return number if number is None or number < _SIGN else number - _WHOLE


def unsigned(number: int | None) -> int | None:
    """… and back."""
    return number if number is None or number >= 0 else number + _WHOLE


def plain(text: str) -> str:
    """Text that PostgreSQL accepts."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


# ------------------------------------------------------------------------------------------------ URLs

_URL_COLUMNS = (
    "id", "url", "key", "host", "domain", "state", "level", "score", "seqs", "depth", "parent", "first_seen", "last_crawl",
    "next_crawl", "crawl_count", "attempts", "crashes", "status", "reason", "detail", "parked", "more",
)  # fmt: skip


class _More(Struct, frozen=True, array_like=True, gc=False):
    """The packed part of a URL's row. A new field goes to its end."""

    requested: str = ""
    hops: int = 0
    seed: bool = False
    meta: dict[str, Any] | None = None
    origin: str = ""
    extra: Extra | None = None


_NO_MORE = _More()
_more = Decoder(_More).decode


def url_arguments(rows: Iterable[UrlRow]) -> Arguments:
    """One array per column."""
    return _columns(_URL_COLUMNS, [_url_values(row) for row in rows])


def _url_values(row: UrlRow) -> Record:
    reason = row.reason
    more = _More(row.requested, row.hops, row.seed, row.meta, row.origin, row.extra)
    return (
        row.id,
        row.url,
        row.key,
        row.host,
        row.domain,
        STATES[row.state],
        row.level,
        row.score,
        row.seq,
        row.depth,
        row.parent,
        row.first_seen,
        row.last_crawl,
        row.due,
        row.crawl_count,
        row.attempts,
        row.crashes,
        row.status,
        None if reason is None else reason.code,
        None if reason is None else plain(reason.detail),
        row.parked,
        None if more == _NO_MORE else _encode(more),
    )


def url_row(record: Record) -> UrlRow:
    """A record of `urls`."""
    (
        _,
        id16,
        url,
        key,
        host,
        domain,
        state,
        level,
        score,
        seq,
        depth,
        parent,
        first_seen,
        last_crawl,
        due,
        *rest,
    ) = record
    crawl_count, attempts, crashes, status, code, detail, parked, packed = rest
    reason = None if code is None else Reason(code, detail)
    row = UrlRow(
        id16, url, key, host, domain, _CODES[state], level, score, seq, depth, parent, first_seen, last_crawl, due,
        crawl_count, attempts, crashes, status, reason, parked,
    )  # fmt: skip
    if packed is not None:
        more = _more(packed)
        row.requested, row.hops, row.seed, row.meta = more.requested, more.hops, more.seed, more.meta
        row.origin, row.extra = more.origin, more.extra
    return row


# ------------------------------------------------------------------------------------------------ hosts

_HOST_COLUMNS = (
    "host_name", "host_domain", "free_at", "held", "delay", "queued", "host_pages", "requests", "errors", "bytes", "aside",
    "aside_detail", "place", "queues",
)  # fmt: skip


class _Queues(Struct, frozen=True, array_like=True, gc=False):
    """The packed part of a host's row. A new field goes to its end."""

    levels: list[int]
    heads: list[Spot | None]
    turn: int
    hops: int
    waiting: int
    extra: HostExtra | None = None


_queues = Decoder(_Queues).decode


def host_arguments(rows: Iterable[HostRow]) -> Arguments:
    """One array per column."""
    return _columns(_HOST_COLUMNS, [_host_values(row) for row in rows])


def _host_values(row: HostRow) -> Record:
    return (
        row.name,
        row.domain,
        row.free_at,
        row.held,
        row.delay,
        row.queued(),
        row.pages,
        row.requests,
        row.errors,
        row.bytes,
        None if row.aside is None else row.aside.code,
        None if row.aside is None else plain(row.aside.detail),
        row.place,
        _encode(_Queues(row.levels, row.heads, row.turn, row.hops, row.waiting, row.extra)),
    )


def host_row(record: Record) -> HostRow:
    """A record of `hosts`."""
    _, name, domain, free_at, held, delay, _, pages, requests, errors, size, aside, detail, place, packed = (
        record
    )
    more = _queues(packed)
    reason = None if aside is None else Reason(aside, detail)
    return HostRow(
        name, domain, more.levels, more.heads, free_at, held, delay, more.turn, more.hops, more.waiting, place, pages, requests,
        errors, size, reason, more.extra,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ pages

_PAGE_COLUMNS = (
    "page_id", "page_url", "page_host", "page_domain", "page_status", "fetched_at", "content_type", "language", "size",
    "title", "digest", "simhash", "duplicate_of", "archive_file", "archive_offset", "archive_length", "links", "by_digest",
    "by_simhash", "page_more",
)  # fmt: skip
# In their own columns and not packed. The last three may hold anything: they are packed if a column cannot
# hold them.
_IN_COLUMNS = (
    "url",
    "host",
    "domain",
    "status",
    "fetched_at",
    "size",
    "digest",
    "simhash",
    "duplicate_of",
    "archive",
)
_FREE_TEXT = ("content_type", "language", "title")
_BLANK = {"url": "", "host": "", "domain": "", "status": 0, "fetched_at": 0.0} | {
    field.name: field.default
    for field in structs.fields(Page)
    if field.name in (*_IN_COLUMNS, *_FREE_TEXT) and field.default is not NODEFAULT
}


def page_arguments(rows: Iterable[PageRow]) -> Arguments:
    """One array per column."""
    return _columns(_PAGE_COLUMNS, [_page_values(row) for row in rows])


def _page_values(row: PageRow) -> Record:
    page = row.page
    odd = {name: text for name in _FREE_TEXT if "\x00" in (text := getattr(page, name))}
    place = page.archive
    return (
        row.id,
        page.url,
        page.host,
        page.domain,
        page.status,
        page.fetched_at,
        plain(page.content_type),
        plain(page.language),
        page.size,
        plain(page.title),
        page.digest,
        signed(page.simhash),
        page.duplicate_of,
        None if place is None else place.file,
        None if place is None else place.offset,
        None if place is None else place.length,
        row.links,
        row.by_digest,
        row.by_simhash,
        _encode(structs.replace(page, text="", **{**_BLANK, **odd, **_rendered(place)})),
    )


def _rendered(place: Place | None) -> dict[str, Place]:
    """The place of a rendered page is packed too: what is behind it has no columns."""
    return {"archive": place} if place is not None and place.beside else {}


def page_row(record: Record) -> PageRow:
    """A record of `pages`."""
    _, id16, url, host, domain, status, fetched_at, content_type, language, size, title, *rest = record
    digest, simhash, duplicate_of, file, offset, length, links, by_digest, by_simhash, packed = rest
    more = _page(packed)
    page = structs.replace(
        more,
        url=url,
        host=host,
        domain=domain,
        status=status,
        fetched_at=fetched_at,
        content_type=more.content_type or content_type,
        language=more.language or language,
        size=size,
        title=more.title or title,
        digest=digest,
        simhash=unsigned(simhash),
        duplicate_of=duplicate_of,
        archive=more.archive or (None if file is None else Place(file, offset, length)),
    )
    return PageRow(id16, page, links, by_digest, by_simhash)


# ------------------------------------------------------------------------------------------------ the small ones


def robots_arguments(copies: Iterable[RobotsCopy]) -> Arguments:
    """One array per column."""
    names = (
        "origin", "robots_status", "body", "access", "robots_fetched", "expires", "robots_held", "tries", "problem",
    )  # fmt: skip
    return _columns(
        names,
        [
            (one.origin, one.status, one.body, one.access, one.fetched_at, one.expires, one.held, one.tries, plain(one.problem))
            for one in copies
        ],
    )  # fmt: skip


def robots_copy(record: Record) -> RobotsCopy:
    """A record of `robots`."""
    _, origin, status, body, access, fetched_at, expires, held, tries, problem = record
    return RobotsCopy(
        origin=origin,
        status=status,
        body=body,
        access=access,
        fetched_at=fetched_at,
        expires=expires,
        held=held,
        tries=tries,
        problem=problem,
    )


def learned_arguments(names: list[str], rows: Iterable[Learned]) -> Arguments:
    """One array per column."""
    return {"learned_name": names, "learned": [_encode(row) for row in rows]}


def learned(record: Record) -> Learned:
    """A record of `learned`."""
    return _learned(record[2])


def lease_arguments(ids: list[bytes], visits: Iterable[Visit]) -> Arguments:
    """One array per column."""
    return {"lease_id": ids, "visit": [_encode(visit) for visit in visits]}


def suspect_arguments(ids: list[bytes], suspicions: Sequence[Suspicion]) -> Arguments:
    """One array per column."""
    return {
        "suspect_id": ids,
        "suspect_crashes": [one.crashes for one in suspicions],
        "in_hand": [one.in_hand for one in suspicions],
    }


def visit(packed: bytes) -> Visit:
    """An open visit."""
    return _visit(packed)


def meta_arguments(metas: Sequence[Meta]) -> Arguments:
    """The owners' rows: one array per column."""
    return {
        "seq": [meta.seq for meta in metas],
        "mark_file": [meta.mark.file for meta in metas],
        "mark_end": [meta.mark.end for meta in metas],
        "counts": [json.encode(meta.counts).decode() for meta in metas],
        "mail": [json.encode(meta.positions).decode() for meta in metas],
        "clock": [meta.clock for meta in metas],
        "judged_by": [meta.judged_by for meta in metas],
    }


def meta_of(seq: int, file: str, end: int, counts: str, positions: str, clock: float, judged_by: str) -> Meta:
    """The owner's row."""
    return Meta(seq, Mark(file, end), counts_of(counts), positions_of(positions), clock, judged_by)


def counts_of(text: str) -> Counts:
    """Decode counts."""
    return _counts(text)


def positions_of(text: str) -> dict[str, str]:
    """Decode positions."""
    return _positions(text)


def _columns(names: Sequence[str], rows: Sequence[Record]) -> Arguments:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
