"""The requests of one page that is rendered, each made by us: robots.txt, budget of requests, turn, fetcher, record.

`ask` is what the browser calls. A request that may not be sent fails in the browser as if the network had refused it; the page
goes on without it, as it would behind a filter.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from skitter import politeness, reasons, robots, schedule, urls
from skitter.crawl.rendering.answers import Answers
from skitter.crawl.rendering.lanes import Lane, Lanes
from skitter.fetch import response
from skitter.fetch.browser.page import Given, Wanted
from skitter.model import (
    Exchange,
    Failed,
    Fetched,
    HostRecord,
    Link,
    NotModified,
    NotNow,
    Outcome,
    Purpose,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
    Sends,
    SubRequest,
    Usage,
    Visit,
)
from skitter.politeness.budgets import DAY, Subject, Used, host_limits, judged
from skitter.politeness.hours import Hours
from skitter.ports import Archive, Clock, Fetcher, Frontier
from skitter.robots.in_force import InForce, Permissions
from skitter.settings import Settings

_PUT_OFF = 5  # times that one request is put off (NotNow) before it fails
_LARGEST_POST = 64 * 1024
_BODIES = 4  # times fetch.max_body: what all answers to the requests of one page have together, about
_HEAD_END = re.compile(rb"\n\r?\n")
_UNKNOWN_FOR = 600.0  # seconds until the robots.txt of an embedded host that gave none is asked for again
_MOST_ORIGINS = 1_000
# What the browser may ask for only by other ways than a page's own needs: reports, streams that never end, guesses.
_NEVER = frozenset(
    (
        "ping",
        "cspviolationreport",
        "eventsource",
        "websocket",
        "prefetch",
        "preflight",
        "signedexchange",
        "manifest",
    )
)
# Fields of the browser's request that go on; who we are and what we accept to decode stays ours.
_PASSED_ON = ("accept", "content-type", "origin", "referer", "x-requested-with")
_WRITTEN = {"x-requested-with": "X-Requested-With"}

_HOST = Subject(lambda detail: Reason(reasons.BUDGET_HOST, detail), "this host", "budget.host_")

SettingsOf = Callable[[str], Settings]


class Network(Struct, frozen=True):
    """How a shard reaches the web, and what all of its process share."""

    fetcher: Fetcher
    frontier: Frontier
    archive: Archive
    rules: Permissions
    clock: Clock
    settings_of: SettingsOf
    agent: str  # the token that robots.txt files address
    hours: Hours | None
    lanes: Lanes
    answers: Answers
    copies: dict[str, RobotsCopy]  # of origins that the shard does not know


class Asking:
    """All requests of one page."""

    def __init__(self, network: Network, page: Link, ended: float, until: float) -> None:
        """`ended` is when the page itself was answered; what cannot start before `until` (monotonic) is not sent."""
        self._at, self._page, self._until = network, page, until
        self._fetch = network.settings_of(page.url).fetch
        skipped = set(self._fetch.render_skip) - ({"image", "font"} if self._fetch.screenshots else set())
        self._skipped = _NEVER | skipped
        self._asked = 0
        self._used: set[str] = {page.host}  # hosts that this page has requested something of
        self._unwilling: set[str] = set()  # hosts that asked to be left alone
        self._running: set[asyncio.Task[Given | None]] = set()
        self._fetching_robots = asyncio.Lock()
        self._closed = False
        self._received = 0  # bytes, which are held until the page is settled
        self.requests: list[SubRequest] = []
        self.missed = 0  # requests that were not sent for want of time or number
        lane = network.lanes.of(page.host)
        lane.next = max(
            lane.next, network.clock.monotonic() + ended - network.clock.now() + self._fetch.render_gap
        )

    async def ask(self, wanted: Wanted) -> Given | None:
        """Answer a request of the page. One that was sent is ended and recorded even if nobody waits for it any more."""
        if self._closed or not self._is_wanted(wanted):
            return None
        url = urls.resolve(wanted.url, wanted.url)
        if url is None:
            return None
        url = url.partition("#")[0]
        if wanted.method == "GET" and (known := self._at.answers.get(url)) is not None:
            return known
        if self._asked >= self._fetch.render_requests or self._received > _BODIES * self._fetch.max_body:
            self.missed += 1
            return None
        self._asked += 1
        task = asyncio.ensure_future(self._answered(url, wanted))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """The page is done: send nothing more, and wait for what was sent."""
        self._closed = True
        while self._running:
            await asyncio.gather(*self._running)
        since = self._at.clock.monotonic() - self._at.clock.now()
        for each in self.requests:
            lane = self._at.lanes.of(each.link.host)
            lane.free_at = max(lane.free_at, since + each.exchange.ended + (each.asked or 0.0))
        for each in self.requests:
            self._at.lanes.of(each.link.host).free_at += each.delay

    def cancel(self) -> None:
        """The crawl stops at once."""
        self._closed = True
        for task in self._running:
            task.cancel()

    def _is_wanted(self, wanted: Wanted) -> bool:
        if wanted.kind.lower() in self._skipped or "service-worker" in wanted.fields:
            return False
        if wanted.method == "POST":
            return self._fetch.render_post and len(wanted.body) <= _LARGEST_POST
        return wanted.method in ("GET", "HEAD")

    # -- one request -----------------------------------------------------------------------------------------

    async def _answered(self, url: str, wanted: Wanted) -> Given | None:
        link = Link(
            url=url,
            key=url,
            host=urls.host(url),
            depth=self._page.depth,
            parent=self._page.url,
            purpose=Purpose.ASSET,
        )
        if wanted.method == "GET" and (stored := await self._stored(link)) is not None:
            self._at.answers.keep(url, stored)
            return stored
        rules = await self._rules(link)
        if rules is None or rules.refusal(url) is not None or await self._is_aside(link):
            return None
        now = self._at.clock.now()
        if rules.held > now or (rules.hours is not None and rules.hours.closed_until(now)):
            return None
        outcome = await self._sent(link, rules, _sends(wanted))
        given = _given(outcome) if outcome is not None else None
        if given is not None and wanted.method == "GET":
            self._at.answers.keep(url, given)
        return given

    async def _stored(self, link: Link) -> Given | None:
        """What this crawl has fetched before, as a page or beside one; None if it has not."""
        settings = self._at.settings_of(link.url)
        key = urls.key(link.url, settings.urls)
        page = await self._at.frontier.page(key, link.host) if key else None
        if (
            page is None
            or page.url != link.url
            or page.archive is None
            or page.identical
            or page.status != 200
        ):
            return None
        try:
            message = await asyncio.to_thread(self._at.archive.read, page.archive)
        except OSError:  # it is not on this machine any more
            return None
        end = _HEAD_END.search(message)
        cut = end.end() if end else len(message)
        exchange = Exchange(link.url, "", 0.0, 0.0, b"", message[:cut], message[cut:])
        return _given(response.outcome(exchange, settings.fetch.max_body, Purpose.ASSET))

    async def _is_aside(self, link: Link) -> bool:
        """Whether its host is not to be visited: it is blocked or unreachable, its window is closed, its budget used up."""
        host, now = link.host, self._at.clock.now()
        if self._at.hours is not None and self._at.hours.not_now(link, now) is not None:
            return True
        known = await self._at.frontier.host(host)
        if known is None:
            return False
        if host not in self._used:
            lane = self._at.lanes.of(host)
            lane.free_at = max(lane.free_at, self._at.clock.monotonic() + known.free_at - now)
        limits = host_limits(self._at.settings_of(link.url).budget)
        if limits and judged(_HOST, limits, self._spent(known, now), len(self._running), now, page=False):
            return True
        return known.aside is not None

    def _spent(self, known: HostRecord, now: float) -> Used:
        """What the host has given, with what this page has cost it so far."""
        used, today = known.usage or Usage(), int(now // DAY)
        mine = [each.exchange for each in self.requests if each.link.host == known.host]
        seconds = sum(each.ended - each.started for each in mine)
        received = sum(each.received for each in mine)
        # The page itself is not settled yet, so it is not counted either.
        requests = (used.requests if used.day == today else 0) + len(mine) + (known.host == self._page.host)
        return Used(known.pages, known.bytes + received, used.seconds + seconds, requests)

    async def _sent(self, link: Link, rules: InForce, sends: Sends | None) -> Outcome | None:
        """Make the request when its turn comes; None if that is too late, or the host wants to be left alone."""
        lane = self._at.lanes.of(link.host)
        for _ in range(_PUT_OFF):
            async with lane.slots:
                if not await self._turn(lane, link.host):
                    self.missed += 1
                    return None
                outcome = await self._at.fetcher.fetch(
                    Visit(link, attempt=1, leased_at=self._at.clock.now(), sends=sends)
                )
            if not isinstance(outcome, NotNow):
                self._record(link, rules, outcome)
                return outcome
            wait = outcome.until - self._at.clock.now()
            if self._at.clock.monotonic() + wait > self._until:
                break
            await asyncio.sleep(max(0.0, wait))
        self.missed += 1
        return None

    async def _turn(self, lane: Lane, host: str) -> bool:
        """Wait for the turn of a request to a host; False if it comes too late."""
        while True:
            now = self._at.clock.monotonic()
            start = max(now, lane.next, lane.free_at if host not in self._used else 0.0)
            if self._closed or host in self._unwilling or start > self._until:
                return False
            if start <= now:
                lane.next = now + self._fetch.render_gap
                self._used.add(host)
                return True
            lane.next = max(start, lane.next)  # so that the others line up behind
            await asyncio.sleep(start - now)

    def _record(self, link: Link, rules: InForce, outcome: Outcome) -> None:
        if (
            isinstance(outcome, Refused | NotNow)
            or outcome.exchange is None
            or not _was_sent(outcome.exchange)
        ):
            return
        status = outcome.status if isinstance(outcome, Fetched | Redirected) else 0
        asked = None
        if schedule.unwilling(status) or isinstance(outcome, Failed):
            self._unwilling.add(link.host)
            headers = outcome.headers if isinstance(outcome, Fetched) else ()
            asked = politeness.retry_after(headers, self._at.clock.now())
        self._received += outcome.exchange.received
        owed = politeness.owed(rules.rules, self._at.settings_of(link.url).politeness)
        fault = outcome.fault.value if isinstance(outcome, Failed) else ""
        self.requests.append(SubRequest(link, outcome.exchange, status, fault, owed, asked))

    # -- robots.txt ------------------------------------------------------------------------------------------

    async def _rules(self, link: Link) -> InForce | None:
        """What the robots.txt of an origin says; it is fetched if the shard does not know it."""
        origin = urls.origin(link.url)
        known = await self._at.rules.in_force(origin)
        if known.rules is not None:
            return known
        async with self._fetching_robots:  # one at a time, so that each is asked for once
            copies, now = self._at.copies, self._at.clock.now()
            copy = copies.get(origin)
            if copy is None or copy.expires <= now:
                copy = await self._robots(origin)
                if len(copies) >= _MOST_ORIGINS:
                    copies.clear()
                copies[origin] = copy
        return InForce(robots.rules_in_force(copy, self._at.agent), copy.held, copy.problem)

    async def _robots(self, origin: str) -> RobotsCopy:
        url, settings = f"{origin}/robots.txt", self._at.settings_of(f"{origin}/")
        for hops in range(settings.robots.max_redirects + 1):
            link = Link(
                url=url,
                key=url,
                host=urls.host(url),
                purpose=Purpose.ROBOTS,
                origin=origin,
                hops=hops,
                parent=self._page.url,
            )
            outcome = await self._sent(link, InForce(), None)
            now = self._at.clock.now()
            if outcome is None:
                break
            meaning = robots.judge(
                robots.RobotsAnswer(origin=origin, outcome=outcome, hops=hops),
                None,
                settings.robots,
                now,
                0.0,
            )
            if meaning.copy is not None and not meaning.copy.held:
                return meaning.copy
            if not meaning.follow:
                break
            url = meaning.follow
        again = self._at.clock.now() + _UNKNOWN_FOR
        return RobotsCopy(origin=origin, access="none", expires=again, problem="it could not be fetched")


def _was_sent(exchange: Exchange) -> bool:
    return bool(exchange.request)


def _sends(wanted: Wanted) -> Sends:
    lines = [
        f"{_WRITTEN.get(name, name.title())}: {wanted.fields[name]}"
        for name in _PASSED_ON
        if wanted.fields.get(name)
    ]
    return Sends(wanted.method, tuple(lines), wanted.body if wanted.method == "POST" else b"")


def _given(outcome: Outcome) -> Given | None:
    """What the browser is told of an outcome."""
    match outcome:
        case Fetched(_, status, headers, _, content):
            return Given(status, headers, content)
        case Redirected(_, status, headers, target, _):
            kept: Sequence[tuple[str, str]] = [(name, value) for name, value in headers if name != "location"]
            return Given(status, [*kept, ("location", target)], b"") if target else None
        case NotModified() | Refused() | Failed() | NotNow():
            return None
