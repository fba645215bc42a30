"""What crawls are told, and new crawls. A running crawl is reached through its control socket, as by the command line."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from skitter import urls
from skitter.cli.crawl import directory_name
from skitter.control.client import NotRunningError, connected
from skitter.control.orders import (
    Add,
    Answer,
    BadOrderError,
    Block,
    Continue,
    Pause,
    Request,
    Retry,
    Stop,
    Unblock,
    command_of,
)
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import StateError
from skitter.schedule import STRATEGIES
from skitter.serve.catalogue import Catalogue, Served
from skitter.serve.problems import ProblemError, bad_request, conflict
from skitter.serve.shapes import ACTIONS, NewCrawl, Orders, Told
from skitter.settings import Settings, SettingsError
from skitter.settings.file import load

_STARTING = 20.0  # seconds in which a new crawl must have begun
_LOOK = 0.05
# What a client may decide. Files, programs, identities and addresses are decided on the machine that crawls.
_SETTABLE = frozenset(
    {
        "archive.assets",
        "crawl.max_bytes",
        "crawl.max_pages",
        "crawl.max_time",
        "fetch.contact",
        "fetch.render",
        "parse.main",
        "politeness.delay",
        "politeness.window",
        "schedule.strategy",
        "scope.exclude",
        "scope.hosts",
        "scope.include",
        "scope.kind",
        "scope.max_depth",
        "scope.sitemaps",
    }
)


class Steering:
    """Steers the crawls of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def act(self, crawl: str, action: str, orders: Orders) -> Told:
        """Tell a crawl what to do."""
        served = self._catalogue.find(crawl)
        if action not in ACTIONS:
            raise bad_request(f"{action[:50]!r} is no action; there are {', '.join(ACTIONS)}")
        if action == "resume":
            return await self._resume(served)
        request = _request(action, orders)
        if served.path is None:
            return await _tell_cluster(served, request)
        directory = served.directory
        try:
            _check(request, directory)
            answer = await asyncio.to_thread(_ask, directory, request)
        except NotRunningError:
            raise conflict("the crawl does not run; start it with the action resume") from None
        except (StateError, SettingsError) as problem:
            raise conflict(str(problem)) from None
        if answer.error:
            raise bad_request(answer.error) if answer.wrong else conflict(answer.error)
        return Told(answer.said, answer.changed, list(answer.complaints))

    async def _resume(self, served: Served) -> Told:
        directory = served.directory
        if directory.in_use():
            return Told("it runs already")
        await _started(["resume", str(directory.path)], directory)
        return Told("resumed")

    async def create(self, new: NewCrawl) -> str:
        """Start a crawl; returns its id."""
        _check_settings(new)
        seeds = [_seed(text) for text in new.urls]
        path = self._catalogue.new(new.name or self._free_name(directory_name(urls.origin(seeds[0]))))
        words = [f"--set={name}={_written(value)}" for name, value in new.settings.items()]
        await _started(["crawl", "-o", str(path), *words, *seeds], CrawlDirectory(path))
        return path.name

    def _free_name(self, name: str) -> str:
        root, number, found = self._catalogue.root, 2, name
        while root is not None and (root / found).exists():
            found, number = f"{name}-{number}", number + 1
        return found


def _seed(text: str) -> str:
    """A URL in its own spelling: what a client sends never becomes a word of a command line, which might be an option."""
    url = urls.seed(text) if text.lower().startswith(("http://", "https://")) else None
    if url is None:
        raise bad_request(f"{text[:100]!r} is no http or https URL")
    return url


def _check_settings(new: NewCrawl) -> None:
    """ProblemError for settings that do not exist, or that a client may not decide."""
    if bad := [name for name in new.settings if name not in _SETTABLE]:
        raise bad_request(
            f"{bad[0][:100]!r} cannot be set over the API; these can: {', '.join(sorted(_SETTABLE))}"
        )
    try:
        settings = load(None, os.environ, {name: _written(value) for name, value in new.settings.items()})
    except SettingsError as problem:
        raise bad_request(str(problem)) from None
    if settings.schedule.strategy not in STRATEGIES:
        raise bad_request("schedule.strategy: code of your own is named on the machine that crawls")
    if settings.politeness.delay < Settings().politeness.delay:
        raise bad_request("politeness.delay: over the API it can be longer than usual, not shorter")


def _request(action: str, orders: Orders) -> Request:
    made: dict[str, Request] = {
        "pause": Pause(),
        "continue": Continue(),
        "stop": Stop(),
        "block": Block(orders.hosts),
        "unblock": Unblock(orders.hosts),
        "retry": Retry(orders.urls, orders.hosts, orders.failed),
        "add": Add(orders.urls),
    }
    return made[action]


def _check(request: Request, directory: CrawlDirectory) -> None:
    """ProblemError for a malformed host or URL, before anybody is asked."""
    if isinstance(request, Add | Stop):
        if isinstance(request, Add) and not request.seeds:
            raise bad_request('no URL is named; send for example {"urls": ["https://example.org/"]}')
        return
    try:
        command_of(request, directory.read_settings().urls, 0.0)
    except BadOrderError as problem:
        raise bad_request(str(problem)) from None


def _ask(directory: CrawlDirectory, request: Request) -> Answer:
    with connected(directory.control_socket, directory.in_use) as client:
        return client.ask(request)


async def _tell_cluster(served: Served, request: Request) -> Told:
    from skitter.cli.cluster_ordering import told  # noqa: PLC0415  engines' libraries are large

    if isinstance(request, Add | Stop):
        raise conflict(
            "seeds of a cluster come by `skitter cluster add`, and its workers are stopped where they run"
        )
    if served.config is None:
        raise AssertionError(served)
    try:
        return Told("; ".join(await told(served.config, request)))
    except BadOrderError as problem:
        raise bad_request(str(problem)) from None


def _written(value: str | float | bool) -> str:  # noqa: FBT001  a value of a setting
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _started(words: Sequence[str], directory: CrawlDirectory) -> None:
    """Start a crawl that goes on when this server ends. ProblemError with its message if it does not begin."""
    log = directory.path.parent / f".{directory.path.name}.starting"
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "skitter",
            words[0],
            "--quiet",
            *words[1:],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    try:
        ended = asyncio.ensure_future(process.wait())
        for _ in range(round(_STARTING / _LOOK)):
            if directory.exists and directory.in_use() and directory.control_socket.exists():
                return
            await asyncio.wait([ended], timeout=_LOOK)
            if ended.done():
                break
        code = process.returncode
        if code in (0, 1, 3):  # it was over before we looked
            return
        raise ProblemError(422, "The crawl could not be started", _last_line(log))
    finally:
        log.unlink(missing_ok=True)


def _last_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    return text.splitlines()[-1][:1000] if text else "it said nothing"
