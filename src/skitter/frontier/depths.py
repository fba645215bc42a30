"""Depths, where settings limit them: a URL is as deep as the shortest way to it that is known.

Over several hosts a page is often found on a longer way first, because the hosts on the shorter one answer later. Without
this, which URLs lie within `scope.max_depth` would depend on who answers sooner. So a URL that is offered on a shorter way
takes the lesser depth, and if it was crawled, so does what it links to: the ids of its links are stored with its page. What
was refused as too deep, and is not any more, waits as if it had been wanted from the start.

Pages that have yet to tell their links are `owed`; they are told in writes of bounded size. That some are left is stored with
the shard, so a crash in between loses nothing: the next owner goes through all pages. So does one that finds a shard whose
depths nobody has kept, because no setting limited them before.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from skitter.frontier import counting, judging
from skitter.frontier.adding import is_by_settings
from skitter.frontier.bounded import Bounded
from skitter.frontier.leasing import link_of
from skitter.frontier.memory import Lacking
from skitter.frontier.prefetch import need_host
from skitter.frontier.rows import (
    CRAWLED,
    FOREIGN,
    QUEUE,
    QUEUED,
    REFUSED,
    PageRow,
    Standing,
    UrlRow,
    Wanted,
)
from skitter.frontier.shard import Shard
from skitter.model import Link, Purpose, Reason, Visit
from skitter.ports import Judge
from skitter.settings import Settings
from skitter.settings.sites import sites_of

_ID = 16
_PAGE = Purpose.PAGE
_KNOWN = 7  # depths remembered per host in the window
PAGES_TOLD = 50  # in one write
POSITION, KEPT = "depths", "kept"
"""Among the positions in the store, while every depth is the least that is known."""


def depths_of(settings: Settings) -> "Depths | None":
    """None if no setting limits them."""
    sites = sites_of(settings)
    limited = settings.scope.max_depth is not None or (sites is not None and sites.sets("scope.max_depth"))
    return Depths(_KNOWN * settings.frontier.window) if limited else None


class Depths:
    """What the owner of a shard does about depths."""

    def __init__(self, capacity: int) -> None:
        self.judge: Judge | None = None  # by the current settings
        self.complete = False  # all pages that were stored before this owner came have told their links
        self.owed: dict[bytes, None] = {}  # crawled, and their links do not know of a lesser depth yet
        self._known: Bounded[bytes, int] = Bounded(capacity)

    # -- links that are offered --------------------------------------------------------------------------------

    def is_shorter(self, id16: bytes, link: Link) -> bool:
        """Whether a link may be on a shorter way: its row must be looked at."""
        return link.purpose is _PAGE and self._known.get(id16, link.depth + 1) > link.depth

    def offered(
        self,
        shard: Shard,
        links: Sequence[Link],
        refused: Sequence[tuple[Link, Reason]],
        ids: Sequence[bytes],
    ) -> None:
        """Links were added. One that is refused by no setting, like a nofollow, is no way."""
        for id16, link in zip(ids, links, strict=False):
            self._hear(shard, id16, link)
        for id16, (link, reason) in zip(ids[len(links) :], refused, strict=True):
            if is_by_settings(reason):
                self._hear(shard, id16, link)

    def _hear(self, shard: Shard, id16: bytes, link: Link) -> None:
        row = shard.row(id16) if self.is_shorter(id16, link) else None
        if row is not None:
            self._lower(shard, row, link.depth, link.parent)
            self._known[id16] = row.depth

    def settled(self, shard: Shard, row: UrlRow, visit: Visit) -> None:
        """A visit is over; its links were judged by the depth it had when it was leased."""
        if row.depth < visit.link.depth:
            self._owe(shard, row)

    def forget(self) -> None:
        """What was decided last is not stored."""
        self._known.clear()

    def trim(self) -> None:
        """Drop what is too much. Called between two verbs: what a verb has loaded follows from what is known."""
        self._known.trim()

    # -- lesser depths -----------------------------------------------------------------------------------------

    def _owe(self, shard: Shard, row: UrlRow) -> None:
        self.owed[row.id] = None
        shard.meta.positions.pop(POSITION, None)

    def _lower(self, shard: Shard, row: UrlRow, depth: int, parent: str) -> None:
        """A URL is found on a way of this length."""
        if row.depth <= depth or row.purpose is not _PAGE:
            return
        in_queue = row.state == QUEUED and row.due is None
        if in_queue and not shard.is_out(row):
            host = shard.host(row.host)
            shard.take(host, row.level, row.spot())
            row.depth, row.parent = depth, parent
            shard.push(host, row)
            return
        if in_queue and row.id not in shard.batch.urls:  # it is in flight, and stays where it is
            shard.stood[row.id] = Standing(QUEUE, row.host, row.level, -row.score, row.seq)
        row.depth, row.parent = depth, parent
        if row.state == REFUSED and is_by_settings(row.reason):
            self._judge(shard, row)
            return
        shard.keep(row)
        if row.state == CRAWLED:
            self._owe(shard, row)
        elif row.state == FOREIGN:
            shard.send(link_of(row))

    def _judge(self, shard: Shard, row: UrlRow) -> None:
        """Settings refused it; maybe they want it at this depth."""
        reason = row.reason if self.judge is None else self.judge(link_of(row), row.reason)
        if reason is None and judging.bring_back(shard, row):
            return
        if reason is not None and reason != row.reason:
            shard.leave(row)
            shard.enter(row, REFUSED, reason)
        shard.seen.refused(row.id, row.depth)
        shard.keep(row)

    # -- pages that tell their links ---------------------------------------------------------------------------

    def tell(self, shard: Shard, ids: Sequence[bytes]) -> None:
        """The links of these pages are one deeper than they are, or less."""
        for id16 in ids:
            self.owed.pop(id16, None)
            row = shard.row(id16)
            if row is None:
                continue
            page = shard.pages[id16]
            if page is not None and page.page.depth > row.depth:
                _move_page(shard, page, row.depth)
            for target, depth in _ways(row, page):
                found = shard.row(target)
                if found is not None:
                    self._lower(shard, found, depth, row.url)
                    self._known[target] = found.depth


def _ways(row: UrlRow, page: PageRow | None) -> Iterator[tuple[bytes, int]]:
    """Where a URL leads, and how deep that is. A redirect is no step."""
    if row.extra is not None and row.extra.leads:
        yield row.extra.leads, row.depth
    if page is not None and page.page.purpose is _PAGE:
        for at in range(0, len(page.links), _ID):
            yield page.links[at : at + _ID], row.depth + 1


def _move_page(shard: Shard, old: PageRow, depth: int) -> None:
    counting.count_depth(shard.counts, old.page, depth)
    shard.batch.replaced.setdefault(old.id, old)
    row = PageRow(old.id, replace(old.page, depth=depth), old.links, old.by_digest, old.by_simhash)
    shard.pages[old.id] = shard.batch.pages[old.id] = row


def need(shard: Shard, ids: Sequence[bytes]) -> None:
    """Request what telling needs, for stores behind a network."""
    wanted = Wanted(urls=[id16 for id16 in ids if not shard.has_row(id16)])
    wanted.pages = [id16 for id16 in ids if id16 not in shard.pages]
    if wanted:
        raise Lacking(wanted)
    rows = [row for id16 in ids if (row := shard.row(id16)) is not None]
    targets = [target for row in rows for target, _ in _ways(row, shard.pages[row.id])]
    wanted.urls = [target for target in targets if not shard.has_row(target)]
    if wanted:
        raise Lacking(wanted)
    for target in targets:
        found = shard.row(target)
        if (
            found is not None
            and found.state in (QUEUED, REFUSED)
            and not shard.names.host(found.host).foreign
        ):
            need_host(shard, found.host, wanted)
    if wanted:
        raise Lacking(wanted)
