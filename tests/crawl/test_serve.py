"""`skitter serve`: crawls read, steered and started over HTTP, by a real server and real crawls."""

import json
import re
import socket
import subprocess
import sys

import pytest

from skitter.api.server.app import LONGEST_BODY, MOST_STREAMS
from tests.crawl.controlled import HOSTS, Site, crawling, said, settings_of, skitter, until
from tests.crawl.served import serving

A, B, C, D = HOSTS
API = "/api/v1"
EVIL = "</script><script>alert(1)</script>\u202e\x1b[31m"


@pytest.fixture(scope="module")
def site():
    made = Site(pages=12)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def root(tmp_path_factory, site):
    """A folder with one crawl that is done."""
    folder = tmp_path_factory.mktemp("root")
    with crawling(folder / "done", site, A, more=["--max-pages", "50"]) as running:
        running.process.wait()
    return folder


@pytest.fixture(scope="module")
def client(root):
    with serving(root) as found:
        yield found


# ------------------------------------------------------------------------------------------------ reading


def test_a_finished_crawl_is_shown_with_its_state_and_what_may_be_done(client):
    (one,) = client.get(f"{API}/crawls").json["items"]
    assert (one["id"], one["state"], one["reason"]) == ("done", "finished", "finished: nothing is left to do")
    assert one["counts"]["pages"] == 12
    assert one["availableActions"] == []
    assert client.get(f"{API}/crawls/done").json["counts"] == one["counts"]


def test_lists_are_paged_and_every_row_comes_once(client, site):
    found, cursor = [], ""
    while True:
        answer = client.get(f"{API}/crawls/done/pages?limit=5&cursor={cursor}").json
        found += [page["url"] for page in answer["items"]]
        cursor = answer["next"]
        if not cursor:
            break
    assert sorted(found) == sorted({site.url(A, path) for path in ["/", *(f"/{n}" for n in range(1, 12))]})


def test_filters_of_lists_hold(client, site):
    urls = [page["url"] for page in client.get(f"{API}/crawls/done/pages?contains=/1").json["items"]]
    assert sorted(urls) == sorted(site.url(A, f"/{n}") for n in (1, 10, 11))
    assert client.get(f"{API}/crawls/done/pages?status=4xx").json["items"] == []
    assert client.get(f"{API}/crawls/done/queue").json["items"] == []
    (host,) = client.get(f"{API}/crawls/done/hosts").json["items"]
    assert (host["host"], host["pages"]) == (A, 12)


def test_why_page_search_and_errors_are_answered(client, site):
    assert client.get(f"{API}/crawls/done/why?url={site.url(A, '/1')}").json["record"]["state"] == "crawled"
    assert client.get(f"{API}/crawls/done/why?url=https://never.example/").json["known"] is False
    page = client.get(f"{API}/crawls/done/page?url={site.url(A, '/1')}&text=true").json
    assert page["text"].startswith("page /1")
    found = client.get(f"{API}/crawls/done/search?q=page&limit=3").json
    assert found["total"] == 12
    assert len(found["items"]) == 3
    assert client.get(f"{API}/crawls/done/errors").json["failed"] == []


