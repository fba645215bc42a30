"""How well a crawl spent its requests, by the server's log alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skitter.testing.web.log import Request

Place = tuple[str, str]
"""A host, and a path with its query."""


class Listed(Protocol):
    """A web that lists its real pages."""

    @property
    def real(self) -> frozenset[Place]:
        """The real pages, each once, whatever spellings lead to it."""
        ...


@dataclass(frozen=True)
class Judged:
    """A crawl in figures. A request is wasted if it fetched no real page for the first time: probes, retries,
    redirects and robots.txt are requests too.
    """

    requests: int
    real: int  # pages that there are
    fetched: int  # of them
    last: int  # requests until the last of those
    wasted: int
    missed: frozenset[Place]
    by_kind: dict[str, int]  # wasted requests by what answered them

    @property
    def found_share(self) -> float:
        """Of the real pages."""
        return self.fetched / self.real

    @property
    def wasted_share(self) -> float:
        """Of the requests."""
        return self.wasted / max(1, self.requests)


def judged(web: Listed, log: Sequence[Request]) -> Judged:
    """Judge a crawl by the requests that the server saw."""
    found: set[Place] = set()
    kinds: Counter[str] = Counter()
    last = 0
    for number, request in enumerate(log, 1):
        place = (request.host, request.page)
        if request.status == 200 and place in web.real and place not in found:
            found.add(place)
            last = number
        else:
            kinds["(again)" if place in web.real else request.page] += 1
    return Judged(
        requests=len(log),
        real=len(web.real),
        fetched=len(found),
        last=last,
        wasted=len(log) - len(found),
        missed=web.real - found,
        by_kind=dict(kinds.most_common()),
    )
