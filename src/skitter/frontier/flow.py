"""Cash: what fetched pages pass on to the pages they link to (strategy `opic`). Whoever waits with most of it is next.

Seeds, and pages that only a sitemap lists, are given cash to begin with. When a page is fetched, a part of what it has
received (`schedule.opic_damping`) is divided equally over all its links, refused ones included, in the write that settles it;
the rest stays. So what has stayed, of all that was given, is a lower bound of the share of PageRank that the fetched pages
have, for a reader who starts at the given pages (RankMass, Cho and Schonfeld 2007): each sum stands for paths of that
reader, none is counted twice, and paths that we do not follow are missing.

Cash of a URL is in its row: all it has received, and how much of that was passed on. A waiting row moves forward in its queue;
one in flight, or fetched before, only takes note. A link to another shard carries all that its shard has given that URL so far,
not the last part of it, so a message that arrives twice changes nothing.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from skitter.frontier import adding
from skitter.frontier.levels import DUE_AGAIN
from skitter.frontier.rows import CRAWLED, FOREIGN, QUEUE, QUEUED, Extra, Standing, UrlRow, order_by_cash
from skitter.frontier.shard import Shard
from skitter.model import TRUST, Cash, Hints, Link, Purpose, Reason, Settlement

_PAGE = Purpose.PAGE
_MOST = 1e6  # given at once: a seed file may say anything
_NOTHING, _UNSAID = Cash(), Hints()


def add(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float
) -> list[bytes]:
    """Add links that may bring cash: seeds, pages that a sitemap lists, and links of other shards."""
    gifts = [_gift(shard, link) for link in links]
    bare = [link if gift is None else _bare(link) for link, gift in zip(links, gifts, strict=True)]
    ids = adding.add(shard, bare, refused, now)
    for id16, gift in zip(ids, gifts, strict=False):
        row = None if gift is None else shard.row(id16)
        if gift is not None and row is not None and not row.origin:
            _receive(shard, row, *gift)
    return ids


def _gift(shard: Shard, link: Link) -> tuple[int, float] | None:
    """Who gives how much with a link, in total. If it is another shard's, it takes that along."""
    if link.purpose is not _PAGE or shard.names.host(link.host).foreign:
        return None
    if link.hints is not None and link.hints.given is not None:
        return link.hints.given
    return (TRUST, min(link.score, _MOST)) if link.score > 0 else None


def _bare(link: Link) -> Link:
    hints = None if link.hints is None else replace(link.hints, given=None)
    return replace(link, score=0.0, hints=None if hints == _UNSAID else hints)


def cash_of(row: UrlRow) -> Cash:
    """What a URL has received so far, and passed on."""
    return _NOTHING if row.extra is None or row.extra.cash is None else row.extra.cash


def _keep_cash(row: UrlRow, cash: Cash) -> None:
    row.extra = Extra(cash=cash) if row.extra is None else replace(row.extra, cash=cash)


def _receive(shard: Shard, row: UrlRow, source: int, total: float) -> None:
    """A source has given this much in total."""
    cash = cash_of(row)
    given = cash.given or {}
    amount = total - given.get(source, 0.0)
    if amount > 0:  # else it is known, or older than what is known
        _keep_cash(row, replace(cash, given={**given, source: total}))
        if source == TRUST:
            shard.counts.cash_given += amount
        _give(shard, row, amount)


def _give(shard: Shard, row: UrlRow, amount: float) -> None:
    """Put cash into a row, and move it forward if it waits."""
    cash = cash_of(row)
    received = cash.received + amount
    _keep_cash(row, replace(cash, received=received))
    if row.crawl_count:
        shard.counts.cash_kept += amount * (1 - shard.damping)
    if row.state == QUEUED and shard.is_out(row):
        if row.id not in shard.batch.urls:  # it stays where it is in its queue
            shard.stood[row.id] = Standing(QUEUE, row.host, row.level, -row.score, row.seq)
        shard.keep(row)
    elif row.state == QUEUED and row.due is None and row.level < DUE_AGAIN:
        host = shard.host(row.host)
        shard.take(host, row.level, row.spot())
        row.score = received
        shard.push(host, row)
    else:
        order_by_cash(row)
        shard.keep(row)


def pass_on(shard: Shard, row: UrlRow, settlement: Settlement, targets: Sequence[bytes]) -> None:
    """A page was fetched: divide what it has over its links."""
    if row.state != CRAWLED or (settlement.page is None and not settlement.links):
        return
    cash, counts = cash_of(row), shard.counts
    if row.crawl_count == 1:  # later, it counts when it comes
        counts.cash_kept += cash.received * (1 - shard.damping)
    amount = (cash.received - cash.passed) * shard.damping
    if amount <= 0:
        return
    _keep_cash(row, replace(cash, passed=cash.received))
    shard.keep(row)
    wanted = len(settlement.links)
    pairs = zip(targets, (*settlement.links, *(link for link, _ in settlement.refused)), strict=False)
    linked = {id16: place for place, (id16, link) in enumerate(pairs) if link.purpose is _PAGE}
    if not linked:
        counts.cash_sunk += amount
        return
    share = amount / len(linked)
    for id16, place in linked.items():
        target = shard.row(id16) if place < wanted else None
        if target is None:
            counts.cash_sunk += share
        elif target.state == FOREIGN:
            _send(shard, target, settlement.links[place], share)
        else:
            _give(shard, target, share)


def _send(shard: Shard, row: UrlRow, link: Link, amount: float) -> None:
    """Tell another shard how much its URL got from here in all."""
    cash = cash_of(row)
    total = cash.received + amount
    _keep_cash(row, replace(cash, received=total))
    shard.keep(row)
    hints = replace(link.hints or _UNSAID, given=(shard.names.number, total))
    shard.send(replace(link, score=0.0, hints=hints))
