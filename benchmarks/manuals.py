"""Real documentation, as packaged by Debian, served by nginx on loopback: the cost of pages written by people.

Synthetic pages are alike, with 700 words and few tags; real ones have three times as many tags, and some are
huge. All crawlers are limited to pages whose names end in .html, because each treats images and downloads
differently. The expected pages are determined from the files, by following anchors, so missing ones are
noticed.
"""

import html
import posixpath
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

SHELF = Path("/usr/share/doc")
MIME_TYPES = Path("/etc/nginx/mime.types")
_ANCHOR = re.compile(rb"""<a\s[^>]*?href\s*=\s*["']([^"'#?]*)""", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# One process, so that its CPU is easy to measure, and a log of every request with its connection.
_CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    include {types};
    log_format asked '$msec $connection $host $request_uri';
    access_log {folder}/access.log asked;
    keepalive_requests 1000000; sendfile on; tcp_nodelay on;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen {address}:{port}; root {root}; }}
}}
"""


@dataclass(frozen=True)
class Hit:
    """A request, as in the server's log."""

    start: float
    connection: str
    host: str
    path: str


@dataclass(frozen=True)
class Nginx:
    """A server that is running."""

    pid: int
    port: int
    address: str
    access_log: Path

    def log(self) -> list[Hit]:
        """Every request so far."""
        lines = (line.split(" ", 3) for line in self.access_log.read_text().splitlines())
        return [Hit(float(at), connection, host, path) for at, connection, host, path in lines]


def folder(pattern: str) -> Path | None:
    """The documentation of an installed package, by a pattern of its folder."""
    return next((found for found in sorted(SHELF.glob(pattern)) if (found / "index.html").is_file()), None)


def missing(pattern: str, package: str) -> str:
    """Why it cannot be measured here; empty if it can."""
    wanted = [
        name
        for name, there in ((package, folder(pattern)), ("nginx-light", _nginx() and MIME_TYPES.is_file()))
        if not there
    ]
    return f"apt-get install {' '.join(wanted)}" if wanted else ""


def _nginx() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def pages(root: Path) -> set[str]:
    """The paths of all pages reachable from index.html."""
    waiting, found = ["index.html"], {"index.html"}
    while waiting:
        page = waiting.pop()
        text = _COMMENT.sub(b"", (root / page).read_bytes()).decode("utf-8", "replace").encode()
        for written in set(_ANCHOR.findall(text)):
            href = unquote(html.unescape(written.decode()).strip())
            path = posixpath.normpath(posixpath.join("/", posixpath.dirname(page), href)).lstrip("/")
            if ":" in href or not href.endswith(".html") or path in found or not (root / path).is_file():
                continue
            found.add(path)
            waiting.append(path)
    return {quote(path) for path in found}


@contextmanager
def serving(root: Path, address: str = "127.77.0.1") -> Iterator[Nginx]:
    """Serve a folder for as long as it takes."""
    with tempfile.TemporaryDirectory(prefix="skitter-bench-nginx-") as name:
        here = Path(name)
        with socket.socket() as probe:
            probe.bind((address, 0))
            port = probe.getsockname()[1]
        configuration = here / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(folder=here, types=MIME_TYPES, address=address, port=port, root=root)
        )
        command = [_nginx() or "nginx", "-c", str(configuration), "-p", name, "-e", str(here / "error.log")]
        server = subprocess.Popen(command)
        try:
            _wait_for(address, port, server, here / "error.log")
            yield Nginx(server.pid, port, address, here / "access.log")
        finally:
            server.terminate()
            server.wait()


def _wait_for(address: str, port: int, server: "subprocess.Popen[bytes]", errors: Path) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"nginx does not answer: {errors.read_text() if errors.exists() else 'no log'}")
