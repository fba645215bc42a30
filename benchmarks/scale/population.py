"""The web of the model: number, sizes and speeds of hosts, failures, and links.

Host sizes follow a power law, and so does how often a host is linked to; response times are lognormal. A
host's pages form a tree: a page links to its children, which are new, to known pages, and to a page of
another host. So a host is discovered little by little, and hosts are found as the crawl goes on.

The model is smaller than the full size in two ways that keep all ratios. It has `slow / shrink` of the hosts,
and each of them is `slow` times as slow and has that fraction of the pages: then `1 / shrink` of the machine
serves `1 / shrink` of the visits, a host lasts as long, and the machine needs proportionally as many hosts.
Without the second reduction, a machine of 4 pages/s would depend on five hosts, and randomness would blur
every curve.
"""

import math
import random
from array import array
from dataclasses import dataclass
from enum import IntEnum

DAY = 86400.0
FANOUT = 8  # children of a page
KNOWN = 4  # links to pages before this one
PRIVATE = 50  # robots.txt forbids one of this many pages
SMALLEST, LARGEST, TAIL = 10, 1_000_000, 0.7  # pages of a host: Pareto, cut off
RESPONSE, BETWEEN_HOSTS, WITHIN_HOST = 0.25, 0.7, 0.3  # seconds (median); sigma of the logarithm
DELAY, CRAWL_DELAY = 1.0, 10.0  # seconds
TIMEOUT, RETRY_AFTER = 30.0, 120.0  # seconds
SUFFIX = ".example"


class Kind(IntEnum):
    """How a host behaves."""

    PLAIN = 0
    SLOW = 1  # its robots.txt asks for a Crawl-delay
    BUSY = 2  # some answers are a 503, half of them with Retry-After
    HANGING = 3  # some requests are never answered
    NAMELESS = 4  # its name cannot be resolved


SHARES = {Kind.PLAIN: 92, Kind.SLOW: 3, Kind.BUSY: 2, Kind.HANGING: 1, Kind.NAMELESS: 2}  # percent
FAILING = {Kind.BUSY: 0.3, Kind.HANGING: 0.2}  # of their answers


@dataclass(frozen=True)
class Plan:
    """One run of the model. Hosts and capacity are those of the full-size crawl."""

    name: str
    about: str
    hosts: int
    capacity: float = 1000.0  # requests a second
    days: float = 7.0
    shrink: int = 250
    slow: int = 10
    seed: int = 1

    @property
    def model_hosts(self) -> int:
        return max(1, self.hosts * self.slow // self.shrink)

    @property
    def model_capacity(self) -> float:
        return self.capacity / self.shrink


class Population:
    """All hosts by number; lower numbers are larger and better known."""

    def __init__(self, plan: Plan) -> None:
        dice = random.Random(plan.seed)
        count = plan.model_hosts
        self.count, self.slow = count, plan.slow
        self.sizes = array("l", (_size((rank + 0.5) / count, plan.slow) for rank in range(count)))
        self.kinds = array("b", dice.choices(list(SHARES), weights=list(SHARES.values()), k=count))
        self.quickness = array(
            "d", (RESPONSE * plan.slow * dice.lognormvariate(0, BETWEEN_HOSTS) for _ in range(count))
        )
        self._dice = dice

    def name(self, host: int) -> str:
        return f"h{host}{SUFFIX}"

    def number(self, name: str) -> int:
        return int(name[1 : -len(SUFFIX)])

    def path(self, page: int) -> str:
        return f"/private/{page}" if page % PRIVATE == PRIVATE - 1 else f"/{page}"

    def owed(self, host: int) -> float:
        """The delay that the host wants after an answer, in seconds."""
        return self.slow * (CRAWL_DELAY if self.kinds[host] == Kind.SLOW else DELAY)

    def cycle(self, host: int) -> float:
        """Average seconds from request to request if nothing else delays us."""
        answer = self.quickness[host] * math.exp(WITHIN_HOST**2 / 2)
        if self.kinds[host] == Kind.HANGING:
            share = FAILING[Kind.HANGING]
            answer = (1 - share) * answer + share * TIMEOUT * self.slow
        return self.owed(host) + answer

    def takes(self, host: int) -> float:
        """Response time of the next answer, in seconds."""
        return self.quickness[host] * self._dice.lognormvariate(0, WITHIN_HOST)

    def fails(self, host: int) -> bool:
        """Whether the next answer of a busy or hanging host is a bad one."""
        return self._dice.random() < FAILING[Kind(self.kinds[host])]

    def coin(self) -> bool:
        return self._dice.random() < 0.5

    def links(self, host: int, page: int) -> list[tuple[int, int]]:
        """The links of a page, as (host, page)."""
        first = page * FANOUT + 1
        found = [(host, child) for child in range(first, min(first + FANOUT, self.sizes[host]))]
        if page:
            found += [(host, self._dice.randrange(page)) for _ in range(KNOWN)]
        other = int(self.count ** self._dice.random())  # Zipf's law: as many links to ranks 1–10 as to 10–100
        found.append((min(other, self.count) - 1, 0))
        return found


def _size(rank: float, slow: int) -> int:
    """The size of the host at this quantile, so that sizes are not random."""
    least = (SMALLEST / LARGEST) ** TAIL
    pages: float = SMALLEST * (least + rank * (1 - least)) ** (-1 / TAIL)
    return max(1, round(pages / slow))