def test_an_answer_that_has_not_changed_is_not_sent_again(client):
    first = client.get(f"{API}/crawls/done")
    again = client.get(f"{API}/crawls/done", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_the_document_names_every_route_and_every_route_answers_as_it_says(client):
    document = client.get(f"{API}/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert {f"{API}/crawls", f"{API}/crawls/{{crawl}}/why", "/healthz"} <= set(document["paths"])
    for path, methods in document["paths"].items():
        if "get" in methods and "{" not in path and "text/event-stream" not in json.dumps(methods):
            assert client.get(path).status == 200, path


def test_an_export_is_made_fetched_and_removed(client):
    made = client.post(f"{API}/crawls/done/exports", {"format": "jsonl"})
    assert made.status == 202
    one = f"{API}/crawls/done/exports/{made.json['id']}"
    until(lambda: client.get(one).json["state"] != "running")
    assert client.get(one).json["state"] == "done"
    lines = client.get(f"{one}/file").body.splitlines()
    assert len(lines) == client.get(f"{API}/crawls/done").json["counts"]["pages"]
    assert [each["id"] for each in client.get(f"{API}/crawls/done/exports").json["items"]] == [
        made.json["id"]
    ]
    assert client.ask("DELETE", one).status == 200
    assert client.get(one).status == 404
    assert client.post(f"{API}/crawls/done/exports", {"format": "files"}).status == 400
    assert client.get(f"{API}/crawls/done/exports/..%2f..").status == 404


# ------------------------------------------------------------------------------------------------ steering


def test_a_crawl_is_started_paused_continued_and_stopped(tmp_path, monkeypatch):
    for name, value in (("FETCH_RESOLVE", f"{A}:127.0.0.1"), ("FETCH_ALLOW_PRIVATE", "127.0.0.0/8")):
        monkeypatch.setenv(f"SKITTER_{name}", value)
    site = Site()
    try:
        with serving(tmp_path) as client:
            new = {"urls": [site.url(A)], "name": "mine", "settings": {"crawl.max_pages": 1000}}
            made = client.post(f"{API}/crawls", new, Idempotency_Key="k1")
            assert (made.status, made.headers["location"]) == (201, f"{API}/crawls/mine")
            again = client.post(f"{API}/crawls", new, Idempotency_Key="k1")
            assert (again.status, again.body, again.headers["idempotency-replayed"]) == (
                201,
                made.body,
                "true",
            )
            assert client.post(f"{API}/crawls", new | {"name": "b"}, Idempotency_Key="k1").status == 422
            assert client.post(f"{API}/crawls", new).status == 409
            until(lambda: client.get(f"{API}/crawls/mine").json["state"] == "running")
            assert client.post(f"{API}/crawls/mine/actions/pause", {}).json["said"].startswith("paused")
            until(lambda: client.get(f"{API}/crawls/mine").json["state"] == "paused")
            assert "continue" in client.get(f"{API}/crawls/mine").json["availableActions"]
            assert client.post(f"{API}/crawls/mine/actions/continue", {}).json["said"] == "continued"
            blocked = client.post(f"{API}/crawls/mine/actions/block", {"hosts": ["x.test"]})
            assert blocked.json["changed"] == 1
            assert client.post(f"{API}/crawls/mine/actions/block", {"hosts": ["a/b"]}).status == 400
            assert client.post(f"{API}/crawls/mine/actions/stop", {}).json["said"].startswith("stopping")
            until(lambda: client.get(f"{API}/crawls/mine").json["state"] == "stopped")
            assert client.post(f"{API}/crawls/mine/actions/pause", {}).status == 409
            assert client.post(f"{API}/crawls/mine/actions/resume", {}).json["said"] == "resumed"
            until(lambda: client.get(f"{API}/crawls/mine").json["state"] == "running")
        # The server has ended; the crawl goes on, until it is told.
        assert said("stop", tmp_path / "mine").startswith("stopping")
        until(lambda: "stopped" in said("status", tmp_path / "mine").splitlines()[0])
    finally:
        site.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"crawl.plugins": "evil.py"},
        {"fetch.proxy": "http://127.0.0.1:1"},
        {"fetch.allow_private": "10.0.0.0/8"},
        {"schedule.strategy": "os:system"},
        {"politeness.delay": "0s"},
        {"archive.operator": "x"},
        {"nonsense": 1},
    ],
)
def test_what_belongs_to_the_machine_that_crawls_is_not_set_over_the_api(client, settings):
    answer = client.post(f"{API}/crawls", {"urls": ["https://a.test/"], "settings": settings})
    assert answer.status == 400, answer.body


# ------------------------------------------------------------------------------------------------ events


