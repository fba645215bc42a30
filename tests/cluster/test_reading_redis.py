"""Reading a small cluster by its settings or from workers' directories: records from Redis, answers from local files."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from typing import Any

import pytest

from skitter.compose.engines import make
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import until
from tests.cluster.redis import cleaned
from tests.crawl.harness import keys, settings_for
from tests.engines import engine


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(
        seed=9, hosts=6, pages_per_host=6, features=Features(duplicates=True, foreign_share=0.3)
    )
    with serve_process(web) as running:
        yield running


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "skitter", *map(str, words)]


def skitter(*words: object) -> str:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def tried(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


class Crawled:
    """A small cluster's crawl, finished, by two workers."""

    def __init__(self, path, config, settings):
        self.path, self.config, self.settings = path, config, settings
        self.folders = [path / "w0", path / "w1"]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, server):
    path, redis = tmp_path_factory.mktemp("reading"), engine("redis")
    settings = settings_for(
        server,
        cluster__size="redis",
        cluster__name=f"test_{uuid.uuid4().hex[:12]}",
        cluster__renew="300ms",
        cluster__lease="2s",
        crawl__shards=4,
        redis__addresses=(f"{redis.host}:{redis.port}",),
        scope__kind="any",
    )
    config = path / "cluster.toml"
    config.write_text(dump(settings))
    made = Crawled(path, config, settings)
    with cleaned(settings):
        asyncio.run(make(settings))
        workers = [
            subprocess.Popen(command("work", "-q", "--config", config, "-o", folder))
            for folder in made.folders
        ]
        try:
            until(lambda: len(owners(config)) == len(workers), "both workers have shards", every=0.3)
            skitter("cluster", "add", "--config", config, *server.seeds())
            skitter("cluster", "wait", "--config", config, "--timeout", "300s")
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            assert [worker.wait(60) for worker in workers] == [0, 0]
        yield made


def owners(config) -> set[str]:
    shards = json.loads(skitter("cluster", "status", "--config", config, "--json"))["shards"]
    return {shard["owner"] for shard in shards if shard["owner"]}


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_workers_directory_gives_access_to_the_whole_crawl(crawled, server):
    truth = keys(server.truth("any").pages)
    folder = crawled.folders[0]
    assert json.loads(skitter("status", folder, "--json"))["counts"]["pages"] == len(truth)
    urls = lines(skitter("pages", folder, "--status", "2xx", "--json"))
    assert keys({page["url"] for page in urls}) == truth
    told = json.loads(skitter("why", folder, urls[0]["url"], "--json"))
    assert told["page"]["url"] == urls[0]["url"]


def test_the_settings_file_gives_access_to_the_whole_crawl(crawled, server):
    truth = keys(server.truth("any").pages)
    config = ("--config", crawled.config)
    assert json.loads(skitter("status", *config, "--json"))["counts"]["pages"] == len(truth)
    assert f"cluster {crawled.settings.cluster.name}" in skitter("status", *config)
    found = lines(skitter("pages", *config, "--status", "2xx", "--json"))
    assert keys({page["url"] for page in found}) == truth
    story = skitter("why", *config, found[0]["url"])
    assert "was fetched" in story
    assert "the scope would accept it now" in tried("why", *config, "http://elsewhere.example/").stdout
    for kind in ("csv", "urls", "links"):
        assert skitter("export", *config, "--format", kind, "-q")


def test_an_export_of_a_part_says_how_much_is_missing_and_where_it_is(crawled, server):
    config = ("--config", crawled.config)
    first, second = crawled.folders
    total = len(lines(skitter("pages", *config, "--json")))
    for kind in ("jsonl", "cdxj"):
        none = tried("export", *config, "--format", kind)
        assert none.returncode == 1
        assert f"{total} pages of this crawl could not be read" in none.stderr
        assert f":{first}\n" in none.stderr
        assert f":{second}\n" in none.stderr
        part = tried("export", *config, first, "--format", kind)
        assert part.returncode == 1
        assert f":{first}\n" not in part.stderr
        assert f":{second}\n" in part.stderr


def test_the_directories_of_all_workers_give_every_page_once(crawled, server):
    for named in (["--config", crawled.config, *crawled.folders], crawled.folders):
        pages = lines(skitter("export", *named, "--format", "jsonl", "-q"))
        assert all(page["text"] is not None for page in pages)
        assert len({page["url"] for page in pages}) == len(pages)
        index = skitter("export", *named, "--format", "cdxj", "-q").splitlines()
        indexed = Counter(json.loads(line.split(" ", 2)[2])["url"] for line in index)
        assert set(indexed) >= {page["url"] for page in pages}
        assert {indexed[page["url"]] for page in pages} == {1}


def test_an_index_without_unsettled_answers(crawled):
    """As it is between the moment that a worker is killed and the next start in its directory."""
    named = ["--config", crawled.config, *crawled.folders]
    before = skitter("export", *named, "--format", "cdxj", "-q")
    folder = crawled.path / "copy"
    shutil.copytree(crawled.folders[0], folder)
    for file in (folder / "archive").glob("*.warc.gz"):
        with file.open("ab") as end:
            end.write(file.read_bytes())
    named[2] = folder
    assert skitter("export", *named, "--format", "cdxj", "-q") == before


def test_search_without_a_server_uses_its_own_index(crawled):
    config = ("--config", crawled.config)
    part = tried(
        "search", *config, "--index", crawled.path / "part.sqlite", "--from", crawled.folders[0], "page"
    )
    assert "could not be read" in part.stderr
    folders = [word for folder in crawled.folders for word in ("--from", folder)]
    whole = ("search", *config, "--index", crawled.path / "words.sqlite", *folders, "--json")
    title = lines(skitter("pages", *config, "--status", "2xx", "--json"))[0]["title"]
    assert json.loads(skitter(*whole, title))["total"] >= 1
    assert "search.addresses" in tried("search", *config, title).stderr


def test_unreadable_crawls_are_reported_in_one_line(crawled, tmp_path):
    other, alone = tmp_path / "other.toml", tmp_path / "alone.toml"
    other.write_text(crawled.config.read_text().replace(crawled.settings.cluster.name, "another_crawl"))
    alone.write_text("")
    for words, said in (
        (["status"], "no crawl named"),
        (["status", "--config", tmp_path / "none.toml"], "none.toml"),
        (["status", "--config", alone], "a crawl on one machine"),
        (["status", "--config", other], "there is no crawl another_crawl"),
        (["status", "--config", other, crawled.folders[0]], "not of another_crawl"),
        (["export", "--format", "urls", tmp_path], "holds no crawl"),
    ):
        done = tried(*words)
        assert done.returncode in (2, 4), words
        assert said in done.stderr, words
        assert len(done.stderr.splitlines()) == 1, done.stderr
