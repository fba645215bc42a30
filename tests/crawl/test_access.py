"""Logins, client certificates, HTTP/2 and proxies, each against a real server; and no secret in any file afterwards."""

import gzip
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from skitter.backends.memory import MemoryCache
from skitter.backends.warc import Reader
from skitter.cli.why import story
from skitter.compose import open_reader
from skitter.export.findings import find
from skitter.fetch.check import access_of
from skitter.fetch.http import HttpFetcher
from skitter.model import NotNow, Outcome, State
from skitter.runtime.clock import SystemClock
from skitter.settings import SettingsError
from skitter.settings.file import dump, load
from tests.crawl.harness import Crawled, archives, crawl, crawl_with, settings_for
from tests.fetching import LOOPBACK, run, visit
from tests.servers import (
    SECRETS,
    Nginx,
    cookie_file,
    http_proxy,
    nginx,
    private,
    secrets_file,
    socks_proxy,
)
from tests.warc_readers import assert_all_readers_agree

DOORS = ("basic", "bearer", "key", "cookie", "cert", "plain")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with nginx(tmp_path_factory.mktemp("nginx")) as running:
        yield running


def settings_of(door: Nginx, folder: Path, **more: object):
    files = {"fetch__secrets": str(secrets_file(folder, door)), "fetch__cookies": str(cookie_file(folder))}
    named = {"fetch__resolve": door.resolve, "fetch__ca_file": door.authority, "scope__kind": "any"}
    return settings_for(None, **(files | named | more))


def titles(result: Crawled, role: str) -> dict[str, int]:
    return {page.title: page.status for page in result.pages if page.host == f"{role}.site.test"}


WHOLE = {"Door": 200, "Page a": 200, "Page b": 200}


