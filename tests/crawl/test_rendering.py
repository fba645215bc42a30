"""Whole crawls of pages that need JavaScript, in a real browser that has no network."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter.backends.warc.reading import Reader, Record
from skitter.cli import main
from skitter.compose import open_reader
from skitter.crawl.rendering.learning import SAMPLES
from skitter.events import Warned
from skitter.export import reread
from skitter.fetch.browser import process
from skitter.model import Page
from skitter.settings import Seconds, Settings
from tests.crawl.harness import Crawled, crawl, crawl_with, requested, settings_for
from tests.rendered import Answer, Site, html, need_browser, script, serving
from tests.warc_readers import assert_all_readers_agree

LIST = "for (const n of %s) document.body.innerHTML += `<a href='/${n}'>${n}</a> `;"
HANGS = "<script>while (true) {}</script>"


@pytest.fixture(autouse=True)
def browser() -> None:
    need_browser()


def rendering(**more: object) -> Settings:
    """Settings under which pages with scripts are rendered, and count as complete soon."""
    return settings_for(None, **{"fetch__render": "always", "fetch__render_quiet": "200ms", **more})


def archived(path: Path) -> list[Record]:
    files = sorted(path.glob("archive/*.warc.gz"))
    assert_all_readers_agree(*files)
    return [record for file in files for record in Reader(path / "archive").records(file.name)]


def titles(found: Crawled, site: Site) -> dict[str, str]:
    return {page.url.removeprefix(site.address): page.title for page in found.pages}


def reason(found: Crawled, site: Site, path: str) -> str:
    record = next(each for each in found.records.values() if each.url == site.address + path)
    return "" if record.reason is None else f"{record.reason.code}: {record.reason.detail}"


# ------------------------------------------------------------------------------------------------ what is found

APP = {
    "/": html("<title>shell</title><div id=app></div><script src=/app.js></script>"),
    "/app.js": script(
        "fetch('/api.json').then(r => r.json()).then(names => { document.title = 'Made by a script';"
        "for (const n of names) document.querySelector('#app').innerHTML += `<a href='/${n}'>to ${n}</a>` })"
    ),
    "/api.json": (200, "application/json", b'["one", "two"]'),
    "/one": html("<title>One</title><p>one"),
    "/two": html("<title>Two</title><script>location.href = '/three'</script><p>two"),
    "/three": html("<title>Three</title><script>customElements</script><p>three"),
}


def test_what_scripts_make_is_found_archived_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with serving(APP) as site:
        found = crawl(path, [site.address + "/"], rendering())
    assert titles(found, site) == {"/": "Made by a script", "/one": "One", "/two": "Two", "/three": "Three"}
    # Everything was requested once, by us, under our own name; the page itself was not requested by the browser.
    assert Counter(site.paths()) == Counter(["/", "/app.js", "/api.json", "/one", "/two", "/three"])
    assert all("skitter" in each.fields["user-agent"].lower() for each in site.asked)
    purposes = {each["url"].removeprefix(site.address): each["purpose"] for each in requested(path)}
    assert (purposes["/app.js"], purposes["/api.json"], purposes["/"]) == ("render", "render", "page")

    records = archived(path)
    kinds = Counter(
        (record.fields["warc-type"], record.fields.get("warc-target-uri", "").removeprefix(site.address))
        for record in records
    )
    assert kinds["response", "/app.js"] == kinds["request", "/app.js"] == kinds["response", "/"] == 1
    assert kinds["conversion", "/"] == 1
    assert kinds["conversion", "/one"] == 0  # it has no scripts
    exact = [
        record.block
        for record in records
        if record.fields["warc-type"] == "response" and record.fields["warc-target-uri"].endswith("api.json")
    ]
    assert [block.rpartition(b"\r\n\r\n")[2] for block in exact] == [b'["one", "two"]']
    assert "to one" in text_of(path, site.address + "/")


def text_of(path: Path, url: str) -> str:
    async def read() -> str:
        reader = open_reader(path)
        try:
            pages = [page async for page in reader.frontier.pages() if page.url == url]
            document = await reread.document(pages[0], reader)
            return document.text if document is not None else ""
        finally:
            await reader.close()

    return asyncio.run(read())


def test_pages_made_of_one_shell_are_no_duplicates(tmp_path: Path) -> None:
    words = " ".join(f"w{n}" for n in range(50))
    shell = html("<title>x</title><body><script src=/a.js></script>")
    site_of = {f"/{n}": shell for n in range(3)}
    site_of["/a.js"] = script(
        f"document.title = location.pathname; document.body.innerHTML = "
        f"`<a href=/0></a><a href=/1></a><a href=/2></a>` + '{words}'.replaceAll('w', location.pathname)"
    )
    with serving(site_of) as site:
        found = crawl(tmp_path / "c", [site.address + "/0"], rendering())
    assert titles(found, site) == {"/0": "/0", "/1": "/1", "/2": "/2"}
    assert [page.duplicate_of for page in found.pages] == ["", "", ""]
    assert site.paths().count("/a.js") == 1  # what a page was given is not asked for again


def test_scrolling_clicking_and_screenshots_are_opt_in(tmp_path: Path) -> None:
    more = (
        "let n = 0; document.querySelector('button').onclick = () => { n < 4 && "
        "document.body.insertAdjacentHTML('beforeend', `<a href=/p${++n}>${n}</a>`) }"
    )
    pages = {"/": html("<body><button class=more>more</button><script>", more, "</script>")}
    settings = rendering(
        fetch__render_scroll=10,
        fetch__render_click="button.more",
        fetch__screenshots=True,
        scope__max_depth=0,
    )
    with serving(pages) as site:
        found = crawl(tmp_path / "c", [site.address + "/"], settings)
    assert found.pages[0].links_count == 4
    place = found.pages[0].archive
    assert place is not None
    assert len(place.beside) == 2
    picture = place.behind(1)
    assert picture is not None
    read = open_reader(tmp_path / "c").archive.read(picture)
    assert read.startswith(b"\x89PNG")


# ------------------------------------------------------------------------------------------------ politeness


def test_robots_txt_speaks_to_what_pages_request_too(tmp_path: Path) -> None:
    with serving(
        {"/x.js": script(LIST % "['elsewhere']")}, robots="User-agent: *\nDisallow: /secret"
    ) as other:
        page = "".join(
            f"<script src='{url}'></script>"
            for url in (
                "/private/a.js",
                "/public/b.js",
                f"{other.address}/x.js",
                f"{other.address}/secret.js",
            )
        )
        pages = {
            "/": html("<body>", page),
            "/public/b.js": script(LIST % "['found']"),
            "/private/a.js": script(LIST % "['lost']"),
        }
        with serving(pages, robots="User-agent: *\nDisallow: /private/") as site:
            found = crawl(tmp_path / "c", [site.address + "/"], rendering())
    assert sorted(site.paths()) == ["/", "/elsewhere", "/found", "/public/b.js"]
    assert [each.path for each in other.asked] == ["/robots.txt", "/x.js"]
    assert found.report.counts.failed == 0


def test_requests_of_a_page_keep_their_gap_and_its_host_is_owed_its_delay_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"/s{n}.js" for n in range(6)]
    pages: dict[str, Answer] = {name: script("1") for name in names}
    pages["/"] = html(
        "<body>", *(f"<script async src={name}></script>" for name in names), "<a href=/next>n</a>"
    )
    pages["/next"] = html("next")
    settings = rendering(politeness__delay="300ms", fetch__render_gap="100ms")
    with serving(pages, takes=0.25) as site:
        crawl(tmp_path / "c", [site.address + "/"], settings)
    sub = sorted((each for each in site.asked if each.path in names), key=lambda each: each.start)
    assert len(sub) == 6
    gaps = [after.start - before.start for before, after in pairwise(sub)]
    assert min(gaps) > 0.05  # on the wire some are late; the log below has when they were sent
    events = sorted([(each.start, 1) for each in sub] + [(each.end, -1) for each in sub])
    assert max(sum(step for _, step in events[: at + 1]) for at in range(len(events))) <= 2
    last = next(each for each in site.asked if each.path == "/next")
    assert last.start - max(each.end for each in sub) > 6 * 0.3 - 0.05
    assert main(["audit", str(tmp_path / "c")]) == 0, capsys.readouterr().out
    (log,) = (tmp_path / "c" / "log").glob("requests-*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    starts = sorted(line["start"] for line in lines if line.get("purpose") == "render")
    for path, at in (("/next", starts[-1] + 1.0), (sub[3].path, starts[2])):  # planted: too early
        early = [
            line | {"start": at, "end": at + 0.25} if line.get("url", "").endswith(path) else line
            for line in lines
        ]
        planted = tmp_path / "requests-00.jsonl"
        planted.write_text("".join(json.dumps(line) + "\n" for line in early))
        assert main(["audit", str(planted)]) == 1, path


def test_only_get_and_head_leave_unless_a_site_may_have_post(tmp_path: Path) -> None:
    calls = (
        "fetch('/head', {method: 'HEAD'}); fetch('/get'); fetch('/put', {method: 'PUT', body: 'x'});"
        "fetch('/post', {method: 'POST', body: 'a=1', headers: {'Content-Type': 'application/x-www-form-urlencoded'}});"
        "navigator.sendBeacon('/beacon', 'x')"
    )
    pages = {
        "/": html("<body><script>", calls, "</script>"),
        "/get": script(""),
        "/post": script(""),
        "/head": script(""),
    }
    for post, wanted in ((False, {"/head", "/get"}), (True, {"/head", "/get", "/post"})):
        with serving(pages) as site:
            crawl(tmp_path / str(post), [site.address + "/"], rendering(fetch__render_post=post))
        asked = {each.path: each for each in site.asked}
        assert set(asked) - {"/", "/robots.txt"} == wanted
        assert asked["/head"].method == "HEAD"
        if post:
            assert (asked["/post"].method, asked["/post"].body) == ("POST", b"a=1")
            archived(tmp_path / str(post))


def test_a_page_cannot_ask_for_more_than_it_may(tmp_path: Path) -> None:
    flood = "for (let i = 0; i < 500; i++) fetch('/flood' + i)"
    with serving({"/": html("<body><script>", flood, "</script>")}) as site:
        settings = rendering(fetch__render_requests=10, fetch__render_gap="0s")
        found = crawl(tmp_path / "c", [site.address + "/"], settings)
    assert len([path for path in site.paths() if path.startswith("/flood")]) == 10
    assert "490 of its requests were not sent" in reason(found, site, "/")


# ------------------------------------------------------------------------------------------------ auto


@contextmanager
def mixed(size: int) -> Iterator[Site]:
    """A site of so many pages, a third of which are shells. Each links to the next two."""

    def answer(path: str) -> Answer | None:
        if path == "/app.js":
            return script(
                "const n = +location.pathname.split('/').pop(); document.title = 'Page ' + n; document.body.innerHTML ="
                f"[1, 2].map(d => n + d).filter(n => n < {size}).map(n => `<a href='/p/${{n}}'>${{n}}</a>`).join(' ')"
            )
        match = re.fullmatch(r"/p/(\d+)", path)
        if match is None or (number := int(match[1])) >= size:
            return None
        if number % 3 == 0:
            return html("<title>loading</title><body><script src=/app.js></script>")
        links = "".join(f"<a href='/p/{n}'>{n}</a>" for n in (number + 1, number + 2) if n < size)
        words = " ".join(f"word{number}x{n}" for n in range(80))
        # Its script does nothing that matters.
        return html(f"<title>Page {number}</title><body>{links}<p>{words}<script>window.seen = 1</script>")

    with serving(answer) as site:
        yield site


def check_auto(tmp_path: Path, size: int) -> None:
    path = tmp_path / "c"
    with mixed(size) as site:
        found = crawl(path, [site.address + "/p/0"], rendering(fetch__render="auto", fetch__render_gap="0s"))
    assert titles(found, site) == {f"/p/{n}": f"Page {n}" for n in range(size)}
    rendered = [page for page in found.pages if page.archive is not None and page.archive.beside]
    assert len(rendered) >= size / 3
    later = [page for page in found.pages if int(page.url.rpartition("/")[2]) >= 20]
    share = sum(page in rendered for page in later) / len(later)
    print(f"{len(rendered)} of {size} rendered, {share:.1%} after the first 20")
    assert share <= 0.4


def test_auto_learns_which_pages_need_a_browser(tmp_path: Path) -> None:
    check_auto(tmp_path, 40)


@pytest.mark.soak
def test_auto_finds_all_of_500_pages_and_renders_few(tmp_path: Path) -> None:
    check_auto(tmp_path, 500)


def test_each_worker_of_a_fleet_has_a_browser_of_its_own(tmp_path: Path) -> None:
    with serving(APP) as site, serving(APP) as other:
        resolve = ("a.test:127.0.0.1", "b.test:127.0.0.1")
        starts = [
            each.address.replace("127.0.0.1", name) for each, name in ((site, "a.test"), (other, "b.test"))
        ]
        found = crawl_with(
            2, tmp_path / "c", [f"{start}/" for start in starts], rendering(fetch__resolve=resolve)
        )
    assert Counter(page.title for page in found.pages) == Counter(
        2 * ["Made by a script", "One", "Two", "Three"]
    )
    assert leftovers() == []


# ------------------------------------------------------------------------------------------------ bad pages


def leftovers() -> list[int]:
    """Browsers that are still there."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            if b"remote-debugging-pipe" in line and MARK.encode() in line:
                found.append(int(folder.name))
    return found


