"""A site on loopback whose pages have scripts, and what it was asked for: for tests with a browser."""

import http.server
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from skitter.fetch.browser.finding import PROGRAMS, bubblewrap

Answer = tuple[int, str, bytes]
Answers = Mapping[str, Answer] | Callable[[str], Answer | None]


def need_browser() -> None:
    """Skip this test where there is no browser, or no way to keep one off the network; fail where there has to be one."""
    missing = (
        None if any(map(shutil.which, PROGRAMS)) else "no browser: apt-get install chromium-headless-shell"
    )
    if missing is None and not bubblewrap():
        missing = "no bwrap, or it may not make namespaces here: apt-get install bubblewrap"
    if missing and os.environ.get("SKITTER_TEST_REQUIRE"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@dataclass(frozen=True)
class Asked:
    """One request, as the server saw it."""

    path: str
    method: str
    start: float
    end: float
    fields: Mapping[str, str]
    body: bytes = b""


@dataclass
class Site:
    """A running site."""

    address: str
    asked: list[Asked] = field(default_factory=list)

    def paths(self) -> list[str]:
        """What was asked for, in order, without robots.txt."""
        return [each.path for each in self.asked if each.path != "/robots.txt"]


def html(*pieces: str) -> Answer:
    return 200, "text/html; charset=utf-8", ("<!doctype html>" + "".join(pieces)).encode()


def script(text: str) -> Answer:
    return 200, "text/javascript", text.encode()


@contextmanager
def serving(
    answers: Answers,
    robots: str = "",
    waits: threading.Event | None = None,
    ip: str = "127.0.0.1",
    takes: float = 0.0,
) -> Iterator[Site]:
    """Serve these answers. Paths that begin with /slow wait for `waits`, and a status of 3xx has its target as body."""
    site = Site("")

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            start = time.time()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(takes)
            if waits is not None and self.path.startswith("/slow"):
                waits.wait(60)
            found = answers(self.path) if callable(answers) else answers.get(self.path)
            if self.path == "/robots.txt":
                found = 200, "text/plain", robots.encode()
            status, kind, content = found or (404, "text/plain", b"nothing")
            fields = {name.lower(): value for name, value in self.headers.items()}
            site.asked.append(Asked(self.path, self.command, start, time.time(), fields, body))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", content.decode())
                content = b""
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_POST = do_HEAD = do_OPTIONS = do_PUT = do_GET  # noqa: N815  as http.server names them

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer((ip, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.address = f"http://{ip}:{server.server_address[1]}"
    try:
        yield site
    finally:
        if waits is not None:
            waits.set()
        server.shutdown()
        server.server_close()
        thread.join()
