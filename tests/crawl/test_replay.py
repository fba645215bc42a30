"""`skitter replay` in a real browser: pages look as they did, and cannot get out. Judged by the browser and by a server."""

import http.client
import json
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from benchmarks import manuals

from skitter.cli import main
from skitter.crawl.directory import CrawlDirectory
from skitter.export.replay import window
from tests.chromium import chromium, needs_chromium
from tests.crawl.harness import archives, crawl, settings_for
from tests.crawl.replaying import BAR, HEIGHT, WIDTH, difference, replayed
from tests.crawl.sites import small_site

PIXEL = b'<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="80"><rect width="%d" height="80" fill="%s"/></svg>'
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSerif-Bold.ttf")
PAGE = b"""<!doctype html><html><head><title>First</title>
<link rel="stylesheet" href="/css/a.css"><link rel=preconnect href="//elsewhere.invalid">
<meta http-equiv="Content-Security-Policy" content="img-src http://127.0.0.1:*">
<style>h1 { background: url( /img/bg.svg ) }</style>
<script src="js/a.js" integrity="sha256-DIGEST"></script></head>
<body background="img/body.svg"><h1>Everything a page holds</h1>
<img src="img/one.svg"><img srcset="img/two.svg 1x, img/three.svg 2x" src="img/never.svg">
<picture><source srcset="img/four.svg"><img src="img/five.svg"></picture>
<iframe src="/frame.html" width=400 height=120></iframe>
<iframe srcdoc="&lt;img src=/img/six.svg&gt;" width=300 height=100></iframe>
<p id=late>nothing</p><p class=serif>Text in a font of the archive</p>
<a href="/second.html" target="_blank">second</a> <a href="/moved">moved</a> <a href="/none.html">hidden</a></body></html>"""
SCRIPT = b"""addEventListener("DOMContentLoaded", async () => {
  document.getElementById("late").textContent = await (await fetch("/data.json")).text();
  const image = new Image(); image.src = "/img/seven.svg"; document.body.append(image);
  const box = document.createElement("div"); box.innerHTML = '<img src="/img/eight.svg">'; document.body.append(box);
  localStorage.setItem("a", "b"); document.cookie = "c=d";
  document.body.append(localStorage.getItem("a") + document.cookie);
});"""
SHEET = b"""@import "b.css"; @font-face { font-family: Own; src: url(../own.ttf) }
.serif { font: 40px Own } body { margin: 30px }"""


def site() -> dict[str, tuple[int, str, bytes]]:
    colours = "red green blue orange purple brown teal navy"
    names = ["one", "two", "four", "six", "seven", "eight", "bg", "body"]
    answers = {
        f"/img/{name}.svg": (200, "image/svg+xml", PIXEL % (width, width, colour.encode()))
        for width, (name, colour) in enumerate(zip(names, colours.split(), strict=True), 70)
    }
    return answers | {
        "/": (200, "text/html", PAGE.replace(b"DIGEST", b64encode(sha256(SCRIPT).digest()))),
        "/js/a.js": (200, "text/javascript", SCRIPT),
        "/css/a.css": (200, "text/css", SHEET),
        "/css/b.css": (200, "text/css", b"h1 { color: white }"),
        "/own.ttf": (200, "font/ttf", FONT.read_bytes() if FONT.is_file() else b""),
        "/frame.html": (200, "text/html", b"<body style='background:#eef'><img src=img/one.svg> framed"),
        "/data.json": (200, "application/json", b'"fetched by a script"'),
        "/img/three.svg": (200, "image/svg+xml", PIXEL % (90, 90, b"black")),
        "/img/five.svg": (200, "image/svg+xml", PIXEL % (90, 90, b"black")),
        "/img/never.svg": (200, "image/svg+xml", PIXEL % (90, 90, b"black")),
        "/second.html": (200, "text/html", "<title>Zweite</title><p>zwölf Boxkämpfer".encode("utf-16")),
        "/copy.html": (200, "text/html", b"<title>Same</title>" + b"the same words " * 30),
        "/again.html": (200, "text/html", b"<title>Same</title>" + b"the same words " * 30),
        "/none.html": (
            200,
            "text/html",
            b"<meta name=robots content=noarchive><title>Secret</title>hidden words",
        ),
    }