def test_events_are_streamed_once_each_over_restarts_of_the_server(tmp_path):
    site = Site()
    try:
        with crawling(tmp_path / "one", site, A) as running:
            seen, port = [], 0
            for turn in range(10):
                said("add", tmp_path / "one", site.url(A, f"/gone{turn}"))
                said("block", tmp_path / "one", f"x{turn}.test")
                with serving(tmp_path, port=port) as client:
                    port = client.port
                    after = seen[-1]["id"] if seen else ""
                    known = client.get(f"{API}/crawls/one/events?after={after or 0}").json["items"]
                    if known:
                        seen += client.events(f"{API}/crawls/one/events/stream", len(known), after)
            running.end()
        with serving(tmp_path) as client:
            after = seen[-1]["id"]
            rest = client.get(f"{API}/crawls/one/events?after={after}").json["items"]
            seen += client.events(f"{API}/crawls/one/events/stream", len(rest), after)
            whole = client.get(f"{API}/crawls/one/events?limit=1000").json["items"]
    finally:
        site.close()
    assert [int(each["id"]) for each in seen] == [each["id"] for each in whole]
    assert whole[-1]["kind"] == "stopped"


# ------------------------------------------------------------------------------------------------ attacks


def test_every_route_needs_a_token_except_health(root):
    with serving(root, "--always-token") as client:
        document_path = f"{API}/openapi.json"
        assert client.get(document_path).status == 401
        token = said("token", "create", "t", "--root", root)
        document = client.get(document_path, Authorization=f"Bearer {token}").json
        for path, methods in document["paths"].items():
            for method in methods:
                whole = (
                    path.replace("{crawl}", "done")
                    .replace("{action}", "pause")
                    .replace("{export}", "x")
                    .replace("{webhook}", "x")
                    .replace("{delivery}", "x")
                )
                answer = client.ask(method.upper(), whole, {} if method == "post" else None)
                assert answer.status == (200 if path == "/healthz" else 401), path
        assert client.get("/").status == 401
        steer = client.post(f"{API}/crawls/done/actions/pause", {}, Authorization=f"Bearer {token}")
        assert steer.status == 403
        assert skitter("token", "revoke", "t", "--root", root).returncode == 0
        assert client.get(document_path, Authorization=f"Bearer {token}").status == 401


