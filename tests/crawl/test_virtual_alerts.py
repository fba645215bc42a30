"""Alerts of whole crawls in virtual time: each in its fault, none in a clean hour; and politeness, measured by the crawl itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from msgspec.structs import replace

from skitter.control.notifying import read
from skitter.control.watching import Alerting, Watch
from skitter.crawl.observing import observed
from skitter.model import Fault
from skitter.reporting.observation import Observation
from tests.crawl.virtual import HOUR, MEMORY, MINUTE, Answer, Asked, VirtualCrawl, crawl, html

HOSTS, PAGES = 10, 180
DELAY = 20  # seconds: an hour of ten hosts is 1,800 requests
STARTS = [f"http://h{number}.test/" for number in range(HOSTS)]


class Watching:
    """Looks at the rules while a crawl runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[tuple[float, str]] = []
        self.last: Observation | None = None
        self.names: set[str] = set()

    def __call__(self, made: VirtualCrawl) -> None:
        def observe() -> Observation:
            seen = observed(made.local_shards, made.settings, self.folder, made.clock, finished=False)
            self.last = replace(seen, clock_offset=0.0, disk_free=50, disk_size=100)  # these are real
            return self.last

        def warn(text: str) -> None:
            self.said.append((made.clock.monotonic(), text))
            if text.startswith("alert: "):
                self.names.add(text.split(": ")[1])

        watch = Watch(
            settings=made.settings,
            clock=made.clock,
            observe=observe,
            warn=warn,
            name={"crawl": "test"},
            alerts_file=self.folder / "alerts.json",
            url_file=self.folder / "metrics.url",
        )
        self.task = asyncio.ensure_future(Alerting(watch).run())


def healthy(asked: Asked) -> Answer:
    """Each host has a robots.txt, a front page and many others; some are gone."""
    path = asked.url.partition(".test")[2]
    if path == "/robots.txt":
        return Answer(body="User-agent: *\nDisallow: /private\n")
    if path == "/":
        return html("/private/x", *(f"/{number}" for number in range(PAGES)))
    return Answer(404) if path.endswith("77") else html("/")


def watched(
    tmp_path: Path, script: Callable[[Asked], Answer], starts: list[str] | None = None, **settings: Any
) -> Watching:
    watching = Watching(tmp_path)
    crawl(
        tmp_path / "c",
        starts or STARTS,
        script,
        store=MEMORY,
        meanwhile=watching,
        **{
            "politeness__delay": DELAY,
            "crawl__max_time": 70 * MINUTE,
            "crawl__sync_interval": "1m",
            **settings,
        },
    )
    return watching


def test_a_clean_hour_calls_nobody(tmp_path):
    watching = watched(tmp_path, healthy)
    assert watching.said == []
    assert not (tmp_path / "alerts.json").exists()
    assert watching.last is not None
    measured = watching.last.metrics
    assert measured.requests.answers["2xx"] > 1700
    assert measured.requests.answers["4xx"] == 2 * HOSTS
    assert measured.robots.denied == HOSTS
    assert measured.robots.fetched == HOSTS
    assert measured.politeness.violations == 0
    assert measured.politeness.wait.total == pytest.approx(DELAY * measured.politeness.wait.number)
    assert measured.queue.wait.number > 1700


def after(minutes: float, fault: Callable[[Asked], Answer | None]) -> Callable[[Asked], Answer]:
    """A script that is healthy at first, and then has a fault."""
    began: list[float] = []

    def script(asked: Asked) -> Answer:
        began.append(asked.at)
        return (asked.at > began[0] + minutes * MINUTE and fault(asked)) or healthy(asked)

    return script


def is_page(asked: Asked) -> bool:
    return not asked.url.endswith("robots.txt")


def fails(answer: Answer, share: int = 3) -> Callable[[Asked], Answer | None]:
    """One of so many pages gets this answer."""
    return lambda asked: answer if is_page(asked) and crc32(asked.url.encode()) % share == 0 else None


