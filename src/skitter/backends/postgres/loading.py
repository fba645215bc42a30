"""Questions of several shards in one statement, and the answer to each.

Each shard has one row in the result, however many callers ask: rows by key, shared by all who want that key, and
lists by the number of the question. Each caller gets its own decoded rows.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from skitter.backends.postgres import columns
from skitter.frontier.rows import RECRAWL, RETRY, Found, Times, Wanted


class Question(NamedTuple):
    """A question about a shard."""

    shard: int
    wanted: Wanted

    def rows(self) -> int:
        """The number of rows requested."""
        return sum(len(getattr(self.wanted, name)) for name in self.wanted.__struct_fields__)


def questions(asked: Sequence[Question], shards: Collection[int]) -> tuple[list[str], dict[str, Any]]:
    """The pieces needed, and their values for each of these shards, some of which may have no question."""
    by_shard = {shard: together([ask.wanted for ask in asked if ask.shard == shard]) for shard in shards}
    names = [name for name, is_asked in _PIECES.items() if any(map(is_asked, by_shard.values()))]
    values = {
        f"{name}_{shard}": value
        for shard, wanted in by_shard.items()
        for name, value in _values(wanted).items()
    }
    return names, values


def answers(asked: Sequence[Question], rows: Iterable[Mapping[str, Any]]) -> list[Found]:
    """The answers, in the order of the questions."""
    by_shard = {row["shard"]: _Answer(row) for row in rows}
    return [by_shard[shard].found(wanted) for shard, wanted in asked]


def together(wanted: Sequence[Wanted]) -> Wanted:
    """All of these, concatenated."""
    if len(wanted) == 1:
        return wanted[0]
    every = Wanted()
    for name in every.__struct_fields__:
        setattr(every, name, [one for each in wanted for one in getattr(each, name)])
    return every


# ------------------------------------------------------------------------------------------------ values

_PIECES: dict[str, Callable[[Wanted], Any]] = {
    "urls": lambda wanted: wanted.urls,
    "hosts": lambda wanted: wanted.hosts,
    "robots": lambda wanted: wanted.robots,
    "pages": lambda wanted: wanted.pages,
    "learned": lambda wanted: wanted.learned,
    "parked": lambda wanted: wanted.parked,
    "heads": lambda wanted: wanted.heads,
    "agenda": lambda wanted: wanted.agenda,
    RETRY: lambda wanted: any(ask.kind == RETRY for ask in wanted.times),
    RECRAWL: lambda wanted: any(ask.kind == RECRAWL for ask in wanted.times),
    "digests": lambda wanted: wanted.digests,
    "simhashes": lambda wanted: wanted.simhashes,
    "domains": lambda wanted: wanted.domains,
}


def _values(wanted: Wanted) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("urls", "hosts", "robots", "pages", "parked", "learned")
    }
    first = (-math.inf, -1)
    values |= _arrays(
        ("head_host", "head_level", "head_rank", "head_seq", "head_limit"),
        [(ask.host, ask.level, *(ask.after or first), ask.limit) for ask in wanted.heads],
    )
    values |= _arrays(("span_after", "span_before", "span_limit"), wanted.agenda)
    for kind in (RETRY, RECRAWL):
        asks = [_behind(number, ask) for number, ask in enumerate(wanted.times, 1) if ask.kind == kind]
        values |= _arrays((f"{kind}_n", f"{kind}_due", f"{kind}_id", f"{kind}_limit"), asks)
    values |= _arrays(("digest_domain", "digest"), wanted.digests)
    pairs = [(domain, columns.signed(simhash)) for domain, simhash in wanted.simhashes]
    values |= _arrays(("simhash_domain", "simhash"), pairs)
    return values | _arrays(("near_domain", "near_limit"), wanted.domains)


def _behind(number: int, ask: Times) -> tuple[int, float, bytes, int]:
    due, id16 = ask.after or (-math.inf, b"")
    return number, due, id16, ask.limit


def _arrays(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """One array per column, empty if there is no row."""
    arrays = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
    return dict(zip(names, arrays, strict=True))


# ------------------------------------------------------------------------------------------------ answers


class _Answer:
    """The row of one shard, and how many questions of each list have been answered from it."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._by_key: dict[str, dict[Any, Any]] = {}
        self._by_number: dict[str, defaultdict[int, list[Any]]] = {}
        self._passed: defaultdict[str, int] = defaultdict(int)

    def found(self, wanted: Wanted) -> Found:
        """The answer to the next question."""
        found = Found()
        found.urls = self._keyed("urls", wanted.urls, columns.url_row, _second)
        found.hosts = self._keyed("hosts", wanted.hosts, columns.host_row, _second)
        found.robots = self._keyed("robots", wanted.robots, columns.robots_copy, _second)
        found.pages = self._keyed("pages", wanted.pages, columns.page_row, _second)
        found.learned = self._keyed("learned", wanted.learned, columns.learned, _second)
        found.digests = self._keyed("digests", wanted.digests, columns.page_row, _digest)
        found.simhashes = self._keyed("simhashes", wanted.simhashes, columns.page_row, _simhash)
        found.heads = self._listed("heads", len(wanted.heads), columns.url_row)
        found.agenda = self._listed("agenda", len(wanted.agenda), columns.host_row)
        found.times = self._times(wanted.times)
        near = self._listed("domains", len(wanted.domains), columns.unsigned)
        found.domains = {
            domain: [simhash or 0 for simhash in of]
            for (domain, _), of in zip(wanted.domains, near, strict=True)
        }
        found.parked = {host: [] for host in wanted.parked}
        for record in self._row.get("parked") or ():
            if (url := columns.url_row(record)).host in found.parked:
                found.parked[url.host].append(url)
        return found

    def _keyed(
        self, name: str, keys: Sequence[Any], row_of: Callable[[Any], Any], key_of: Callable[[Any], Any]
    ) -> dict[Any, Any]:
        if not keys:
            return {}
        if name not in self._by_key:
            self._by_key[name] = {key_of(record): record for record in self._row.get(name) or ()}
        there = self._by_key[name]
        return {key: row_of(there[key]) for key in keys if key in there}

    def _listed(self, name: str, count: int, row_of: Callable[[Any], Any]) -> list[list[Any]]:
        first = self._passed[name] + 1
        self._passed[name] += count
        return [list(map(row_of, self._numbered(name, number))) for number in range(first, first + count)]

    def _times(self, asks: Sequence[Times]) -> list[list[Any]]:
        """The two lists of times are numbered together."""
        first = self._passed["times"] + 1
        self._passed["times"] += len(asks)
        return [
            list(map(columns.url_row, self._numbered(ask.kind, number)))
            for number, ask in enumerate(asks, first)
        ]

    def _numbered(self, name: str, number: int) -> list[Any]:
        if name not in self._by_number:
            by_number = self._by_number[name] = defaultdict(list)
            for of, record in zip(self._row.get(f"{name}_of") or (), self._row.get(name) or (), strict=True):
                by_number[of].append(record)
        return self._by_number[name][number]


def _second(record: Any) -> Any:  # noqa: ANN401  behind the shard, the key of most tables
    return record[1]


def _digest(record: Any) -> tuple[str, str]:  # noqa: ANN401
    return record["domain"], record["digest"]


def _simhash(record: Any) -> tuple[str, int | None]:  # noqa: ANN401
    return record["domain"], columns.unsigned(record["simhash"])
