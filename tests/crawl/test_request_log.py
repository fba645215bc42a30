"""The request log has every request that a server saw, in order, each after its delay. Judged by the server."""

import asyncio
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from skitter import urls
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import Crawled, crawl_on_this_loop, crawl_with, requested, settings_for
from tests.fetching import Server, Talk, ok, run, serving

DELAY = 0.1
PRECISION = 0.01  # of two clocks


def logged(path: Path) -> list[dict[str, object]]:
    """The lines of all request logs, in the order of time."""
    return sorted(requested(path), key=lambda line: line["start"])


# ------------------------------------------------------------------------------------------------ kept connections

PAGES = 8
START = "".join(f"<a href='/{number}'>{number}</a> " for number in range(1, PAGES)).encode()


def closing_on(request: int, heard: list[tuple[str, float]]) -> Talk:
    """A site whose connections end with their nth request, unanswered. What it hears is noted with the time."""

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(1, 1000):
            head = await server.hear(reader)
            if not head:
                return
            heard.append((head.split()[1].decode(), time.time()))
            if number == request:
                return
            robots = b"/robots.txt" in head
            writer.write(
                ok(b"", status=b"404 Not Found") if robots else ok(START, b"Content-Type: text/html")
            )
            await writer.drain()

    return talk


@pytest.mark.parametrize(("request_number", "per_host"), [(2, 1), (5, 1), (2, 3)])
def test_a_closed_reused_connection_is_retried_after_the_delay_and_logged(
    tmp_path: Path, request_number: int, per_host: int
):
    heard: list[tuple[str, float]] = []
    settings = settings_for(
        politeness__delay=f"{DELAY}s",
        politeness__per_host=per_host,
        schedule__retries=0,
        robots__retry_after=("1s",),
    )

    async def main() -> Crawled:
        async with serving(closing_on(request_number, heard)) as server:
            return await crawl_on_this_loop(tmp_path / "c", [server.url("/")], settings)

    result = run(main())
    lines = logged(tmp_path / "c")
    assert [urls.split(str(line["url"])).path for line in lines] == [path for path, _ in heard]  # type: ignore[union-attr]
    gaps = [after - before for (_, before), (_, after) in pairwise(heard)]
    assert min(gaps) >= DELAY - PRECISION
    closed = [line for line in lines if line["fault"] == "reuse"]
    assert 1 <= len(closed) <= per_host  # from then on, each request has a connection of its own
    assert len(lines) == 1 + PAGES + len(closed)
    assert len(result.keys) == PAGES
    assert result.report.counts.failed == 0


def test_a_robots_txt_on_a_closed_reused_connection_is_soon_retried(tmp_path: Path):
    heard: list[tuple[str, float]] = []

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(2):  # the second request on a connection is its end
            head = await server.hear(reader)
            if not head or number:
                heard.extend([(head.split()[1].decode(), time.time())] if head else [])
                return
            path = head.split()[1].decode()
            heard.append((path, time.time()))
            moved = ok(b"", b"Location: /rules.txt", status=b"301 Moved")
            rules = ok(b"User-agent: *\nDisallow: /1\n")
            page = ok(START, b"Content-Type: text/html")
            writer.write({"/robots.txt": moved, "/rules.txt": rules}.get(path, page))
            await writer.drain()

    settings = settings_for(politeness__delay=f"{DELAY}s", robots__retry_after=("1h",))

    async def main() -> Crawled:
        async with serving(talk) as server:
            return await crawl_on_this_loop(tmp_path / "c", [server.url("/")], settings)

    result = run(main())
    paths = [path for path, _ in heard]
    assert paths[:5] == ["/robots.txt", "/rules.txt", "/robots.txt", "/rules.txt", "/"]
    assert "/1" not in paths
    assert len(result.keys) == PAGES - 1
    lines = logged(tmp_path / "c")
    assert [urls.split(str(line["url"])).path for line in lines] == paths  # type: ignore[union-attr]
    assert min(after - before for (_, before), (_, after) in pairwise(heard)) >= DELAY - PRECISION


# ------------------------------------------------------------------------------------------------ odd answers

