"""Stores pages, and finds the stored page that a new one repeats: by digest and by SimHash.

The SimHashes of the domains being crawled are in memory. Comparing one with all of its domain takes a few
microseconds: 4 µs for 3,000 of them.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from skitter.frontier import counting
from skitter.frontier.rows import Compared, Found, PageRow, Wanted
from skitter.model import Page, Place
from skitter.ports import Likeness, Mark, Twin
from skitter.runtime.metrics import NearbyMetrics

if TYPE_CHECKING:
    from skitter.dedup.simhash import SimhashSet
    from skitter.frontier.shard import Shard
    from skitter.frontier.store import AtHand

_SERIAL = re.compile(r"(\d+)(?:\.warc\.gz)?\Z")


def keep_page(shard: "Shard", id16: bytes, page: Page, links: bytes, *, replaces: bool) -> None:
    """Store a page. `replaces`: there may be an earlier one."""
    if replaces:
        drop_page(shard, id16)
    host = shard.host(page.host)
    counting.count_page(shard.counts, host, page, 1)
    if shard.budgets is not None:
        shard.budgets.count_page(shard, host, page, 1)
    shard.touch(host)
    row = PageRow(id16, page, links)
    by_digest, by_simhash = indexed(page)
    if by_digest:
        key = page.domain, page.digest
        if key in shard.compared and key not in shard.digests:
            # Its twins were looked up a moment ago, and pages are only settled here, so that answer is still
            # true.
            shard.digests[key] = shard.compared[key]
        if shard.digests[key] is None:
            row.by_digest = True
            shard.digests[key] = row
    if by_simhash and page.simhash is not None and shard.simhashes[page.domain, page.simhash] is None:
        row.by_simhash = True
        shard.simhashes[page.domain, page.simhash] = row
        shard.nearby.add(page.domain, page.simhash)
    shard.pages[id16] = shard.batch.pages[id16] = row


def drop_page(shard: "Shard", id16: bytes) -> None:
    """Forget a page."""
    old = shard.pages[id16]
    if old is None:
        return
    page, host = old.page, shard.host(old.page.host)
    counting.count_page(shard.counts, host, page, -1)
    if shard.budgets is not None:
        shard.budgets.count_page(shard, host, page, -1)
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
    good = 200 <= page.status < 300 and page.purpose.handling.compared
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


# ------------------------------------------------------------------------------------------------ twins

# SimHashes kept per domain. For larger domains, a store at hand has a faster index; behind a network, a page
# is compared with this many pages of its domain, and a near-duplicate may go unnoticed.
AT_HAND, FAR = 16_384, 262_144
_IN_ALL = 1_000_000  # … and in total: 8 MB. Beyond that, everything is dropped and read again when needed


class Nearby:
    """SimHashes by domain."""

    def __init__(self, per_domain: int = FAR) -> None:
        self.per_domain = per_domain
        self._domains: dict[str, SimhashSet] = {}
        self._total = 0

    def of(self, domain: str) -> "SimhashSet | None":
        """The SimHashes of a domain, if they are in memory."""
        return self._domains.get(domain)

    def lacks(self, domain: str, simhash: int) -> bool:
        """Whether it is certain that no page of the domain represents a SimHash."""
        held = self._domains.get(domain)
        return held is not None and held.size < self.per_domain and not held.nearest(simhash, 0)

    def hold(self, domain: str, found: list[int]) -> None:
        """Take in the SimHashes of a domain."""
        from skitter.dedup.simhash import SimhashSet  # noqa: PLC0415  numpy, which not every crawl needs

        self._total += len(found) + 8
        if self._total > _IN_ALL:
            self._domains.clear()
            self._total = len(found)
        self._domains[domain] = SimhashSet(found)

    def add(self, domain: str, simhash: int) -> None:
        """A page represents a SimHash from now on."""
        held = self._domains.get(domain)
        if held is not None and held.size < self.per_domain:
            held.add(simhash)
            self._total += 1

    def forget(self, domain: str) -> None:
        """A page no longer represents its SimHash."""
        self._domains.pop(domain, None)

    def metrics(self) -> NearbyMetrics:
        """How much is in memory."""
        return NearbyMetrics(len(self._domains), self._total)


async def pages_alike(
    load: Callable[[Wanted], Awaitable[Found]],
    pages: Sequence[Likeness],
    distance: int,
    nearby: Nearby,
    compared: Compared,
    at_hand: "AtHand | None" = None,
) -> list[Twin | None]:
    """The stored pages that these repeat. `compared` receives what was learnt about digests."""
    same = list(dict.fromkeys((page.domain, page.digest) for page in pages if page.digest))
    domains = {page.domain for page in pages if page.simhash is not None}
    unread = [(domain, nearby.per_domain) for domain in domains if nearby.of(domain) is None]
    found = await load(Wanted(digests=same, domains=unread)) if same or unread else Found()
    for domain, _ in unread:
        nearby.hold(domain, found.domains.get(domain, []))
    compared.update((key, found.digests.get(key)) for key in same)
    near = [
        [] if (page.domain, page.digest) in found.digests else _near(page, distance, nearby, at_hand)
        for page in pages
    ]
    keys = list(dict.fromkeys(key for keys in near for key in keys))
    rows = (await load(Wanted(simhashes=keys))).simhashes if keys else {}
    return [
        _twin(found.digests.get((page.domain, page.digest)) or _oldest([rows.get(key) for key in keys]))
        for page, keys in zip(pages, near, strict=True)
    ]


def _near(page: Likeness, distance: int, nearby: Nearby, at_hand: "AtHand | None") -> list[tuple[str, int]]:
    """The nearest SimHash to each page, by domain and SimHash."""
    held = nearby.of(page.domain)
    if page.simhash is None or held is None:
        return []
    if at_hand is not None and held.size >= nearby.per_domain:
        found = at_hand.nearest(page.domain, page.simhash, distance)
    else:
        found = held.nearest(page.simhash, distance)
    return [(page.domain, simhash) for simhash in found]


def _oldest(rows: Sequence[PageRow | None]) -> PageRow | None:
    pages = [row for row in rows if row is not None]
    return min(pages, key=lambda row: (row.page.fetched_at, row.page.simhash or 0), default=None)


def _twin(row: PageRow | None) -> Twin | None:
    if row is None:
        return None
    page = row.page
    return Twin(page.url, page.fetched_at, page.digest, page.simhash, page.archive)
