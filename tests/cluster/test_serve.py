"""A cluster over HTTP: read from its engines and steered through them, without the directory of a worker."""

from types import SimpleNamespace

import pytest

from tests.cluster.crawling import QUICK, SIZES, cluster, until
from tests.crawl.controlled import HOSTS, Site
from tests.crawl.served import serving

API = "/api/v1"


@pytest.mark.parametrize("size", SIZES)
def test_a_cluster_is_read_and_steered(size, tmp_path):
    site = Site()
    server = SimpleNamespace(web=SimpleNamespace(resolve_map=lambda: dict.fromkeys(HOSTS, "127.0.0.1")))
    wanted = {"politeness__delay": "50ms", "scope__kind": "host", "crawl__shards": 2}
    try:
        with cluster(tmp_path, server, size, **{**QUICK, **wanted}) as crawl:
            crawl.add([site.url(host) for host in HOSTS])
            crawl.until_shared(crawl.work())
            until(lambda: site.requests() > 30, "requests are made")
            with serving(None, "--config", str(crawl.config)) as client:
                (one,) = client.get(f"{API}/crawls").json["items"]
                assert one["state"] == "cluster"
                here = f"{API}/crawls/{one['id']}"
                until(lambda: client.get(here).json["counts"]["pages"] > 5, "pages are seen")
                some = client.get(f"{here}/pages?limit=3").json
                more = client.get(f"{here}/pages?limit=3&cursor={some['next']}").json
                assert len({page["url"] for page in [*some["items"], *more["items"]]}) == 6
                assert client.get(f"{here}/why?url={site.url(HOSTS[0])}").json["known"] is True
                assert client.get(f"{here}/queue?limit=1").json["items"]
                assert client.post(f"{here}/actions/pause", {}).json["said"].startswith("paus")
                assert "continue" in client.get(here).json["availableActions"]
                assert client.post(f"{here}/actions/block", {"hosts": [HOSTS[1]]}).status == 200
                assert client.post(f"{here}/actions/continue", {}).json["said"] == "continued"
                assert client.post(f"{here}/actions/stop", {}).status == 409
            crawl.leave()
    finally:
        site.close()