_ATTACKS = [
    ("a wrong token", "GET", f"{API}/crawls", {"Authorization": "Bearer skt_x"}, 401),
    ("a token in a URL", "GET", f"{API}/crawls?token=skt_x", {}, 400),
    ("a foreign origin", "GET", f"{API}/crawls", {"Origin": "https://evil.example"}, 403),
    ("a null origin", "GET", f"{API}/crawls", {"Origin": "null"}, 403),
    ("a page of another site", "GET", "/", {"Sec_Fetch_Site": "cross-site"}, 403),
    ("a rebinding host", "GET", f"{API}/crawls", {"Host": "evil.example"}, 421),
    ("a rebinding host with our port", "GET", "/healthz", {"Host": "evil.example:8642"}, 421),
    ("a path outside of the root", "GET", f"{API}/crawls/..%2f..%2fetc", {}, 404),
    ("a path with dots", "GET", f"{API}/crawls/../../../etc/passwd", {}, 404),
    ("a NUL in a path", "GET", f"{API}/crawls/done%00", {}, 404),
    ("a slash in an id", "GET", f"{API}/crawls/done%252f..%252fdone", {}, 404),
    ("our own folder", "GET", f"{API}/crawls/.skitter", {}, 404),
    ("an unknown parameter", "GET", f"{API}/crawls/done/pages?nope=1", {}, 400),
    ("a parameter twice", "GET", f"{API}/crawls/done/pages?limit=1&limit=2", {}, 400),
    ("a huge limit", "GET", f"{API}/crawls/done/pages?limit=1000000000", {}, 400),
    ("a negative limit", "GET", f"{API}/crawls/done/pages?limit=-1", {}, 400),
    ("a made-up cursor", "GET", f"{API}/crawls/done/pages?cursor=AAAA", {}, 400),
    ("a number that is none", "GET", f"{API}/crawls/done/events?after=one", {}, 400),
    ("a huge number", "GET", f"{API}/crawls/done/events?after=99999999999999999999", {}, 400),
    ("a last event that is none", "GET", f"{API}/crawls/done/events/stream", {"Last_Event_ID": "x"}, 400),
    ("a URL that is none", "GET", f"{API}/crawls/done/why?url=%00", {}, 400),
    ("a very long URL", "GET", f"{API}/crawls/done/why?url={'a' * 9000}", {}, 400),
    ("a file as a seed", "POST", f"{API}/crawls", {"body": {"urls": ["file:///etc/passwd"]}}, 400),
    ("an option as a seed", "POST", f"{API}/crawls", {"body": {"urls": ["--set=crawl.plugins=x"]}}, 400),
    ("a name outside of the root", "POST", f"{API}/crawls", {"body": {"urls": ["https://a.test"], "name": "../x"}}, 409),
    ("a hidden name", "POST", f"{API}/crawls", {"body": {"urls": ["https://a.test"], "name": ".x"}}, 409),
    ("an action that is none", "POST", f"{API}/crawls/done/actions/rm", {"body": {}}, 400),
    ("a body that is no JSON", "POST", f"{API}/crawls", {"body": b"{", "Content_Type": "application/json"}, 400),
    ("a form", "POST", f"{API}/crawls", {"body": b"urls=x", "Content_Type": "application/x-www-form-urlencoded"}, 415),
    ("deep JSON", "POST", f"{API}/crawls", {"body": b"[" * 100_000}, 400),
    ("a body of the wrong shape", "POST", f"{API}/crawls", {"body": {"urls": "x"}}, 400),
    ("an unknown field", "POST", f"{API}/crawls", {"body": {"urls": ["https://a.test"], "x": 1}}, 400),
    ("another method", "DELETE", f"{API}/crawls/done", {}, 405),
    ("a path that is none", "GET", "/etc/passwd", {}, 404),
    ("a long body", "POST", f"{API}/crawls", {"body": b" " * (LONGEST_BODY + 1)}, 413),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "how", "status"), [each[1:] for each in _ATTACKS], ids=[each[0] for each in _ATTACKS]
)
def test_attacks_are_refused_in_one_clear_line(client, method, path, how, status):
    answer = client.ask(method, path, **how)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["title"]
    assert "Traceback" not in answer.body.decode()
    assert client.get("/healthz").status == 200


def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(client):
    answer = client.ask(
        "POST", f"{API}/crawls", b"x", Content_Type="application/json", Content_Length=str(1 << 30)
    )
    assert answer.status == 413


def test_hostile_titles_are_harmless_in_every_answer(tmp_path):
    site = Site(pages=3)
    site.answer = lambda path: (
        (404, b"") if path == "/robots.txt" else (200, f"<title>{EVIL}</title>x".encode())
    )
    try:
        with crawling(tmp_path / "one", site, A, more=["--max-pages", "2"]) as running:
            running.process.wait()
        with serving(tmp_path) as client:
            for path in (
                "/",
                f"{API}/crawls",
                f"{API}/crawls/one/pages",
                f"{API}/crawls/one/why?url={site.url(A)}",
            ):
                body = client.get(path).body
                assert b"\x1b" not in body
                assert "\u202e".encode() not in body
                assert path != "/" or b"<script>alert" not in body
    finally:
        site.close()


def test_streams_are_bounded_and_the_server_still_answers(client):
    import http.client  # noqa: PLC0415

    open_ones = []
    try:
        for _ in range(MOST_STREAMS + 5):
            connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
            connection.request("GET", f"{API}/events")
            answer = connection.getresponse()
            open_ones.append((connection, answer.status))
        assert [status for _, status in open_ones].count(200) <= MOST_STREAMS
        assert open_ones[-1][1] in (429, 503)
    finally:
        for connection, _ in open_ones:
            connection.close()
    until(lambda: client.get("/healthz").status == 200)


