"""Three shards of one crawl, judged by what the frontier promises, through histories that Hypothesis invents.

The judge keeps its own books from what it is told and shares no code with any frontier: when each host may next be
asked, which copy of a robots.txt was settled where, which URLs are still owed a visit. After every step it compares;
at the end it lets the crawl finish, and everything that was ever wanted must have come to its end, once.

    class MyShards(ShardsModel):
        def grounds(self) -> list[Ground]:
            return [MyGround(tempfile.mkdtemp()) for _ in range(SHARDS)]
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from skitter import urls
from skitter.model import Level, Link, Place, Purpose, Reason, RobotsCopy, Settlement, State, Verdict, Visit
from skitter.ports import Frontier, Mark
from skitter.testing.contracts.owner import DAY, START, Ground, link, page

T = TypeVar("T")
SHARDS = 3
_DELAY = 2.0
_FILE = "00-00001.warc.gz"
_STEPS_TO_THE_END = 3_000  # far more than any history of the model needs


def _hosts_of_every_shard() -> Iterator[str]:
    """Two hosts of different domains for each shard, and a third in the domain of one of them."""
    found: dict[int, int] = defaultdict(int)
    for number in range(100):
        shard = urls.shard(f"d{number}.example", SHARDS)
        if found[shard] < 2:
            found[shard] += 1
            yield f"d{number}.example"
    yield f"www.{next(name for number in range(100) if urls.shard(name := f'd{number}.example', SHARDS) == 0)}"


HOSTS = tuple(_hosts_of_every_shard())


def owner(host: str) -> int:
    """The shard of a host."""
    return urls.shard(urls.registrable_domain(host), SHARDS)


_links = st.builds(
    lambda host, path, level, score, seed: link(
        f"https://{host}/{path}", level=level, score=score, seed=seed, parent=f"https://{HOSTS[0]}/0"
    ),
    st.sampled_from(HOSTS),
    st.integers(0, 5),
    st.sampled_from(Level),
    st.sampled_from((-1.0, 0.0, 1.0)),
    st.sampled_from((False, False, False, True)),
)
_refusals = st.tuples(_links, st.just(Reason("depth", "too deep")))
_waits = st.sampled_from((0.0, 0.5, 1.0, 10.0, 100.0))
_numbers = st.integers(0, SHARDS - 1)


class Judge:
    """What the shards were told, and what they must do because of it."""

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self.free: dict[str, float] = defaultdict(float)  # when a host may be visited next
        self.delays: dict[str, float] = defaultdict(float)
        self.flying: dict[str, list[Visit]] = defaultdict(list)
        self.copies: dict[tuple[int, str], RobotsCopy] = {}  # by shard and origin, as settled or delivered
        self.owed: set[str] = set()  # keys accepted and not done
        self.ended: dict[str, set[State]] = defaultdict(set)  # every end reported for a key
        self.crawled: dict[str, int] = defaultdict(int)
        self.may_return: set[str] = set()  # a recrawl was requested
        self.aside: set[str] = set()  # hosts that were ever set aside
        self.sent: set[str] = set()  # keys found by shards other than their own

    # -- links -------------------------------------------------------------------------------------------------

    def offered(self, shard: int, links: Sequence[Link]) -> None:
        """A shard acknowledged links."""
        for each in links:
            if each.purpose is Purpose.ROBOTS:
                continue
            if owner(each.host) != shard:
                self.sent.add(each.key)
            elif not self.ended[each.key] and not self.crawled[each.key]:
                self.owed.add(each.key)
            if each.seed and self.ended[each.key] & {State.FAILED, State.REFUSED}:
                self.may_return.add(each.key)  # named again as a seed: another chance

    # -- visits ------------------------------------------------------------------------------------------------

    def leased(self, shard: int, visits: Sequence[Visit], now: float) -> None:
        """Each of these may start now, and all together."""
        for visit in visits:
            host = visit.link.host
            flying = self.flying[host]
            assert owner(host) == shard, f"{host} belongs to another shard"
            assert now >= self.free[host], f"{host} is asked {self.free[host] - now} s too soon"
            assert len(flying) < self._per_host, f"{host} has {len(flying)} visits in flight"
            assert not any(one.link.purpose is Purpose.ROBOTS for one in flying), f"{host} waits for rules"
            if visit.link.purpose is Purpose.PAGE:
                self._may_be_visited(shard, visit, now)
            elif not visit.link.hops:
                assert not self._rules_known(shard, visit.link.origin, now), "known rules are asked for again"
            flying.append(visit)
            if self._per_host > 1:
                self.free[host] = max(self.free[host], now + self.delays[host])

    def _may_be_visited(self, shard: int, visit: Visit, now: float) -> None:
        key = visit.link.key
        assert self._rules_known(shard, urls.origin(visit.link.url), now), "a page came before its robots.txt"
        assert key in self.owed or key in self.may_return, f"{key} is visited again"

    def _rules_known(self, shard: int, origin: str, now: float) -> bool:
        copy = self.copies.get((shard, origin))
        return copy is not None and copy.expires > now

    def settled(self, shard: int, settlement: Settlement) -> None:
        """A visit was settled."""
        visit, verdict = settlement.visit, settlement.verdict
        host, key = visit.link.host, visit.link.key
        self.flying[host].remove(visit)
        if verdict.host_free is not None:
            self.free[host] = max(self.free[host], verdict.host_free)
        if verdict.host_delay is not None:
            self.delays[host] = verdict.host_delay
        if verdict.host_aside is not None:
            self.aside.add(host if visit.link.purpose is Purpose.PAGE else urls.host(f"{visit.link.origin}/"))
        if visit.link.purpose is Purpose.ROBOTS:
            if settlement.robots is not None:
                self.copies[shard, visit.link.origin] = settlement.robots
            return
        self.offered(shard, settlement.links)
        if verdict.state is not State.QUEUED:
            self.owed.discard(key)
            self.may_return.discard(key)
            self.ended[key].add(verdict.state)
            self.crawled[key] += verdict.state is State.CRAWLED
            if verdict.state is State.CRAWLED and verdict.due is not None:
                self.may_return.add(key)

    def gone(self, shard: int, now: float) -> list[Visit]:
        """The owner of a shard is gone: its hosts rest for their delay, and its visits are to be made again."""
        lost = []
        for host in [host for host in self.flying if owner(host) == shard]:
            for visit in self.flying.pop(host):
                self.free[host] = max(self.free[host], now + max(self.delays[host], _DELAY))
                lost.append(visit)
        return lost


class ShardsModel(RuleBasedStateMachine):
    """Three frontiers, links in transit between them, and one judge."""

    def grounds(self) -> list[Ground]:
        """A store for each shard."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._grounds = self.grounds()
        self._now = START
        self._marks = [Mark(_FILE, 0)] * SHARDS
        self._past: list[tuple[int, Visit]] = []
        self._moved: dict[str, str] = {}  # where the robots.txt of an origin is, permanently

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(question)

    def _open(self, shard: int) -> None:
        self._frontiers[shard] = self._grounds[shard].frontier(
            shard=shard, shards=SHARDS, per_host=self._per_host, delay=_DELAY
        )
        self._past += [(shard, visit) for visit in self._judge.gone(shard, self._now)]
        opened = self._ask(self._frontiers[shard].open(self._now))
        for visit in opened.aside:  # given up, because the process keeps dying with it
            if visit.link.purpose is Purpose.PAGE:
                self._judge.owed.discard(visit.link.key)
                self._judge.ended[visit.link.key].add(State.FAILED)
            else:
                copy = self._ask(self._frontiers[shard].robots(visit.link.origin))
                assert copy is not None, "a robots.txt that was given up is asked for again"
                assert copy.access == "none"
                self._judge.copies[shard, visit.link.origin] = copy

    def teardown(self) -> None:
        """Let the crawl finish, then close the stores."""
        try:
            if hasattr(self, "_judge"):
                self._finish()
        finally:
            for ground, frontier in zip(
                self._grounds, getattr(self, "_frontiers", {}).values(), strict=False
            ):
                self._ask(ground.kill(frontier))
            self._runner.close()

    # -- the history -------------------------------------------------------------------------------------------

    @initialize(per_host=st.integers(1, 2), links=st.lists(_links, min_size=6, max_size=12))
    def begin(self, per_host: int, links: list[Link]) -> None:
        self._per_host = per_host
        self._judge = Judge(per_host)
        self._frontiers: dict[int, Frontier] = {}
        for shard in range(SHARDS):
            self._open(shard)
            self.add(shard, [each for each in links if owner(each.host) == shard], [])

    @rule(links=st.lists(_links, max_size=6), refused=st.lists(_refusals, max_size=2), shard=_numbers)
    def add(self, shard: int, links: list[Link], refused: list[tuple[Link, Reason]]) -> None:
        own = [
            each for each in links if not each.seed or owner(each.host) == shard
        ]  # seeds go to their owner
        self._ask(self._frontiers[shard].add(own, refused, self._now))
        self._judge.offered(shard, own)
        for seed in (each for each in own if each.seed):
            self._note_lifted_ban(shard, urls.origin(seed.url))

    def _note_lifted_ban(self, shard: int, origin: str) -> None:
        """Only a ban for lack of a robots.txt may be lifted when a seed names a URL of the origin."""
        copy = self._judge.copies.get((shard, origin))
        if copy is not None and self._ask(self._frontiers[shard].robots(origin)) is None:
            assert copy.access == "none"
            del self._judge.copies[shard, origin]

    @rule(limit=st.integers(1, 5))
    def lease(self, limit: int) -> None:
        for shard, frontier in self._frontiers.items():
            self._judge.leased(shard, self._ask(frontier.lease(limit, self._now)), self._now)

    @rule(data=st.data(), wait=st.sampled_from((0.0, 1.0, 5.0, 100.0)))
    def crawl(self, data: st.DataObject, wait: float) -> None:
        """Answer everything in flight, and lease the next visits: most of what a crawl does."""
        for visit in self._in_flight():
            self._close(self._settlement(data, visit))
        self._now += wait
        self.lease(5)

    @rule(wait=st.sampled_from((0.1, 1.0, 5.0, 60.0, 1000.0)))
    def let_time_pass(self, wait: float) -> None:
        self._now += wait

    @precondition(lambda self: self._in_flight())
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        visit = data.draw(st.sampled_from(self._in_flight()))
        self._close(self._settlement(data, visit))

    @rule(shard=_numbers, limit=st.integers(1, 20), forgotten=st.booleans())
    def deliver(self, shard: int, limit: int, *, forgotten: bool) -> None:
        """Links reach their owners. A sender that dies at that moment delivers them again."""
        found = self._ask(self._frontiers[shard].outbox(limit))
        for _, sent in found:
            target = owner(sent.host)
            self._ask(self._frontiers[target].add([sent], (), self._now))
            self._judge.offered(target, [sent])
            self._delivered_rules(target, sent)
        if not forgotten:
            self._ask(self._frontiers[shard].forwarded([number for number, _ in found]))

    def _delivered_rules(self, target: int, sent: Link) -> None:
        """A robots.txt copy fetched by another shard has reached its owner, in whatever form."""
        if sent.purpose is Purpose.ROBOTS and sent.hops:
            self._note_ban(target, sent.origin)
        elif sent.purpose is Purpose.ROBOTS:
            copy = self._ask(self._frontiers[target].robots(sent.origin))
            assert copy is not None, f"the rules of {sent.origin} were lost on their way"
            self._judge.copies[target, sent.origin] = copy

    @precondition(lambda self: self._past)
    @rule(data=st.data())
    def settle_too_late(self, data: st.DataObject) -> None:
        shard, visit = data.draw(st.sampled_from(self._past))
        if visit in self._in_flight():  # leased again at the same instant
            return
        late = Settlement(visit=visit, verdict=Verdict(state=State.FAILED, reason=Reason("late")))
        assert self._ask(self._frontiers[shard].settle([late], self._marks[shard], self._now)) == [False]

    @rule(shard=_numbers, data=st.data())
    def kill(self, shard: int, data: st.DataObject) -> None:
        mine = [visit for visit in self._in_flight() if owner(visit.link.host) == shard]
        self._frontiers[shard].in_hand(data.draw(st.sampled_from([None, *mine])))
        self._ask(self._grounds[shard].kill(self._frontiers[shard]))
        self._open(shard)

    @rule(shard=_numbers)
    def restart(self, shard: int) -> None:
        self._ask(self._frontiers[shard].close(self._now))
        self._open(shard)

    # -- answers -----------------------------------------------------------------------------------------------

    def _in_flight(self) -> list[Visit]:
        return [visit for visits in self._judge.flying.values() for visit in visits]

    def _close(self, settlement: Settlement) -> None:
        shard = owner(settlement.visit.link.host)
        told = self._ask(self._frontiers[shard].settle([settlement], self._marks[shard], self._now))
        assert told == [True]
        self._past.append((shard, settlement.visit))
        self._judge.settled(shard, settlement)
        if settlement.visit.link.purpose is Purpose.ROBOTS:
            self._note_ban(shard, settlement.visit.link.origin)
        if settlement.verdict.host_aside is not None:  # robots.txt files on their way there are not fetched
            for host in HOSTS:
                self._note_ban(shard, f"https://{host}")

    def _note_ban(self, shard: int, origin: str) -> None:
        """If a robots.txt redirects to a host set aside, the frontier itself records that it cannot be fetched."""
        copy = self._ask(self._frontiers[shard].robots(origin))
        if copy is not None and copy.problem and copy != self._judge.copies.get((shard, origin)):
            assert copy.access == "none"
            self._judge.copies[shard, origin] = copy

    def _settlement(self, data: st.DataObject, visit: Visit) -> Settlement:
        aside = data.draw(st.sampled_from((None,) * 6 + (Reason("crawl-delay", "too slow"),)))
        free = self._now + data.draw(_waits)
        verdict = Verdict(state=State.CRAWLED, host_free=free, host_delay=1.0, host_aside=aside)
        if visit.link.purpose is Purpose.ROBOTS:
            return self._robots(data, visit, verdict)
        match data.draw(st.sampled_from(("page", "page", "page", "retry", "failed", "refused", "recrawl"))):
            case "retry":
                due = self._now + data.draw(_waits)
                verdict = replace(verdict, state=State.QUEUED, reason=Reason("busy"), due=due)
            case "failed":
                verdict = replace(verdict, state=State.FAILED, reason=Reason("timeout"))
            case "refused":
                verdict = replace(verdict, state=State.REFUSED, reason=Reason("robots"))
            case "recrawl":
                return self._page(data, visit, replace(verdict, due=self._now + data.draw(_waits) + 1))
            case _:
                return self._page(data, visit, verdict)
        return Settlement(visit=visit, verdict=verdict)

    def _page(self, data: st.DataObject | None, visit: Visit, verdict: Verdict) -> Settlement:
        shard = owner(visit.link.host)
        place = Place(_FILE, self._marks[shard].end, 10)
        self._marks[shard] = Mark(_FILE, place.offset + place.length)
        links = data.draw(st.lists(_links, max_size=5)) if data is not None else []
        links = [replace(each, seed=False) for each in links]
        found = replace(page(visit, at=self._now), archive=place)
        return Settlement(visit=visit, verdict=verdict, page=found, links=links, status=200)

    def _robots(self, data: st.DataObject, visit: Visit, verdict: Verdict) -> Settlement:
        match data.draw(st.sampled_from(("rules", "rules", "hop", "failed", "later"))):
            case "hop":
                host = data.draw(st.sampled_from(HOSTS))
                if not visit.link.hops:
                    self._moved[visit.link.origin] = host
                return _hop(visit, verdict, host)
            case "later":
                later = replace(verdict, state=State.QUEUED, due=self._now + 30)
                return Settlement(visit=visit, verdict=later)
            case "failed":
                held = self._now + data.draw(_waits)
                return Settlement(visit=visit, verdict=verdict, robots=self._copy(visit, "none", held))
            case _:
                return Settlement(visit=visit, verdict=verdict, robots=self._copy(visit, "all", 0.0))

    def _copy(self, visit: Visit, access: str, held: float) -> RobotsCopy:
        """The next copy; `tries` makes it unique, and tells a crawler how many requests have failed."""
        shard, origin = owner(visit.link.host), visit.link.origin
        before = self._judge.copies.get((shard, origin))
        return RobotsCopy(
            origin=origin,
            access=access,
            fetched_at=self._now,
            expires=held or self._now + DAY,
            held=held,
            tries=1 if before is None else before.tries + 1,
        )

    # -- what must always hold ---------------------------------------------------------------------------------

    @invariant()
    def every_copy_is_kept_where_it_was_settled(self) -> None:
        for (shard, origin), copy in getattr(self, "_judge", Judge(1)).copies.items():
            found = self._ask(self._frontiers[shard].robots(origin))
            assert found is not None, f"shard {shard} does not know that it asked for the rules of {origin}"
            assert found == copy or (found.problem and found.fetched_at >= copy.fetched_at)

    @invariant()
    def a_shard_that_owes_visits_says_when(self) -> None:
        if not hasattr(self, "_judge"):
            return
        for shard, frontier in self._frontiers.items():
            if any(owner(host) == shard and visits for host, visits in self._judge.flying.items()):
                continue
            owed = [key for key in self._judge.owed if owner(urls.host(key)) == shard]
            wanted = [key for key in owed if urls.host(key) not in self._judge.aside]
            assert not wanted or self._ask(frontier.next_due(self._now)) is not None, (
                f"{wanted} are forgotten"
            )

    # -- the end -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Servers answer from now on. Everything that is wanted gets done."""
        for _ in range(_STEPS_TO_THE_END):
            for visit in self._in_flight():
                self._close(self._kind_answer(visit))
            for shard in range(SHARDS):
                self.deliver(shard, 100, forgotten=False)
            self.lease(100)
            if self._in_flight():
                continue
            due = [self._ask(frontier.next_due(self._now)) for frontier in self._frontiers.values()]
            waiting = [time for time in due if time is not None]
            if not waiting and not any(self._ask(one.counts()).outbox for one in self._frontiers.values()):
                break
            self._now = max(self._now, min(waiting, default=self._now))
        else:
            raise AssertionError("the crawl never ends")
        self._account_for_everything()

    def _kind_answer(self, visit: Visit) -> Settlement:
        verdict = Verdict(state=State.CRAWLED, host_free=self._now + 1.0, host_delay=1.0)
        if visit.link.purpose is Purpose.PAGE:
            return self._page(None, visit, verdict)
        if not visit.link.hops and visit.link.origin in self._moved:
            return _hop(visit, verdict, self._moved[visit.link.origin])
        return Settlement(visit=visit, verdict=verdict, robots=self._copy(visit, "all", 0.0))

    def _account_for_everything(self) -> None:
        judge = self._judge
        for key in judge.owed | judge.sent | set(judge.ended):
            host = urls.host(key)
            record = self._ask(self._frontiers[owner(host)].url(key, host))
            assert record is not None, f"{key} was lost between two shards"
            allowed = judge.ended[key] | ({State.REFUSED} if host in judge.aside else set())
            assert record.state in allowed, f"{key} ended as {record.state}, not as one of {allowed}"
        assert not [key for key in judge.owed if urls.host(key) not in judge.aside]


def _hop(visit: Visit, verdict: Verdict, host: str) -> Settlement:
    """The robots.txt is on another host."""
    hop = replace(visit.link, url=f"https://{host}/robots.txt", host=host, hops=visit.link.hops + 1)
    return Settlement(visit=visit, verdict=replace(verdict, state=State.QUEUED), again=hop)
