"""User code in a cluster: the strategy is shared by all workers, where its file lies is each worker's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.testing.web import Features, Server, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, Cluster, cluster
from tests.cluster.test_bad_input import complaint
from tests.crawl.harness import keys


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    web = SyntheticWeb(seed=43, hosts=8, pages_per_host=6, features=Features.plain())
    with serve_process(web) as running:
        yield running


def plugin(folder: Path, notes: Path) -> Path:
    """A scorer that notes which file was asked."""
    folder.mkdir()
    file = folder / "house_scorer.py"
    file.write_text(
        "import pathlib\n"
        "def score(link):\n"
        f"    pathlib.Path({str(notes)!r}, pathlib.Path(__file__).parent.name).touch()\n"
        "    return float(len(link.url))\n"
    )
    return file


def ended(crawl: Cluster, code: int) -> str:
    """What a worker says that does not start."""
    worker = crawl.work()
    worker.expected = code
    assert worker.process.wait(120) == code, worker.said
    crawl.workers.remove(worker)
    return worker.said


def test_every_worker_scores_with_its_own_file_and_none_starts_without(server, tmp_path, capsys):
    notes = tmp_path / "notes"
    notes.mkdir()
    files = [plugin(tmp_path / name, notes) for name in ("one", "two")]
    with cluster(
        tmp_path, server, "redis", crawl__shards=4, schedule__strategy="house_scorer:score", **QUICK
    ) as crawl:
        said = complaint(capsys, "cluster", "set", "--config", crawl.config, f"crawl.plugins={files[0]}")
        assert "crawl.plugins is each worker's own" in said
        said = ended(crawl, 2)
        assert said.startswith(
            'skitter: schedule.strategy = "house_scorer:score": there is no module house_scorer'
        )
        assert said.count("\n") == 1
        assert not (tmp_path / "worker0").exists()

        crawl.add(server.seeds())
        for file in files:
            crawl.work(flags=["--with", str(file)])
        crawl.until_shared(*crawl.workers)
        crawl.wait()
        crawl.leave()
        judged = crawl.judged()
    assert judged.pages == keys(server.truth("any").pages)
    assert {note.name for note in notes.iterdir()} == {"one", "two"}
    scores = {record.score - len(record.url) for record in judged.records.values() if record.parent}
    assert scores == {0.0}
