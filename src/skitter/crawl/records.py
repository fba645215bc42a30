"""Several shards read as one crawl: a question goes to the shard that owns the host, or to all in turn."""

from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.model import Counts, HostRecord, Page, RobotsCopy, UrlRecord, Usage
from skitter.politeness.budgets import counts_for, is_group_tally
from skitter.ports import Likeness, Records, Twin
from skitter.reporting.report import total
from skitter.runtime.metrics import Metrics, added_up
from skitter.schedule.learning.learned import Learned, host_of


class ShardedRecords:
    """`skitter.ports.Records` over all shards, in the order of their numbers."""

    def __init__(self, shards: Sequence[Records]) -> None:
        self._shards = shards

    def _owner(self, host: str) -> Records:
        return self._shards[urls.shard(urls.registrable_domain(counts_for(host)), len(self._shards))]

    async def close(self) -> None:
        """Close every store."""
        for shard in self._shards:
            await shard.close()

    async def counts(self) -> Counts:
        """The crawl in numbers."""
        return total([await shard.counts() for shard in self._shards])

    async def url(self, key: str, host: str) -> UrlRecord | None:
        """The record of a URL: from its owner, else from a shard that found it and refused it."""
        owner = self._owner(host)
        for shard in (owner, *(shard for shard in self._shards if shard is not owner)):
            if (record := await shard.url(key, host)) is not None:
                return record
        return None

    async def page(self, key: str, host: str) -> Page | None:
        """The stored page."""
        return await self._owner(host).page(key, host)

    async def host(self, name: str) -> HostRecord | None:
        """The record of a host; what counts for a group is added up."""
        if is_group_tally(name):
            counted = [await shard.host(name) for shard in self._shards]
            return _together([each for each in counted if each is not None])
        return await self._owner(name).host(name)

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        return await self._owner(urls.host(origin)).robots(origin)

    async def learned(self, name: str) -> Learned | None:
        """What was learned of a host."""
        return await self._owner(host_of(name)).learned(name)

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """A page of the domain that is the same, or nearly the same."""
        return await self._owner(domain).twin(domain, digest, simhash, distance)

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """The same for many pages."""
        return [await self.twin(*page, distance) for page in pages]

    async def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL, shard by shard. A refused one may have been found by several."""
        for number, shard in enumerate(self._shards):
            async for record in shard.urls():
                if number == 0 or not await self._told_before(record, number):
                    yield record

    async def _told_before(self, record: UrlRecord, number: int) -> bool:
        """Whether its owner, or a shard with a lower number, has it too. Only refused URLs are in other shards."""
        host = urls.host(record.url)
        owner = self._owner(host)
        if owner is self._shards[number]:
            return False
        others = [owner, *self._shards[:number]]
        return any([await shard.url(record.key, host) is not None for shard in others])

    async def pages(self) -> AsyncIterator[Page]:
        """Every stored page."""
        for shard in self._shards:
            async for page in shard.pages():
                yield page

    async def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        for shard in self._shards:
            async for host in shard.hosts():
                yield host

    async def all_learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        for shard in self._shards:
            async for row in shard.all_learned():
                yield row

    async def assets(self) -> AsyncIterator[tuple[str, str]]:
        """What stored pages need."""
        for shard in self._shards:
            async for pair in shard.assets():
                yield pair

    async def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link of a stored page."""
        for shard in self._shards:
            async for link in shard.links():
                yield link

    def metrics(self) -> Metrics:
        """What the shards measure together."""
        return added_up([shard.metrics() for shard in self._shards])


def _together(counted: Sequence[HostRecord]) -> HostRecord | None:
    """What the hosts of a group have used in all shards."""
    if not counted:
        return None
    used = [each.usage or Usage() for each in counted]
    day = max(each.day for each in used)
    return replace(
        counted[0],
        pages=sum(each.pages for each in counted),
        bytes=sum(each.bytes for each in counted),
        requests=sum(each.requests for each in counted),
        usage=Usage(
            sum(each.seconds for each in used), day, sum(each.requests for each in used if each.day == day)
        ),
    )
