"""Pages that are fetched again and again (`schedule.recrawl`): what their visits teach, and when each is due.

A page that was answered has a time for its next visit, in the list of times of its shard; when it comes, the page waits in a
queue of its host (`levels.DUE_AGAIN`) that has a share of the host's requests. With a fixed time nothing is learnt. Otherwise
the maths are in `schedule.freshness`; here is what they work on: what is believed of a page is in its row, what is usual
for its host, and the price of a visit there, in the row of the host. Both are written with the visit that taught them.

Change means main content (`Settlement.gist`), or the bytes of the answer where there is none. Validators are taken at
their word, but now and then a page is asked for without them: if it has changed under the same ones, they lie, and a host
that does so is not asked for changes any more.
"""

import math
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec.structs import replace

from skitter.frontier.rows import CRAWLED, HostExtra, HostRow, PageRow, UrlRow, keep_watch, watch_of
from skitter.model import Again, Counts, Level, Page, Refresh, Settlement, Watch
from skitter.schedule import freshness
from skitter.settings import ScheduleSettings, Settings, seconds
from skitter.settings.sites import Sites

if TYPE_CHECKING:
    from skitter.frontier.shard import Shard

_PLAIN = 40  # one visit in so many is made without validators
_LIARS = 2  # lies after which a host's validators are not sent
_LISTS = (
    3600.0,
    freshness.DAY,
    10,
)  # a sitemap or feed is read so often, or ten times as often as the usual page
_AUDITED = 0.02  # of the visits of a page are drawn by lot
_KEPT = 12  # visits of a page that are shown
_LATER = freshness.DAY  # a date further ahead is a mistake
_EARLIEST = 631_152_000.0  # 1990: the same of one before there was a web
_GONE = frozenset({404, 410})
_COUNTED, _SELDOM = 50.0, 5  # visits after which dates that tell nothing are asked for so much less often
_WORTH_IT = 0.1  # what is told must be true that often, beyond what was to be expected
_SAVED = 100  # one visit for so many pages may be made up for later
_ORDINARY = 0.5  # the priority of a page that a sitemap gives none