LATER = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
# What makes some clients ask again by themselves, or leave HTTP.
ODD = {
    "/interim": GO_ON * 3 + LATER * 50 + ok(b"<p>hi"),
    "/interim-flood": LATER * 20_000,
    "/interim-and-no-more": GO_ON,
    "/switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "/login": ok(
        b"who?", b'WWW-Authenticate: Basic realm="a"', b"WWW-Authenticate: Negotiate", status=b"401 No"
    ),
    "/login-proxy": ok(b"who?", b'Proxy-Authenticate: Basic realm="a"', status=b"407 No"),
    "/timed-out": ok(b"too late", b"Connection: close", status=b"408 Request Timeout"),
    "/expectation": ok(b"no", status=b"417 Expectation Failed"),
    "/misdirected": ok(b"not here", status=b"421 Misdirected Request"),
    "/too-early": ok(b"no", status=b"425 Too Early"),
    "/upgrade": ok(b"h2 only", b"Upgrade: h2c", b"Connection: Upgrade", status=b"426 Upgrade Required"),
    "/elsewhere": ok(
        b"<p>hi", b'Alt-Svc: h2=":1", h3=":1"; persist=1', b"Strict-Transport-Security: max-age=9999999"
    ),
    "/refresh": ok(b"<p>hi", b"Refresh: 0; url=/robots.txt"),
    "/moved-to-itself": ok(b"", b"Location: /moved-to-itself", status=b"302 Found"),
    "/twice": ok(b"<p>one") + ok(b"<p>two"),
    "/nothing": b"",
    "/half": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "/old": b"HTTP/0.9 is just text",
}
ODD_START = "".join(f"<a href='{path}'>{path}</a> " for path in ODD).encode()


def odd(heard: list[tuple[str, float]]) -> Talk:
    """Sends odd answers, and hangs up behind those that are not whole."""

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await server.hear(reader):
            path = head.split()[1].decode()
            heard.append((path, time.time()))
            answer = ODD.get(path, ok(ODD_START, b"Content-Type: text/html"))
            if path == "/robots.txt":
                answer = ok(b"", status=b"404 Not Found")
            writer.write(answer)
            await writer.drain()
            if b"Content-Length" not in answer or path == "/half":
                return

    return talk


def test_whatever_an_answer_asks_for_there_is_one_request_and_one_line_for_it(tmp_path: Path):
    heard: list[tuple[str, float]] = []
    settings = settings_for(politeness__delay=f"{DELAY}s", schedule__retries=1, fetch__deadline="2s")

    async def main() -> Crawled:
        async with serving(odd(heard)) as server:
            return await crawl_on_this_loop(tmp_path / "c", [server.url("/")], settings)

    run(main())
    lines = logged(tmp_path / "c")
    assert [urls.split(str(line["url"])).path for line in lines] == [path for path, _ in heard]  # type: ignore[union-attr]
    assert set(ODD) < {path for path, _ in heard}
    gaps = [after - before for (_, before), (_, after) in pairwise(heard)]
    assert min(gaps) >= DELAY - PRECISION


# ------------------------------------------------------------------------------------------------ everything else


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A crawl of servers that hang, reset, cut, drip, lie, redirect and fail."""
    wings = [
        "slow",
        "broken",
        "lying",
        "endless",
        "redirects",
        "redirect_faults",
        "statuses",
        "later",
        "robots",
        "robots_faults",
    ]
    features = Features(**dict.fromkeys(wings, True), slow_seconds=0.4, crawl_delay=0.3, retry_after=1)
    web = SyntheticWeb(seed=21, hosts=30, pages_per_host=3, features=features)
    path = tmp_path_factory.mktemp("hostile") / "c"
    with serve_process(web) as server:
        settings = settings_for(
            server,
            scope__kind="any",
            politeness__delay=f"{DELAY}s",
            fetch__deadline="2s",
            fetch__max_body="1MiB",
            schedule__retries=1,
        )
        crawl_with(2, path, server.seeds(), settings)
        return logged(path), server.log()


def test_the_log_matches_the_servers_requests_in_order(hostile):
    lines, seen = hostile
    by_host: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        parts = urls.split(line["url"])
        by_host[parts.host].append(parts.path + ("?" + parts.query if parts.query else ""))
    asked: dict[str, list[str]] = defaultdict(list)
    for request in seen:
        asked[request.host].append(request.path)
    assert by_host == asked
    assert len(lines) > 200
    assert {"timeout", "reset", "protocol", "headers", "size"} <= {line["fault"] for line in lines}


def test_the_times_in_the_log_hold_the_delay_of_every_host(hostile):
    lines, _seen = hostile
    by_host = defaultdict(list)
    for line in lines:
        by_host[line["host"]].append(line)
    gaps = [after["start"] - before["end"] for own in by_host.values() for before, after in pairwise(own)]
    assert min(gaps) >= DELAY


def test_the_server_was_never_asked_sooner_than_its_delay(hostile):
    _lines, seen = hostile
    by_host = defaultdict(list)
    for request in seen:
        by_host[request.host].append(request)
    # What we gave up on ends for the server when it notices that: only beginnings are compared there.
    gaps = [
        after.start - (before.end if before.whole and before.end is not None else before.start)
        for own in by_host.values()
        for before, after in pairwise(own)
    ]
    assert min(gaps) >= DELAY - PRECISION
