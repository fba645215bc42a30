"""The keys of a request besides its address: the domain of its host, and the groups of it."""

from collections.abc import Mapping, Sequence

from skitter import urls
from skitter.ports import Permits
from skitter.settings.sites import Sites

_REMEMBERED = 10_000  # hosts; then all are forgotten


class Keys:
    """Which permits a request needs besides that of its address. All of them are needed, or nothing is sent."""

    def __init__(
        self,
        domains: Permits | None = None,
        groups: Mapping[str, Permits] | None = None,
        sites: Sites | None = None,
    ) -> None:
        """`groups` have permits by name."""
        self._domains = domains
        self._groups = groups or {}
        self._sites = sites
        self._of: dict[str, tuple[tuple[Permits, str], ...]] = {}

    def of(self, host: str) -> Sequence[tuple[Permits, str]]:
        """The permits that a request to a host needs, each with its key."""
        found = self._of.get(host)
        if found is None:
            if len(self._of) >= _REMEMBERED:
                self._of.clear()
            found = self._of[host] = tuple(self._found(host))
        return found

    def _found(self, host: str) -> list[tuple[Permits, str]]:
        found = [] if self._domains is None else [(self._domains, urls.registrable_domain(host))]
        groups = () if self._sites is None else self._sites.groups(host)
        return found + [(self._groups[each.name], each.name) for each in groups if each.name in self._groups]

    def begin(self) -> None:
        """Keys may have been used a moment ago."""
        for each in self._all():
            each.begin()

    async def close(self) -> None:
        """Leave what is left to others."""
        for each in self._all():
            await each.close()

    def _all(self) -> list[Permits]:
        return [*([] if self._domains is None else [self._domains]), *self._groups.values()]