class Refreshing:
    """Says of each visit when the next one is."""

    def __init__(self, settings: Settings, sites: Sites | None) -> None:
        self._settings, self._sites = settings, sites
        self._credit, self._since = 0.0, math.inf  # visits that were allowed and not made, and since when

    def early_from(self, counts: Counts, host: HostRow, now: float) -> float:
        """From when on the page that is due next may be fetched before its time, as more visits are allowed than are due."""
        if not _refresh(host).price:  # its pages have fixed times
            return math.inf
        rate = self._earn(counts, now)
        return now + max(0.0, 1 - self._credit) / rate if rate > 0 else math.inf

    def worth(self, shard: "Shard", row: UrlRow, now: float) -> float | None:
        """What a visit is worth now beside the price of its host; None where pages have fixed times."""
        known, watch = _refresh(shard.host(row.host)), watch_of(row)
        if not known.price or not watch.belief or self._of(row.url).schedule.recrawl != "adaptive":
            return None
        weights = freshness.weights_of(freshness.unpacked(watch.belief), freshness.sums(known.usual))
        dates = freshness.dates_of(known.dates) if watch.dated else freshness.NO_DATES
        worth = freshness.value(weights, now - (row.last_crawl or now), dates, told=watch.told)
        return worth * watch.weight / (known.price * _mean_weight(known))

    def may_be_early(self, row: UrlRow) -> bool:
        """Whether a visit before its time is of use: a sitemap only tells of others, and what is gone is gone."""
        return not row.purpose.handling.lists and not watch_of(row).gone

    def spend(self, counts: Counts, now: float) -> None:
        """A page waits for its visit."""
        self._earn(counts, now)
        self._credit = max(self._credit - 1, -counts.again.get(Again.PAGES.value, 0))

    def _earn(self, counts: Counts, now: float) -> float:
        rate = counts.again.get(Again.ALLOWED.value, 0.0)
        most = max(1.0, counts.again.get(Again.PAGES.value, 0) / _SAVED)
        self._credit = min(self._credit + rate * max(0.0, now - self._since), most)
        self._since = now
        return rate

    def _of(self, url: str) -> Settings:
        return self._settings if self._sites is None else self._sites.of(url)

    def asks_plainly(self, host: HostRow, row: UrlRow) -> bool:
        """Whether a page is asked for without validators: now and then, and always where they lie."""
        lies = host.extra is not None and host.extra.refresh is not None and host.extra.refresh.lied >= _LIARS
        return lies or not (row.crawl_count + row.id[-1]) % _PLAIN

    def failed(self, shard: "Shard", row: UrlRow, now: float) -> float | None:
        """A page that was there before could not be fetched, after all retries. When it is tried again."""
        rules, watch = self._of(row.url).schedule, watch_of(row)
        if rules.recrawl == "off" or not row.crawl_count:
            return None
        every = watch.every or _usual_wait(rules)
        what = f"failed: {row.reason.code}" if row.reason is not None else "failed"
        keep_watch(row, replace(watch, visits=_seen(watch, now, what)))
        _count(shard.counts, Again.FAILED)
        return now + every

    def settled(
        self, shard: "Shard", row: UrlRow, settlement: Settlement, stored: PageRow | None, now: float
    ) -> float | None:
        """A page was answered: learn from it. When it is due again; None: never."""
        settings, watch, host = self._of(row.url), watch_of(row), shard.host(row.host)
        rules, known = settings.schedule, _refresh(host)
        first, before = not row.crawl_count, None if stored is None else stored.page
        found = "new" if first else _found(settlement, watch, before)
        gone = watch.gone + 1 if settlement.status in _GONE else 0
        if gone:
            found = "gone"
        if not first:
            known = _notice(shard.counts, known, settlement, before, found)
            _count_visit(shard.counts, found, settlement.status)
        after = replace(
            watch,
            gist=settlement.gist or watch.gist,
            gone=gone,
            told=False,
            visits=_seen(watch, now, _shown(found, settlement.status)),
        )
        if rules.recrawl == "off":
            _keep_refresh(shard, host, known)
            keep_watch(row, _no_more(shard, host, after))
            return None
        if rules.recrawl != "adaptive":
            every = float(seconds(rules.recrawl))
            after = replace(after, every=freshness.wait_for_gone(every, gone - 1) if gone else every)
            known = replace(known, share=rules.refresh_share)
        else:
            after, known = _learnt(shard, row, known, after, settings, now, found)
        return _planned(shard, host, row, (watch, after), known, now)

    def no_more(self, shard: "Shard", row: UrlRow) -> None:
        """A page is not wanted any more, or not allowed: it has no next visit."""
        if (watch := watch_of(row)).every:
            keep_watch(row, _no_more(shard, shard.host(row.host), watch))

    def told(self, shard: "Shard", row: UrlRow, lastmod: float, now: float) -> None:
        """A sitemap or feed says when a page last changed. It is due sooner if that is worth something."""
        watch = watch_of(row)
        if not _EARLIEST < lastmod < now + _LATER or lastmod <= watch.dated:
            return
        whole_day = not lastmod % freshness.DAY  # only the day is known
        new = lastmod > (row.last_crawl or 0.0) - (freshness.DAY if whole_day and watch.dated else 0.0)
        watch = replace(watch, dated=lastmod, told=watch.told or new)
        keep_watch(row, watch)
        shard.keep(row)
        if new and watch.belief and row.state == CRAWLED and row.due is not None and not row.parked:
            self._hurry(shard, row, watch, row.due, now)

    def _hurry(self, shard: "Shard", row: UrlRow, watch: Watch, due: float, now: float) -> None:
        """A page has probably changed."""
        rules, host = self._of(row.url).schedule, shard.host(row.host)
        known, last = _refresh(host), row.last_crawl or now
        if rules.recrawl != "adaptive" or watch.gone:
            return
        weights = freshness.weights_of(freshness.unpacked(watch.belief), freshness.sums(known.usual))
        price = known.price * _mean_weight(known) / watch.weight
        dates = freshness.dates_of(known.dates)
        if dates.precision < _WORTH_IT:
            return
        sooner = max(now, last + freshness.wait(weights, price, _usual_wait(rules), dates, told=True))
        if sooner < due:
            keep_watch(row, replace(watch, audit=False))
            shard.set_due(row, sooner)
            unplanned = 1 - min((sooner - last) / watch.every, 1.0) if watch.every else 0.0
            _keep_refresh(shard, host, replace(known, hurried=known.hurried + unplanned))


# ------------------------------------------------------------------------------------------------ what was found


