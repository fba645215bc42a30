"""/metrics over HTTP: two paths for those who may ask, and nothing that disturbs the crawl."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from skitter.control.exposing import MOST_CONNECTIONS, Exposing
from skitter.model import Counts
from skitter.reporting.observation import Observation
from skitter.runtime.metrics import Metrics
from skitter.settings import SettingsError


class Looks:
    def __init__(self) -> None:
        self.number = 0
        self.now = 100.0

    def observe(self) -> Observation:
        self.number += 1
        return Observation(at=0, counts=Counts(queued=self.number), metrics=Metrics())


@asynccontextmanager
async def served(looks: Looks | None = None, address: str = "127.0.0.1:0", hosts=()):
    looks = looks or Looks()
    async with Exposing(looks.observe, lambda: looks.now, hosts).serving(address) as url:
        host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        yield host.strip("[]"), int(port)


async def asked(where, head: str) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection(*where)
    writer.write(head.encode("latin-1"))
    answer = (await reader.read()).decode()
    writer.close()
    first, _, body = answer.partition("\r\n\r\n")
    return int(first.split()[1]), first, body


def get(path: str = "/metrics", host: str = "127.0.0.1", more: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def test_metrics_and_health():
    async def main():
        async with served() as where:
            status, head, body = await asked(where, get())
            assert (status, "skitter_crawl_queued 1\n" in body) == (200, True)
            assert "Content-Type: text/plain; version=0.0.4" in head
            assert (await asked(where, get("/healthz")))[2] == "ok\n"
            accept = "Accept: application/openmetrics-text; version=1.0.0,text/plain;q=0.5\r\n"
            status, head, body = await asked(where, get(more=accept))
            assert "Content-Type: application/openmetrics-text; version=1.0.0" in head
            assert body.endswith("# EOF\n")

    run(main())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (get("/"), 404),
        (get("/metrics/../../etc/passwd"), 404),
        (get("/metrics\x00"), 404),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 405),
        ("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("nonsense\r\n\r\n", 400),
        ("GET /metrics HTTP/9\r\nHost: localhost\r\n\r\n", 400),
        ("\x16\x03\x01 TLS perhaps\r\n\r\n", 400),
        (get(host="evil.example"), 403),
        (get(host="evil.example:9464"), 403),
        (get(host="127.0.0.1.evil.example"), 403),
        (get(host="localhost.evil.example"), 403),
        (get(host=""), 403),
        ("GET /metrics HTTP/1.0\r\n\r\n", 403),
        (get(host="2130706433"), 403),
        (get(host="[::1]:9464"), 200),
        (get(host="10.0.0.7:9464"), 200),
        (get(host="LOCALHOST:1"), 200),
        (get(host="crawler.example:9464"), 200),
    ],
)
def test_who_may_ask_for_what(head, status):
    async def main():
        async with served(hosts=["crawler.example"]) as where:
            got, _, body = await asked(where, head)
            assert got == status
            assert status == 200 or body.count("\n") == 1, "one clear line"

    run(main())


def test_a_request_that_is_too_long_or_never_ends_gets_no_more_than_a_refusal():
    async def main():
        async with served() as where:
            got, _, _ = await asked(where, get(more="X: " + "x" * 10_000 + "\r\n"))
            assert got == 400
            reader, writer = await asyncio.open_connection(*where)
            writer.write(b"GET /metr")
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    run(main())


def test_many_scrapes_cost_as_much_as_two_a_second():
    async def main():
        looks = Looks()
        async with served(looks) as where:
            for _ in range(20):
                await asked(where, get())
            assert looks.number == 1
            looks.now += 0.6
            assert "skitter_crawl_queued 2\n" in (await asked(where, get()))[2]

    run(main())


def test_many_silent_connections_are_dropped_and_leave_room_later():
    async def main():
        async with served() as where:
            held = [await asyncio.open_connection(*where) for _ in range(MOST_CONNECTIONS + 20)]
            await asyncio.sleep(0.1)
            dropped = 0
            for reader, _ in held:
                if reader.at_eof() or reader.exception() is not None:
                    dropped += 1
            assert dropped >= 20
            for _, writer in held:
                writer.close()
            await asyncio.sleep(0.1)
            assert (await asked(where, get()))[0] == 200

    run(main())


def test_an_address_in_use_is_said_in_one_line():
    async def main():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(
                SettingsError, match=r"metrics.address: .*in use; name another with --metrics"
            ):
                async with served(address=f"127.0.0.1:{taken.getsockname()[1]}"):
                    pass

    run(main())


def test_a_port_alone_is_for_this_machine_only():
    async def main():
        async with served(address="0") as where:
            assert where[0] == "127.0.0.1"

    run(main())
