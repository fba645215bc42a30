"""Sitemaps from a real server by the real command: 50 MB within bounds, bombs, what people see."""

import gzip
import json
import subprocess
import sys

import pytest
from benchmarks import sitemaps as measure

from tests.warc_readers import assert_all_readers_agree

PATIENCE = 300  # seconds: only a hang fails by it
FLAGS = [
    "--allow-private",
    "127.0.0.0/8",
    "--delay",
    "0",
    "--set",
    "crawl.min_free_disk=1MiB",
    "--workers",
    "1",
]


@pytest.fixture
def server():
    running = measure.Server()
    yield running
    running.shutdown()
    running.server_close()


def skitter(*words):
    command = [sys.executable, "-m", "skitter", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def urlset(base, *names):
    entries = "".join(f"<url><loc>{base}/{name}</loc><changefreq>daily</changefreq></url>" for name in names)
    return f"<urlset>{entries}</urlset>".encode()


def test_50_mb_cost_little_memory_and_its_pages_are_all_found(server, tmp_path):
    large = measure.sitemap(server.base)
    assert len(large) > 50_000_000
    server.bodies |= {"/one.xml": measure.sitemap(server.base, 1), "/chunked.xml": large}
    base = measure.crawl(f"{server.base}/one.xml", tmp_path / "one")
    found = measure.crawl(f"{server.base}/chunked.xml", tmp_path / "large")
    assert found.counts["added"] == measure.ENTRIES + 1
    assert found.memory - base.memory < 60e6
    assert len(large) / 1e6 / (found.cpu - base.cpu) > 5  # MB per second of CPU
    assert_all_readers_agree(*sorted((tmp_path / "large/archive").glob("*.warc.gz")))
    assert skitter("check", tmp_path / "large").returncode == 0


def test_a_bomb_and_an_oversized_sitemap_stop_at_the_limit(server, tmp_path):
    packed = gzip.compress(urlset(server.base, "page").removesuffix(b"</urlset>") + b"<x/>" * (75 * 2**20), 1)
    long = urlset(server.base, "first").removesuffix(b"</urlset>") + b"<x/>" * (15 * 2**20)  # 60 MiB
    server.bodies |= {"/bomb.xml.gz": packed, "/long.xml": long}
    for name, page in (("bomb.xml.gz", "page"), ("long.xml", "first")):
        where = tmp_path / name
        run = skitter("crawl", "--sitemap", f"{server.base}/{name}", "--sitemap-only", "-o", where, *FLAGS)
        assert run.returncode == 0, run.stderr
        pages = [json.loads(line) for line in skitter("pages", where, "--json").stdout.splitlines()]
        assert f"{server.base}/{page}" in {one["url"] for one in pages}
        why = skitter("why", where, f"{server.base}/{name}").stdout
        assert "only its first 52428800 bytes are read" in why


def test_people_see_where_a_page_came_from_and_what_the_sitemap_said(server, tmp_path):
    server.bodies["/map.xml"] = urlset(server.base, "a", "b")
    run = skitter(
        "crawl", "--sitemap", f"{server.base}/map.xml", "--sitemap-only", "-o", tmp_path / "d", *FLAGS
    )
    assert run.returncode == 0, run.stderr
    assert "Sitemaps read" in run.stdout
    why = skitter("why", tmp_path / "d", f"{server.base}/a").stdout
    assert f"listed by the sitemap\n    {server.base}/map.xml" in why
    assert "changes daily" in why
    listed = skitter("why", tmp_path / "d", f"{server.base}/map.xml").stdout
    assert "it lists pages, and counts as none" in listed
    assert "2 entries" in listed


def test_its_pages_reach_the_workers_that_own_their_hosts(server, tmp_path):
    port = server.server_address[1]
    hosts = [f"{name}.test" for name in "abcdefgh"]
    pages = {f"http://{host}:{port}/{number}" for host in hosts for number in range(20)}
    body = "".join(f"<url><loc>{url}</loc></url>" for url in sorted(pages))
    server.bodies["/map.xml"] = f"<urlset>{body}</urlset>".encode()
    flags = [word for host in hosts for word in ("--resolve", f"{host}:127.0.0.1")]
    flags += ["--scope", "any", "--sitemap-only", "--per-address", "8", *FLAGS[:-1], "3"]
    run = skitter("crawl", "--sitemap", f"http://a.test:{port}/map.xml", "-o", tmp_path / "d", *flags)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in skitter("pages", tmp_path / "d", "--json").stdout.splitlines()]
    assert {page["url"] for page in found if page["purpose"] == "page"} == pages
