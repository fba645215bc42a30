"""The other layout: besides the segment, one object per page, for programs that want HTML and nothing else.

The segment is uploaded all the same. It alone is byte for byte what came over the wire, exports derive text from it, and
every page's place points into it; an object per page could not give that back. The price is about twice the room. The
objects are made from the finished segment, and are in the bucket before the segment is: they never hold up a visit, only
what is settled gets there, and a repetition writes the same bytes under the same names.

Answers that are not HTML, are no success, or repeat another page byte for byte (`revisit`) have no object.
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
    """One page as it goes into the bucket."""

    fetched: str
    url: str
    content: bytes
    attributes: dict[str, str]


def put_pages(bucket: Bucket, reader: Reader, file: str, content: Content) -> int:
    """Upload the pages of a segment; says how many. Some at a time, so that memory holds few of them."""
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