def _found(settlement: Settlement, watch: Watch, before: Page | None) -> str:
    """What a visit found, beside the one before: "same" or "changed"."""
    if settlement.status == 304:
        return "same"
    page = settlement.page
    if page is None or before is None:
        return "changed" if watch.gone or before is not None else "same"
    if page.status != before.status:
        return "changed"
    if settlement.gist and watch.gist:
        return "same" if settlement.gist == watch.gist else "changed"
    return "same" if page.digest == before.digest else "changed"


def _shown(found: str, status: int) -> str:
    return f"{found} ({status})" if status else found


def _seen(watch: Watch, now: float, what: str) -> tuple[tuple[int, str], ...]:
    return (*watch.visits, (int(now), what))[-_KEPT:]


def _notice(
    counts: Counts, known: Refresh, settlement: Settlement, before: Page | None, found: str
) -> Refresh:
    """Validators that stayed though the page has changed, and the other way round."""
    page = settlement.page
    if page is None or before is None or page.status != 200 or before.status != 200:
        return known
    old, new = (before.etag, before.last_modified), (page.etag, page.last_modified)
    if not any(old) or not any(new):
        return known
    same = old[0] == new[0] if old[0] and new[0] else old[1] == new[1]
    if found == "changed" and same:
        _count(counts, Again.LIED)
        return replace(known, lied=known.lied + 1)
    if found == "same" and not same:
        _count(counts, Again.RESTLESS)
        return replace(known, restless=known.restless + 1)
    return known


def _count(counts: Counts, what: Again, by: float = 1) -> None:
    counts.again[what.value] = counts.again.get(what.value, 0) + by


def _count_visit(counts: Counts, found: str, status: int) -> None:
    _count(counts, Again.VISITS)
    if found == "gone":
        _count(counts, Again.GONE)
    elif found == "changed":
        _count(counts, Again.CHANGED)
    else:
        _count(counts, Again.UNMODIFIED if status == 304 else Again.SAME)


# ------------------------------------------------------------------------------------------------ when again


def _refresh(host: HostRow) -> Refresh:
    return Refresh() if host.extra is None or host.extra.refresh is None else host.extra.refresh


def _usual_wait(rules: ScheduleSettings) -> float:
    if rules.recrawl in ("off", "adaptive"):
        return freshness.DAY / rules.refresh_rate
    return float(seconds(rules.recrawl))


def _learnt(
    shard: "Shard",
    row: UrlRow,
    known: Refresh,
    watch: Watch,
    settings: Settings,
    now: float,
    found: str,
) -> tuple[Watch, Refresh]:
    """What a visit has taught about the page and its host."""
    before, usual = watch_of(row), freshness.sums(known.usual)
    belief, elapsed = freshness.unpacked(watch.belief), now - (row.last_crawl or now)
    weights = freshness.weights_of(belief, usual)
    if found in ("same", "changed") and elapsed > 0:
        changed = found == "changed"
        if before.dated:
            guess = freshness.fresh_at(weights, elapsed)
            told = freshness.counted_dates(known.dates, guess, told=before.told, changed=changed)
            known = replace(known, dates=told)
        if before.audit:
            _count(shard.counts, Again.AUDITS)
            _count(shard.counts, Again.AUDITS_FRESH, not changed)
            _count(shard.counts, Again.AUDITS_EXPECTED, freshness.fresh_at(weights, elapsed))
        belief = freshness.learn(belief, elapsed, changed=changed)
        weights = freshness.weights_of(belief, usual)
        if not row.purpose.handling.lists:
            kept = freshness.with_page(usual, weights, first=not before.belief)
            weights = freshness.weights_of(belief, freshness.sums(kept))
            known = replace(known, usual=kept)
    rules = settings.schedule
    usual_wait, weight = _usual_wait(rules), _weight(row)
    price = known.price or freshness.value(weights, usual_wait)
    allowed = _allowed(shard, shard.host(row.host), known.pages, settings)
    _count(shard.counts, Again.ALLOWED, allowed - known.allowed)
    hurried = freshness.faded(known.hurried, now - known.moved, usual_wait)
    planned = known.planned + hurried / usual_wait
    price = freshness.moved_price(price, planned, allowed, known.pages, now - known.moved)
    dates = freshness.dates_of(known.dates) if before.dated else freshness.NO_DATES
    every = (
        freshness.wait_for_gone(usual_wait, watch.gone)
        if watch.gone
        else freshness.wait(weights, price * _mean_weight(known) / weight, usual_wait, dates)
    )
    if row.purpose.handling.lists:
        useless = sum(known.dates) > _COUNTED and freshness.dates_of(known.dates).precision < _WORTH_IT
        most = max(_LISTS[1], usual_wait / _LISTS[2]) * (_SELDOM if useless else 1)
        every = min(max(every, _LISTS[0]), most)
    fresh = freshness.fresh_until(weights, every)
    known = replace(
        known, price=price, share=rules.refresh_share, moved=now, allowed=allowed, hurried=hurried
    )
    return replace(watch, belief=freshness.packed(belief), every=every, weight=weight, fresh=fresh), known


