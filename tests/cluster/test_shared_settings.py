"""Shared settings: a worker with different ones is refused, and a change reaches every running worker."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.settings.file import load
from skitter.testing.web import Request, Server, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, Cluster, cluster, until_requests
from tests.cluster.test_bad_input import complaint

SLOWER = 0.8  # seconds between two requests, after the change
_PRECISION = 0.01  # of the server's log


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_process(SyntheticWeb(seed=41, hosts=10, pages_per_host=40)) as running:
        yield running


def slim(crawl: Cluster) -> Path:
    """A file that says where the engines are, and no more."""
    settings, file = crawl.settings, crawl.path / "slim.toml"
    lines = [f'cluster.size = "{settings.cluster.size}"', f'cluster.name = "{settings.cluster.name}"']
    lines += [f"redis.addresses = {list(settings.redis.addresses)}".replace("'", '"')]
    if settings.cluster.size == "full":
        lines += [f"kafka.addresses = {list(settings.kafka.addresses)}".replace("'", '"')]
        lines += [f"postgres.addresses = {list(settings.postgres.addresses)}".replace("'", '"')]
        lines += [f'postgres.database = "{settings.postgres.database}"']
        lines += [f'postgres.user = "{settings.postgres.user}"']
    resolve = ", ".join(f'"{pair}"' for pair in settings.fetch.resolve)
    file.write_text("\n".join([*lines, f"fetch.resolve = [{resolve}]", "crawl.min_free_disk = '1MiB'"]))
    return file


def gaps(log: list[Request]) -> list[float]:
    """Seconds between the end of an answer and the next request to its host, of all hosts."""
    hosts: dict[str, list[Request]] = {}
    for request in sorted(log, key=lambda request: request.start):
        hosts.setdefault(request.host, []).append(request)
    return [
        after.start - (before.end or before.start)
        for one in hosts.values()
        for before, after in pairwise(one)
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_worker_with_other_settings_is_refused_in_one_line_that_names_them(size, server, tmp_path, capsys):
    with cluster(tmp_path, server, size, crawl__shards=2) as crawl:
        config, place = crawl.config, tmp_path / "worker"
        said = complaint(
            capsys, "work", "--config", config, "-o", place, "--delay", "10ms", "--contact", "a@b.example"
        )
        assert "politeness.delay is 0.01s here and 0.2s in the crawl" in said
        assert 'fetch.contact is "a@b.example" here' in said
        assert "skitter cluster set" in said
        assert not place.exists()
        said = complaint(
            capsys, "cluster", "add", "--config", config, "--max-pages", "5", "http://a.example/"
        )
        assert "crawl.max_pages is 5 here and not set in the crawl" in said
        said = complaint(capsys, "cluster", "init", "--config", config, "--delay", "1s")
        assert "politeness.delay" in said
        said = complaint(capsys, "cluster", "set", "--config", config, "crawl.concurrency=5")
        assert "is each worker's own" in said
        assert main(["cluster", "init", "--config", str(config)]) == 0
        assert capsys.readouterr().out == "everything already exists\n"
        assert main(["cluster", "status", "--config", str(config)]) == 0
        assert "  politeness.delay = 0.2s\n" in capsys.readouterr().out


def test_a_change_reaches_workers_that_know_only_the_engines(server, tmp_path):
    before = len(server.log())
    with cluster(tmp_path, server, "full", crawl__shards=4, **QUICK) as crawl:
        crawl.config = slim(crawl)
        crawl.add(server.seeds())
        workers = [crawl.work(), crawl.work()]
        until_requests(server, before + 40, crawl)
        said = crawl.command(
            "cluster", "set", "--config", crawl.config, f"politeness.delay={SLOWER}s", "crawl.max_pages=220"
        )
        changed = time.time()
        assert "politeness.delay = 0.8s, was 0.2s" in said
        assert "all running workers use it" in said
        for worker in workers:
            worker.expected = 3
            assert worker.process.wait(120) == 3, worker.said
            assert worker.said.count(" has joined ") == 2
            assert "the settings of the crawl have changed" in worker.said
            assert load(worker.path / "crawl.toml", {}, {}).politeness.delay == SLOWER
        assert crawl.status()["counts"]["pages"] == 220
        log = server.log()[before:]
        assert min(gaps(log)) >= 0.2 - _PRECISION
        late = [request for request in log if request.start > changed]
        assert len(late) > 5
        assert min(gaps(late)) >= SLOWER - _PRECISION
        assert crawl.status()["settings"]["politeness.delay"] == "0.8s"
        # Reading takes the rules from there too: scope.kind is "any" in the crawl, "host" in a file that says nothing.
        found = crawl.command("status", "--config", crawl.config)
        assert "220" in found


def test_the_whole_file_is_taken_over_with_its_overlays(server, tmp_path):
    with cluster(tmp_path, server, "redis", crawl__shards=2) as crawl:
        kept = crawl.config.read_text()
        crawl.config.write_text(f'{kept}\n[[site]]\nmatch = "*.example.org"\npoliteness.delay = "9s"\n')
        said = crawl.command("cluster", "set", "--config", crawl.config)
        assert "site = " in said
        assert "all running workers use it" in said
        assert "nothing to change" in crawl.command("cluster", "set", "--config", crawl.config)
