"""The read side of the frontier in memory."""

from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.backends.memory.store import Entry, Host, MemoryStore, Name
from skitter.model import Counts, HostRecord, Page, Purpose, Reason, RobotsCopy, State, UrlRecord
from skitter.ports import Likeness, Twin


class MemoryReader:
    """What can be asked of a store without owning it."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def counts(self) -> Counts:
        """The crawl in numbers."""
        counts = self.store.counts
        return replace(
            counts,
            refused=dict(counts.refused),
            failures=dict(counts.failures),
            statuses=dict(counts.statuses),
            depths=dict(counts.depths),
        )

    async def url(self, key: str, host: str) -> UrlRecord | None:  # noqa: ARG002  other back ends find it by its host
        """What is known of a URL."""
        entry = self.store.entries.get(("", key))
        return None if entry is None else self._url_record(("", key), entry)

    async def page(self, key: str, host: str) -> Page | None:  # noqa: ARG002  other back ends find it by its host
        """The stored page."""
        return self.store.pages.get(("", key))

    async def host(self, name: str) -> HostRecord | None:
        """What is known of a host."""
        host = self.store.hosts.get(name)
        return None if host is None else self._host_record(host)

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        return self.store.robots.get(origin)

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """The page with the same digest, else the nearest."""
        name = self.store.digests.get((domain, digest)) if digest else None
        if name is None and simhash is not None:
            name = self._nearest(domain, simhash, distance)
        if name is None:
            return None
        page = self.store.pages[name]
        return Twin(page.url, page.fetched_at, page.digest, page.simhash, page.archive)

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """The same, one by one."""
        return [await self.twin(*page, distance) for page in pages]

    def _nearest(self, domain: str, simhash: int, distance: int) -> Name | None:
        near = self.store.simhashes.get(domain, {})
        candidates = [
            ((other ^ simhash).bit_count(), self.store.pages[name].fetched_at, other, name)
            for other, name in near.items()
            if (other ^ simhash).bit_count() <= distance
        ]
        return min(candidates)[-1] if candidates else None

    async def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL."""
        for name, entry in list(self.store.entries.items()):
            if entry.link.purpose is Purpose.PAGE:
                yield self._url_record(name, entry)

    async def pages(self) -> AsyncIterator[Page]:
        """Every page."""
        for page in list(self.store.pages.values()):
            yield page

    async def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        for host in list(self.store.hosts.values()):
            yield self._host_record(host)

    async def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link from a stored page."""
        for source, targets in list(self.store.links.items()):
            for target in targets:
                known = self.store.entries.get(target)
                link = known.link if known is not None else self.store.foreign.get(target)
                if link is not None:
                    yield self.store.entries[source].link.url, link.url

    def statistics(self) -> dict[str, dict[str, float]]:
        """There are neither caches nor filters here."""
        return {}

    def _aside(self, entry: Entry) -> Reason | None:
        host = self.store.hosts.get(entry.link.host)
        return host.aside if host is not None else None

    def _url_record(self, name: Name, entry: Entry) -> UrlRecord:
        link, state, reason = entry.link, entry.state, entry.reason
        if name in self.store.leases:
            state = State.LEASED
        elif state is State.QUEUED and (aside := self._aside(entry)) is not None:
            state, reason = State.REFUSED, aside
        return UrlRecord(
            url=link.url,
            key=link.key,
            state=state,
            reason=reason,
            depth=link.depth,
            parent=link.parent,
            level=link.level,
            score=link.score,
            attempts=entry.attempts,
            crashes=entry.crashes,
            crawl_count=entry.crawl_count,
            status=entry.status,
            first_seen=entry.first_seen,
            last_crawl=entry.last_crawl,
            next_crawl=None if state is State.REFUSED else entry.due,
        )

    def _host_record(self, host: Host) -> HostRecord:
        return HostRecord(
            host=host.name,
            domain=urls.registrable_domain(host.name),
            free_at=host.free_at,
            delay=host.delay,
            queued=0 if host.aside else host.queued(),
            in_flight=host.in_flight,
            pages=host.pages,
            requests=host.requests,
            errors=host.errors,
            bytes=host.bytes,
            aside=host.aside,
        )