FAULTS = {
    "error_rate": after(15, fails(Answer(500), 2)),
    "certificate_trouble": after(15, fails(Answer(fault=Fault.TLS), 4)),
    "challenged": after(15, fails(Answer(403, headers={"cf-mitigated": "challenge"}), 2)),
    "stalled": after(15, lambda asked: Answer(takes=2 * HOUR)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_calls_somebody(tmp_path, name):
    watching = watched(tmp_path, FAULTS[name])
    also = {"error_rate"} if name == "certificate_trouble" else set()
    assert watching.names - also == {name}
    assert min(at for at, text in watching.said) > 15 * MINUTE


def test_an_error_rate_that_goes_back_is_told_again(tmp_path):
    def fault(asked: Asked) -> Answer | None:
        return (
            Answer(500)
            if is_page(asked) and asked.at < 30 * MINUTE and crc32(asked.url.encode()) % 2
            else None
        )

    watching = watched(tmp_path, after(15, fault), schedule__retries=0)
    begun, over = (text for _, text in watching.said)
    assert begun.startswith("alert: error_rate: ")
    assert over.startswith("alert is over: error_rate: ")
    assert read(tmp_path / "alerts.json").firing == []


def test_slow_progress_with_free_hosts_is_called_slow(tmp_path):
    def script(asked: Asked) -> Answer:
        return replace_takes(healthy(asked), 150)

    watching = watched(
        tmp_path, script, crawl__concurrency=1, politeness__adaptive=False, crawl__max_time=2 * HOUR
    )
    assert watching.names == {"slow"}


def replace_takes(answer: Answer, seconds: float) -> Answer:
    return Answer(answer.status, answer.body, answer.headers, seconds)


def test_robots_txt_files_that_cannot_be_had_are_noticed(tmp_path):
    dead = [f"http://dead{number}.test/" for number in range(30)]

    def script(asked: Asked) -> Answer:
        return Answer(fault=Fault.TIMEOUT) if asked.host.startswith("dead") else healthy(asked)

    watching = watched(tmp_path, script, [*STARTS, *dead], crawl__max_time=30 * MINUTE)
    assert "robots_trouble" in watching.names


def test_a_request_that_is_sent_too_soon_is_counted_and_called(tmp_path):
    """The clock of the fetcher is wrong: what it sends seems to be sent before the host is free."""
    watching = Watching(tmp_path)

    def meanwhile(made: VirtualCrawl) -> None:
        watching(made)
        fetch = made.fetcher.fetch

        async def too_soon(visit, validators=()):
            outcome = await fetch(visit, validators)
            if visit.link.url.endswith("/42"):
                started = outcome.exchange.started - 5
                return replace(outcome, exchange=replace(outcome.exchange, started=started))
            return outcome

        made.fetcher.fetch = too_soon  # type: ignore[method-assign]

    crawl(tmp_path / "c", STARTS[:1], healthy, store=MEMORY, meanwhile=meanwhile, politeness__delay=2)
    assert watching.names == {"politeness_violation"}
    assert watching.last.metrics.politeness.violations == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"politeness__per_host": 3, "politeness__delay": 2},
        {"politeness__burst": 5, "politeness__delay": 2},
        {"politeness__delay": 0},
        {"politeness__delay": 1, "politeness__adaptive_jitter": 0.5, "schedule__retry_jitter": 0.5},
    ],
)
def test_a_polite_crawl_counts_no_violation_whatever_hosts_do(tmp_path, settings):
    def script(asked: Asked) -> Answer:
        number = crc32(asked.url.encode()) % 11
        if asked.url.endswith("robots.txt") and asked.host == "h3.test":
            return Answer(body="User-agent: *\nCrawl-delay: 7\n")
        if asked.url.endswith("robots.txt") and asked.host == "h4.test" and asked.number == 1:
            return Answer(301, headers={"Location": "http://h5.test/robots.txt"})
        if is_page(asked) and number == 1 and asked.number == 1:
            return Answer(503, headers={"Retry-After": "90"})
        if is_page(asked) and number == 2:
            return Answer(fault=Fault.RESET)
        if is_page(asked) and number == 3:
            return replace_takes(healthy(asked), 12)
        return healthy(asked)

    watching = watched(tmp_path, script, **settings)
    assert watching.last is not None
    assert watching.last.metrics.requests.seconds.number > 300
    assert watching.last.metrics.politeness.violations == 0
