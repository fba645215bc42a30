"""The CDXJ index that replay tools read: one line per archived answer, sorted by key and time.

    com,example)/page 20260102030405 {"url": …, "mime": …, "status": …, "digest": …, "length": …, "offset": …, "filename": …}

The fields and their order are those of pywb and cdxj-indexer; numbers are strings, as there. An index is
derived data: `lines` makes it from the archive alone, including redirects and robots.txt, because a replay
needs these too; `page_line` makes the line of one page record without opening the archive.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from skitter.model import Page, Place
from skitter.urls import surt

REVISIT = "warc/revisit"  # the media type that indexes use for revisit records

_STATUS = re.compile(rb"HTTP/\S+[ \t]+(\d{3})")
_CONTENT_TYPE = re.compile(rb"\ncontent-type[ \t]*:[ \t]*([^;\s]*)", re.IGNORECASE)
_NOT_DIGIT = re.compile(r"\D")


class Record(Protocol):
    """What is needed of an archived record: its place, its fields by lower-cased name, and its block."""

    @property
    def place(self) -> Place:
        """Its place."""
        ...

    @property
    def fields(self) -> Mapping[str, str]:
        """Its named fields."""
        ...

    @property
    def block(self) -> bytes:
        """The HTTP message, or whatever else it holds."""
        ...


def page_line(page: Page) -> str:
    """The line of a stored page, which must have a place in the archive."""
    if page.archive is None:
        raise ValueError(f"{page.url} is not in the archive")
    content_type = next((value for name, value in page.headers if name == "content-type"), "")
    mime = REVISIT if page.identical else content_type.partition(";")[0].strip().partition(" ")[0]
    second = round(page.fetched_at * 1_000_000) // 1_000_000  # rounded as in the archive
    stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(second))
    return _line(page.url, stamp, mime, str(page.status), page.digest, page.archive)


def lines(records: Iterable[Record], path: str = "") -> Iterator[tuple[str, str]]:
    """URL and line of all answers in a file, in its order; the file is called `path`, or as its own records say.

    The records of a visit are consecutive and end with its metadata, which holds the digest of a chunked
    payload.
    """
    answer: Record | None = None
    for record in records:
        kind = record.fields.get("warc-type")
        if kind in ("response", "revisit"):
            if answer is not None:
                yield _answer_line(answer, "", path)
            answer = record
        elif kind == "metadata" and answer is not None:
            yield _answer_line(answer, _named(record.block, b"payload-digest"), path)
            answer = None
    if answer is not None:
        yield _answer_line(answer, "", path)


def _answer_line(answer: Record, digest: str, path: str) -> tuple[str, str]:
    fields, place = answer.fields, answer.place
    head = answer.block.partition(b"\r\n\r\n")[0]
    status, media_type = _STATUS.match(head), _CONTENT_TYPE.search(head)
    mime = media_type[1].decode("latin-1") if media_type else ""
    url = fields.get("warc-target-uri", "")
    return url, _line(
        url,
        _NOT_DIGIT.sub("", fields.get("warc-date", ""))[:14],
        REVISIT if fields["warc-type"] == "revisit" else mime,
        status[1].decode() if status else "",
        fields.get("warc-payload-digest", digest),
        Place(path, place.offset, place.length) if path else place,
    )


def _line(url: str, stamp: str, mime: str, status: str, digest: str, place: Place) -> str:
    about = {"url": url, "mime": mime, "status": status, "digest": digest}
    about = {name: value for name, value in about.items() if value}
    about |= {"length": str(place.length), "offset": str(place.offset), "filename": place.file}
    return f"{surt(url)} {stamp} {json.dumps(about)}"


def _named(block: bytes, name: bytes) -> str:
    for line in block.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip().decode("utf-8", "replace")
    return ""
