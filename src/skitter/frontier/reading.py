"""The read side of a shard, for its owner and for any other reader."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from skitter import urls
from skitter.engines.retry import patiently
from skitter.frontier.levels import LEVELS, OF_PARKED
from skitter.frontier.pages import Nearby, pages_alike
from skitter.frontier.rows import (
    FOREIGN,
    STATES,
    Found,
    HostRow,
    UrlRow,
    Wanted,
)
from skitter.frontier.store import Store
from skitter.model import Counts, HostRecord, Page, Reason, RobotsCopy, State, UrlRecord
from skitter.politeness.budgets import is_tally
from skitter.ports import Likeness, Mark, Twin
from skitter.runtime.metrics import Metrics
from skitter.schedule.learning.learned import Learned

_AT_ONCE = 500  # rows whose hosts or links are loaded together
_ID = 16
_REMEMBERED = 1 << 17  # URLs of link targets: about 20 MB
_ReadsOut = Callable[[str], tuple[int, int]]  # visits of a host in flight, and links leased ahead


class ShardReader:
    """`skitter.ports.Records` on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def _load(self, wanted: Wanted) -> Found:
        return await patiently(lambda: self._store.load(wanted))

    async def close(self, now: float = 0.0) -> None:  # noqa: ARG002  an owner needs it
        """Close the store."""
        await self._store.close()

    async def counts(self) -> Counts:
        """The crawl in numbers."""
        return (await patiently(self._store.meta)).counts

    async def mark(self) -> Mark:
        """How far the archive is settled."""
        return (await patiently(self._store.meta)).mark

    def _id(self, key: str, host: str) -> bytes:
        prefix = self._store.domain_prefix(urls.registrable_domain(host))
        return prefix + self._store.hash_key(key.encode("utf-8", "surrogatepass"), self._store.secret)

    async def url(self, key: str, host: str) -> UrlRecord | None:
        """The record of a URL."""
        id16 = self._id(key, host)
        found = await self._load(Wanted(urls=[id16], hosts=[host]))
        row = found.urls.get(id16)
        if row is None or row.state == FOREIGN:
            return None
        hosts = found.hosts if row.host == host else (await self._load(Wanted(hosts=[row.host]))).hosts
        return _url_record(row, hosts.get(row.host), leased=id16 in await self._leased())

    async def page(self, key: str, host: str) -> Page | None:
        """The stored page."""
        id16 = self._id(key, host)
        row = (await self._load(Wanted(pages=[id16]))).pages.get(id16)
        return None if row is None else row.page

    async def host(self, name: str) -> HostRecord | None:
        """The record of a host."""
        row = (await self._load(Wanted(hosts=[name]))).hosts.get(name)
        return None if row is None else self._host_record(row, (await self._all_out())(name))

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        return (await self._load(Wanted(robots=[origin]))).robots.get(origin)

    async def learned(self, name: str) -> Learned | None:
        """What was learned of a host, or of all hosts of a domain, as of the last write."""
        return (await self._load(Wanted(learned=[name]))).learned.get(name)

    async def all_learned(self) -> AsyncIterator[Learned]:
        """The same of every host."""
        async for row in self._store.learned():
            yield row

    # -- twins -------------------------------------------------------------------------------------------------

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """The page with the same digest, else the nearest one."""
        return (await self.twins([Likeness(domain, digest, simhash)], distance))[0]

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """Twins of many pages: one round trip for the digests, and one more if something is near."""
        return await pages_alike(self._load, pages, distance, Nearby(), {})

    # -- everything --------------------------------------------------------------------------------------------

    async def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL."""
        some: list[UrlRow] = []
        leased = await self._leased()
        async for row in self._store.urls():
            if row.state == FOREIGN or row.origin:
                continue
            some.append(row)
            if len(some) == _AT_ONCE:
                for record in await self._url_records(some, leased):
                    yield record
                some = []
        for record in await self._url_records(some, leased):
            yield record

    async def _url_records(self, rows: list[UrlRow], leased: Collection[bytes]) -> list[UrlRecord]:
        hosts = (await self._load(Wanted(hosts=list({row.host for row in rows})))).hosts if rows else {}
        return [_url_record(row, hosts.get(row.host), leased=row.id in leased) for row in rows]

    async def pages(self) -> AsyncIterator[Page]:
        """Every page."""
        async for row in self._store.pages():
            yield row.page

    async def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        out = await self._all_out()
        async for row in self._store.hosts():
            if not is_tally(row.name):
                yield self._host_record(row, out(row.name))

    async def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link from a stored page."""
        async for source, target, asset in self._links():
            if not asset:
                yield source, target

    async def assets(self) -> AsyncIterator[tuple[str, str]]:
        """Everything that a stored page or asset needs."""
        async for source, target, asset in self._links():
            if asset:
                yield source, target

    async def _links(self) -> AsyncIterator[tuple[str, str, bool]]:
        """Source and target of each link, and whether that is an asset.

        Most targets are linked from many pages, so what is known of them is kept for a while.
        """
        known: dict[bytes, tuple[str, bool]] = {}  # without a URL for an id that has no record
        async for row in self._store.pages():
            ids = [row.id, *(row.links[at : at + _ID] for at in range(0, len(row.links), _ID))]
            if not all(each in known for each in ids):
                if len(known) > _REMEMBERED:
                    known = {}
                missing = [each for each in ids if each not in known]
                loaded = (await self._load(Wanted(urls=missing))).urls
                for each in missing:
                    target = loaded.get(each)
                    known[each] = (
                        ("", False) if target is None else (target.url, urls.is_asset_key(target.key))
                    )
            source, _ = known[ids[0]]
            if source:
                for each in ids[1:]:
                    url, asset = known[each]
                    if url:
                        yield source, url, asset

    def metrics(self) -> Metrics:
        """Round trips, caches and filters."""
        return Metrics(store=self._store.metrics())

    # -- visits that are out -----------------------------------------------------------------------------------

    async def _leased(self) -> Collection[bytes]:
        """URLs in flight."""
        return (await patiently(self._store.open)).leases

    async def _all_out(self) -> _ReadsOut:
        """Counts for each host the visits in flight, and the links leased ahead."""
        leases = (await patiently(self._store.open)).leases
        out = Counter(visit.link.host for visit in leases.values())
        return lambda name: (out[name], 0)

    def _host_record(self, row: HostRow, out: tuple[int, int]) -> HostRecord:
        in_flight, ahead = out
        return HostRecord(
            host=row.name,
            domain=urls.registrable_domain(row.name),
            free_at=row.free_at,
            delay=row.delay,
            queued=0 if row.aside else row.queued() + ahead,
            in_flight=in_flight,
            pages=row.pages,
            requests=row.requests,
            errors=row.errors,
            bytes=row.bytes,
            aside=row.aside,
            pace=None if row.extra is None else row.extra.pace,
            usage=None if row.extra is None else row.extra.usage,
            held=row.held,
            linked=None if row.extra is None else row.extra.linked,
            lined_up=row.lined_up() + ahead,
        )


def _url_record(row: UrlRow, host: HostRow | None, *, leased: bool) -> UrlRecord:
    """The record of a URL. One that waits on a host set aside is reported as refused, for the same reason."""
    state, reason = STATES[row.state], row.reason
    aside: Reason | None = None if host is None else host.aside
    if leased:
        state = State.LEASED
    elif state is State.QUEUED and aside is not None:
        state, reason = State.REFUSED, aside
    return UrlRecord(
        url=row.url,
        key=row.key,
        state=state,
        reason=reason,
        depth=row.depth,
        parent=row.parent,
        level=LEVELS[_level(row) % len(LEVELS)],
        score=row.score,
        attempts=row.attempts,
        crashes=row.crashes,
        crawl_count=row.crawl_count,
        status=row.status,
        first_seen=row.first_seen,
        last_crawl=row.last_crawl,
        next_crawl=None if state is State.REFUSED else row.due,
        hints=row.hints,
        purpose=row.purpose,
        cash=None if row.extra is None else row.extra.cash,
    )


def _level(row: UrlRow) -> int:
    """Its level, or the one that it had before it was put aside."""
    was = None if row.extra is None else row.extra.was
    return was.level if was is not None and row.level == OF_PARKED else row.level
