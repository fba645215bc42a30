"""The pages layout: besides the segment, one object per page, for programs that only want HTML.

The segment is uploaded too. Only it is exactly what came over the wire, exports derive text from it, and
every page's place points into it. The price is about twice the space. The objects are made from the finished
segment, and uploaded before it: they never delay a visit, only settled pages get there, and a repetition
writes the same bytes under the same names.

Answers that are not HTML, not successful, or identical to another page (`revisit`) have no object.
"""

import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from skitter.backends.s3.bucket import Bucket
from skitter.backends.warc import Reader, Record

Content = Callable[[str, bytes], tuple[str, bytes] | None]
"""From a URL and its HTTP message to media type and decoded content; None where there is no page in it."""

_AT_ONCE = 16
_LONGEST_URL = 1500  # S3 allows 2 kB of metadata; the whole URL is in the segment


class PageObject(NamedTuple):
    """One page as uploaded."""

    fetched: str
    url: str
    content: bytes
    attributes: dict[str, str]


def put_pages(bucket: Bucket, reader: Reader, file: str, content: Content) -> int:
    """Upload the pages of a segment; returns how many. A few at a time, to bound memory."""
    objects, count = page_objects(reader, file, content), 0
    with ThreadPoolExecutor(_AT_ONCE, "s3-pages") as threads:
        while some := list(islice(objects, 4 * _AT_ONCE)):
            for done in [threads.submit(bucket.put_page, *each) for each in some]:
                done.result()
            count += len(some)
    return count


def page_objects(reader: Reader, file: str, content: Content) -> Iterator[PageObject]:
    """The pages of a segment."""
    for record in reader.records(file):
        if record.fields.get("warc-type") == "response":
            url = record.fields.get("warc-target-uri", "")
            found = content(url, record.block)
            if found is not None:
                yield _object(record, url, *found)


def _object(record: Record, url: str, media_type: str, body: bytes) -> PageObject:
    fetched, place = record.fields.get("warc-date", ""), record.place
    attributes = {
        "Content-Type": media_type,
        "Content-Encoding": "gzip",
        "url": url[:_LONGEST_URL],
        "fetched-at": fetched,
        "segment": f"{place.file} {place.offset} {place.length}",
    }
    return PageObject(fetched, url, gzip.compress(body, 6, mtime=0), attributes)
