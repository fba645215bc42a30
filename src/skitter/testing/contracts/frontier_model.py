"""A frontier on a store compared with one on the reference in memory, step by step, through invented histories.

Both are told the same and must answer the same: which visits are handed out and in which order, what a settlement is told,
when something is due, and, after every step, every count and record. Subclass it, say how a store is made, and hand the
class to Hypothesis:

    class MyModel(FrontierModel):
        def ground(self) -> Ground:
            return MyGround(tempfile.mkdtemp())

    TestMyModel = MyModel.TestCase
"""

import asyncio
import copy
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from skitter.model import Hints, Level, Link, Place, Purpose, Reason, Settlement, State, Verdict, Visit
from skitter.ports import Command, Do, Frontier, Mark
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.owner import START, Ground, allowed, exchange, link, page
from skitter.testing.reference import MemoryRows, memory_frontier

T = TypeVar("T")
_HOSTS = ("a.example", "b.example", "www.b.example", "c.example")
_FILE = "00-00001.warc.gz"


@functools.cache
def _same(
    host: str,
    path: int,
    level: Level,
    score: float,
    depth: int,
    seed: bool,  # noqa: FBT001  see below
    purpose: Purpose,
    hints: Hints | None,
) -> Link:
    url = f"https://{host}/{path}"
    made = link(url, level=level, score=score, depth=depth, parent="https://a.example/0", seed=seed)
    return replace(made, purpose=purpose, hints=hints)


# An equal link may be the same object, as the memo of judged links returns it, or its own.
_links = st.builds(
    lambda fresh, *parts: copy.copy(_same(*parts)) if fresh else _same(*parts),
    st.booleans(),
    st.sampled_from(_HOSTS),
    st.integers(0, 7),
    st.sampled_from(Level),
    st.sampled_from((-2.5, -1.0, 0.0, 1.0, 1e12)),
    st.integers(0, 3),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((*[Purpose.PAGE] * 4, Purpose.PROBE, Purpose.ASSET)),
    st.sampled_from((None, None, None, Hints(lastmod=5.5, rel=("next",)))),
)
_refusals = st.tuples(_links, st.sampled_from((Reason("depth", "too deep"), Reason("trap", "a trap"))))
_waits = st.sampled_from((0.0, 0.5, 1.0, 10.0, 100.0))
_asides = st.sampled_from(
    (None, None, None, None, None, Reason("crawl-delay", "too slow for us"), Reason("gone", "for good"))
)


class _Hand:
    """The crash mark of a process that never dies."""

    def __init__(self) -> None:
        self._id = bytearray(16)

    def open(self) -> bytearray:
        return self._id

    def close(self) -> None:
        """It stays."""


