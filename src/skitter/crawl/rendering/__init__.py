"""Pages that need JavaScript: `skitter.ports.Renderer`, between the fetch of a page and its parsing.

`Browsers` is shared by the shards of a process: browser processes, and answers that pages were given before. `ShardRenderer`
renders for one shard, and remembers what was learnt about its patterns of URLs. The order of things for one page: does it need it (`learning`)?
Is a browser free? Show it, with every request answered by `asking`; then the page is settled together with what it requested.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from skitter.crawl.rendering.answers import Answers
from skitter.crawl.rendering.asking import Asking, Network
from skitter.crawl.rendering.lanes import Lanes
from skitter.crawl.rendering.learning import Amount, Pattern, amount, gains, has_scripts, pattern_of
from skitter.crawl.rendering.remembering import Remembering
from skitter.fetch.browser.finding import browser
from skitter.fetch.browser.page import Given, Manner, Shown, prepare, show
from skitter.fetch.browser.pipe import BrowserGone, Unwilling
from skitter.fetch.browser.process import BrowserProcess
from skitter.fetch.request import user_agent
from skitter.model import Fetched, Rendering, RobotsCopy, Visit
from skitter.parse import parse, sniff
from skitter.politeness.hours import Hours
from skitter.ports import Archive, Clock, Fetcher, Frontier
from skitter.robots import product_token
from skitter.robots.in_force import Permissions
from skitter.runtime.metrics import RenderMetrics
from skitter.settings import FetchSettings, Settings

_HTML = ("text/html", "application/xhtml+xml")
_MEASURED = (
    256 * 1024
)  # bytes of a page that are compared with its rendering: more would keep the loop waiting
_LOOK_AT_MEMORY = 0.5  # seconds
_LONGER = (
    8  # a message of the browser may be so many times as long as a page: JSON writes bytes with up to six
)
_ENVELOPE = 2**20
_START_AGAIN = 60.0  # seconds without rendering after a browser could not be started


class Browsers:
    """The browsers of a process. Implements `skitter.ports.Renderers`."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        settings_of: Callable[[str], Settings],
        patterns_file: Callable[[int], Path],
        hours: Hours | None = None,
    ) -> None:
        """SettingsError if there is no browser on this machine. `hours` are the windows of sites.

        `patterns_file` is where a shard keeps what it has learnt about patterns of URLs.
        """
        fetch = settings.fetch
        self._program = browser(fetch.browser)
        self._settings, self._clock, self.settings_of = settings, clock, settings_of
        self.agent = user_agent(fetch)
        self._turns = asyncio.Semaphore(fetch.browsers)
        self._idle: list[BrowserProcess] = []
        self._all: set[BrowserProcess] = set()
        self._not_before = 0.0
        self._patterns_file = patterns_file
        self._remembering: dict[int, Remembering] = {}  # by shard
        self.lanes, self.answers = Lanes(), Answers()
        self.copies: dict[str, RobotsCopy] = {}
        self.complain: Callable[[str], None] = lambda _text: None
        self._hours = hours
        self.counted = RenderMetrics()

    def of(
        self, fetcher: Fetcher, frontier: Frontier, archive: Archive, rules: Permissions, shard: int
    ) -> "ShardRenderer":
        """The renderer of one shard."""
        token = product_token(self.agent)
        network = Network(
            fetcher=fetcher,
            frontier=frontier,
            archive=archive,
            rules=rules,
            clock=self._clock,
            settings_of=self.settings_of,
            agent=token,
            hours=self._hours,
            lanes=self.lanes,
            answers=self.answers,
            copies=self.copies,
        )
        if shard not in self._remembering:
            self._remembering[shard] = Remembering(self._patterns_file(shard), self._settings.crawl.shards)
        return ShardRenderer(self, network, self._settings, self._remembering[shard])

    def metrics(self) -> RenderMetrics:
        """What was rendered, in numbers."""
        return replace(self.counted, patterns=sum(len(each.learning) for each in self._remembering.values()))

    async def show(self, url: str, answer: Given, asking: Asking, manner: Manner) -> Shown:
        """Show a page to a browser that is free, or to a new one; a browser that hangs, dies or grows too large is killed."""
        if self._clock.monotonic() < self._not_before:
            return Shown(problem="the browser could not be started")
        try:
            process = await self._free()
        except (BrowserGone, OSError) as problem:
            self._not_before = self._clock.monotonic() + _START_AGAIN
            self.complain(f"no page can be rendered for {_START_AGAIN:g} s: {problem}")
            return Shown(problem=f"the browser could not be started: {problem}")
        keep = False
        try:
            shown = await self._shown(process, url, answer, asking, manner)
        except BrowserGone:
            return Shown(problem="the browser died while it showed the page")
        except Unwilling as problem:
            return Shown(problem=f"the browser cannot show it: {problem}")
        else:
            keep = not shown.hung
            return shown
        finally:
            process.shown += 1
            if keep and process.is_alive() and process.shown < self._settings.fetch.render_pages:
                self._idle.append(process)
            else:
                await self._end(process)

    async def _shown(
        self, process: BrowserProcess, url: str, answer: Given, asking: Asking, manner: Manner
    ) -> Shown:
        showing = asyncio.ensure_future(show(process, url, answer, asking.ask, manner))
        try:
            while True:
                done, _ = await asyncio.wait((showing,), timeout=_LOOK_AT_MEMORY)
                if done:
                    return showing.result()
                if process.memory() > self._settings.fetch.render_memory:
                    most = self._settings.fetch.render_memory // 2**20
                    return Shown(
                        problem=f"the browser needs more than {most} MiB for it (fetch.render_memory)",
                        hung=True,
                    )
        finally:
            if not showing.done():
                showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)

    async def _free(self) -> BrowserProcess:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():
                return process
            await self._end(process)
        longest = _ENVELOPE + _LONGER * self._settings.fetch.max_body
        process = await BrowserProcess.started(self._program, self.agent, longest)
        self._all.add(process)
        if not self.counted.browsers and not (process.walled and process.sandboxed):
            self.complain(_unprotected(process))
        self.counted.browsers += 1
        try:
            await prepare(process)
        except BaseException:
            await self._end(process)
            raise
        return process

    async def _end(self, process: BrowserProcess) -> None:
        self._all.discard(process)
        await asyncio.shield(process.kill())

    def turn(self) -> asyncio.Semaphore:
        """Held while a page is shown: so many are at a time."""
        return self._turns

    async def close(self) -> None:
        """End every browser."""
        self._idle.clear()
        for process in list(self._all):
            await self._end(process)


