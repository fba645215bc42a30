"""Three ways to run a server: on the current loop, in a thread, in its own process."""

import asyncio
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, cast

import uvloop

from skitter.testing.web.log import Request, read
from skitter.testing.web.server import FLUSH_HOST, Desk, Log, listen
from skitter.testing.web.truth import Truth
from skitter.testing.web.web import ScopeKind, SyntheticWeb


class Server:
    """A web that is being served, wherever it runs. Its log can still be read after it has stopped."""

    def __init__(self, web: SyntheticWeb, port: int, read_log: Callable[[], list[Request]]) -> None:
        self.web = web
        self.port = port
        self.pid = os.getpid()  # of the process that serves
        self._read_log = read_log

    def log(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._read_log()

    def seeds(self, hosts: int | None = None) -> list[str]:
        """The start pages of the first hosts, of all by default."""
        return self.web.seeds(self.port, hosts)

    def url(self, target: str = "/", host: int = 0) -> str:
        """The URL of a path on a host."""
        return self.web.url(self.port, target, host)

    def truth(self, scope: ScopeKind = "host", seeds: int | None = None, *, sloppy: bool = False) -> Truth:
        """What a correct crawl finds; see `SyntheticWeb.truth`."""
        return self.web.truth(self.port, scope, seeds, sloppy=sloppy)

    def stopped(self, final: list[Request]) -> None:
        """Use this as the log from now on."""
        self._read_log = lambda: final


@contextlib.asynccontextmanager
async def serve_here(
    web: SyntheticWeb, port: int = 0, *, latency: float = 0.0, log_file: Path | None = None
) -> AsyncIterator[Server]:
    """Serve on the running loop. With a log file, the log is there and not in memory."""
    desk = Desk(web, Log(log_file), latency)
    servers = await listen(desk, web.addresses(), port)
    try:
        yield Server(web, desk.port, desk.log.all)
    finally:
        for server in servers:
            server.close()
        for connection in list(desk.connections):
            connection.abort()
        for task in list(desk.tasks):
            task.cancel()
        await asyncio.gather(*desk.tasks, return_exceptions=True)
        for server in servers:
            await server.wait_closed()
        desk.log.close()


@contextlib.contextmanager
def serve(web: SyntheticWeb, port: int = 0, *, latency: float = 0.0) -> Iterator[Server]:
    """Serve in a thread with its own loop."""
    started: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        async with serve_here(web, port, latency=latency) as server:
            started.set_result((server, asyncio.get_running_loop(), stop))
            await stop.wait()

    def main() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(run())
        except OSError as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=main, name="synthetic-web")
    thread.start()
    inner, loop, stop = started.result()

    async def snapshot() -> list[Request]:
        return inner.log()

    # Read on the server's own loop: a client has its answer before the server has logged the end of it.
    server = Server(web, inner.port, lambda: asyncio.run_coroutine_threadsafe(snapshot(), loop).result())
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        server.stopped(inner.log())


@contextlib.contextmanager
def serve_process(web: SyntheticWeb, port: int = 0, *, latency: float = 0.0) -> Iterator[Server]:
    """Serve in its own process, which ends with this one however this one ends."""
    with tempfile.TemporaryDirectory(prefix="synthetic-web-") as directory:
        file = Path(directory, "requests.jsonl")
        command = [sys.executable, "-m", "skitter.testing.web", "--description", description(web)]
        command += [
            "--port",
            str(port),
            "--latency",
            str(latency),
            "--log",
            str(file),
            "--until-stdin-closes",
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  our own module
        with process, cast("BinaryIO", process.stdin) as lifeline, cast("BinaryIO", process.stdout) as said:
            ready = said.readline()
            if not ready:
                raise RuntimeError("the server process ended before it was ready; its error output says why")
            server = Server(
                web, json.loads(ready)["port"], lambda: _flushed(server.port, web.address(0), file)
            )
            server.pid = process.pid
            try:
                yield server
            finally:
                lifeline.close()
                process.wait()
                server.stopped(read(file))


def _flushed(port: int, address: str, file: Path) -> list[Request]:
    """The log file, once the server has written everything to it."""
    with contextlib.closing(http.client.HTTPConnection(address, port)) as connection:
        connection.request("GET", "/", headers={"Host": FLUSH_HOST})
        connection.getresponse().read()
    return read(file)


def description(web: SyntheticWeb) -> str:
    """The web's arguments as JSON."""
    fields = ("seed", "hosts", "pages_per_host", "hosts_per_domain", "addressing", "robots")
    return json.dumps({name: getattr(web, name) for name in fields} | {"features": asdict(web.features)})
