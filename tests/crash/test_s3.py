"""The S3 archive on a real server: killed at any point, the server away, large segments, wrong settings."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
from functools import partial

import obstore
import pytest
from msgspec.structs import replace

from skitter.backends.s3 import LocalSegments, Stage, open_bucket
from skitter.export.reread import html_of
from skitter.model import Place
from skitter.ports import EngineError, Mark
from skitter.settings import Bytes, Settings
from skitter.settings.engines import S3Settings
from skitter.testing import warc_check
from skitter.testing.contracts.archive import exchange, message
from tests.engines import frozen, killed, our_engine
from tests.s3 import Worker, real_ground

POINTS = (
    "before the upload",
    "before the register knows",
    "before it leaves the disk",
    "while appending",
    "at the end",
)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_each_settled_page_is_in_the_bucket_once(tmp_path, point):
    ground = real_ground(segment=Bytes(1))
    disk = tmp_path / "disk"
    child = subprocess.run(
        [sys.executable, "-m", "tests.crash.s3_child", str(disk), ground.settings.bucket, point],
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    settled = [json.loads(line) for line in child.stdout.splitlines()]
    assert settled

    async def resume() -> Worker:
        worker = Worker(ground, disk, LocalSegments(disk / "segments.json"))
        assert await worker.uploads.recover() == []
        async with worker.running():
            archive = worker.archive(epoch=2)
            mark = Mark(settled[-1][0], settled[-1][3])
            assert await archive.cut(mark) == mark
            await worker.uploads.drain()
        return worker

    worker = asyncio.run(resume())
    assert worker.files() == []
    for file, offset, length, _, body in settled:
        assert worker.uploads.reader.read(Place(file, offset, length)).endswith(body.encode())
    files = ground.download(tmp_path / "bucket")
    assert sorted(path.name for path in files) == sorted(line[0] for line in settled)
    assert warc_check.check(*files) == [], "record ids too: nothing is there twice under two names"
    assert all(
        segment.stage is Stage.UPLOADED
        for segment in asyncio.run(worker.segments.look_up([f.name for f in files]))
    )


async def write_pages(archive, bodies: list[bytes]) -> list[Place]:
    places = []
    for body in bodies:
        places += await archive.append([archive.pack(exchange("http://example.org/", body), None, None)])
        archive.settled()
        await asyncio.sleep(0)
    return places


def test_a_server_that_is_killed_and_comes_back_costs_nothing(tmp_path):
    our_engine("s3")
    ground = real_ground(segment=Bytes(1))
    bodies = [os.urandom(2000).hex().encode() for _ in range(12)]

    async def use() -> tuple[Worker, list[Place]]:
        worker = Worker(ground, tmp_path / "disk")
        async with worker.running():
            archive = worker.archive()
            places = await write_pages(archive, bodies[:4])
            await worker.uploads.drain()
            with killed("s3"):
                places += await write_pages(archive, bodies[4:])
                while not worker.warnings:
                    await asyncio.sleep(0.05)
                assert len(worker.files()) == 8
            await worker.uploads.drain()
            while len(worker.warnings) == 1:  # health checks make up for the calls that its breaker waits for
                await asyncio.sleep(0.05)
        return worker, places

    worker, places = asyncio.run(use())
    assert worker.files() == []
    assert len(ground.objects()) == 12
    assert [worker.uploads.reader.read(place) for place in places] == [
        message(exchange("http://example.org/", body)) for body in bodies
    ]
    assert [" ".join(warning.split()[:3]) for warning in worker.warnings] == ["S3 is away", "S3 is back"]
    assert warc_check.check(*ground.download(tmp_path / "bucket")) == []


def test_a_server_that_is_frozen_holds_up_no_page(tmp_path):
    our_engine("s3")
    ground = real_ground(segment=Bytes(1))

    async def use() -> Worker:
        worker = Worker(ground, tmp_path / "disk")
        async with worker.running():
            archive = worker.archive()
            with frozen("s3"):
                await write_pages(archive, [b"%d" % n for n in range(5)])
                await archive.sync()
                assert len(worker.files()) == 5
            await worker.uploads.drain()
        return worker

    assert asyncio.run(use()).files() == []
    assert len(ground.objects()) == 5


def test_a_large_segment_goes_in_parts(tmp_path):
    part = 5 * 2**20
    ground = real_ground(segment=Bytes(16 * 10**6), part=Bytes(part))

    async def use() -> tuple[list[Place], Worker]:
        worker = Worker(ground, tmp_path / "disk")
        async with worker.running():
            places = await write_pages(worker.archive(), [os.urandom(2 * 10**6) for _ in range(9)])
            await worker.uploads.drain()
        return places, worker

    places, worker = asyncio.run(use())
    large, next_one = (places[0].file, places[8].file)
    assert {place.file for place in places[:8]} == {large}
    assert worker.files() == [next_one], "it is neither large nor old yet"
    there = obstore.head(ground.store, ground.bucket.key(large))
    assert there["size"] > 3 * part
    assert there["e_tag"].strip('"').endswith("-4"), "that is how S3 names an upload in four parts"
    assert [len(worker.uploads.reader.read(place)) > 2 * 10**6 for place in places] == [True] * 9
    assert warc_check.check(*ground.download(tmp_path / "bucket")) == []


def test_pages_beside_their_segment_are_read_back_by_anybody(tmp_path):
    ground = real_ground(segment=Bytes(1), layout="pages")
    urls = ["http://example.org/", "http://example.org/" + "x" * 3000, 'http://example.org/?q="ü|^{}']
    answers = [exchange(url, b"<p>%d" % n) for n, url in enumerate(urls)]

    async def use() -> None:
        worker = Worker(ground, tmp_path / "disk")
        worker.uploads.content = partial(html_of, settings=Settings())
        async with worker.running():
            archive = worker.archive()
            await archive.append([archive.pack(answer, None, None) for answer in answers])
            archive.settled()
            await worker.uploads.drain()

    asyncio.run(use())
    pages = [key for key in ground.objects() if key.endswith(".html.gz")]
    assert len(ground.objects()) == len(pages) + 1 == 4
    assert sorted(gzip.decompress(ground.octets(key)) for key in pages) == [b"<p>0", b"<p>1", b"<p>2"]
    assert all(key.startswith("2026-01-02/") for key in pages), "the day it was fetched"
    kept = [obstore.get(ground.store, key).attributes for key in pages]
    assert {each["Content-Type"] for each in kept} == {"text/html"}
    assert sorted(each["url"] for each in kept) == [
        urls[0],
        "http://example.org/?q=%22%C3%BC%7C%5E%7B%7D",
        urls[1][:1500],
    ]


WRONG = [
    ({"bucket": ""}, {}, "S3: no bucket is named; set s3.bucket"),
    ({"bucket": "no-such-bucket"}, {}, "has no bucket 'no-such-bucket'; create it, or mend s3.bucket"),
    ({"access_key": "nobody"}, {}, "does not know this key; mend s3.access_key"),
    ({}, {"SKITTER_S3_SECRET_KEY": "wrong-secret"}, "SKITTER_S3_SECRET_KEY"),
    ({"endpoint": "http://127.0.0.1:1"}, {}, "S3 at http://127.0.0.1:1 cannot be used: .*; mend s3.endpoint"),
    ({"ca_file": "/nowhere/ca.pem"}, {}, "s3.ca_file: /nowhere/ca.pem: No such file or directory"),
]


@pytest.mark.parametrize(("settings", "environ", "says"), WRONG)
def test_errors_are_one_line_with_the_setting(settings, environ, says):
    ground = real_ground()
    with pytest.raises(EngineError, match=says) as caught:
        open_bucket(replace(ground.settings, **settings), "crawl", ground.environ | environ)
    assert "\n" not in str(caught.value)
    assert "wrong-secret" not in str(caught.value)
    assert "skitter-secret" not in str(caught.value)


def test_a_missing_library_is_reported_with_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(EngineError, match=r"pip install .*\[s3\]"):
        open_bucket(S3Settings(bucket="crawl"), "crawl", {})
