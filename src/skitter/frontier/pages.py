"""Pages in their places, each with what later pages are compared with."""

import re

from skitter.frontier import counting
from skitter.frontier.rows import PageRow
from skitter.frontier.shard import Shard
from skitter.model import Page, Place
from skitter.ports import Mark

_SERIAL = re.compile(r"(\d+)(?:\.warc\.gz)?\Z")


def keep_page(shard: Shard, id16: bytes, page: Page, links: bytes, *, replaces: bool) -> None:
    """Store a page, in the place of an earlier one if there may be one."""
    if replaces:
        drop_page(shard, id16)
    host = shard.host(page.host)
    counting.count_page(shard.counts, host, page, 1)
    shard.touch(host)
    row = PageRow(id16, page, links)
    by_digest, by_simhash = indexed(page)
    if by_digest:
        key = page.domain, page.digest
        if key in shard.compared and key not in shard.digests:
            # Its twins were asked for a moment ago, and pages are only settled here: what that told is still true.
            shard.digests[key] = shard.compared[key]
        if shard.digests[key] is None:
            row.by_digest = True
            shard.digests[key] = row
    if by_simhash and page.simhash is not None and shard.simhashes[page.domain, page.simhash] is None:
        row.by_simhash = True
        shard.simhashes[page.domain, page.simhash] = row
        shard.nearby.add(page.domain, page.simhash)
    shard.pages[id16] = shard.batch.pages[id16] = row


def drop_page(shard: Shard, id16: bytes) -> None:
    """Forget a page."""
    old = shard.pages[id16]
    if old is None:
        return
    page, host = old.page, shard.host(old.page.host)
    counting.count_page(shard.counts, host, page, -1)
    shard.touch(host)
    if old.by_digest:
        shard.digests[page.domain, page.digest] = None
    if old.by_simhash and page.simhash is not None:
        shard.simhashes[page.domain, page.simhash] = None
        shard.nearby.forget(page.domain)
    shard.batch.replaced.setdefault(id16, old)
    shard.pages[id16] = shard.batch.pages[id16] = None


def indexed(page: Page) -> tuple[bool, bool]:
    """Whether later pages are compared with this one: by digest, by SimHash."""
    good = 200 <= page.status < 300
    by_simhash = good and page.simhash is not None and not page.duplicate_of
    return good and bool(page.digest) and not page.identical, by_simhash


def is_behind(place: Place | None, mark: Mark) -> bool:
    """Whether a record lies, or ends, behind the mark. Files are ordered by the number at the end of their names."""
    if place is None:
        return False
    if place.file == mark.file:
        return place.offset + place.length > mark.end
    return _serial(place.file) > _serial(mark.file)


def _serial(file: str) -> tuple[int, str]:
    digits = _SERIAL.search(file)
    return (int(digits[1]) if digits else -1), file