MARK = f"https://render-{os.getpid()}.test/"


def test_bad_pages_cost_their_deadline_and_nothing_else(tmp_path: Path) -> None:
    bad = {
        "/hangs": HANGS,
        "/windows": "<script>for (let i = 0; i < 1000; i++) { window.open('/w' + i); open(location.href) }</script>",
        "/dialogs": "<script>for (let i = 0; i < 50; i++) { alert(i); confirm(i); prompt(i) }</script>",
        "/endless": "<script>setInterval(() => fetch('/never?' + Math.random()), 10)</script>",
        "/reloads": "<script>location.reload()</script>",
        "/huge": "<script>for (let i = 0; i < 22; i++) document.body.append(document.body.cloneNode(true))</script>",
        "/downloads": "<script>location.href = '/file.bin'</script><a download href=/file.bin id=a></a><script>a.click()</script>",
    }
    links = "".join(f"<a href={path}>x</a>" for path in bad)
    pages: dict[str, Answer] = {
        path: html(f"<title>{path}</title><body>", text) for path, text in bad.items()
    }
    pages["/"] = html("<body>", links, "<script src=/app.js></script>")
    pages["/app.js"] = script(LIST % "['end']")
    pages["/end"] = html("<title>/end</title><script>1</script><body>")
    pages["/file.bin"] = 200, "application/octet-stream", b"\0" * 100
    settings = rendering(
        fetch__render_deadline="2s", fetch__render_gap="0s", fetch__render_requests=20, fetch__contact=MARK
    )
    with serving(pages) as site:
        found = crawl(tmp_path / "c", [site.address + "/"], settings)
    stored = titles(found, site)
    assert {path: stored.get(path) for path in (*bad, "/end")} == {path: path for path in (*bad, "/end")}
    assert "scripts did not stop within 2 s" in reason(found, site, "/hangs")
    assert found.report.counts.failed == 0
    assert not any(path.startswith("/w") and path != "/windows" for path in site.paths())
    assert leftovers() == []


