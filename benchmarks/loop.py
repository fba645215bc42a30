"""How long a large or hostile page keeps the event loop from its other work: `python -m benchmarks.loop`.

A crawl of one process fetches one page of 10 MiB after the other from a server in another process. Beside it, a task
sleeps 5 ms in a cycle and notes the longest time it had to wait beyond that. The second figure is the CPU time that
the loop's thread used in its longest step: it does not depend on what else the machine does.
"""

import argparse
import asyncio
import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import brotli

from skitter import seeds
from skitter.compose import opened
from skitter.events import Events
from skitter.runtime.process import run
from skitter.settings import Settings
from skitter.settings.file import load

FULL = 10 * 2**20  # fetch.max_body
_NAP = 0.005
Answer = tuple[list[tuple[str, str]], bytes]


def _filled(piece: Callable[[int], str], head: str = "<!doctype html><title>t</title>") -> bytes:
    pieces, size, number = [head], len(head), 0
    while True:
        text = piece(number)
        size += len(text.encode())
        if size > FULL:
            return "".join(pieces).encode()
        pieces.append(text)
        number += 1


def _words(number: int) -> str:
    return f"word{number} and {number * 7919 % 10007} other words, "


def _links(number: int) -> str:
    return f'<p><a href="/section{number % 40}/page-{number}.html?view={number % 9}">Page {number}</a> some words about it</p>\n'


def _html(body: bytes, *fields: tuple[str, str]) -> Answer:
    return [("Content-Type", "text/html; charset=utf-8"), *fields], body


PAGES: dict[str, Callable[[], Answer]] = {
    "an ordinary page of 20 KB": lambda: _html(_filled(_links)[:20_000]),
    "nested tags": lambda: _html(b"<div>" * (FULL // 5)),
    "nested formatting tags": lambda: _html(_filled(lambda n: f"<b id={n}><p>")),
    "100,000 links": lambda: _html(_filled(_links)),
    "100,000 links that are nofollow": lambda: _html(
        _filled(lambda n: _links(n).replace("<a ", "<a rel=nofollow "))
    ),
    "text in one element": lambda: _html(_filled(_words)),
    "character references": lambda: _html(_filled(lambda n: f"&amp;&eacute;&#{n % 2000 + 32}; ")),
    "one attribute": lambda: _html(b'<p title="' + b"a" * (FULL - 12) + b'">'),
    "half a million tags, gzip": lambda: _html(
        gzip.compress(_filled(lambda n: f"<td>{n}</td>"), 6), ("Content-Encoding", "gzip")
    ),
    "words, brotli": lambda: _html(brotli.compress(_filled(_words), quality=4), ("Content-Encoding", "br")),
    "a bomb, gzip in gzip": lambda: _html(
        gzip.compress(gzip.compress(b"<p>" + b"a " * (FULL // 2 - 8))), ("Content-Encoding", "gzip, gzip")
    ),
    "chunks of one byte": lambda: _html(
        b"1\r\na\r\n" * (FULL // 6 - 2) + b"0\r\n\r\n", ("Transfer-Encoding", "chunked")
    ),
    "plain text": lambda: ([("Content-Type", "text/plain")], _filled(_words, "")),
    "plain text in Chinese": lambda: (
        [("Content-Type", "text/plain; charset=gb18030")],
        ("中文 文字 " * (FULL // 10)).encode("gb18030"),
    ),
    "an image": lambda: (
        [("Content-Type", "image/png")],
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * (FULL // 256 - 1),
    ),
}


# ------------------------------------------------------------------------------------------------ the server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        number = self.path.removeprefix("/case/")
        if number.isdigit() and int(number) < len(PAGES):
            fields, body = list(PAGES.values())[int(number)]()
        else:
            fields, body = (
                [("Content-Type", "text/html")],
                b"<title>small</title>" + b"a few words and more " * 100,
            )
        self.send_response(404 if self.path == "/robots.txt" else 200)
        for name, value in fields:
            self.send_header(name, value)
        if not any(name == "Transfer-Encoding" for name, _ in fields):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


# ------------------------------------------------------------------------------------------------ the probe


class Probe:
    """The longest time that the loop gave no turn."""

    def __init__(self) -> None:
        self.delay = self.cpu = 0.0

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_NAP)
            self.delay = max(self.delay, time.perf_counter() - wall - _NAP)
            self.cpu = max(self.cpu, time.thread_time() - cpu)


async def _measured(directory: Path, url: str, settings: Settings) -> tuple[Probe, float, str]:
    probe = Probe()
    async with opened(directory, settings, Events()) as crawl:
        await crawl.seed(seeds.named([url], settings.urls))
        await asyncio.sleep(0.05)
        watching = asyncio.create_task(probe.watch())
        began = time.perf_counter()
        report = await crawl.run()
        took = time.perf_counter() - began
        watching.cancel()
    counts = report.counts
    failed = ", ".join(counts.failures) or ("" if counts.pages else "not stored")
    return probe, took, failed or f"{counts.added + sum(counts.refused.values()) - 1} links"


def main() -> None:
    """Measure each page in a crawl of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=1, help="crawls of each page; the median counts")
    parser.add_argument("--only", default="", help="pages whose name has this in it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="settings")
    wanted = parser.parse_args()
    if wanted.serve:
        return _serve()
    values: dict[str, object] = {
        "fetch.allow_private": ("127.0.0.0/8",),
        "politeness.delay": "0s",
        "crawl.max_pages": 1,
        "crawl.min_free_disk": "1MiB",
    } | dict(pair.split("=", 1) for pair in wanted.set)
    settings = load(None, {}, values)
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.loop", "--serve"], stdout=subprocess.PIPE)
    print(f"{'a page of 10 MiB':34} {'longest wait':>13} {'longest step':>13} {'crawl':>8}  result")
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        _crawled(f"http://127.0.0.1:{port}/", settings)  # loads what a process loads once
        for number, name in enumerate(PAGES):
            if wanted.only in name:
                _show(name, f"http://127.0.0.1:{port}/case/{number}", settings, wanted.rounds)
    finally:
        server.kill()
        server.wait()
    return None


def _crawled(url: str, settings: Settings) -> tuple[Probe, float, str]:
    with tempfile.TemporaryDirectory() as folder:
        return run(_measured(Path(folder) / "crawl", url, settings))


def _show(name: str, url: str, settings: Settings, rounds: int) -> None:
    found = [_crawled(url, settings) for _ in range(rounds)]
    probe, took, result = sorted(found, key=lambda each: each[0].cpu)[len(found) // 2]
    print(f"{name:34} {probe.delay * 1e3:10.0f} ms {probe.cpu * 1e3:10.0f} ms {took:6.2f} s  {result}")


if __name__ == "__main__":
    main()