def _unprotected(process: BrowserProcess) -> str:
    """What to know about a browser that is not shut in as well as it could be."""
    lacks = [] if process.walled else ["bubblewrap, so that its switches alone keep it off the network"]
    lacks += [] if process.sandboxed else ["its own sandbox"]
    return f"the browser runs without {', and without '.join(lacks)}; `skitter doctor` says what to install"


class ShardRenderer:
    """Renders the pages of one shard. Implements `skitter.ports.Renderer`."""

    def __init__(
        self, browsers: Browsers, network: Network, settings: Settings, remembering: Remembering
    ) -> None:
        self._browsers, self._network, self._settings = browsers, network, settings
        self._remembering = remembering
        # To measure a page takes its text and links; main content would hold up the loop for nothing.
        self._measuring = replace(settings.parse, main=False, assets=False)

    async def render(self, visit: Visit, answer: Fetched) -> Rendering | None:
        """Show the answer to a visit in a browser, if its settings and what was learnt of its like say so."""
        link, fetch = visit.link, self._browsers.settings_of(visit.link.url).fetch
        if fetch.render == "never" or not 200 <= answer.status < 300:
            return None
        if not has_scripts(answer.content) or not self._is_html(link.url, answer):
            return None
        pattern, before = None, None
        if fetch.render == "auto":
            before = self._measured(visit, answer)
            if before is None:
                return None
            pattern = pattern_of(link.url, before)
            if not self._remembering.learning.wants(pattern):
                return None
        async with self._browsers.turn():
            rendering = await self._rendered(visit, answer, fetch)
        if pattern is not None and before is not None and rendering.html:
            self._learn(visit, answer, rendering, pattern, before)
        return rendering

    async def _rendered(self, visit: Visit, answer: Fetched, fetch: FetchSettings) -> Rendering:
        manner = Manner(
            deadline=fetch.render_deadline,
            quiet=fetch.render_quiet,
            longest=fetch.max_body,
            scroll=fetch.render_scroll,
            click=fetch.render_click,
            screenshot=fetch.screenshots,
        )
        until = self._network.clock.monotonic() + fetch.render_deadline
        asking = Asking(self._network, visit.link, answer.exchange.ended, until)
        given = Given(answer.status, answer.headers, answer.content)
        try:
            shown = await self._browsers.show(visit.link.url, given, asking, manner)
            await asking.close()
        except BaseException:
            asking.cancel()
            raise
        problem = shown.problem
        if asking.missed and not problem:
            problem = f"{asking.missed} of its requests were not sent (fetch.render_requests, fetch.render_deadline)"
        counted = self._browsers.counted
        counted.pages += 1
        counted.failed += bool(problem)
        counted.requests += len(asking.requests)
        html = shown.html.encode("utf-8", "replace")
        return Rendering(html, tuple(asking.requests), shown.hrefs, shown.screenshot, problem)

    def _is_html(self, url: str, answer: Fetched) -> bool:
        body = sniff.body(url, answer.headers, answer.content[: self._settings.parse.max_input])
        return body.media_type in _HTML

    # -- what it brought -------------------------------------------------------------------------------------

    def _measured(self, visit: Visit, answer: Fetched, html: bytes | None = None) -> Amount | None:
        """How much a page has; None if it cannot be parsed."""
        headers = answer.headers if html is None else [("content-type", "text/html; charset=utf-8")]
        content = answer.content if html is None else html
        self._network.frontier.in_hand(visit)  # untrusted bytes go through C code
        try:
            return amount(parse(visit.link.url, headers, content[:_MEASURED], self._measuring))
        except Exception:  # noqa: BLE001  a parser's bug; the page is parsed again, and fails with its name
            return None
        finally:
            self._network.frontier.in_hand(None)

    def _learn(
        self, visit: Visit, answer: Fetched, rendering: Rendering, pattern: Pattern, before: Amount
    ) -> None:
        after = self._measured(visit, answer, rendering.html)
        if after is not None:
            self._remembering.learn(pattern, gained=gains(before, after) or bool(rendering.hrefs))
