"""A crawl on secured engines: TLS with a private CA, user names and passwords, all from settings."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripts.engines.s3 import ACCESS, SECRET

from skitter.compose.engines import make
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import cluster, cluster_settings
from tests.cluster.secured import (
    OPENSSL,
    PASSWORD,
    USER,
    GuardedKafka,
    GuardedPostgres,
    GuardedRedis,
    GuardedS3,
    Papers,
    guarded,
)
from tests.crawl.harness import keys
from tests.engines import engine

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl command to make certificates with")
BUCKET = "guarded-crawl"


@dataclass
class Secured:
    """Four guarded engines, and what a client must know of them."""

    settings: dict[str, object]
    bucket: Path  # as the server keeps it


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    for name in ("postgres", "redis", "kafka", "s3"):
        engine(name)  # or there is nothing to start guarded ones from
    papers = Papers.issued(tmp_path_factory.mktemp("papers"))
    password, secret = (papers.key.parent / name for name in ("password", "secret"))
    password.write_text(f"{PASSWORD}\n")
    secret.write_text(f"{SECRET}\n")
    with guarded(papers, GuardedPostgres, GuardedRedis, GuardedKafka, GuardedS3) as engines:
        postgres, redis, kafka, s3 = engines
        s3.place.give(s3.data / BUCKET)
        known = {"tls": True, "ca_file": str(papers.authority), "password_file": str(password)}
        settings: dict[str, object] = {
            "postgres__addresses": (f"127.0.0.1:{postgres.port}",),
            "postgres__user": USER,
            "redis__addresses": (f"127.0.0.1:{redis.port}",),
            "redis__username": USER,
            "kafka__addresses": (f"127.0.0.1:{kafka.port}",),
            "kafka__mechanism": "SCRAM-SHA-512",
            "kafka__username": USER,
            **{
                f"{name}__{key}": value
                for name in ("postgres", "redis", "kafka")
                for key, value in known.items()
            },
            "s3__bucket": BUCKET,
            "s3__endpoint": s3.address,
            "s3__access_key": ACCESS,
            "s3__secret_key_file": str(secret),
            "s3__ca_file": str(papers.authority),
            "s3__segment_time": "2s",
        }
        yield Secured(settings, s3.data / BUCKET)


def test_a_crawl_on_guarded_engines(secured, tmp_path):
    web = SyntheticWeb(seed=4, hosts=6, pages_per_host=8, features=Features.plain(foreign_share=0.3))
    with (
        serve_process(web) as server,
        cluster(tmp_path, server, crawl__shards=2, **secured.settings) as crawl,
    ):
        crawl.add(server.seeds())
        worker = crawl.work()
        crawl.wait()
        assert {name: engine["up"] for name, engine in crawl.status()["engines"].items()} == dict.fromkeys(
            ("PostgreSQL", "Kafka", "Redis", "S3"), True
        )
        crawl.leave()
        pages, _ = asyncio.run(crawl.read_back())
        assert {page.key for page in pages if 200 <= page.status < 300} == keys(server.truth("any").pages)
        assert list(secured.bucket.rglob("*.warc.gz"))
        for secret in (PASSWORD, SECRET):
            assert secret not in worker.said
            assert secret not in crawl.config.read_text()


# What is wrong, and the settings that are named: where it was seen, and what to correct.
WRONG = [
    ("postgres", "tls", "PostgreSQL: postgres.tls: ", "no encryption; set postgres.tls"),
    ("postgres", "ca_file", "PostgreSQL: postgres.tls: ", "correct postgres.tls or postgres.ca_file"),
    ("postgres", "password_file", "PostgreSQL: postgres.user: password", "postgres.password_file)"),
    ("redis", "tls", "Redis (redis.addresses): ", "or set redis.tls"),
    ("redis", "ca_file", "Redis (redis.tls): ", "correct redis.tls or redis.ca_file"),
    ("redis", "password_file", "Redis (redis.username): ", "redis.password_file)"),
    ("kafka", "tls", "Kafka: kafka.addresses: ", "or set kafka.tls"),
    ("kafka", "ca_file", "Kafka: kafka.ca_file: ", "certificate"),
    ("kafka", "password_file", "Kafka: kafka.username: ", "correct kafka.username"),
    ("s3", "ca_file", "S3 at https://", "mend s3.endpoint or s3.ca_file"),
    ("s3", "secret_key_file", "S3 at https://", "s3.secret_key_file or SKITTER_S3_SECRET_KEY"),
]


@pytest.mark.parametrize(("section", "setting", "told", "fix"), WRONG)
def test_a_refused_login_is_reported_in_one_line(secured, tmp_path, section, setting, told, fix):
    other = tmp_path / "other"
    other.write_bytes(Papers.issued(tmp_path / "others").authority.read_bytes())
    wrong = {f"{section}__{setting}": False if setting == "tls" else str(other)}
    config = tmp_path / "cluster.toml"
    settings = cluster_settings(None, crawl__shards=2, **secured.settings | wrong)
    config.write_text(dump(settings))
    command = ["cluster", "init"]
    if section == "redis":  # the first who needs it is a worker
        asyncio.run(make(settings))
        command = ["work", "-o", str(tmp_path / "worker")]
    command = [sys.executable, "-m", "skitter", *command, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"skitter: {told}")
    assert fix in done.stderr
    assert done.stderr.count("\n") == 1
    assert not any(secret in done.stderr for secret in (PASSWORD, SECRET))
