"""Whole pages: what a page needs to be shown is fetched and archived with it. Judged by the server's log and the archive."""

import asyncio
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

import skitter
from skitter import urls
from skitter.compose import open_reader
from skitter.model import Purpose, State
from tests.crawl.harness import crawl, crawl_with, settings_for
from tests.warc_readers import assert_all_readers_agree

HTML, CSS, SVG, JSON = "text/html", "text/css", "image/svg+xml", "application/manifest+json"
Bodies = Mapping[str, tuple[str, bytes]]  # by "host/path": content type and body


class Site:
    """Two or more hosts on one loopback port, told apart by the Host field."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies = dict(bodies)
        self.log: list[str] = []
        self.port = 0

    def url(self, name: str) -> str:
        """The URL of "host/path"."""
        host, slash, path = name.partition("/")
        return f"http://{host}:{self.port}{slash}{path}"


@contextmanager
def site(bodies: Bodies) -> Iterator[Site]:
    """Serve bodies; what is not there is a 404, and a body b"301 X" moves to X."""
    served = Site(bodies)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            name = self.headers["Host"].partition(":")[0] + self.path
            served.log.append(name)
            kind, body = served.bodies.get(name, ("", b""))
            if body.startswith(b"301 "):
                self.send_response(301)
                self.send_header("Location", served.url(body[4:].decode()))
                body = b""
            else:
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings(which="all", **others):
    names = ("a.test", "static.test", "third.test", "other.test")
    return settings_for(
        archive__assets=which, fetch__resolve=tuple(f"{name}:127.0.0.1" for name in names), **others
    )


PAGE = b"""<!doctype html><html><head><base href="/sub/">
<link rel=stylesheet href=main.css><link rel="shortcut icon" href=/icon.ico><link rel=apple-touch-icon href=touch.png>
<link rel=manifest href=/app.webmanifest><link rel=preload as=font href=early.woff2><link rel=modulepreload href=early.mjs>
<script src=script.js></script><script type=module src=app.mjs></script>
<style>@import url("inline.css"); h1 { background: url(h1.png) }</style></head>
<body background=old.gif><a href="/next.html">next</a>
<img src=plain.png srcset="small.png 1x, large.png 2x"><img data-src=lazy.png data-srcset="lazy2.png 2x" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<picture><source srcset="modern.webp"><img src=fallback.jpg></picture><img src=/forbidden.png>
<video poster=poster.jpg><source src=film.mp4><track src=words.vtt></video><audio src=sound.ogg></audio>
<input type=image src=button.png><object data=thing.svg></object><embed src=plug.bin>
<iframe src=CDN/frame.html></iframe><svg><image href=drawn.png /><use href="sprite.svg#one"/></svg>
<p style="background: url('style.png')" data-bg="url(lazybg.png)">text</p><noscript><img src=noscript.png></noscript>
</body></html>"""
MAIN = b"""@charset "utf-8"; @import "two.css"; /* url(no.png) */
@font-face { src: url("font.woff2") format("woff2"), url(CDN/far.woff) }
body { background: URL( back\\67round.png ) } a { content: "url(no.png)" }"""

NEEDED = [
    "a.test/sub/main.css",
    "a.test/icon.ico",
    "a.test/sub/touch.png",
    "a.test/app.webmanifest",
    "a.test/sub/early.woff2",
    "a.test/sub/early.mjs",
    "a.test/sub/script.js",
    "a.test/sub/app.mjs",
    "a.test/sub/inline.css",
    "a.test/sub/h1.png",
    "a.test/sub/old.gif",
    "a.test/sub/plain.png",
    "a.test/sub/small.png",
    "a.test/sub/large.png",
    "a.test/sub/lazy.png",
    "a.test/sub/lazy2.png",
    "a.test/sub/modern.webp",
    "a.test/sub/fallback.jpg",
    "a.test/sub/poster.jpg",
    "a.test/sub/film.mp4",
    "a.test/sub/words.vtt",
    "a.test/sub/sound.ogg",
    "a.test/sub/button.png",
    "a.test/sub/thing.svg",
    "a.test/sub/plug.bin",
    "a.test/sub/drawn.png",
    "a.test/sub/sprite.svg",
    "a.test/sub/style.png",
    "a.test/sub/lazybg.png",
    "a.test/sub/noscript.png",
    "a.test/sub/two.css",
    "a.test/sub/font.woff2",
    "a.test/sub/background.png",
    "a.test/sub/three.css",
    "a.test/sub/deep.png",
    "a.test/sub/module.mjs",
    "a.test/app-icon.png",
    "a.test/sub/in-drawing.png",
]
ELSEWHERE = [
    "static.test/frame.html",
    "static.test/frame.css",
    "static.test/far.woff",
    "static.test/favicon.ico",
    "static.test/framed.png",
]


def bodies(port: int = 0) -> dict[str, tuple[str, bytes]]:
    cdn = b"http://static.test:%d" % port
    any_picture = ("image/png", b"\x89PNG\r\n\x1a\n")
    served = dict.fromkeys([*NEEDED, *ELSEWHERE], any_picture)
    served |= {
        "a.test/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /forbidden\n"),
        "a.test/": (HTML, PAGE.replace(b"CDN", cdn)),
        "a.test/next.html": (HTML, b"<title>Next</title><link rel=stylesheet href=/sub/main.css><p>more"),
        "a.test/sub/main.css": (CSS, MAIN.replace(b"CDN", cdn)),
        "a.test/sub/inline.css": (CSS, b"p { color: red }"),
        "a.test/sub/two.css": (CSS, b"@import 'three.css'; @import 'main.css';"),  # a cycle
        "a.test/sub/three.css": (CSS, b"@import url(two.css); i { background: url(deep.png) }"),
        "a.test/sub/app.mjs": ("text/javascript", b"import {x} from './module.mjs'; fetch('/no.json')"),
        "a.test/sub/module.mjs": ("text/javascript", b"export const x = 1"),
        "a.test/app.webmanifest": (JSON, b'{"icons": [{"src": "app-icon.png"}], "start_url": "/no.html"}'),
        "a.test/sub/thing.svg": (SVG, b'<svg><image href="in-drawing.png"/><a href="/no2.html"/></svg>'),
        "static.test/frame.html": (
            HTML,
            b"<link rel=stylesheet href=frame.css><img src=framed.png><a href=/no3.html>no</a>",
        ),
        "static.test/frame.css": (CSS, b"p { color: blue }"),
    }
    return served


@contextmanager
def whole_site() -> Iterator[Site]:
    with site({}) as served:
        served.bodies = bodies(served.port)
        yield served


def answers(result, purpose):
    return {page.url: page.status for page in result.pages if page.purpose is purpose}


def test_the_two_hosts_belong_to_different_shards_of_two():
    assert urls.shard("a.test", 2) != urls.shard("static.test", 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_all_that_a_page_needs_is_fetched_once_and_archived(tmp_path, workers):
    with whole_site() as served:
        if workers:
            result = crawl_with(workers, tmp_path / "c", [served.url("a.test/")], settings())
        else:
            result = crawl(tmp_path / "c", [served.url("a.test/")], settings())
        pages = ["a.test/", "a.test/next.html"]
        robots = ["a.test/robots.txt", "static.test/robots.txt"]
        # next.html names no icon, so the usual place is looked at
        wanted = [*pages, *robots, *NEEDED, *ELSEWHERE, "a.test/favicon.ico"]
        assert Counter(served.log) == Counter(wanted)
        names = {served.url(name): name for name in wanted}
    counts = result.report.counts
    assert (counts.pages, counts.queued, counts.failed) == (2, 0, 0)
    assert answers(result, Purpose.PAGE) == {served.url(name): 200 for name in pages}
    assets = answers(result, Purpose.ASSET)
    assert {names[url] for url in assets} == {*NEEDED, *ELSEWHERE, "a.test/favicon.ico"}
    assert counts.others == {"asset": len(assets)}
    assert all(page.archive for page in result.pages)
    forbidden = [record for record in result.records.values() if record.url.endswith("/forbidden.png")]
    assert [(record.state, record.reason.code) for record in forbidden] == [(State.REFUSED, "robots")]
    for file in (tmp_path / "c").glob("archive/*.warc.gz"):
        assert_all_readers_agree(file)


@pytest.mark.parametrize("workers", [0, 2])
def test_at_a_page_limit_the_assets_of_stored_pages_are_still_fetched(tmp_path, workers):
    with whole_site() as served:
        limited = settings(crawl__max_pages=1)
        if workers:
            result = crawl_with(workers, tmp_path / "c", [served.url("a.test/")], limited)
        else:
            result = crawl(tmp_path / "c", [served.url("a.test/")], limited)
        robots = ["a.test/robots.txt", "static.test/robots.txt"]
        assert Counter(served.log) == Counter(["a.test/", *robots, *NEEDED, *ELSEWHERE])
        assert (result.report.outcome, result.report.counts.pages) == ("limit", 1)
        assert result.report.counts.queued == 1
        served.log.clear()
        more = settings(crawl__max_pages=5)  # nothing was lost: the rest comes with a higher limit
        result = crawl(tmp_path / "c", [], more)
        assert Counter(served.log) == Counter(["a.test/next.html", "a.test/favicon.ico"])
        assert (result.report.outcome, result.report.counts.pages) == ("done", 2)


def test_without_the_setting_nothing_of_it_is_asked_for(tmp_path):
    with whole_site() as served:
        result = crawl(tmp_path / "c", [served.url("a.test/")], settings("off"))
        assert Counter(served.log) == Counter(["a.test/robots.txt", "a.test/", "a.test/next.html"])
    assert len(result.records) == 3  # the frame on another host is a link, out of scope
    assert result.report.counts.others == {}


def test_a_program_gets_the_pages_and_the_archive_has_the_rest(tmp_path):
    resolve = [f"{host}:127.0.0.1" for host in ("a.test", "static.test")]
    with whole_site() as served:
        crawled = skitter.crawl(
            served.url("a.test/"),
            directory=tmp_path / "c",
            assets="all",
            allow_private=["127.0.0.0/8"],
            delay=0,
            resolve=resolve,
        )
        found = [page.url for page in crawled]
        assert sorted(found) == [served.url("a.test/"), served.url("a.test/next.html")]
        assert set(NEEDED) <= set(served.log)


HOSTILE = {
    "many": b"a{b:url(x%d)}" * 400_000,
    "comments": b"/*" * 2_500_000,
    "strings": b'"' * 5_000_000,
    "escapes": b"\\" * 5_000_000,
    "imports": b"@import url(" * 400_000,
    "sets": b'image-set("a" ' * 350_000,
}


def test_hostile_style_sheets_are_archived_and_cost_nothing_else(tmp_path):
    sheets = {f"a.test/{name}.css": (CSS, body) for name, body in HOSTILE.items()}
    named = "".join(f"<link rel=stylesheet href={name}.css>" for name in HOSTILE)
    front = f"<link rel=icon href=data:,>{named}<a href=/next.html>next</a>".encode()
    last = b"<link rel=icon href=data:,><link rel=stylesheet href=/last.css>"
    others = {"a.test/": (HTML, front), "a.test/next.html": (HTML, last), "a.test/last.css": (CSS, b"")}
    with site(sheets | others) as served:
        result = crawl(tmp_path / "c", [served.url("a.test/")], settings(parse__max_links=100))
        assert {*sheets, *others} <= set(served.log)
        found = {page.url: page for page in result.pages}
        for name, body in HOSTILE.items():
            stored = found[served.url(f"a.test/{name}.css")]
            assert (stored.status, stored.size) == (200, len(body))
            assert stored.archive is not None
    assert len(served.log) < 500  # no sheet names more than parse.max_links
    assert result.report.counts.failed == 0


def start_crawl(path, served, *flags):
    resolve = [word for host in ("a.test", "static.test") for word in ("--resolve", f"{host}:127.0.0.1")]
    command = [
        sys.executable,
        "-m",
        "skitter",
        "crawl",
        served.url("a.test/"),
        "-o",
        str(path),
        "--assets",
        *resolve,
        *flags,
    ]
    command += [
        "--allow-private",
        "127.0.0.0/8",
        "--delay",
        "20ms",
        "--set",
        "crawl.min_free_disk=1MiB",
        "-q",
    ]
    return subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("flags", [("--workers", "1"), ("--workers", "2", "--max-pages", "1")])
def test_nothing_is_lost_if_the_process_is_killed(tmp_path, flags):
    with whole_site() as served:
        for more in (8, 12):
            before = len(served.log)
            child = start_crawl(tmp_path / "c", served, *flags)
            while child.poll() is None and len(served.log) < before + more:
                time.sleep(0.01)
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate(timeout=60)
        last = start_crawl(tmp_path / "c", served, *flags)
        assert last.wait(timeout=120) in (0, 3), last.stderr.read()
        last.communicate()
        assert {*NEEDED, *ELSEWHERE, "a.test/"} <= set(served.log)
        asked = Counter(served.log)
        assert max(asked[name] for name in [*NEEDED, *ELSEWHERE]) <= 2  # in flight when it died
        reader = open_reader(tmp_path / "c")
        stored = asyncio.run(_stored(reader))
        assert {served.url(name) for name in [*NEEDED, *ELSEWHERE]} <= stored


async def _stored(reader):
    try:
        return {page.url async for page in reader.frontier.pages() if page.purpose is Purpose.ASSET}
    finally:
        await reader.close()