STARTS = [
    "/",
    "/second.html",
    "/copy.html",
    "/again.html",
    "/data.json",
    "/img/seven.svg",
    "/img/eight.svg",
    "/img/six.svg",
    "/none.html",
]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory) -> tuple[Path, str, bytes]:
    """A crawl of the small site, its address, which nobody answers at any more, and what its first page looked like."""
    folder = Path(tmp_path_factory.mktemp("replay"))
    with small_site(site()) as address, chromium() as browser:
        settings = settings_for(archive__assets="all", parse__pool_above="10MB")
        crawl(folder / "crawl", [address + path for path in STARTS], settings)
        browser.open(f"{address}/", WIDTH, HEIGHT)
        live = browser.picture(0, WIDTH, HEIGHT)
    return folder / "crawl", address, live


@pytest.fixture(scope="module")
def served(crawled, tmp_path_factory) -> Iterator[str]:
    with replayed(crawled[0], log=Path(tmp_path_factory.mktemp("log")) / "log") as screens:
        yield screens


def get(origin: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """As a program asks, without a browser."""
    parts = urlsplit(origin)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(
            "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def content_of(screens: str) -> str:
    """The origin of archived content, as our own page's policy names it."""
    policy = get(screens, "/")[1]["content-security-policy"]
    return policy.partition("frame-src ")[2].partition(";")[0]


# ------------------------------------------------------------------------------------------------ as it was


@needs_chromium
def test_a_page_looks_as_it_did_and_asks_for_nothing_in_vain(crawled, served):
    _, address, live = crawled
    with chromium() as browser:
        browser.open(f"{served}/view/2026/{address}/", WIDTH, HEIGHT + BAR)
        assert browser.failed == {}
        assert difference(live, browser.picture(BAR, WIDTH, HEIGHT)) < 0.01
        assert browser.evaluate("document.title") == "First"  # of our own page, which follows the frame


@needs_chromium
def test_what_a_browser_opens_by_itself_is_shown_in_our_frame(crawled, served):
    _, address, _ = crawled
    with chromium() as browser:
        browser.open(f"{content_of(served)}/2026/{address}/second.html")
        assert browser.evaluate("location.origin") == served
        assert browser.evaluate("document.title") == "Zweite"
        assert browser.failed == {}


def test_copies_redirects_charsets_and_statuses(crawled, served):
    _, address, _ = crawled
    content = content_of(served)
    for name in ("copy", "again"):  # one of them is a revisit
        status, headers, body = get(content, f"/2026/{address}/{name}.html")
        assert (status, b"the same words" in body) == (200, True)
        assert "memento-datetime" in headers
    status, headers, body = get(content, f"/2026/{address}/second.html")
    assert (headers["content-type"], "zwölf".encode() in body) == ("text/html; charset=utf-8", True)
    status, _, body = get(content, f"/2026/{address}/moved")
    assert status == 404  # as the site answered


def test_ranges(crawled, served):
    _, address, _ = crawled
    content, path = content_of(served), f"/2026/{address}/data.json"
    whole = get(content, path)[2]
    for asked, part in (("0-2", whole[:3]), ("5-", whole[5:]), ("-4", whole[-4:]), ("-999", whole)):
        status, headers, body = get(content, path, Range=f"bytes={asked}")
        assert (status, body) == (200 if body == whole else 206, part)
        assert headers["accept-ranges"] == "bytes"
    status, headers, _ = get(content, path, Range="bytes=999-")
    assert (status, headers["content-range"]) == (416, f"bytes */{len(whole)}")


def test_what_is_not_there_is_said(crawled, served):
    _, address, _ = crawled
    content = content_of(served)
    status, _, body = get(content, f"/2026/{address}/<nowhere>".replace("<", "%3C").replace(">", "%3E"))
    assert (status, b"Not in this archive" in body) == (404, True)
    assert get(content, "/nothing")[0] == 404
    status, headers, _ = get(content, "/data.json", Referer=f"{content}/2026/{address}/x/y.html")
    assert (status, headers["location"]) == (307, f"/20260000000000/{address}/data.json")


def test_what_asks_for_noarchive_is_not_shown_unless_the_user_wants_it(crawled, served, tmp_path):
    path, address, _ = crawled
    status, _, body = get(content_of(served), f"/2026/{address}/none.html")
    assert (status, b"noarchive" in body, b"hidden words" in body) == (403, True, False)
    assert b"none.html" not in get(served, "/")[2]
    assert b"none.html</code></li>" not in get(served, "/?q=hidden")[2]
    with replayed(path, "--noarchive", "--no-search", log=tmp_path / "log") as screens:
        assert b"hidden words" in get(content_of(screens), f"/2026/{address}/none.html")[2]
    assert (path / "replay.sqlite").is_file()


def test_search_and_captures(crawled, served):
    _, address, _ = crawled
    found = get(served, "/?q=boxk%C3%A4mpfer")[2].decode()
    assert (f"{address}/second.html" in found, "<mark>Boxkämpfer</mark>" in found) == (True, True)
    listed = get(served, "/captures?url=" + address.replace(":", "%3A") + "%2Fcopy.html")[2].decode()
    assert "1 capture of" in listed
    status, headers, _ = get(served, "/open?url=" + address.removeprefix("http://") + "/second.html")
    assert (status, headers["location"].startswith("/view/9999")) == (303, True)


# ------------------------------------------------------------------------------------------------ a WACZ


def test_a_wacz_is_replayed_like_the_crawl(crawled, tmp_path):
    path, address, live = crawled
    file = tmp_path / "x.wacz"
    assert main(["export", str(path), "--format", "wacz", "-o", str(file), "-q"]) == 0
    with replayed(file, log=tmp_path / "log") as screens, chromium() as browser:
        browser.open(f"{screens}/view/2026/{address}/", WIDTH, HEIGHT + BAR)
        assert browser.failed == {}
        assert difference(live, browser.picture(BAR, WIDTH, HEIGHT)) < 0.01
        assert b"Zweite" in get(screens, "/?q=zweite")[2]
        assert get(content_of(screens), f"/2026/{address}/none.html")[0] == 404


def test_a_player_gets_the_file_and_its_own_folder_and_nothing_else(crawled, tmp_path):
    file, folder = tmp_path / "x.wacz", tmp_path / "player"
    assert main(["export", str(crawled[0]), "--format", "wacz", "-o", str(file), "-q"]) == 0
    folder.mkdir()
    (folder / "ui.js").write_text("// a player")
    (tmp_path / "secret").write_text("not of the player")
    with replayed(file, "--player", str(folder), log=tmp_path / "log") as screens:
        assert b"<replay-web-page" in get(screens, "/")[2]
        assert get(screens, "/ui.js")[2] == b"// a player"
        assert get(screens, "/replay/../../secret")[0] == get(screens, "/..%2fsecret")[0] == 404
        whole = file.read_bytes()
        status, headers, body = get(screens, "/archive.wacz", Range=f"bytes=-{len(whole) + 99}")
        assert (status, body == whole) == (200, True)
        status, headers, body = get(screens, "/archive.wacz", Range="bytes=2-5")
        assert (status, body, headers["content-range"]) == (206, whole[2:6], f"bytes 2-5/{len(whole)}")


# ------------------------------------------------------------------------------------------------ a real site


# A script there asks for a picture whose name it makes up, and that no page and no style sheet refers to.
SCRIPTED = {"py-modindex.html"}


@pytest.mark.soak
@needs_chromium
@pytest.mark.skipif(
    bool(manuals.missing("python3.11/html", "python3-doc")), reason="needs python3-doc and nginx-light"
)
def test_twenty_pages_of_a_real_site_look_as_they_did(tmp_path, capsys):
    """Debian's python3-doc behind nginx, archived with its assets; then nginx is gone. Pictures stay in the folder."""
    root = manuals.folder("python3.11/html")
    pages = sorted(manuals.pages(root) - SCRIPTED)
    chosen = pages[:: len(pages) // 20][:20]
    folder = Path(os.environ.get("SKITTER_TEST_PICTURES") or tmp_path)
    with chromium() as browser:
        with manuals.serving(root) as server:
            site = f"http://{server.address}:{server.port}"
            settings = settings_for(archive__assets="all", politeness__per_host=8)
            crawl(tmp_path / "c", [f"{site}/index.html"], settings)
            for number, page in enumerate(chosen):
                browser.open(f"{site}/{page}", WIDTH, HEIGHT)
                (folder / f"{number:02d}-live.png").write_bytes(browser.picture(0, WIDTH, HEIGHT))
        lines, worst, asked = [], 0.0, 0
        with replayed(tmp_path / "c", "--no-search", log=tmp_path / "log") as screens:
            for number, page in enumerate(chosen):
                browser.open(f"{screens}/view/9999/{site}/{page}", WIDTH, HEIGHT + BAR)
                shown = browser.picture(BAR, WIDTH, HEIGHT)
                (folder / f"{number:02d}-replayed.png").write_bytes(shown)
                differs = difference((folder / f"{number:02d}-live.png").read_bytes(), shown)
                worst, asked = max(worst, differs), asked + len(browser.urls)
                lines.append(
                    f"{differs:8.4%} of the pixels differ, {len(browser.urls):3} requests, {len(browser.failed)} failed: {page}"
                )
                assert browser.failed == {}, page
        with capsys.disabled():
            print(
                "",
                *lines,
                f"{len(chosen)} pages, {asked} requests, none failed; at most {worst:.4%} differ",
                sep="\n",
            )
        assert worst < 0.01
        assert "not in the archive:" not in (tmp_path / "log").read_text()


# ------------------------------------------------------------------------------------------------ no way out


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server of the live web that notes everybody who connects."""
    heard: list[str] = []
    with socket.create_server(("127.88.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.settimeout(1)
                try:
                    heard.append(client.recv(100).decode("latin-1").partition("\r\n")[0])
                except OSError:
                    heard.append("a connection")
                client.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.88.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


ESCAPES = """
const at = "http://LIVE", tried = [];
const attempt = (name, act) => { try { Promise.resolve(act()).catch(() => 0); tried.push(name); } catch (error) { tried.push(name); } };
attempt("fetch", () => Object.getPrototypeOf(async () => 0).constructor("return fetch('" + at + "/fetch', {mode: 'no-cors'})")());
attempt("frame's fetch", () => { const frame = document.createElement("iframe"); document.body.append(frame); return frame.contentWindow.fetch(at + "/inner", {mode: "no-cors"}); });
attempt("frame's RTC", () => { const frame = document.createElement("iframe"); document.body.append(frame); const peer = new frame.contentWindow.RTCPeerConnection({iceServers: [{urls: "turn:LIVE?transport=tcp", username: "a", credential: "b"}]}); peer.createDataChannel("x"); return peer.createOffer().then((offer) => peer.setLocalDescription(offer)); });
attempt("image", () => { document.body.insertAdjacentHTML("beforeend", "<img src=" + at + "/image>"); });
attempt("style", () => { document.body.style.backgroundImage = `url(${at}/style)`; });
attempt("socket", () => new WebSocket("ws://LIVE/socket"));
attempt("events", () => new EventSource(at + "/events"));
attempt("beacon", () => Navigator.prototype.sendBeacon.call(navigator, at + "/beacon", "x"));
attempt("worker", () => new Worker(URL.createObjectURL(new Blob([`fetch("${at}/worker")`]))));
attempt("service worker", () => ServiceWorkerContainer.prototype.register.call(navigator.serviceWorker, "/2026/" + at + "/sw.js"));
attempt("prefetch", () => { const link = document.createElement("link"); link.rel = "prefetch"; Object.setPrototypeOf(link, HTMLLinkElement.prototype); link.attributes.setNamedItem(Object.assign(document.createAttribute("href"), {value: at + "/prefetch"})); document.head.append(link); });
attempt("preconnect", () => { const link = document.createElement("link"); link.rel = "preconnect"; link.attributes.setNamedItem(Object.assign(document.createAttribute("href"), {value: at})); document.head.append(link); });
attempt("frame", () => { document.body.insertAdjacentHTML("beforeend", "<iframe srcdoc='<meta http-equiv=refresh content=0;url=" + at + "/frame>'></iframe>"); });
attempt("form", () => { const form = document.createElement("form"); form.attributes.setNamedItem(Object.assign(document.createAttribute("action"), {value: at + "/form"})); form.target = "other"; document.body.append(form); HTMLFormElement.prototype.submit.call(form); });
attempt("window", () => window.open(at + "/window"));
attempt("top", () => { top.location = at + "/top"; });
attempt("our page", () => { document.title = "read: " + parent.document.title; });
console.log(JSON.stringify(tried));
setTimeout(() => { location.href = at + "/location"; }, 500);
"""


@pytest.mark.parametrize("closed", [False, True])
@needs_chromium
def test_a_hostile_page_reaches_neither_the_live_web_nor_our_own_pages(tmp_path, closed):
    """In any browser no request gets out; in that of --browser not even a connection."""
    with listening() as (live, heard):
        page = f"<title>Hostile</title><body><script>{ESCAPES.replace('LIVE', live)}</script>".encode()
        meta = f"<meta http-equiv=refresh content='0; url=http://{live}/refresh'><base href='http://{live}/'><img src=x>".encode()
        answers = {"/": (200, "text/html", page), "/meta.html": (200, "text/html", meta)}
        with small_site(answers) as address:
            crawl(tmp_path / "c", [f"{address}/", f"{address}/meta.html"], settings_for())
        heard.clear()
        with replayed(tmp_path / "c", "--no-search", log=tmp_path / "log") as screens:
            flags = window.closed(screens, content_of(screens)) if closed else []
            with chromium(*flags) as browser:
                browser.open(f"{screens}/view/2026/{address}/", settle=False)
                browser.until(lambda: bool(browser.console))
                browser.until_quiet(4.0)
                (tried,) = map(json.loads, browser.console)
                assert len(tried) == ESCAPES.count("attempt(")
                assert browser.evaluate("location.origin") == screens
                assert browser.evaluate("document.title") == "Hostile"
                browser.open(f"{screens}/view/2026/{address}/meta.html", settle=False)
                browser.until_quiet(2.0)
                assert browser.evaluate("location.origin") == screens
        assert [line for line in heard if closed or " HTTP/1.1" in line] == []


def test_a_browser_that_is_started_for_it_ends_it(crawled, tmp_path):
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/flags\n")
    program.chmod(0o755)
    command = ["replay", str(crawled[0]), "--no-search", "-q", "--browser", str(program)]
    assert main(command) == 0
    flags = (tmp_path / "flags").read_text().splitlines()
    assert flags[-1].startswith("http://127.0.0.1:")
    assert any(flag.startswith("--host-resolver-rules=MAP * ~NOTFOUND") for flag in flags)
    assert main([*command[:-1], "/nowhere/browser"]) == 2


def test_strangers_get_nothing(crawled, served):
    _, address, _ = crawled
    content = content_of(served)
    for origin in (served, content):
        path = f"/2026/{address}/" if origin == content else "/"
        assert get(origin, path)[0] == 200
        assert get(origin, path, Host="rebound.example")[0] == 421
        assert get(origin, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="empty")[0] == 403
        assert get(origin, path)[1]["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors" in get(origin, path)[1]["content-security-policy"]
    assert get(content, f"/2026/{address}/js/a.js", Sec_Fetch_Dest="serviceworker")[0] == 403


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: " + b"x" * 70_000 + b"\r\n\r\n",
        b"\0\xff\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /\r\n\r\n",
    ],
)
def test_broken_requests_are_refused(served, sent):
    parts = urlsplit(served)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
        client.sendall(sent.replace(b"HOST", parts.netloc.encode()))
        answer = b""
        while piece := client.recv(1000):
            answer += piece
    assert answer.split(b" ")[1][:1] == b"4"
    assert get(served, "/")[0] == 200


# ------------------------------------------------------------------------------------------------ bad input


def test_a_damaged_record_is_missing_and_the_rest_is_shown(tmp_path):
    answers = {"/": (200, "text/html", b"<a href=/a>a</a>" * 50), "/a": (200, "text/html", b"fine " * 100)}
    with small_site(answers) as address:
        result = crawl(tmp_path / "c", [f"{address}/"], settings_for())
    with replayed(tmp_path / "c", log=tmp_path / "log") as screens:
        assert get(content_of(screens), f"/2026/{address}/a")[0] == 200
    place = next(page.archive for page in result.pages if page.url.endswith("/a"))
    (file,) = archives(tmp_path / "c")
    octets = bytearray(file.read_bytes())
    octets[place.offset + place.length // 2] ^= 255
    file.write_bytes(octets)
    with replayed(tmp_path / "c", "--no-search", log=tmp_path / "log") as screens:
        assert get(content_of(screens), f"/2026/{address}/a")[0] == 404
        assert get(content_of(screens), f"/2026/{address}/")[0] == 200
    CrawlDirectory(tmp_path / "c").captures_file.write_bytes(b"no database at all" * 100)
    with replayed(tmp_path / "c", "--no-search", log=tmp_path / "log") as screens:
        assert get(content_of(screens), f"/2026/{address}/")[0] == 200
