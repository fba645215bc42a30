"""A cluster whose archive is a bucket: reading it from anywhere, holding back while S3 is away, and leaving."""

import asyncio
import json
import time
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from skitter.backends.s3 import LocalSegments, in_bucket
from skitter.backends.warc import WarcArchive
from skitter.compose import storing as storage
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events, Warned
from skitter.runtime.clock import SystemClock
from skitter.settings import ArchiveSettings, Settings
from skitter.testing import warc_check
from skitter.testing.contracts.archive import exchange
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.archiving import archiving, until
from tests.crawl.harness import keys
from tests.crawl.replaying import replayed
from tests.engines import frozen, kill, killed, our_engine, start
from tests.s3 import real_ground


@pytest.fixture(scope="module")
def server():
    features = Features(duplicates=True, foreign_share=0.3)
    with serve_process(SyntheticWeb(seed=9, hosts=10, pages_per_host=8, features=features)) as running:
        yield running


@pytest.fixture(scope="module")
def crawled(server, tmp_path_factory):
    """A finished crawl in both layouts, nothing of which is on the worker's disk any more."""
    with archiving(tmp_path_factory.mktemp("cluster"), server, s3__layout="pages") as crawl:
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("w", s3__segment_time="1s")
        crawl.cluster("wait", "--timeout", "300s")
        crawl.leave(worker)
        assert list((crawl.path / "w" / "archive").glob("*.warc.gz")) == []
        yield crawl


def test_every_page_is_in_the_bucket(crawled, server):
    pages = crawled.pages()
    assert {page.key for page in pages if 200 <= page.status < 300} == keys(server.truth("any").pages)
    crawled.check_bucket(pages)
    objects = [key for key in crawled.ground.objects() if key.endswith(".html.gz")]
    assert objects
    assert len(objects) <= len(pages)
    assert crawled.status()["disks"] == []


@pytest.mark.parametrize("named", ["a worker's directory", "the settings"])
def test_the_whole_crawl_can_be_read_from_engines_and_bucket(crawled, named):
    """`status`, `why`, `pages`, every export, `search`; no worker has anything that is needed for it."""
    pages = crawled.pages()
    crawl = [crawled.path / "w"] if named == "a worker's directory" else ["--config", crawled.config]
    own = [] if named == "a worker's directory" else ["--index", crawled.path / "words.sqlite"]

    def ask(*words):
        done = crawled.skitter(words[0], *crawl, *words[1:])
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    good = [page for page in pages if 200 <= page.status < 300]
    assert json.loads(ask("status", "--json"))["counts"]["pages"] == len(good)
    told = json.loads(ask("why", pages[0].url, "--json"))
    assert told["page"]["archive"]["file"] == pages[0].archive.file
    urls = {page.url for page in pages}
    assert {json.loads(line)["url"] for line in ask("pages", "--json").splitlines()} == urls
    exported = [json.loads(line) for line in ask("export", "--format", "jsonl", "--quiet").splitlines()]
    assert {page["url"] for page in exported} == urls
    assert all(page["text"] is not None for page in exported)
    index = ask("export", "--format", "cdxj", "--quiet").splitlines()
    indexed = [json.loads(line.split(" ", 2)[2]) for line in index]
    assert {line["url"] for line in indexed} >= urls
    # Below the bucket, so that a replay tool needs nothing but its address.
    assert {line["filename"] for line in indexed} <= set(crawled.ground.objects())
    states = [json.loads(line)["state"] for line in ask("export", "--format", "urls").splitlines()]
    assert states.count("crawled") == len(pages)
    word = max(exported[0]["text"].split(), key=len)
    assert json.loads(ask("search", *own, word, "--json", "--quiet"))["total"] >= 1


