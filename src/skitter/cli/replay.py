"""`skitter replay`: archived pages in a browser, from a server on this machine."""

import argparse
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter.cli.progress import Screen, Transfer, screen
from skitter.cli.reading import add_crawl, ask, is_wacz
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source, with_settings
from skitter.reporting.format import counted, printable

if TYPE_CHECKING:
    from skitter.export.replay.answers import Held
    from skitter.export.replay.serving import LoopbackServer
    from skitter.ports import SearchIndex

_SHOWN_MISSING = 20


def parser() -> Parser:
    """The flags of `skitter replay`."""
    made = Parser(
        "replay",
        "Show archived pages as they were: a server on this machine, and its address to open in any browser, with search, a list of "
        "pages, and all captures of a URL. Works while the crawl runs (with what it had when the replay began). Archived "
        "pages cannot reach the live web: what is not in the archive is missing, and is named on standard error. A WACZ file is "
        "checked against its digests and its signature first. Ctrl-C ends it.",
        [
            "skitter replay skitter-example.org",
            "skitter replay example.wacz --port 8080",
            "skitter replay skitter-example.org --browser",
            "skitter replay example.wacz --player replaywebpage/",
            "skitter replay --config cluster.toml",
        ],
    )
    add_crawl(made, several=True, more=", or a WACZ file")
    made.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="serve our own pages at 127.0.0.1:N and archived ones at the next port, as for a tunnel (default: free ones)",
    )
    made.add_argument(
        "--no-search",
        action="store_true",
        help="do not bring the search index up to date first, and do without it",
    )
    made.add_argument("--noarchive", action="store_true", help="also show pages that ask for noarchive")
    made.add_argument(
        "--browser",
        nargs="?",
        const="",
        metavar="PROGRAM",
        help="also start a Chromium that reaches nothing but the replay, and end with it (default: the one that is installed)",
    )
    made.add_argument(
        "--player",
        type=Path,
        metavar="FOLDER",
        help="show a WACZ file by a player in this folder (ui.js and sw.js) instead",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Serve until interrupted."""
    if not 0 <= arguments.port <= 65534:
        raise UsageError("--port: write a number from 1 to 65534")
    packed = _packed(arguments)
    if arguments.player is not None:
        if packed is None:
            raise UsageError(
                "--player shows a WACZ file; make one with: skitter export DIR --format wacz -o FILE.wacz"
            )
        if not (arguments.player / "ui.js").is_file():
            raise UsageError(f"--player: there is no ui.js in {arguments.player}")
    if arguments.browser is not None:
        _program(arguments.browser)
    if packed is not None:
        return _wacz(packed, arguments)
    return ask(arguments, lambda source: _crawl(source, arguments))


def _packed(arguments: argparse.Namespace) -> Path | None:
    """The WACZ file that is named; None if it is a crawl."""
    named: list[Path] = arguments.directory
    packed = [path for path in named if is_wacz(path)]
    if packed and (len(named) > 1 or arguments.config is not None):
        raise UsageError("name one WACZ file, or one crawl")
    return packed[0] if packed else None


def _wacz(packed: Path, arguments: argparse.Namespace) -> Exit:
    import asyncio  # noqa: PLC0415  slow to import; --help does not need it

    from skitter.cli.check_wacz import said_of  # noqa: PLC0415  the same
    from skitter.compose.replaying import held_wacz  # noqa: PLC0415

    async def work() -> Exit:
        shown = screen(sys.stderr, quiet=arguments.quiet)
        told = _Counted(shown, "byte")
        async with held_wacz(packed, told.add) as held:
            shown.end()
            shown.say(f"skitter: {printable(packed.name)} is {said_of(held.wacz.signed)}")
            return await _serve(held, arguments)

    return asyncio.run(work())


async def _crawl(source: Source, arguments: argparse.Namespace) -> Exit:
    from skitter.compose.replaying import held_crawl  # noqa: PLC0415  see above

    settings = source.settings
    if arguments.noarchive:
        settings = replace(settings, export=replace(settings.export, noarchive=True))
    shown = screen(sys.stderr, quiet=arguments.quiet)
    told = _Counted(shown, "answer")
    async with AsyncExitStack() as stack:
        source = with_settings(source, settings)
        index = None if arguments.no_search else await stack.enter_async_context(_words(source, arguments))
        held = await stack.enter_async_context(held_crawl(source, index, told.add))
        shown.end()
        return await _serve(held, arguments)


@asynccontextmanager
async def _words(source: Source, arguments: argparse.Namespace) -> AsyncIterator["SearchIndex"]:
    """The index of words of a crawl, brought up to date."""
    from skitter.cli.indexing import brought_up_to_date  # noqa: PLC0415  see above
    from skitter.compose.searching import local_index, writable_index  # noqa: PLC0415

    with writable_index(source.directory.search_file) as file:
        index = local_index(file)
        await index.open()
        try:
            await brought_up_to_date(source, index, quiet=arguments.quiet)
            yield index
        finally:
            await index.close()


# ------------------------------------------------------------------------------------------------ serving


async def _serve(held: "Held", arguments: argparse.Namespace) -> Exit:
    import asyncio  # noqa: PLC0415  see above

    from skitter.cli.stopping import cancelled_by_signals  # noqa: PLC0415  the same

    shown = screen(sys.stderr, quiet=arguments.quiet)
    async with _servers(held, arguments, shown) as (origins, summary):
        print(f"{printable(held.name)} is replayed at {origins[0]}/", flush=True)
        try:
            with cancelled_by_signals():
                if arguments.browser is not None:
                    await _browse(arguments.browser, origins)
                else:
                    shown.say("skitter: open it in a browser; Ctrl-C ends the replay")
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        shown.say(f"skitter: {summary()}")
    return Exit.DONE


def _program(named: str) -> str:
    from skitter.export.replay.window import PROGRAMS, found  # noqa: PLC0415  see above

    program = found(named)
    if program is None:
        what = f"there is no {named}" if named else f"none of {', '.join(PROGRAMS)} is installed"
        raise UsageError(f"--browser: {what}; install Chromium, or name it with --browser PROGRAM")
    return program


async def _browse(named: str, origins: Sequence[str]) -> None:
    """Show the replay in a browser without a network, until its window is closed."""
    import asyncio  # noqa: PLC0415  see above
    from tempfile import TemporaryDirectory  # noqa: PLC0415  the same

    from skitter.export.replay.window import closed  # noqa: PLC0415  the same

    with TemporaryDirectory(prefix="skitter-", ignore_cleanup_errors=True) as profile:
        flags = [*closed(*origins), f"--user-data-dir={profile}", f"{origins[0]}/"]
        process = await asyncio.create_subprocess_exec(
            _program(named), *flags, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
    if code:
        raise UsageError(f"--browser: {_program(named)} ended with code {code}; start it by hand to see why")


@asynccontextmanager
async def _servers(
    held: "Held", arguments: argparse.Namespace, shown: Screen
) -> AsyncIterator[tuple[Sequence[str], Callable[[], str]]]:
    """Everything that listens; yields their origins, that to open first, and what to say at the end."""
    from skitter.export.replay.player import PlayerSite  # noqa: PLC0415  see above
    from skitter.export.replay.screens import Screens  # noqa: PLC0415
    from skitter.export.replay.site import ContentSite  # noqa: PLC0415

    screens = _server("127.0.0.1", arguments.port)
    if arguments.player is not None:
        await screens.start(PlayerSite(arguments.player, arguments.directory[0]).route)
        try:
            yield [screens.origin], lambda: "the replay is over"
        finally:
            await screens.close()
        return
    content = _content_server(held.name, arguments.port)
    site = ContentSite(held, screens.origin, _Missing(shown).missed)
    await screens.start(Screens(held, content.origin).route)
    await content.start(site.route)
    try:
        yield (
            [screens.origin, content.origin],
            lambda: (
                f"{counted(site.answered, 'request')} answered, {counted(site.missing, 'URL')} not in the archive"
            ),
        )
    finally:
        await screens.close()
        await content.close()


def _server(address: str, port: int) -> "LoopbackServer":
    from skitter.export.replay.serving import LoopbackServer  # noqa: PLC0415  see above

    try:
        return LoopbackServer(address, port)
    except OSError as problem:
        raise UsageError(f"--port: {address}:{port} cannot be used: {problem.strerror}") from None


def _content_server(name: str, port: int) -> "LoopbackServer":
    """Archived pages have an address of their own where the system allows it: cookies do not know about ports."""
    if port:
        return _server("127.0.0.1", port + 1)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    try:
        return _server(f"127.{64 + digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}", 0)
    except UsageError:  # only Linux has all of 127.0.0.0/8
        return _server("127.0.0.1", 0)


# ------------------------------------------------------------------------------------------------ messages


class _Missing:
    """Names what is not in the archive."""

    def __init__(self, shown: Screen) -> None:
        self._shown = shown
        self._named = 0

    def missed(self, url: str) -> None:
        self._named += 1
        if self._named <= _SHOWN_MISSING:
            self._shown.say(f"skitter: not in the archive: {printable(url)}")
        elif self._named == _SHOWN_MISSING + 1:
            self._shown.say("skitter: … and more, which are not named")


class _Counted:
    """How far the preparation is."""

    def __init__(self, shown: Screen, one: str) -> None:
        self._shown = shown
        self._one = one
        self._done = 0
        self._began = time.monotonic()

    def add(self, number: int) -> None:
        self._done += number
        now = time.monotonic()
        elapsed = now - self._began
        self._shown.show(Transfer(done=self._done, one=self._one, many=f"{self._one}s", elapsed=elapsed), now)
