"""The SimHashes of the domains that are crawled now, in memory: near-duplicates are looked for without a read.

All SimHashes of a domain are compared with one in a few microseconds: 4 µs for 3,000 of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.dedup.simhash import SimhashSet

# SimHashes that are held for one domain. A store at hand has an index that is quicker for larger ones. Behind a network a
# page of a larger domain is compared with as many of its pages, not with all, and a near-duplicate may go unnoticed.
AT_HAND, FAR = 16_384, 262_144
_IN_ALL = 1_000_000  # … for all together: 8 MB. Then everything is forgotten and read again as it is needed


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
        """Whether it is certain that no page of the domain stands for a SimHash."""
        held = self._domains.get(domain)
        return held is not None and held.size < self.per_domain and not held.nearest(simhash, 0)

    def hold(self, domain: str, found: list[int]) -> None:
        """They were read."""
        from skitter.dedup.simhash import SimhashSet  # noqa: PLC0415  numpy, which not every crawl needs

        self._total += len(found) + 8
        if self._total > _IN_ALL:
            self._domains.clear()
            self._total = len(found)
        self._domains[domain] = SimhashSet(found)

    def add(self, domain: str, simhash: int) -> None:
        """A page stands for a SimHash from now on."""
        held = self._domains.get(domain)
        if held is not None and held.size < self.per_domain:
            held.add(simhash)
            self._total += 1

    def forget(self, domain: str) -> None:
        """A page stands for its SimHash no more."""
        self._domains.pop(domain, None)

    def statistics(self) -> dict[str, float]:
        """How much is in memory."""
        return {"domains": len(self._domains), "simhashes": self._total}