def test_what_people_read_a_crawl_with_needs_no_directory_either(crawled, tmp_path):
    """`show`, `sql`, `report`, `changes`, `replay`."""
    pytest.importorskip("duckdb")
    config = ("--config", crawled.config)

    def ask(*words):
        done = crawled.skitter(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    good = [page for page in crawled.pages() if 200 <= page.status < 300]
    assert json.loads(ask("show", *config, good[0].url, "--json"))["text"]
    counted = ask("sql", *config, "select count(*) as n from pages where fetch_status = 200", "--json", "-q")
    assert json.loads(counted)["n"] == len(good)
    assert json.loads(ask("report", *config, "--json", "-q"))["counts"]["pages"] == len(good)
    assert ask("changes", crawled.path / "w", crawled.config).endswith(f", {len(good)} unchanged\n")
    words = ("--config", str(crawled.config), "-q")
    with replayed(*words, log=tmp_path / "log", **crawled.ground.environ) as origin:
        captures = urlopen(f"{origin}/captures?url={quote(good[0].url, safe='')}").read().decode()
        assert "text/html" in captures


def test_missing_engines_are_reported_in_one_line(crawled, tmp_path):
    settings = (crawled.path / "w" / "crawl.toml").read_text()
    address = crawled.settings.postgres.addresses[0]
    assert address in settings
    (tmp_path / "crawl.toml").write_text(settings.replace(address, "127.0.0.1:1"))
    for words in (["status"], ["why", "https://example.org/"], ["pages"], ["export", "--format", "urls"]):
        done = crawled.skitter(words[0], tmp_path, *words[1:])
        assert (done.returncode, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        assert "PostgreSQL: postgres.addresses" in line


def test_while_s3_takes_nothing_no_visits_are_made(tmp_path, server):
    """Nor is anything lost: when it is back, the crawl goes on to its end."""
    our_engine("s3")
    with archiving(tmp_path, server, politeness__delay="800ms", s3__spool="1") as crawl:
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("w", s3__segment_time="1s")
        until(crawl.ground.objects, "a segment is in the bucket")
        with frozen("s3"):
            before = -1
            while len(server.log()) != before:  # until it stands still for many times what a host waits
                before = len(server.log())
                time.sleep(4)
            waiting = crawl.status()
            assert waiting["counts"]["queued"] > 0
            assert waiting["disks"][0]["segments"] > 0
        crawl.cluster("wait", "--timeout", "300s")
        crawl.leave(worker)
        pages = crawl.pages()
        assert {page.key for page in pages if 200 <= page.status < 300} == keys(server.truth("any").pages)
        crawl.check_bucket(pages)


def test_a_register_that_is_away_for_a_while_costs_nothing(tmp_path, server):
    """Every commit begins a segment, and uploads go on: whoever has to tell the register something waits for it."""
    our_engine("postgres")
    with archiving(tmp_path, server, politeness__delay="400ms") as crawl:
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("w", s3__segment_time="10ms")
        until(crawl.ground.objects, "a segment is in the bucket")
        for _ in range(2):
            with killed("postgres"):
                time.sleep(2)
            time.sleep(1)
        crawl.cluster("wait", "--timeout", "300s")
        crawl.leave(worker)
        pages = crawl.pages()
        assert {page.key for page in pages if 200 <= page.status < 300} == keys(server.truth("any").pages)
        assert crawl.status()["disks"] == []
        crawl.check_bucket(pages)


def test_a_worker_that_leaves_while_s3_is_away_uploads_at_its_next_start(tmp_path, monkeypatch):
    our_engine("s3")
    ground = real_ground(crawl="skitter")
    monkeypatch.setenv("SKITTER_S3_SECRET_KEY", ground.environ["SKITTER_S3_SECRET_KEY"])
    monkeypatch.setattr(in_bucket, "_LAST_UPLOADS", 0.5)
    settings, clock, directory = Settings(s3=ground.settings), SystemClock(), CrawlDirectory(tmp_path / "w")
    directory.prepare(state_elsewhere=True)
    heard: list[str] = []
    events = Events(lambda event: heard.append(event.text) if isinstance(event, Warned) else None)
    register = LocalSegments(tmp_path / "register.json")

    async def write_and_leave() -> None:
        async with storage.storing(directory, settings, clock, events, register) as kept:
            kill("s3")
            local = WarcArchive(directory.archive, 0, ArchiveSettings(), clock, software="Skitter/test")
            archive = kept.archive(local, 0, 1)
            await archive.append([archive.pack(exchange("http://example.org/", b"x" * 999), None, None)])
            archive.settled()
            await archive.close()

    async def come_back() -> None:
        async with storage.storing(directory, settings, clock, events, register):
            pass

    try:
        asyncio.run(write_and_leave())
    finally:
        start("s3")
    [told] = [text for text in heard if "not in the bucket yet" in text]
    assert told.startswith("not in the bucket yet: 1 segment (")
    assert f"skitter work -o {directory.path}" in told
    monkeypatch.setattr(in_bucket, "_LAST_UPLOADS", 60.0)
    asyncio.run(come_back())
    assert directory.files() == []
    assert len(ground.objects()) == 1
    assert warc_check.check(*ground.download(tmp_path / "bucket")) == []