def _weight(row: UrlRow) -> float:
    """The importance of a page: its level among new pages, and what a sitemap says beside the usual."""
    hints = row.hints
    priority = _ORDINARY if hints is None or hints.priority is None else hints.priority
    return max(2.0 ** (Level.NORMAL - row.level % len(Level)) * priority / _ORDINARY, 1e-3)


def _mean_weight(known: Refresh) -> float:
    return known.weight / known.pages if known.pages and known.weight > 0 else 1.0


def _allowed(shard: "Shard", host: HostRow, pages: int, settings: Settings) -> float:
    """Visits a second that the known pages of a host may have: what they are meant to get, or what politeness leaves them."""
    rules, daily = settings.schedule, settings.budget.host_requests_per_day
    delay = max(host.delay, shard.delay(host.name))
    possible = min(1 / delay if delay > 0 else math.inf, math.inf if daily is None else daily / freshness.DAY)
    return min(max(pages, 1) * rules.refresh_rate / freshness.DAY, possible)


def _no_more(shard: "Shard", host: HostRow, watch: Watch) -> Watch:
    """The page has no next visit any more."""
    known = _refresh(host)
    if watch.every:
        planned = max(known.planned - 1 / watch.every, 0.0)
        left = replace(
            known,
            planned=planned,
            pages=max(known.pages - 1, 0),
            weight=max(known.weight - watch.weight, 0.0),
        )
        _keep_refresh(shard, host, left)
        _count(shard.counts, Again.PAGES, -1)
        _count(shard.counts, Again.WEIGHT, -watch.weight)
        _count(shard.counts, Again.FRESH, -watch.weight * watch.fresh)
    return replace(watch, every=0.0, audit=False, told=False)


def _keep_refresh(shard: "Shard", host: HostRow, known: Refresh) -> None:
    host.extra = HostExtra(refresh=known) if host.extra is None else replace(host.extra, refresh=known)
    shard.touch(host)


def _planned(
    shard: "Shard", host: HostRow, row: UrlRow, watches: tuple[Watch, Watch], known: Refresh, now: float
) -> float:
    """Plan the next visit: what all visits of the host amount to is kept beside it."""
    before, after = watches
    counts = shard.counts
    planned = known.planned + 1 / after.every - (1 / before.every if before.every else 0.0)
    old = before.weight if before.every else 0.0
    known = replace(
        known,
        planned=max(planned, 0.0),
        pages=known.pages + (not before.every),
        weight=known.weight + after.weight - old,
    )
    if not before.every:
        _count(counts, Again.PAGES)
    _count(counts, Again.WEIGHT, after.weight - old)
    _count(counts, Again.FRESH, after.weight * after.fresh - old * before.fresh)
    _keep_refresh(shard, host, known)
    due = now + after.every
    chance = _chance(row)
    audit = False
    if after.belief:
        if not row.crawl_count:  # pages found together do not come back together
            due = now + after.every * max(chance, 0.01)
        elif (drawn := -math.log(max(_chance(row, b"audit"), 1e-9)) * _mean(known) / _AUDITED) < after.every:
            due, audit = now + drawn, True
    keep_watch(row, replace(after, audit=audit))
    return due


def _mean(known: Refresh) -> float:
    """The mean time between two visits of a page of the host."""
    return known.pages / known.planned if known.planned > 0 else freshness.DAY


def _chance(row: UrlRow, about: bytes = b"") -> float:
    """A number between 0 and 1 that nobody can foresee who does not know the row, and the same after a crash."""
    return crc32(row.id + row.crawl_count.to_bytes(4, "little") + about) / 2**32