class FrontierModel(RuleBasedStateMachine):
    """Two frontiers, one history."""

    def ground(self) -> Ground:
        """A store for the frontier under test."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._memory = MemoryRows()
        self._memory_hand = _Hand()
        self._store = self.ground()
        self._now = START
        self._mark = Mark(_FILE, 0)
        self._open: list[Visit] = []  # leased and not settled
        self._past: list[Visit] = []  # leased by a former owner, or settled
        self._commands = 0

    # -- both at once ------------------------------------------------------------------------------------------

    def _both(self, ask: Callable[[Frontier], Coroutine[Any, Any, T]]) -> T:
        expected = self._runner.run(ask(self._reference))
        actual = self._runner.run(ask(self._subject))
        assert actual == expected
        return expected

    def _open_both(self) -> None:
        self._memory.epoch += 1  # every owner has its own
        politeness = replace(Settings().politeness, per_host=self._per_host, delay=Seconds(2.0))
        settings = replace(Settings(), politeness=politeness)
        self._reference = memory_frontier(
            self._memory, settings, in_hand=self._memory_hand, epoch=self._memory.epoch
        )
        self._subject = self._store.frontier(per_host=self._per_host, delay=2.0)

        async def opened(frontier: Frontier) -> tuple[list[str], list[str], Mark]:
            found = await frontier.open(self._now)
            return _urls(found.lost), _urls(found.aside), found.mark

        self._both(opened)
        self._past += self._open
        self._open = []

    def teardown(self) -> None:
        """Close both."""
        if hasattr(self, "_subject"):
            self._runner.run(self._store.kill(self._subject))
        self._runner.close()

    # -- the history -------------------------------------------------------------------------------------------

    @initialize(per_host=st.integers(1, 2))
    def begin(self, per_host: int) -> None:
        self._per_host = per_host
        self._open_both()

    @rule(links=st.lists(_links, max_size=8), refused=st.lists(_refusals, max_size=3))
    def add(self, links: list[Link], refused: list[tuple[Link, Reason]]) -> None:
        self._both(lambda frontier: frontier.add(links, refused, self._now))

    @rule(limit=st.integers(1, 5))
    def lease(self, limit: int) -> None:
        self._open += self._both(lambda frontier: frontier.lease(limit, self._now))

    @rule(wait=st.sampled_from((0.1, 1.0, 5.0, 60.0, 1000.0)))
    def let_time_pass(self, wait: float) -> None:
        self._now += wait

    @rule(
        do=st.sampled_from((Do.BLOCK, Do.UNBLOCK, Do.UNBLOCK, Do.RETRY)),
        hosts=st.lists(st.sampled_from(_HOSTS), max_size=2),
        links=st.lists(_links, max_size=3),
        failed=st.booleans(),
    )
    def obey(self, do: Do, hosts: list[str], links: list[Link], failed: bool) -> None:  # noqa: FBT001  drawn
        self._commands += 1
        urls = [(link.key, link.host) for link in links]
        command = Command(self._commands, do, hosts, urls, failed)
        self._both(lambda frontier: frontier.obey([command], self._now))

    @precondition(lambda self: self._open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        several = data.draw(st.integers(1, len(self._open)))
        settlements = [self._settlement(data, self._open.pop(0)) for _ in range(several)]
        self._past += [settlement.visit for settlement in settlements]
        told = self._both(lambda frontier: frontier.settle(settlements, self._mark, self._now))
        assert all(told)

    def _settlement(self, data: st.DataObject, visit: Visit) -> Settlement:
        free = self._now + data.draw(_waits)
        verdict = Verdict(state=State.CRAWLED, host_free=free, host_delay=1.0, host_aside=data.draw(_asides))
        if visit.link.purpose is Purpose.ROBOTS:
            return self._robots(data, visit, verdict)
        match data.draw(
            st.sampled_from(("page", "page", "page", "retry", "failed", "refused", "again", "recrawl", "304"))
        ):
            case "retry":
                verdict = replace(
                    verdict, state=State.QUEUED, reason=Reason("busy"), due=self._now + data.draw(_waits)
                )
            case "failed":
                verdict = replace(verdict, state=State.FAILED, reason=Reason("timeout"))
            case "refused":
                verdict = replace(verdict, state=State.REFUSED, reason=Reason("robots"))
            case "again":
                return self._again(data, visit, replace(verdict, state=State.QUEUED))
            case "304":
                return Settlement(visit=visit, verdict=verdict, exchange=exchange(visit.link.url), status=304)
            case "recrawl":
                return self._page(data, visit, replace(verdict, due=self._now + data.draw(_waits) + 1))
            case _:
                return self._page(data, visit, verdict)
        return Settlement(visit=visit, verdict=verdict, exchange=exchange(visit.link.url), status=503)

    def _page(self, data: st.DataObject, visit: Visit, verdict: Verdict) -> Settlement:
        place = Place(_FILE, self._mark.end, 10)
        self._mark = Mark(_FILE, place.offset + place.length)
        simhash = data.draw(st.sampled_from((None, 0b0, 0b1, 0b11, 0xFFFF0000)))
        digest = f"sha1:{data.draw(st.integers(0, 3))}"
        found = replace(page(visit, digest=digest, simhash=simhash, at=self._now), archive=place)
        links = data.draw(st.lists(_links, max_size=5))
        refused = data.draw(st.lists(_refusals, max_size=2))
        return Settlement(visit=visit, verdict=verdict, page=found, status=200, links=links, refused=refused)

    def _again(self, data: st.DataObject, visit: Visit, verdict: Verdict) -> Settlement:
        host = visit.link.host
        if host.endswith("b.example"):  # a redirect to its own key may change the host within its domain
            host = data.draw(st.sampled_from(("b.example", "www.b.example")))
        form = replace(visit.link, url=f"https://{host}/again", host=host, hops=visit.link.hops + 1)
        return Settlement(visit=visit, verdict=verdict, again=form, status=301)

    def _robots(self, data: st.DataObject, visit: Visit, verdict: Verdict) -> Settlement:
        match data.draw(st.sampled_from(("copy", "copy", "copy", "ban", "hop", "nothing", "later"))):
            case "hop":
                host = data.draw(st.sampled_from(_HOSTS))
                hop = replace(
                    visit.link, url=f"https://{host}/robots.txt", host=host, hops=visit.link.hops + 1
                )
                return Settlement(visit=visit, verdict=replace(verdict, state=State.QUEUED), again=hop)
            case "nothing":
                return Settlement(visit=visit, verdict=replace(verdict, state=State.FAILED))
            case "later":
                return Settlement(
                    visit=visit, verdict=replace(verdict, state=State.QUEUED, due=self._now + 30)
                )
            case how:
                until = self._now + data.draw(st.sampled_from((20.0, 100_000.0)))
                copy = replace(
                    allowed(visit.link.origin, until), access="none" if how == "ban" else "all", tries=1
                )
                return Settlement(visit=visit, verdict=verdict, robots=copy)

    @precondition(lambda self: self._past)
    @rule(data=st.data())
    def settle_too_late(self, data: st.DataObject) -> None:
        visit = data.draw(st.sampled_from(self._past))
        again = (_lease(other) for other in self._open)
        if _lease(visit) in again:  # leased again at the same instant; a running clock would distinguish them
            return
        settlement = Settlement(visit=visit, verdict=Verdict(state=State.FAILED, reason=Reason("late")))
        told = self._both(lambda frontier: frontier.settle([settlement], self._mark, self._now))
        assert told == [False]

    @precondition(lambda self: self._open)
    @rule(data=st.data())
    def take_in_hand(self, data: st.DataObject) -> None:
        visit = data.draw(st.sampled_from((None, *self._open)))
        self._reference.in_hand(visit)
        self._subject.in_hand(visit)

    @rule()
    def kill(self) -> None:
        self._runner.run(self._store.kill(self._subject))
        self._open_both()

    @rule()
    def restart(self) -> None:
        self._both(lambda frontier: frontier.close())
        self._open_both()

    @precondition(lambda self: not self._open and self._mark.end)
    @rule(share=st.sampled_from((0.0, 0.5, 0.95)))
    def lose_the_end_of_the_archive(self, share: float) -> None:
        self._mark = Mark(_FILE, int(self._mark.end * share))
        self._both(lambda frontier: frontier.reopen(self._mark, self._now))

    # -- what must always agree --------------------------------------------------------------------------------

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "_subject"):
            return
        self._both(lambda frontier: frontier.counts())
        self._both(lambda frontier: frontier.next_due(self._now))
        self._both(_records)

    @invariant()
    def twins_agree(self) -> None:
        if not hasattr(self, "_subject"):
            return
        self._both(lambda frontier: frontier.twin("b.example", "sha1:1", None, 3))
        self._both(lambda frontier: frontier.twin("a.example", "", 0b111, 3))


async def _records(frontier: Frontier) -> list[list[Any]]:
    urls = [record async for record in frontier.urls()]
    hosts = [record async for record in frontier.hosts()]
    pages = [stored async for stored in frontier.pages()]
    links = [pair async for pair in frontier.links()]
    return [
        sorted(urls, key=lambda record: record.key),
        sorted(hosts, key=lambda record: record.host),
        sorted(pages, key=lambda stored: stored.key),
        sorted(links),
        [await frontier.robots(f"https://{host}") for host in _HOSTS],
    ]


def _lease(visit: Visit) -> tuple[str, str, int, float]:
    return visit.link.url, visit.link.origin, visit.attempt, visit.leased_at


def _urls(visits: Sequence[Visit]) -> list[str]:
    return sorted(visit.link.url for visit in visits)
