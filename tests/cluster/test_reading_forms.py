"""What people read a crawl with (`show`, `sql`, `report`, `changes`, `replay`) reads that of a cluster too, by its settings."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cluster.crawling import SIZES, Cluster, cluster
from tests.crawl.harness import crawl, settings_for
from tests.crawl.replaying import replayed
from tests.rendered import Answer, Site, html, serving

HOSTS = ("a.test", "b.test")
RESOLVE = tuple(f"{host}:127.0.0.1" for host in HOSTS)
PAGES = 4


def pages(words: str = "the same words as ever") -> dict[str, Answer]:
    made = {
        f"/{n}": html(
            f"<title>Page {n}</title><h1>Page {n}</h1><p>This is page number {n}, which speaks of {words}, and of nothing else. "
            f"It is long enough to be recognised. <a href='/{(n + 1) % PAGES}'>next</a> <a href=/gone>gone</a>"
        )
        for n in range(PAGES)
    }
    return made | {"/0": html("<title>Page 0</title><h1>Page 0</h1><p>The start. <a href=/1>next</a>")}


class Crawled:
    """A finished crawl of two hosts by two workers."""

    def __init__(self, found: Cluster, site: Site, answers: dict[str, Answer]) -> None:
        self.cluster, self.answers = found, answers
        self.workers = [worker.path for worker in found.workers]
        self.named = ["--config", found.config, *self.workers]
        self.starts = [start(site, host) for host in HOSTS]
        self.urls = [f"{each}/1" for each in self.starts]


def start(site: Site, host: str) -> str:
    return site.address.replace("127.0.0.1", host)


@pytest.fixture(scope="module", params=SIZES)
def crawled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    path, answers = tmp_path_factory.mktemp(request.param), pages()
    with (
        serving(answers) as site,
        cluster(path, None, request.param, crawl__shards=2, fetch__resolve=RESOLVE) as found,
    ):
        found.until_shared(found.work(), found.work())
        found.add([f"{start(site, host)}/0" for host in HOSTS])
        found.wait()
        found.leave()
        yield Crawled(found, site, answers)


def skitter(*words: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "skitter", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout


def test_show(crawled: Crawled) -> None:
    for url in crawled.urls:
        assert "speaks of the same words" in skitter("show", *crawled.named, url, "--text")
        assert json.loads(skitter("show", *crawled.workers, url, "--json"))["title"] == "Page 1"
        assert "/0\n" in skitter("show", "--config", crawled.cluster.config, url, "--linked-from")


def test_sql(crawled: Crawled) -> None:
    pytest.importorskip("duckdb")
    ask = "select count(*) as n, (select count(*) from requests) > 0 as logged from pages where fetch_status = 200"
    assert json.loads(skitter("sql", *crawled.named, ask, "--json", "-q")) == {
        "n": 2 * PAGES,
        "logged": True,
    }
    assert "/gone" in skitter("sql", "--config", crawled.cluster.config, "broken-links", "-q")


def test_report(crawled: Crawled) -> None:
    pytest.importorskip("duckdb")
    report = json.loads(skitter("report", *crawled.named, "--json", "-q"))
    assert report["counts"]["pages"] == 2 * PAGES
    assert {each["name"]: each["rows"] for each in report["checks"]}["broken-links"] == 6
    assert "<html" in skitter("report", "--config", crawled.cluster.config, "--html", "-q")


def test_changes(crawled: Crawled, tmp_path: Path) -> None:
    """Against a crawl on one machine, of the same site with other words."""
    settings = settings_for(None, fetch__resolve=RESOLVE, scope__kind="any")
    crawled.answers |= pages("something that is new")
    crawl(tmp_path / "later", [f"{each}/0" for each in crawled.starts], settings)
    withs = [word for worker in crawled.workers for word in ("--with", worker)]
    changed = skitter("changes", crawled.cluster.config, tmp_path / "later", *withs, code=1)
    assert changed.count("something that is new") == 6
    assert changed.endswith("0 new, 6 changed, 0 moved, 0 gone, 2 unchanged\n")
    same = skitter("changes", crawled.workers[0], crawled.cluster.config, *withs)
    assert same == f"0 new, 0 changed, 0 moved, 0 gone, {2 * PAGES} unchanged\n"
    assert skitter("changes", crawled.cluster.config, *withs, "--from", "1s") == same


@pytest.mark.parametrize("search", [True, False])
def test_replay(crawled: Crawled, tmp_path: Path, *, search: bool) -> None:
    words = [*map(str, crawled.named), *([] if search else ["--no-search"]), "-q"]
    with replayed(words[0], *words[1:], log=tmp_path / "log") as origin:
        listed = urlopen(f"{origin}/").read().decode()
        for host, url in zip(HOSTS, crawled.urls, strict=True):
            assert host in listed
            assert "text/html" in urlopen(f"{origin}/captures?url={url}").read().decode()
        if search:
            assert "6 pages found" in urlopen(f"{origin}/?q=number").read().decode()
