"""Requests and answers as values: documents, bulk lines, queries, hits."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from skitter.backends.opensearch.http import reason
from skitter.export.search.text import CLOSE, OPEN, Hit, Query, clean, entry_id, shortened, unmarked
from skitter.ports import SEARCH_DEPTH, Entry

MAX_LINKS = 1000  # links stored per page; they are not searchable
_TITLE_WEIGHT = (
    4  # weight of a word in the title, where one in the text counts 1; the SQLite index uses the same
)
_SNIPPET = 240  # characters
_encode = msgspec.json.Encoder().encode


class Line(NamedTuple):
    """One document of a bulk request: its key, and its two lines."""

    url: str
    lines: bytes


def milliseconds(at: float) -> int:
    """A time as engines store it. It is also the version of a document, so that the page fetched last wins."""
    return round(at * 1000)


def document(entry: Entry) -> dict[str, Any]:
    """A page as the index template defines it."""
    page = entry.page
    fields = {name: _text(getattr(page, name)) for name in _TEXTS}
    fields["content"] = _text(page.text)
    fields["language"] = fields["language"].lower()
    place = page.archive
    return {
        **{name: text for name, text in fields.items() if text},
        "fetched_at": _moment(milliseconds(page.fetched_at)),
        "status": page.status,
        "size": page.size,
        "depth": page.depth,
        "simhash": None if page.simhash is None else f"{page.simhash:016x}",
        "links": [clean(link) for link in entry.links[:MAX_LINKS]],
        "links_count": page.links_count,
        **({"snippet": page.robots.snippet} if page.robots.snippet >= 0 else {}),
        "archive": place and {"file": place.file, "offset": place.offset, "length": place.length},
    }


_TEXTS = (
    *(
        "url",
        "requested_url",
        "key",
        "host",
        "domain",
        "title",
        "description",
        "author",
        "keywords",
        "language",
    ),
    *("content_type", "parent", "digest", "duplicate_of", "canonical"),
)


def _text(text: str) -> str:
    """Accents are folded letter by letter, so a letter and its accent must be one character."""
    return unicodedata.normalize("NFC", clean(text))


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(entry: Entry) -> Line:
    """A page in a bulk request.

    The engine keeps the larger version, so an old one that arrives late changes nothing.
    """
    page = entry.page
    head = {"index": _version(page.key, page.fetched_at)}
    return Line(page.url, _encode(head) + b"\n" + _encode(document(entry)) + b"\n")


def deletion(key: str, at: float) -> Line:
    """The deletion of a page in a bulk request, unless a later version is indexed."""
    return Line(key, _encode({"delete": _version(key, at)}) + b"\n")


def _version(key: str, at: float) -> dict[str, Any]:
    return {"_id": entry_id(key), "version": milliseconds(at), "version_type": "external_gte"}


def portions(lines: Sequence[Line], most: int, largest: int) -> Iterator[list[Line]]:
    """Split lines into requests of at most this many documents and bytes; a larger document goes alone."""
    portion: list[Line] = []
    size = 0
    for each in lines:
        if portion and (len(portion) >= most or size + len(each.lines) > largest):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += len(each.lines)
    if portion:
        yield portion


class Fate(NamedTuple):
    """The result of one document: indexed (also if a later version is), to be retried, or refused for good."""

    again: bool = False
    refused: str = ""


def fate(item: Mapping[str, Any]) -> Fate:
    """Interpret one item of a bulk answer."""
    (result,) = item.values()
    status = result["status"]
    if status < 300 or status == 409 or (status == 404 and "delete" in item):
        return Fate()
    said = reason(result)
    return Fate(again=True, refused=said) if status in {429, 403} or status >= 500 else Fate(refused=said)


def question(query: Query, limit: int, offset: int) -> dict[str, Any]:
    """The body of a search."""
    terms = [
        {
            "multi_match": {
                "query": _text(term),
                "type": "phrase",
                "fields": [f"title^{_TITLE_WEIGHT}", "content"],
            }
        }
        for term in query.terms
    ]
    return {
        "query": {"bool": {"must": terms, "filter": _filters(query)}},
        "from": offset,
        "size": max(0, min(limit, SEARCH_DEPTH - offset)),
        "sort": ["_score", {"url": {"order": "asc", "missing": "_last"}}],
        "track_total_hits": True,
        "_source": ["url", "title", "domain", "fetched_at", "snippet"],
        "highlight": {
            "pre_tags": [OPEN],
            "post_tags": [CLOSE],
            "fields": {
                "content": {
                    "type": "unified",
                    "number_of_fragments": 1,
                    "fragment_size": _SNIPPET,
                    "no_match_size": _SNIPPET,
                    "order": "score",
                }
            },
        },
    }


def _filters(query: Query) -> list[dict[str, Any]]:
    filters = []
    if query.domain:
        filters.append(_either({"term": {"domain": query.domain}}, {"term": {"host": query.domain}}))
    if query.language:
        prefix = {"prefix": {"language": f"{query.language}-"}}
        filters.append(_either({"term": {"language": query.language}}, prefix))
    return filters


def _either(*ways: Mapping[str, Any]) -> dict[str, Any]:
    return {"bool": {"should": list(ways), "minimum_should_match": 1}}


def hit(found: Mapping[str, Any]) -> Hit:
    """One hit of an answer."""
    source = found["_source"]
    plain, marks = unmarked("".join(found.get("highlight", {}).get("content", [])[:1]))
    whole = Hit(
        url=source["url"],
        title=unmarked(source.get("title", ""))[0],
        snippet=plain[: 2 * _SNIPPET],
        marks=[(start, end) for start, end in marks if end <= 2 * _SNIPPET],
        score=found["_score"],
        domain=source.get("domain", ""),
        fetched_at=moment(source["fetched_at"]),
    )
    return shortened(whole, source.get("snippet", -1))


def moment(written: str) -> float:
    """Parse a time of a document."""
    return datetime.fromisoformat(written).timestamp()