def test_a_browser_that_grows_too_large_is_killed_and_each_is_replaced_after_some_pages(
    tmp_path: Path,
) -> None:
    eats = (
        "window.kept = []; for (let n = 0; n < 10; n++) kept.push(new Uint8Array(5e7).fill(1));"
        "const begun = Date.now(); while (Date.now() - begun < 20000) {}"
    )
    pages: dict[str, Answer] = {
        f"/{n}": html(f"<title>shell</title><script>document.title = '{n}'</script>") for n in range(4)
    }
    pages["/"] = html(
        "<title>eats</title>", *(f"<a href=/{n}>{n}</a>" for n in range(4)), f"<script>{eats}</script>"
    )
    settings = rendering(fetch__render_memory="256MiB", fetch__render_pages=2)
    with serving(pages) as site:
        found = crawl(tmp_path / "c", [site.address + "/"], settings)
    assert titles(found, site) == {"/": "eats"} | {f"/{n}": str(n) for n in range(4)}
    statistics = json.loads((tmp_path / "c" / "log" / "statistics.json").read_text())
    assert statistics["render"]["browsers"] == 3
    assert (statistics["render"]["pages"], statistics["render"]["failed"]) == (5, 1)
    assert "more than 256 MiB" in reason(found, site, "/")


def test_a_browser_that_is_killed_costs_one_page_its_rendering(tmp_path: Path) -> None:
    waits = threading.Event()
    pages = {
        "/": html("<title>first</title><body><a href=/next>n</a><script src=/slow.js></script>"),
        "/slow.js": script("1"),
        "/next": html("<title>shell</title><script>document.title = 'next'</script>"),
    }

    def kill() -> None:
        for _ in range(600):
            if "/slow.js" in asked and leftovers():
                for pid in leftovers():
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.5)
                waits.set()
                return
            time.sleep(0.05)

    asked: list[str] = []
    with serving(pages, waits=_noting(waits, asked)) as site:
        killer = threading.Thread(target=kill)
        killer.start()
        found = crawl(tmp_path / "c", [site.address + "/"], rendering(fetch__contact=MARK))
        killer.join()
    assert titles(found, site) == {"/": "first", "/next": "next"}
    assert "the browser died" in reason(found, site, "/")


