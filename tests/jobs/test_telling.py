"""People are told how runs ended: by a signed webhook through the address guard, a command, and feeds. Old crawls are removed."""

import asyncio
import hashlib
import hmac
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from skitter.backends.sqlite_jobs import SqliteJobs
from skitter.fetch.address import Guard
from skitter.fetch.webhook import Delivery, deliver, problem_of, signature
from skitter.jobs import rules
from skitter.jobs.files import Root
from skitter.jobs.model import Crawl, Ended, Job, Keep, Notice, Run, State
from skitter.jobs.telling import Teller

LOOPBACK = Guard(["127.0.0.0/8"])
NOTHING_PRIVATE = Guard()
SILENT, ALL, FINISHED = Notice(), Keep(), Ended(0, '{"counts": {"pages": 7}}')


class Receiver:
    """What a webhook has got, and what it answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.url = ""


@contextmanager
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.got.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            status = told.answers.pop(0) if told.answers else 204
            self.send_response(status)
            if status == 302:
                self.send_header("Location", told.url)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Ground:
    """A root with a job whose run has ended."""

    def __init__(self, path, notice: Notice = SILENT, guard: Guard = LOOPBACK, keep: Keep = ALL) -> None:
        self.root = Root(path / "root")
        self.root.make()
        self.now = 1_800_000_000.0
        self.store = SqliteJobs(self.root.store_file, lambda: self.now)
        self.job = rules.checked(
            Job(
                name="news",
                crawl=Crawl(urls=("https://example.org/",)),
                line="@daily",
                notice=notice,
                keep=keep,
            ),
            self.now,
        )
        self.teller = Teller(self.store, self.root, guard)

    async def begin(self) -> None:
        await self.store.add(self.job)

    async def end(self, how: Ended = FINISHED) -> Run:
        asked = rules.new_run(self.job, self.now, by_hand=True)
        assert await self.store.ask(asked)
        run = await self.store.claim("me", self.root.home(), 60.0)
        assert run is not None
        self.now += 60
        assert await self.store.settle(rules.ended(self.job, run, how, self.now), "me")
        return await self.current(run.id)

    async def current(self, run_id: str) -> Run:
        run = await self.store.run(run_id)
        assert run is not None
        return run


def test_a_webhook_gets_the_run_signed(tmp_path):
    (tmp_path / "key").write_bytes(b"correct horse\n")

    async def story() -> None:
        with receiver() as told:
            ground = Ground(tmp_path, Notice(webhook=told.url, secret_file=str(tmp_path / "key")))
            await ground.begin()
            run = await ground.end()
            await ground.teller.tell()
            await ground.teller.tell()
            assert (await ground.current(run.id)).tell_at is None
            await ground.store.close()
        ((headers, body),) = told.got
        said = json.loads(body)
        assert (said["run"], said["state"], said["counts"]) == (run.id, "done", {"pages": 7})
        assert headers["Skitter-Delivery"] == f"{run.id}-done"
        signed = headers["Skitter-Timestamp"].encode() + b"." + body
        assert (
            headers["Skitter-Signature"]
            == "sha256=" + hmac.new(b"correct horse", signed, hashlib.sha256).hexdigest()
        )

    asyncio.run(story())


def test_who_did_not_hear_is_told_again_with_the_same_delivery(tmp_path):
    async def story() -> None:
        with receiver() as told:
            told.answers = [500, 302, 404]
            ground = Ground(tmp_path, Notice(webhook=told.url))
            await ground.begin()
            run = await ground.end()
            for heard in (1, 2, 3, 4):
                await ground.teller.tell()
                await ground.teller.tell()  # it is not due again yet
                assert len(told.got) == heard
                ground.now += 3600
            assert (await ground.current(run.id)).tell_at is None
            await ground.teller.tell()
            await ground.store.close()
        assert len(told.got) == 4
        assert {headers["Skitter-Delivery"] for headers, _ in told.got} == {f"{run.id}-done"}

    asyncio.run(story())


def test_a_scheduler_that_was_killed_while_telling_has_not_told(tmp_path):
    async def story() -> None:
        with receiver() as told:
            ground = Ground(tmp_path, Notice(webhook=told.url))
            await ground.begin()
            await ground.end()
            assert len(await ground.store.to_tell(120.0)) == 1  # and then it was killed
            await ground.teller.tell()
            assert told.got == []
            ground.now += 121
            await ground.teller.tell()
            await ground.store.close()
        assert len(told.got) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://2130706433:{port}/", "http://169.254.169.254/latest"],
)  # fmt: skip
def test_what_is_not_public_is_refused(url):
    with receiver() as told:
        port = told.url.rpartition(":")[2].partition("/")[0]
        wrong = deliver(Delivery(url.format(port=port), b"{}", "x", 0.0), NOTHING_PRIVATE, timeout=5)
    assert "not a public address" in wrong
    assert told.got == []


def test_a_redirect_leads_nowhere_and_a_proxy_is_not_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with receiver() as told:
        told.answers = [302]
        assert deliver(Delivery(told.url, b"{}", "x", 0.0), LOOPBACK) == "status 302"
    assert len(told.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "example.org",
        "http://",
        "http://a b/",
        "http://user:pw@example.org/",
        "http://ex\nample.org/",
        "gopher://127.0.0.1/",
    ],
)
def test_what_is_no_url_of_a_webhook_is_refused(url):  # fmt: skip
    assert problem_of(url)
    assert deliver(Delivery(url, b"{}", "x", 0.0), LOOPBACK)


def test_the_signature_depends_on_time_and_body():
    assert (
        len(
            {
                signature(b"k", 1, b"a"),
                signature(b"k", 2, b"a"),
                signature(b"k", 1, b"b"),
                signature(b"l", 1, b"a"),
            }
        )
        == 4
    )


def test_without_its_key_nothing_is_sent(tmp_path):
    async def story() -> None:
        with receiver() as told:
            ground = Ground(tmp_path, Notice(webhook=told.url, secret_file=str(tmp_path / "gone")))
            await ground.begin()
            run = await ground.end()
            await ground.teller.tell()
            assert (await ground.current(run.id)).tell_at is not None
            await ground.store.close()
        assert told.got == []

    asyncio.run(story())


def test_a_command_gets_a_line_and_variables_and_no_shell(tmp_path):
    (tmp_path / "show.py").write_text(
        "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + os.environ['RUN_STATE'] + sys.argv[2])"
    )
    command = f"{sys.executable} {tmp_path / 'show.py'} {tmp_path / 'said'} '; touch /tmp/x'"

    async def story() -> None:
        ground = Ground(tmp_path, Notice(command=command))
        await ground.begin()
        run = await ground.end(Ended(2, complaint="bad $(touch pwned) `x`"))
        await ground.teller.tell()
        assert (await ground.current(run.id)).tell_at is None
        await ground.store.close()
        said = (tmp_path / "said").read_text()
        assert said == f"{run.id}: failed: bad $(touch pwned) `x`; took 1m 00s\nfailed; touch /tmp/x"

    asyncio.run(story())


def test_a_command_that_fails_or_does_not_exist_is_tried_again(tmp_path):
    async def story() -> None:
        for name, command in (("a", "/no/such/program"), ("b", f"{sys.executable} -c 'raise SystemExit(3)'")):
            (tmp_path / name).mkdir()
            ground = Ground(tmp_path / name, Notice(command=command))
            await ground.begin()
            run = await ground.end()
            await ground.teller.tell()
            assert (await ground.current(run.id)).tell_at == ground.now + 60
            await ground.store.close()

    asyncio.run(story())


def test_the_feeds_are_well_formed_whatever_a_run_has_said(tmp_path):
    async def story() -> None:
        ground = Ground(tmp_path)
        await ground.begin()
        run = await ground.end(Ended(2, complaint="<script>\x00\x1b]0;x\x07\u202e&amp;</script>"))
        await ground.teller.tidy(ground.job)
        await ground.store.close()
        for file in (ground.root.feed, ground.root.job_feed("news")):
            (item,) = ET.fromstring(file.read_bytes()).iter("item")
            assert item.findtext("title") == f"{run.id}: failed"
            assert "\x1b" not in item.findtext("description", "")
            assert "\u202e" not in item.findtext("description", "")

    asyncio.run(story())


def test_old_crawls_are_removed_never_outside_the_root_and_never_one_in_use(tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("x")

    async def story() -> None:
        ground = Ground(tmp_path, keep=Keep(runs=1))
        await ground.begin()
        runs = []
        for number in range(4):
            run = await ground.end()
            place = ground.root.crawl(run)
            if number == 0:
                place.parent.mkdir(exist_ok=True)
                place.symlink_to(outside)
            else:
                place.mkdir(parents=True)
            runs.append(run)
        sneaky = replace(runs[1], directory="../precious")
        assert not ground.root.remove(sneaky)
        assert not ground.root.remove(replace(runs[1], directory="news/../../../precious"))
        await ground.teller.tidy(ground.job)
        left = [bool((await ground.current(run.id)).directory) for run in runs]
        assert left == [True, False, False, True], "a link is not followed, and not removed"
        assert (outside / "file").exists()
        assert not ground.root.crawl(runs[2]).exists()
        await ground.store.close()

    asyncio.run(story())


def test_one_of_many_at_the_same_time_names_the_root(tmp_path):
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(Root(tmp_path / "r").home())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 1
    assert len(names) == 8


def test_states_that_are_told(tmp_path):
    assert set(rules.TOLD) == {State.DONE, State.FAILED, State.STOPPED, State.MISSED}
