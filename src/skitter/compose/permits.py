"""The permits that requests need: of addresses, domains and groups, where each is shared by whoever sends.

The hosts of a domain are in one shard, so its permits are those of the process that has the shard. An address or a group may
be asked for by every worker: on one machine they share a table, on several they share Redis.
"""

from collections.abc import Callable, Sequence

from skitter.backends.accounts import MemoryAccounts, SharedAccounts
from skitter.backends.permits import MemoryPermits, SharedPermits, turns
from skitter.crawl.directory import CrawlDirectory
from skitter.fetch.keys import Keys
from skitter.politeness.budgets import limited_groups
from skitter.ports import Accounts, Clock, Permits, PermitTerms
from skitter.settings import GroupSettings, Settings
from skitter.settings.sites import sites_of

_FEW = 1  # buckets of the table of a group: it has one key


class Wanted:
    """Which permits the settings ask for; most crawls need those of addresses alone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.address = _if_limited(turns.of_address(settings.politeness))
        self._domain = _if_limited(turns.of_domain(settings.politeness))
        self._groups = [
            (group, terms) for group in settings.group if turns.limits(terms := turns.of_group(group))
        ]

    def keys(self, clock: Clock, of_group: Callable[[GroupSettings, PermitTerms], Permits]) -> Keys | None:
        """The permits of domains and groups; None if nothing limits them."""
        if self._domain is None and not self._groups:
            return None
        domains = None if self._domain is None else MemoryPermits(self._domain, clock)
        groups = {group.name: of_group(group, terms) for group, terms in self._groups}
        return Keys(domains, groups, sites_of(self._settings))


def local_permits(
    directory: CrawlDirectory, shards: Sequence[int], settings: Settings, clock: Clock, workers: int
) -> tuple[Permits | None, Keys | None]:
    """Those of this process, or of all workers; the first shard of a worker has the worker's number."""
    wanted = Wanted(settings)

    def made(terms: PermitTerms, name: str = "", **more: int) -> Permits:
        if workers == 1:
            return MemoryPermits(terms, clock)
        path = directory.permits_file
        path = path.with_name(f"{path.name}-{name}") if name else path
        return SharedPermits(path, shards[0], workers, terms, clock, **more)

    address = None if wanted.address is None else made(wanted.address)
    return address, wanted.keys(clock, lambda group, terms: made(terms, group.name, buckets=_FEW))


def local_accounts(directory: CrawlDirectory, settings: Settings, workers: int) -> Accounts | None:
    """What shards have used of the budgets of groups: of this process, or of all workers; None without such budgets."""
    names = sorted(limited_groups(settings))
    if not names:
        return None
    if workers == 1:
        return MemoryAccounts()
    return SharedAccounts(directory.accounts_file(names), names, settings.crawl.shards)


def _if_limited(terms: PermitTerms) -> PermitTerms | None:
    return terms if turns.limits(terms) else None
