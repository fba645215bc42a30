"""A crawl in processes of its own, controlled from outside, and the site it crawls, whose log is the witness."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

PAGES = 100_000  # more than any test fetches
_STEPS = 1200
_STEP = 0.05


class Seen(NamedTuple):
    """A request as the site saw it."""

    host: str
    path: str


class Site:
    """Hosts under `.test`, all on one server: every page links to the next ones, `/bad…` fails until it is mended."""

    def __init__(self, pages: int = PAGES) -> None:
        self.pages = pages
        self.mended = False
        self.seen: list[Seen] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def requests(self, host: str = "") -> int:
        """How many requests were made so far, to this host or to all."""
        return sum(not host or each.host == host for each in list(self.seen))

    def asked(self, path: str) -> int:
        return sum(each.path == path for each in list(self.seen))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.seen.append(Seen(self.headers["Host"].partition(":")[0], self.path))
                status, body = site.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, path: str) -> tuple[int, bytes]:
        if path == "/robots.txt":
            return 404, b""
        if path.startswith("/bad") and not self.mended:
            return 503, b""
        if path.startswith("/gone") and not self.mended:
            return 404, b""
        number = int(path[1:]) if path[1:].isdigit() else 0
        links = [
            f'<a href="/{each}">{each}</a>' for each in range(number + 1, number + 4) if each < self.pages
        ]
        return 200, f"<title>{path}</title><p>page {path}</p>{''.join(links)}".encode()


def skitter(*words: object, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert check is None or done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
    return done


def said(*words: object) -> str:
    """What a command prints."""
    return skitter(*words).stdout.strip()


HOSTS = ("a.test", "b.test", "c.test", "d.test")


def settings_of() -> list[str]:
    """Flags for a crawl of the site."""
    resolve = json.dumps([f"{host}:127.0.0.1" for host in HOSTS])
    values = {
        "fetch.resolve": resolve,
        "fetch.allow_private": '["127.0.0.0/8"]',
        "politeness.delay": "50ms",
        "schedule.retry_base": "10ms",
        "schedule.retries": "0",
        "crawl.min_free_disk": "1MiB",
    }
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


class Running:
    """A crawl that was started, or resumed."""

    def __init__(self, *words: object) -> None:
        handle, self._shown = tempfile.mkstemp()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "skitter", *map(str, words)],
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(handle)

    @property
    def workers(self) -> list[int]:
        """Its worker processes."""
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def end(self) -> str:
        """Stop it, if it runs; returns what it has printed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return Path(self._shown).read_text()

    def kill(self) -> None:
        """`kill -9` of the parent alone."""
        self.process.kill()
        self.process.wait()


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    for _ in range(_STEPS):
        if is_so():
            return
        time.sleep(_STEP)
    raise AssertionError("it never came to that")


def status(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("status", path, "--json"))
    return found


def in_flight_ended(path: Path) -> None:
    until(lambda: status(path)["counts"]["leased"] == 0)


def is_quiet(site: Site, host: str = "", seconds: float = 1.0) -> bool:
    """Whether no request comes for a while, in which dozens would come otherwise."""
    before = site.requests(host)
    time.sleep(seconds)
    return site.requests(host) == before


@contextmanager
def crawling(
    path: Path, site: Site, *hosts: str, workers: int = 2, more: Sequence[str] = ()
) -> Iterator[Running]:
    """A crawl of these hosts, with requests being made; stopped at the end, whoever runs it then."""
    seeds = [site.url(host) for host in hosts]
    words = ["crawl", *seeds, *more, "-o", path, "--workers", workers, *settings_of()]
    running = Running(*words)
    try:
        until(lambda: site.requests() >= 20 or running.process.poll() is not None)
        yield running
    finally:
        running.end()


@contextmanager
def resumed(path: Path, *words: object) -> Iterator[Running]:
    """A crawl that goes on."""
    running = Running("resume", path, *words)
    try:
        until(lambda: (path / "control").is_socket() or running.process.poll() is not None)
        yield running
    finally:
        running.end()


def kill_worker(running: Running) -> None:
    """`kill -9` of one worker; returns when another process has taken its place."""
    before = set(running.workers)
    os.kill(min(before), signal.SIGKILL)
    until(lambda: len(running.workers) == len(before) and set(running.workers) != before)
