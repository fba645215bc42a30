"""`skitter audit` on the logs of all workers of a cluster: clean as they are, and not if one is doctored."""

import json
from typing import Any

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, cluster, until_requests
from tests.crawl.test_audit import audited

SIZE = pytest.mark.parametrize("size", ["redis", pytest.param("full", marks=pytest.mark.soak)])


@SIZE
def test_the_logs_of_all_workers_together_prove_that_every_promise_was_kept(tmp_path, capsys, size):
    """Keys that span workers (an address, a group, the bandwidth) can only be judged from all logs; one worker was killed."""
    features = Features(robots=True, redirects=True, later=True, crawl_delay=0.6, retry_after=1)
    web = SyntheticWeb(seed=5, hosts=24, pages_per_host=5, features=features)
    group = {"some": {"hosts": ["h*1.site*", "h*2.site*"], "in_flight": 2, "delay": "100ms", "pages": 12}}
    promised = {"politeness__per_address": 4, "budget__host_pages": 4, "budget__bandwidth": "60kB"}
    with (
        serve_process(web, latency=0.05) as server,
        cluster(tmp_path, server, size, group=group, **promised, **QUICK) as crawl,
    ):
        crawl.add(server.seeds())
        victim, other = crawl.work(), crawl.work()
        crawl.until_shared(victim, other)
        until_requests(server, 60, crawl)
        victim.kill()
        crawl.work()
        crawl.wait()
        crawl.leave()
        crawl.start_again(victim)
        asked = len(server.log())
    workers = [worker.path for worker in crawl.workers[:3]]
    code, found = audited(capsys, *workers)
    assert (code, found["kinds"]) == (0, {})
    assert 0 <= asked - found["requests"] <= 8  # in flight when it was killed
    checked = {name for name, check in found["checks"].items() if check["checked"]}
    assert {"gap", "in flight", "robots obeyed", "budgets", "bandwidth"} <= checked
    log = max(workers[1].glob("log/requests-*.jsonl"), key=lambda path: path.stat().st_size)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    crowd(lines)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, found = audited(capsys, *workers)
    assert code == 1
    assert "in flight host" in found["kinds"]


def crowd(lines: list[dict[str, Any]]) -> None:
    """Let an answer of a host end after its next request began."""
    last: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line["type"] == "Requested":
            if line["host"] in last:
                last[line["host"]]["end"] = line["start"] + 0.05
                return
            last[line["host"]] = line
