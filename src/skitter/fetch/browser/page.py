"""Shows one page to a browser, and takes what its scripts have made of it.

The page's own answer is given to the browser as it was fetched, so it is not requested twice. Every other request that the
browser wants to make stops here (`Fetch.requestPaused`, on the browser's own session, so that frames, workers and pop-ups
are caught as well), and goes on with what `ask` returns. A browser shows one page at a time, so each request is that page's.
"""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from skitter.fetch.browser.pipe import BrowserGone, Unwilling
from skitter.fetch.browser.process import BrowserProcess


class Wanted(Struct, frozen=True):
    """A request that the page wants to make."""

    url: str
    method: str
    kind: str  # of the resource: Script, XHR, Image …
    fields: Mapping[str, str]
    body: bytes = b""


class Given(Struct, frozen=True):
    """What it gets."""

    status: int
    headers: Sequence[tuple[str, str]]
    content: bytes  # decoded: the browser does not decode what it is given


Ask = Callable[[Wanted], Awaitable[Given | None]]
"""Answers a request; None: it fails."""


class Manner(Struct, frozen=True):
    """How a page is shown."""

    deadline: float  # seconds
    quiet: float  # seconds without a request until it counts as complete
    longest: int  # characters of its HTML
    scroll: int = 0  # how often it is scrolled to its end
    click: str = ""  # what is clicked before: a CSS selector ("load more")
    screenshot: bool = False


class Shown(Struct, frozen=True):
    """What became of it."""

    html: str = ""
    hrefs: Sequence[str] = ()  # where its scripts wanted to go
    screenshot: bytes = b""
    problem: str = ""  # why there is no HTML, or not all of it
    hung: bool = False  # the browser cannot be used any more


_TICK = 0.05  # seconds between two looks whether a page is complete
_LAST_WORDS = 3.0  # seconds for a page to say what it looks like
_WIDTH, _HEIGHT = 1280, 800
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# About the connection or the coding, which are not the browser's; and what would make it send reports or remember the site.
_NOT_SHOWN = frozenset(
    (
        *(
            "connection",
            "content-encoding",
            "content-length",
            "keep-alive",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ),
        *(
            "alt-svc",
            "clear-site-data",
            "nel",
            "report-to",
            "reporting-endpoints",
            "strict-transport-security",
        ),
    )
)
# Before any script of the page: what would need a network of its own, or another window, is not there.
_BEFORE = """(() => {
  const nothing = () => null;
  for (const [holder, name, value] of [
    [window, 'open', nothing], [window, 'print', nothing], [window, 'WebSocket', undefined],
    [window, 'WebTransport', undefined], [window, 'RTCPeerConnection', undefined],
    [window, 'webkitRTCPeerConnection', undefined], [window, 'EventSource', undefined],
    [window, 'SharedWorker', undefined]]) {
    try { Object.defineProperty(holder, name, {value, writable: false, configurable: false}); } catch (_) {}
  }
  try { delete Navigator.prototype.serviceWorker; } catch (_) {}
})()"""
# In a world of its own, where the page's scripts have changed nothing. What is in open shadow roots is put where it is seen.
_AFTER = """((most) => {
  const flatten = (root) => {
    for (const each of root.querySelectorAll('*')) {
      if (!each.shadowRoot) continue;
      flatten(each.shadowRoot);
      const inside = document.createElement('div');
      for (const node of each.shadowRoot.childNodes) inside.append(node.cloneNode(true));
      each.append(inside);
    }
  };
  if (!document.documentElement) return '';
  flatten(document);
  const html = document.documentElement.outerHTML;
  return html.length > most ? null : (document.doctype ? '<!DOCTYPE html>\\n' : '') + html;
})(%d)"""
_MORE = """((selector) => {
  const size = document.getElementsByTagName('*').length;
  if (selector) { const more = document.querySelector(selector); if (more) more.click(); }
  window.scrollTo(0, document.documentElement.scrollHeight);
  return size;
})(%s)"""


async def prepare(browser: BrowserProcess) -> None:
    """Once for each browser: from now on, none of its requests goes on without us."""
    await browser.pipe.ask("Fetch.enable", patterns=[{"urlPattern": "*"}])
    await browser.pipe.ask("Target.setDiscoverTargets", discover=True)