def test_a_crawl_that_vanishes_while_it_is_shown_is_told_in_one_line(tmp_path, root):
    import shutil  # noqa: PLC0415

    shutil.copytree(root / "done", tmp_path / "gone", ignore=shutil.ignore_patterns("control"))
    with serving(tmp_path) as client:
        assert client.get(f"{API}/crawls/gone").status == 200
        shutil.rmtree(tmp_path / "gone")
        assert client.get(f"{API}/crawls/gone").status == 404
        assert client.get(f"{API}/crawls").json["items"] == []


# ------------------------------------------------------------------------------------------------ the command


def test_the_first_page_is_opened_once_by_its_link_and_shows_the_crawls(root):
    with serving(root) as client:
        path = client.link.partition(client.host)[2]
        first = client.get(path)
        assert first.status == 303
        cookie = first.headers["set-cookie"].partition(";")[0]
        assert "httponly" in first.headers["set-cookie"].lower()
        page = client.get("/", Cookie=cookie)
        assert page.status == 200
        assert b"finished: nothing is left to do" in page.body
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert client.get(path).status == 401
        assert client.get("/", Cookie="skitter-session=x").status == 401


@pytest.mark.parametrize(
    ("words", "said_"),
    [
        (["--listen", "nonsense"], "--listen"),
        (["--root", "/nowhere/at/all"], "no folder"),
        (["no-such-crawl"], "holds no crawl"),
        (["--cert", "x"], "--cert and --key"),
    ],
)
def test_wrong_usage_is_told_in_one_line(words, said_):
    done = skitter("serve", *words, check=None)
    assert done.returncode in (2, 4)
    assert said_ in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_crawl_serves_itself_while_it_runs(tmp_path, site):
    words = [
        "crawl",
        site.url(A),
        "-o",
        tmp_path / "c",
        "--serve=127.0.0.1:0",
        "--workers",
        "1",
        *settings_of(),
    ]
    done = skitter(*words)
    link = next(line for line in done.stderr.splitlines() if "it is served at" in line)
    assert "/login?code=" in link
    assert json.loads(said("status", tmp_path / "c", "--json"))["counts"]["pages"] == 12
    with pytest.raises(OSError, match="refused"):  # it has ended with the crawl
        socket.create_connection(("127.0.0.1", int(link.rpartition("/login")[0].rpartition(":")[2])))


def test_tokens_are_made_listed_and_revoked(tmp_path):
    text = said("token", "create", "grafana", "--scope", "read", "--expires", "90d", "--root", tmp_path)
    assert text.startswith("skt_")
    assert text not in (tmp_path / ".skitter" / "tokens.json").read_text()
    listed = said("token", "list", "--root", tmp_path)
    assert "grafana" in listed
    assert text not in listed
    assert skitter("token", "create", "grafana", "--root", tmp_path, check=4).stderr.count("\n") == 1
    assert (
        skitter("token", "create", "x", "--expires", "soon", "--root", tmp_path, check=2).stderr.count("\n")
        == 1
    )
    assert said("token", "revoke", "grafana", "--root", tmp_path) == "revoked"
    assert skitter("token", "revoke", "grafana", "--root", tmp_path, check=1)
    assert said("token", "list", "--root", tmp_path) == "there are no tokens"


def test_an_address_that_is_taken_is_told(client, root):
    done = skitter("serve", "--root", root, "--listen", client.host, check=None)
    assert done.returncode == 4
    assert "--listen" in done.stderr


def test_a_program_that_speaks_openapi_finds_no_fault(client, root):
    """schemathesis makes up requests from the document, right and wrong ones; no answer is a fault of ours.

    It may only read: what it makes up must not be crawled.
    """
    token = said("token", "create", "schemathesis", "--root", root)
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://{client.host}{API}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {token}"]
    command += [
        "--exclude-path-regex",
        "events$|events/stream|/search",
        "--max-examples",
        "6",
        "--suppress-health-check",
        "all",
    ]
    command += [
        "--checks",
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root.parent)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert tested is not None
    assert int(tested[1]) >= 15