class _noting(threading.Event):  # noqa: N801
    """An event that notes that somebody waits for it."""

    def __init__(self, event: threading.Event, asked: list[str]) -> None:
        super().__init__()
        self._event, self._asked = event, asked

    def wait(self, timeout: float | None = None) -> bool:
        self._asked.append("/slow.js")
        return self._event.wait(timeout)

    def set(self) -> None:
        self._event.set()


def test_a_crawl_killed_while_it_renders_has_each_page_once(tmp_path: Path) -> None:
    waits, asked = threading.Event(), list[str]()
    pages = {
        "/": html("<title>shell</title><body><script src=/a.js></script><script src=/slow.js></script>"),
        "/a.js": script(LIST % "['one']"),
        "/slow.js": script("document.title = 'done'"),
        "/one": html("<title>One</title>"),
    }
    path = tmp_path / "c"
    values = {"fetch.allow_private": "127.0.0.0/8", "fetch.render": "always", "politeness.delay": "0s"}
    values |= {"fetch.contact": MARK, "crawl.workers": "1", "crawl.min_free_disk": "1MiB"}
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    with serving(pages, waits=_noting(waits, asked)) as site:
        command = [sys.executable, "-m", "skitter", "crawl", site.address + "/", "-o", str(path), "-q", *sets]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            for _ in range(1200):
                if asked:
                    break
                time.sleep(0.05)
            assert "/a.js" in site.paths()
        finally:
            process.kill()
            process.wait(30)
        waits.set()
        for _ in range(200):  # a browser ends with the process that it belongs to
            if not leftovers():
                break
            time.sleep(0.05)
        assert leftovers() == []
        done = subprocess.run([sys.executable, "-m", "skitter", "resume", str(path), "-q"], check=False)
    assert done.returncode == 0
    answers = Counter(
        record.fields["warc-target-uri"].removeprefix(site.address)
        for record in archived(path)
        if record.fields["warc-type"] == "response"
    )
    assert (answers["/"], answers["/one"], answers["/a.js"]) == (1, 1, 1)
    assert pages_of(path) == {"done", "One"}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_learnt_is_known_after_kill_9(tmp_path: Path, workers: int) -> None:
    path, size = tmp_path / "c", 60

    def answer(path: str) -> Answer | None:
        match = re.fullmatch(r"/p/(\d+)", path)
        if match is None or (number := int(match[1])) >= size:
            return None
        links = "".join(f"<a href='/p/{n}'>{n}</a>" for n in range(number, min(number + 3, size)))
        words = " ".join(f"word{number}x{n}" for n in range(80))
        return html(f"<title>{number}</title><body>{links}<p>{words}<script>window.seen = 1</script>")

    values = {"fetch.allow_private": "127.0.0.0/8", "fetch.render": "auto", "politeness.delay": "30ms"}
    values |= {"fetch.render_quiet": "100ms", "fetch.contact": MARK, "crawl.min_free_disk": "1MiB"}
    values |= {"crawl.workers": str(workers), "crawl.shards": "2"}
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    with serving(answer) as site, serving(answer, ip="127.0.0.2") as other:
        starts = [f"{each.address}/p/0" for each in (site, other)]
        skitter = [sys.executable, "-m", "skitter"]
        process = subprocess.Popen([*skitter, "crawl", *starts, "-o", str(path), "-q", *sets])
        try:
            for _ in range(2400):
                if min(len(site.paths()), len(other.paths())) >= 15:
                    break
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait(30)
        assert len(site.paths()) < size
        done = subprocess.run([*skitter, "resume", str(path), "-q"], check=False)
    assert done.returncode == 0
    pages = records_of(path)
    assert len(pages) == 2 * size
    rendered = Counter(page.host for page in pages if page.archive is not None and page.archive.beside)
    assert set(rendered) == {"127.0.0.1", "127.0.0.2"}
    # A page that was rendered and not settled when the crawl died is fetched again, and needs no browser then.
    assert max(rendered.values()) <= SAMPLES