async def show(browser: BrowserProcess, url: str, answer: Given, ask: Ask, manner: Manner) -> Shown:
    """Show a page. Raises BrowserGone if the browser dies; what `ask` raises comes through."""
    return await _Page(browser, url, answer, ask, manner).shown()


class _Page:
    """A page that is being shown."""

    def __init__(self, browser: BrowserProcess, url: str, answer: Given, ask: Ask, manner: Manner) -> None:
        self._pipe = browser.pipe
        self._url, self._answer, self._ask, self._manner = url, answer, ask, manner
        self._frame = ""  # its main frame, which has the id of its target
        self._session = ""
        self._begun = False  # it has got its own answer
        self._loaded = False
        self._answering: set[asyncio.Task[None]] = set()
        self._last = 0.0  # when something last happened
        self._hrefs: dict[str, None] = {}
        self._trouble: BaseException | None = None

    async def shown(self) -> Shown:
        """From an empty page to its HTML."""
        loop = asyncio.get_running_loop()
        pipe, until = self._pipe, loop.time() + self._manner.deadline
        context = (await pipe.ask("Target.createBrowserContext"))["browserContextId"]
        pipe.on("Fetch.requestPaused", self._paused)
        pipe.on("Page.loadEventFired", self._load)
        pipe.on("Page.javascriptDialogOpening", self._dialog)
        pipe.on("Target.targetCreated", self._created)
        try:
            await self._open(context)
            complete = await self._complete(until)
            if complete and self._manner.scroll:
                await self._more(until)
            return await self._taken(complete=complete)
        finally:
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)
            pipe.on("Fetch.requestPaused", self._stray)
            for event in ("Page.loadEventFired", "Page.javascriptDialogOpening", "Target.targetCreated"):
                pipe.on(event, None)
            with suppress(
                BrowserGone, Unwilling, TimeoutError
            ):  # before the next page, so that all is its own
                async with asyncio.timeout(_LAST_WORDS):
                    await pipe.ask("Target.disposeBrowserContext", browserContextId=context)

    async def _open(self, context: str) -> None:
        pipe = self._pipe
        made = await pipe.ask(
            "Target.createTarget", url="about:blank", browserContextId=context, width=_WIDTH, height=_HEIGHT
        )
        self._frame = made["targetId"]
        attached = await pipe.ask("Target.attachToTarget", targetId=self._frame, flatten=True)
        session = self._session = attached["sessionId"]
        pipe.tell("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
        await pipe.ask("Page.enable", session)
        await pipe.ask("Page.addScriptToEvaluateOnNewDocument", session, source=_BEFORE)
        pipe.tell("Page.navigate", session, url=self._url)

    # -- until it is complete --------------------------------------------------------------------------------

    async def _complete(self, until: float) -> bool:
        """Wait until it has loaded and asks for nothing more; False if its time is over before."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK)
            now = loop.time()
            if self._trouble is not None:
                raise self._trouble
            if self._pipe.gone.is_set():
                raise BrowserGone("the browser died")
            if now >= until:
                return False
            if self._loaded and not self._answering and now - self._last >= self._manner.quiet:
                return True

    async def _more(self, until: float) -> None:
        """Scroll to the end, and click what loads more, as long as that brings something."""
        before = -1
        for _ in range(self._manner.scroll):
            size = await self._evaluated(_MORE % json.dumps(self._manner.click))
            if size == before:
                return
            before = size if isinstance(size, int) else -1
            self._last = asyncio.get_running_loop().time()
            if not await self._complete(until):
                return

    async def _taken(self, *, complete: bool) -> Shown:
        late = (
            ""
            if complete
            else f"it was not complete after {self._manner.deadline:g} s (fetch.render_deadline)"
        )
        hrefs = tuple(self._hrefs)
        try:
            async with asyncio.timeout(_LAST_WORDS):
                picture = await self._picture() if self._manner.screenshot else b""
                html = await self._evaluated(_AFTER % self._manner.longest)
        except (TimeoutError, Unwilling):
            said = f"its scripts did not stop within {self._manner.deadline:g} s (fetch.render_deadline)"
            return Shown(hrefs=hrefs, problem=said, hung=True)
        if not isinstance(html, str):
            return Shown(hrefs=hrefs, problem="what it became is larger than fetch.max_body")
        if not html or not self._begun:
            return Shown(hrefs=hrefs, problem=late or "the browser shows nothing of it")
        return Shown(html, hrefs, picture, late)

    async def _evaluated(self, expression: str) -> object:
        """The value of an expression, where the page's own scripts are not."""
        world = await self._pipe.ask("Page.createIsolatedWorld", self._session, frameId=self._frame)
        context = world["executionContextId"]
        found = await self._pipe.ask(
            "Runtime.evaluate",
            self._session,
            expression=expression,
            contextId=context,
            returnByValue=True,
            timeout=_LAST_WORDS * 1000,
        )
        value: object = found.get("result", {}).get("value")
        return value

    async def _picture(self) -> bytes:
        taken = await self._pipe.ask(
            "Page.captureScreenshot", self._session, format="png", captureBeyondViewport=False
        )
        return base64.b64decode(taken["data"])

    # -- what happens meanwhile ------------------------------------------------------------------------------

    def _load(self, _said: Mapping[str, Any], session: str) -> None:
        if session == self._session and self._begun:
            self._loaded = True
            self._last = asyncio.get_running_loop().time()

    def _dialog(self, _said: Mapping[str, Any], session: str) -> None:
        self._pipe.tell("Page.handleJavaScriptDialog", session, accept=False)

    def _created(self, said: Mapping[str, Any], _session: str) -> None:
        target = said.get("targetInfo", {})
        if target.get("openerId"):
            self._pipe.tell("Target.closeTarget", targetId=target.get("targetId", ""))

    def _stray(self, said: Mapping[str, Any], _session: str) -> None:
        self._fail(said)

    def _paused(self, said: Mapping[str, Any], _session: str) -> None:
        request = said.get("request", {})
        of_page = said.get("resourceType") == "Document" and said.get("frameId") == self._frame
        if of_page and not self._begun:
            self._begun = True
            self._answer_with(said, self._given(self._answer))
        elif of_page:  # it goes somewhere else: that is a link
            self._hrefs[str(request.get("url", ""))] = None
            self._loaded = True  # it does not wait for more of this page
            self._answer_with(
                said, self._given(Given(204, (), b""))
            )  # an error would take the place of the page
        else:
            self._answer_with(said, self._asked(said, request))

    async def _given(self, given: Given) -> Given | None:
        return given

    async def _asked(self, said: Mapping[str, Any], request: Mapping[str, Any]) -> Given | None:
        pieces = request.get("postDataEntries") or ()
        wanted = Wanted(
            url=str(request.get("url", "")),
            method=str(request.get("method", "")),
            kind=str(said.get("resourceType", "")),
            fields={str(name).lower(): str(value) for name, value in request.get("headers", {}).items()},
            body=b"".join(base64.b64decode(piece.get("bytes", "")) for piece in pieces),
        )
        return await self._ask(wanted)

    def _answer_with(self, said: Mapping[str, Any], answer: Awaitable[Given | None]) -> None:
        task = asyncio.ensure_future(self._go_on(said, answer))
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._last = asyncio.get_running_loop().time()
        if not task.cancelled() and (trouble := task.exception()) is not None:
            self._trouble = self._trouble or trouble

    async def _go_on(self, said: Mapping[str, Any], answer: Awaitable[Given | None]) -> None:
        given = await answer
        if given is None:
            self._fail(said)
            return
        headers = [
            {"name": name, "value": value}
            for name, value in given.headers
            if name not in _NOT_SHOWN and _TOKEN.fullmatch(name) and _VALUE.fullmatch(value)
        ]
        with suppress(BrowserGone):
            try:
                await self._pipe.ask(
                    "Fetch.fulfillRequest",
                    requestId=said["requestId"],
                    responseCode=given.status,
                    responseHeaders=headers,
                    body=base64.b64encode(given.content).decode(),
                )
            except Unwilling:  # the page is gone, or a field makes no sense to it
                self._fail(said)

    def _fail(self, said: Mapping[str, Any]) -> None:
        self._pipe.tell("Fetch.failRequest", requestId=said["requestId"], errorReason="BlockedByClient")
