"""Pages in their places, each with what later pages are compared with."""

from skitter.frontier import rules
from skitter.frontier.rows import PageRow
from skitter.frontier.shard import Shard
from skitter.model import Page


def keep_page(shard: Shard, id16: bytes, page: Page, links: bytes) -> None:
    """Store a page in the place of an earlier one, which was loaded if there is one."""
    drop_page(shard, id16)
    host = shard.host(page.host)
    rules.count_page(shard.counts, host, page, 1)
    shard.touch(host)
    row = PageRow(id16, page, links)
    by_digest, by_simhash = rules.indexed(page)
    if by_digest and shard.digests[page.domain, page.digest] is None:
        row.by_digest = True
        shard.digests[page.domain, page.digest] = row
    if by_simhash and page.simhash is not None and shard.simhashes[page.domain, page.simhash] is None:
        row.by_simhash = True
        shard.simhashes[page.domain, page.simhash] = row
        shard.nearby.add(page.domain, page.simhash)
    shard.pages[id16] = shard.batch.pages[id16] = row


def drop_page(shard: Shard, id16: bytes) -> None:
    """Forget a page."""
    old = shard.pages.get(id16)
    if old is None:
        return
    page, host = old.page, shard.host(old.page.host)
    rules.count_page(shard.counts, host, page, -1)
    shard.touch(host)
    if old.by_digest:
        shard.digests[page.domain, page.digest] = None
    if old.by_simhash and page.simhash is not None:
        shard.simhashes[page.domain, page.simhash] = None
        shard.nearby.forget(page.domain)
    shard.batch.replaced.setdefault(id16, old)
    shard.pages[id16] = shard.batch.pages[id16] = None