def pages_of(path: Path) -> set[str]:
    return {page.title for page in records_of(path)}


def records_of(path: Path) -> list[Page]:
    async def read() -> list[Page]:
        reader = open_reader(path)
        try:
            return [page async for page in reader.frontier.pages()]
        finally:
            await reader.close()

    return asyncio.run(read())


# ------------------------------------------------------------------------------------------------ the address guard


@pytest.mark.parametrize("walled", [True, False])
def test_no_page_reaches_a_refused_address(
    walled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that a page can try against a listener at an address that the guard refuses; also without bubblewrap."""
    if not walled:
        monkeypatch.setattr(process, "bubblewrap", lambda: "")
    reached: list[object] = []
    listener = socket.create_server(("127.0.0.2", 0))
    port = listener.getsockname()[1]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.2", port))

    def accept() -> None:
        with suppress(OSError):
            while True:
                reached.append(listener.accept())

    def receive() -> None:
        with suppress(OSError):
            while True:
                reached.append(datagrams.recvfrom(2048))

    for work in (accept, receive):
        threading.Thread(target=work, daemon=True).start()
    there, named = f"127.0.0.2:{port}", f"rebind.test:{port}"
    tries = f"""
      const T = ['http://{there}/', 'http://{named}/', '/redirect'];
      for (const t of T) {{
        fetch(t, {{mode: 'no-cors'}}).catch(() => 0);
        new Image().src = t; navigator.sendBeacon(t, 'x');
        for (const rel of ['prefetch', 'preconnect', 'dns-prefetch', 'prerender', 'stylesheet', 'modulepreload', 'icon']) {{
          const l = document.createElement('link'); l.rel = rel; l.href = t; document.head.append(l) }}
        const f = document.createElement('iframe'); f.src = t; document.body.append(f);
        const inner = document.createElement('iframe'); inner.srcdoc = `<script>
          try {{ new WebSocket('ws://{there}/') }} catch (_) {{}}
          try {{ new RTCPeerConnection({{iceServers: [{{urls: 'stun:{there}'}}]}}).createOffer({{offerToReceiveAudio: 1}}) }} catch (_) {{}}
          <\\/script>`; document.body.append(inner);
        try {{ open(t) }} catch (_) {{}}
        const w = new Worker(URL.createObjectURL(new Blob([`fetch('${{t}}', {{mode: 'no-cors'}}); try {{ new WebSocket('ws://{there}/') }} catch (_) {{}}`])));
      }}
      try {{ const p = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{there}'}}, {{urls: 'turn:{there}', username: 'a', credential: 'b'}}]}});
        p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)) }} catch (_) {{}}
      try {{ new WebSocket('ws://{there}/'); new EventSource('http://{there}/') }} catch (_) {{}}
      navigator.serviceWorker && navigator.serviceWorker.register('/sw.js').catch(() => 0);
      document.title = 'tried';
    """
    rules = f'<script type=speculationrules>{{"prefetch": [{{"urls": ["http://{there}/"]}}]}}</script>'
    pages = {
        "/": html(
            f"<meta http-equiv=refresh content='5; url=http://{there}/'><body>",
            rules,
            "<script>",
            tries,
            "</script>",
        ),
        "/redirect": (302, "text/plain", f"http://{there}/".encode()),
        "/sw.js": script("1"),
    }
    settings = rendering(
        fetch__allow_private=("127.0.0.1/32",),
        fetch__resolve=("rebind.test:127.0.0.2",),
        fetch__render_quiet="1s",
        fetch__render_skip=(),
    )
    try:
        with serving(pages) as site:
            found = crawl(tmp_path / "c", [site.address + "/"], settings)
    finally:
        listener.close()
        datagrams.close()
    warned = [event.text for event in found.events if isinstance(event, Warned)]
    assert any("runs without bubblewrap" in text for text in warned) is not walled
    assert titles(found, site)["/"] == "tried"
    assert "/redirect" in site.paths()  # it was tried in earnest
    assert "/sw.js" not in site.paths()
    assert reached == []


# ------------------------------------------------------------------------------------------------ limits


def test_budgets_and_what_the_crawl_has_already_hold_for_pages_too(tmp_path: Path) -> None:
    calls = "for (let i = 0; i < 9; i++) fetch('/data' + i); fetch('/known').then(r => r.text()).then(t => document.title = t)"
    pages: dict[str, Answer] = {f"/data{n}": script("1") for n in range(9)}
    pages["/known"] = html("what is known")
    pages["/"] = html("<body><a href=/app>a</a><a href=/known>k</a>")
    pages["/app"] = html("<body><a href=/known>k</a><script>", calls, "</script>")
    settings = rendering(budget__host_requests_per_day=8, fetch__render_gap="300ms", scope__kind="host")
    with serving(pages) as site:
        starts = [site.address + "/known", site.address + "/app"]
        found = crawl(
            tmp_path / "c", starts, replace(settings, crawl=replace(settings.crawl, max_time=Seconds(8)))
        )
    assert len(site.asked) <= 8
    assert site.paths().count("/known") == 1
    assert titles(found, site)["/app"] == "<!doctype html>what is known"
