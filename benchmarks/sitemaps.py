"""A sitemap of 50 MB, read by a whole crawl: how fast, and with how much memory. `python -m benchmarks.sitemaps`

A server on this machine gives a sitemap with 50,000 entries as plain XML, in chunks, and packed. Each is crawled with
`skitter crawl --sitemap … --sitemap-only --max-pages 1`: nothing else is fetched from a host while its sitemap is read, so
the run ends with the first page behind it. Memory is the largest sum over the processes of the crawl; a sitemap with one
entry gives the base that it is compared with. The pure reading, without network and store, is measured in this process.
"""

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from skitter.parse.sitemaps import SitemapReader

ENTRIES = 50_000
SIZE = 50 * 2**20
_PIECE = 64 * 1024
_LOOK = 0.02  # seconds between two looks at the memory
_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">\n'


def sitemap(base: str, entries: int = ENTRIES, size: int = SIZE) -> bytes:
    """A sitemap of about this size, whose entries have all that entries have."""
    parts = [_HEAD]
    bare = len(_entry(base, 0, 0)) + 12
    padding = max(0, size // max(entries, 1) - bare) if entries > 1 else 0
    parts += [_entry(base, number, padding) for number in range(entries)]
    parts.append(b"</urlset>\n")
    return b"".join(parts)


def _entry(base: str, number: int, padding: int) -> bytes:
    url = f"{base}/section-{number % 100}/page-{number}?x=1&amp;y=2"
    caption = ("a caption of some words " * (padding // 24 + 1))[:padding]
    return (
        f"<url><loc>{url}</loc><lastmod>2024-05-01T12:00:00+02:00</lastmod><changefreq>weekly</changefreq>"
        f"<priority>0.8</priority><image:image><image:loc>{base}/{number}.jpg</image:loc>"
        f"<image:caption>{caption}</image:caption></image:image></url>\n"
    ).encode()


class Server(ThreadingHTTPServer):
    """Gives the bodies by path; everything else is a short page."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: dict[str, bytes] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.server.bodies.get(self.path)
        if self.path == "/robots.txt":
            body = b""
        self.send_response(200)
        self.send_header("Content-Type", "application/xml" if body else "text/html")
        body = b"<title>page</title>" if body is None else body
        if "chunked" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), _PIECE):
                piece = body[at : at + _PIECE]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


class Run(NamedTuple):
    """One crawl."""

    seconds: float
    cpu: float  # seconds, of all its processes
    memory: int  # bytes, the most
    counts: dict[str, int]


def crawl(url: str, folder: Path) -> Run:
    """Crawl a sitemap, until the first page behind it."""
    command = [
        sys.executable, "-m", "skitter", "crawl", "--sitemap", url, "--sitemap-only", "--max-pages", "1", "--workers", "1",
        "--allow-private", "127.0.0.0/8", "--delay", "0", "--set", "crawl.min_free_disk=1MiB", "-o", str(folder), "--json", "-q",
    ]  # fmt: skip
    began, used = time.monotonic(), _cpu()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        peak = 0
        while child.poll() is None:
            peak = max(peak, sum(_resident(pid) for pid in _family(child.pid)))
            time.sleep(_LOOK)
        assert child.stdout is not None
        report = json.loads(child.stdout.read())
    return Run(time.monotonic() - began, _cpu() - used, peak, report["counts"])


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))
    except OSError:
        return


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def pure(body: bytes) -> float:
    """MB per second of the parser alone."""
    reader, began = SitemapReader(), time.perf_counter()
    count = sum(len(reader.feed(body[at : at + _PIECE])) for at in range(0, len(body), _PIECE)) + len(
        reader.close()
    )
    assert count == ENTRIES
    return len(body) / 1e6 / (time.perf_counter() - began)


def measured() -> dict[str, dict[str, float]]:
    """The figures by form of the sitemap."""
    server = Server()
    large = sitemap(server.base)
    server.bodies |= {
        "/one.xml": sitemap(server.base, 1),
        "/plain.xml": large,
        "/chunked.xml": large,
        "/packed.xml.gz": gzip.compress(large, 6),
    }
    figures: dict[str, dict[str, float]] = {"parser": {"MB/s": pure(large)}}
    with tempfile.TemporaryDirectory() as folder:
        base = crawl(f"{server.base}/one.xml", Path(folder) / "one")
        for path in ("/plain.xml", "/chunked.xml", "/packed.xml.gz"):
            run = crawl(server.base + path, Path(folder) / path[1:])
            assert run.counts["added"] == ENTRIES + 1, run.counts
            figures[path] = {
                "MB/s": len(large) / 1e6 / max(run.seconds - base.seconds, 0.001),
                "MB per CPU second": len(large) / 1e6 / max(run.cpu - base.cpu, 0.001),
                "MB of memory more": (run.memory - base.memory) / 1e6,
            }
    server.shutdown()
    return figures


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(f"a sitemap of {SIZE / 1e6:.0f} MB with {ENTRIES:,} entries")
    for name, figures in measured().items():
        print(f"  {name:16}" + "".join(f"{value:9.1f} {unit}" for unit, value in figures.items()))


if __name__ == "__main__":
    main()