def places_of_secrets(folder: Path) -> list[str]:
    """Every file below a folder that has a secret in it, and what the store and the archive hold."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content += gzip.decompress(content)
        found += [f"{path}: {word}" for word in SECRETS if word.encode() in content]

    async def stored() -> str:
        reader = open_reader(folder)
        try:
            return repr(
                [
                    [page async for page in reader.frontier.pages()],
                    [record async for record in reader.frontier.urls()],
                    [host async for host in reader.frontier.hosts()],
                ]
            )
        finally:
            await reader.close()

    text = run(stored())
    return found + [f"the store: {word}" for word in SECRETS if word in text]


# ---------------------------------------------------------------------------------------------- logins


@pytest.mark.parametrize("workers", [0, 2])
def test_every_door_opens_and_no_secret_stays_behind(site, tmp_path, workers):
    site.forget()
    settings = settings_of(site, tmp_path)
    starts = [site.url(role) for role in DOORS]
    path = tmp_path / "c"
    result = crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)
    for role in DOORS:
        assert titles(result, role).items() >= WHOLE.items(), role
        assert {entry["status"] for entry in site.log(role)} <= {"200", "302", "404"}, role
    # A redirect and a link to another origin: nothing is sent along.
    stolen = site.log("thief")
    assert {entry["uri"] for entry in stolen} >= {"/stolen.html", "/robots.txt"}
    for entry in stolen:
        told = {entry[name] for name in ("authorization", "cookie", "key", "certificate", "proxy")}
        assert told == {""}
    assert places_of_secrets(path) == []


def test_without_secrets_the_doors_stay_shut(site, tmp_path):
    settings = settings_of(site, tmp_path, fetch__secrets="", fetch__cookies="")
    result = crawl(tmp_path / "c", [site.url(role) for role in DOORS], settings)
    assert {page.status for page in result.pages if page.host != "thief.site.test"} <= {400, 401, 403}


def test_the_archive_says_that_a_secret_was_sent_and_not_which(site, tmp_path):
    settings = settings_of(site, tmp_path, fetch__headers=("X-Project: archive",))
    crawl(tmp_path / "c", [site.url("basic"), site.url("cookie")], settings)
    text = b"".join(gzip.decompress(file.read_bytes()) for file in archives(tmp_path / "c"))
    assert b"\r\nX-Project: archive\r\nAuthorization: (not archived)\r\n\r\n" in text
    assert b"\r\nX-Project: archive\r\nCookie: (not archived)\r\n\r\n" in text
    assert {entry["project"] for entry in site.log("basic")} >= {"archive"}


def test_the_process_list_shows_no_secret(site, tmp_path):
    """The command line, two workers, and everything they start, looked at while they work."""
    settings = settings_of(site, tmp_path, politeness__delay="200ms")
    config = tmp_path / "my.toml"
    config.write_text(dump(settings))
    command = [
        sys.executable,
        "-m",
        "skitter",
        "crawl",
        site.url("basic"),
        "--config",
        str(config),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        [*command, "-v", "-o", str(tmp_path / "c")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seen = set()
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit():
                    seen.add((entry / "cmdline").read_bytes())
            except OSError:
                pass  # it has ended
        time.sleep(0.02)
    assert process.stdout is not None
    said = process.stdout.read()
    process.stdout.close()
    assert process.returncode == 0, said
    shown = b"\n".join(line for line in seen if b"skitter" in line) + said
    assert shown.count(b"--workers") >= 1
    assert [word for word in SECRETS if word.encode() in shown] == []


# ---------------------------------------------------------------------------------------------- sites


def test_a_site_has_its_own_fields_cookies_login_and_protocol(site, tmp_path):
    """Nothing for the crawl, everything by overlays."""
    site.forget()
    secrets, cookies = secrets_file(tmp_path, site), cookie_file(tmp_path)
    overlays = [
        {"match": "basic.site.test/a.html", "fetch.headers": {"X-Project": "narrow", "Accept": "text/x-own"}},
        {"match": "*.site.test", "fetch.http2": False, "fetch.headers": ["X-Project: wide"]},
        {"match": "basic.site.test", "fetch.secrets": str(secrets)},
        {"match": "cookie.site.test", "fetch.cookies": str(cookies)},
    ]
    settings = settings_of(site, tmp_path, fetch__secrets="", fetch__cookies="", site=overlays)
    result = crawl(tmp_path / "c", [site.url("basic"), site.url("cookie"), site.url("bearer")], settings)
    assert titles(result, "basic").items() >= WHOLE.items()
    assert titles(result, "cookie").items() >= WHOLE.items()
    assert {page.status for page in result.pages if page.host == "bearer.site.test"} == {401}
    by_uri = {entry["uri"]: entry for entry in site.log("basic")}
    assert (by_uri["/a.html"]["project"], by_uri["/a.html"]["accept"]) == ("narrow", "text/x-own")
    assert by_uri["/b.html"]["project"] == "wide"
    assert by_uri["/b.html"]["accept"].startswith("text/html")
    assert {entry["protocol"] for role in ("basic", "cookie") for entry in site.log(role)} == {"HTTP/1.1"}
    assert {entry["authorization"] for entry in site.log("cookie")} == {""}


def test_cookies_that_a_host_sets_are_sent_back_if_that_is_wanted(site, tmp_path):
    for wanted in (False, True):
        site.forget()
        settings = settings_of(site, tmp_path, fetch__cookies="", fetch__keep_cookies=wanted)
        crawl(tmp_path / f"c{wanted}", [site.url("open", "/sets"), site.url("open", "/a.html")], settings)
        by_uri = {entry["uri"]: entry["cookie"] for entry in site.log("open")}
        assert (by_uri["/sets"], by_uri["/a.html"]) == ("", "visit=7" if wanted else "")


def test_why_says_what_a_request_carries_and_shows_no_secret(site, tmp_path):
    proxy = "socks5://127.0.0.1:9"
    overlays = [{"match": "cert.site.test", "fetch.proxy": proxy, "fetch.headers": ["X-Project: a"]}]
    path = tmp_path / "c"
    settings = settings_of(site, tmp_path, site=overlays, scope__kind="page")
    crawl(path, [site.url("basic"), site.url("cookie")], settings)

    async def told(url: str) -> str:
        source = open_reader(path)
        try:
            return "\n".join(story(await find(url, source, 0.0), 0))
        finally:
            await source.close()

    assert "\n  a request to it carries Authorization\n" in run(told(site.url("basic")))
    assert "\n  a request to it carries Cookie\n" in run(told(site.url("cookie")))
    assert "carries" not in run(told(site.url("open")))
    text = run(told(site.url("cert")))
    assert (
        "a request to it carries X-Project\n  it shows a client certificate\n  it goes through socks5" in text
    )
    assert [word for word in SECRETS if word in text] == []
    (tmp_path / "secrets.toml").unlink()
    assert "what a request to it carries is not known here: fetch.secrets: " in run(told(site.url("basic")))


# ---------------------------------------------------------------------------------------------- HTTP/2


def test_http2_is_spoken_where_it_is_offered_and_the_record_says_so(site, tmp_path):
    site.forget()
    settings = settings_of(site, tmp_path)
    result = crawl(tmp_path / "c", [site.url("open"), site.url("plain")], settings)
    assert titles(result, "open").items() >= WHOLE.items()
    assert {entry["protocol"] for entry in site.log("open")} == {"HTTP/2.0"}
    assert {entry["protocol"] for entry in site.log("plain")} == {"HTTP/1.1"}  # no TLS, no offer
    assert len({entry["from"] for entry in site.log("open")}) == 1  # one connection for all of its visits
    assert assert_all_readers_agree(*archives(tmp_path / "c")) > 10
    kinds = {}
    for record in Reader(tmp_path / "c" / "archive").records(archives(tmp_path / "c")[0].name):
        fields = record.fields
        kinds.setdefault(
            (fields.get("warc-type"), "open.site" in fields.get("warc-target-uri", "")), []
        ).append(record)
    for record in kinds["response", True] + kinds["request", True]:
        assert record.fields["warc-protocol"] == "h2"
    for record in kinds["response", False]:
        assert record.fields.get("warc-protocol") == (
            "h2" if "thief" in record.fields["warc-target-uri"] else None
        )
    assert all(record.block.startswith(b"HTTP/1.1 ") for record in kinds["response", True])
    assert all(
        record.block.startswith(b"GET /") and b" HTTP/1.1\r\nHost: open" in record.block
        for record in kinds["request", True]
    )


def test_a_server_that_ends_connections_of_http2_is_asked_once_for_each_page(site, tmp_path):
    """It says goodbye (GOAWAY) after every second request: libcurl must not repeat one by itself."""
    site.forget()
    result = crawl(tmp_path / "c", [site.url("short")], settings_of(site, tmp_path))
    assert titles(result, "short").items() >= WHOLE.items()
    asked = [entry["uri"] for entry in site.log("short")]
    assert sorted(asked) == sorted({*asked})
    assert {entry["protocol"] for entry in site.log("short")} == {"HTTP/2.0"}
    assert len({entry["from"] for entry in site.log("short")}) > 1


def test_http2_can_be_turned_off(site, tmp_path):
    site.forget()
    result = crawl(tmp_path / "c", [site.url("open")], settings_of(site, tmp_path, fetch__http2=False))
    assert titles(result, "open").items() >= WHOLE.items()
    assert {entry["protocol"] for entry in site.log("open")} == {"HTTP/1.1"}
    assert b"WARC-Protocol" not in b"".join(
        gzip.decompress(file.read_bytes()) for file in archives(tmp_path / "c")
    )


def test_trailers_of_http2_are_not_taken_for_the_header_block(site, tmp_path):
    result = crawl(
        tmp_path / "c",
        [site.url("open", "/trailers/t.html")],
        settings_of(site, tmp_path, scope__kind="page"),
    )
    (page,) = result.pages
    assert (page.status, page.title) == (200, "Trailers")
    assert "x-checksum" not in dict(page.headers)


# ---------------------------------------------------------------------------------------------- proxies


@pytest.mark.parametrize("proxy", [http_proxy, socks_proxy])
def test_every_door_opens_through_a_proxy(site, tmp_path, proxy):
    site.forget()
    with proxy(tmp_path) as (address, log):
        settings = settings_of(site, tmp_path, fetch__proxy=address)
        result = crawl(tmp_path / "c", [site.url(role) for role in (*DOORS, "open")], settings)
    for role in DOORS:
        assert titles(result, role).items() >= WHOLE.items(), role
    assert {entry["protocol"] for entry in site.log("open")} == {"HTTP/2.0"}
    assert {entry["proxy"] for role in (*DOORS, "thief") for entry in site.log(role)} == {""}
    assert places_of_secrets(tmp_path / "c") == []
    # The proxy got the address that was judged, never a name that it would look up itself.
    assert "site.test" not in log.read_text()
    assert f"127.0.0.1:{site.tls}" in log.read_text()


@pytest.mark.parametrize("proxy", [http_proxy, socks_proxy])
def test_the_address_guard_judges_behind_a_proxy_too(site, tmp_path, proxy):
    """The proxy is on loopback and could reach the server there; the crawl may not."""
    site.forget()
    with proxy(tmp_path) as (address, log):
        settings = settings_of(site, tmp_path, fetch__proxy=address, fetch__allow_private=())
        result = crawl(tmp_path / "c", [site.url("open")], settings)
        assert f":{site.tls}" not in log.read_text()
    assert site.log("open") == []
    (record,) = result.records.values()
    assert record.state is State.REFUSED
    assert record.reason is not None
    assert "not a public address" in record.reason.detail
    assert result.pages == []


def test_a_proxy_that_is_down_costs_no_page(site, tmp_path):
    """Nothing is sent, nothing is given up: everything waits until it is back."""
    settings = settings_of(site, tmp_path, fetch__proxy="http://127.0.0.1:9", crawl__max_time="2s")
    result = crawl(tmp_path / "c", [site.url("open")], settings)
    (record,) = result.records.values()
    assert record.state is State.QUEUED
    assert b"open.site.test" not in b"".join(
        file.read_bytes() for file in (tmp_path / "c" / "log").glob("requests-*")
    )
    with http_proxy(tmp_path) as (address, _):
        settings = settings_of(site, tmp_path, fetch__proxy=address)
        assert titles(crawl(tmp_path / "c", [], settings), "open").items() >= WHOLE.items()


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_proxy_that_never_answers_is_not_the_fault_of_a_host(kind):
    """As when its machine is off: nobody takes the connection, and nobody refuses it."""

    async def outcome(port: int) -> Outcome:
        proxy = {"fetch.proxy": f"{kind}://127.0.0.1:{port}", "fetch.connect_timeout": "1s"}
        settings = load(None, {}, proxy | {"fetch.allow_private": LOOPBACK})
        clock = SystemClock()
        access = access_of(settings, None)
        fetcher = HttpFetcher(settings.fetch, MemoryCache(10, clock), clock, access=access)
        try:
            return await fetcher.fetch(visit("http://127.0.0.1/"))
        finally:
            await fetcher.close()

    with socket.socket() as listening, ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):  # its queue is full
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        found = run(outcome(listening.getsockname()[1]))
    assert isinstance(found, NotNow)
    assert found.reason.code == "proxy"


def test_a_proxy_that_wants_another_login_costs_no_page(site, tmp_path):
    with http_proxy(tmp_path) as (address, _):
        settings = settings_of(site, tmp_path, fetch__proxy=address, fetch__secrets="", crawl__max_time="2s")
        result = crawl(tmp_path / "c", [site.url("open")], settings)
    (record,) = result.records.values()
    assert record.state is State.QUEUED


# ---------------------------------------------------------------------------------------------- refused at the start


def test_a_secrets_file_that_others_can_read_is_refused_at_the_start(site, tmp_path):
    settings = settings_of(site, tmp_path)
    for name, setting in (("secrets.toml", "fetch.secrets"), ("cookies.txt", "fetch.cookies")):
        for mode in (0o644, 0o640, 0o604, 0o660):
            (tmp_path / name).chmod(mode)
            with pytest.raises(SettingsError) as caught:
                crawl(tmp_path / "c", [site.url("open")], settings)
            text = str(caught.value)
            assert text.startswith(f"{setting}: {tmp_path / name} can be read by others (mode {mode:04o})")
            assert text.endswith(f"chmod 600 {tmp_path / name}")
        (tmp_path / name).chmod(0o600)
    assert not (tmp_path / "c").exists()
    key = site.folder / "client.key"
    key.chmod(0o644)
    try:
        with pytest.raises(SettingsError, match=r"site 5: key: .*client\.key can be read by others"):
            crawl(tmp_path / "c", [site.url("open")], settings)
    finally:
        key.chmod(0o600)


def test_it_is_refused_for_one_site_too(site, tmp_path):
    open_to_all = private(tmp_path / "other.toml", '[[site]]\nmatch = "a.test"\nbearer = "x"\n')
    open_to_all.chmod(0o644)
    overlays = [{"match": "a.test", "fetch.secrets": str(open_to_all)}]
    with pytest.raises(SettingsError, match="can be read by others"):
        crawl(tmp_path / "c", [site.url("open")], settings_of(site, tmp_path, site=overlays))


def test_this_test_would_find_a_secret(site, tmp_path):
    """The search above is no search if it cannot find."""
    crawl(tmp_path / "c", [site.url("open")], settings_of(site, tmp_path))
    assert places_of_secrets(tmp_path / "c") == []
    with gzip.open(tmp_path / "c" / "archive" / "planted.warc.gz", "wb") as file:
        file.write(SECRETS[0].encode())
    assert len(places_of_secrets(tmp_path / "c")) == 1
    assert os.environ.get("SKITTER_TEST_REQUIRE") in (None, "1")
