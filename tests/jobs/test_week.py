"""A week in the life of a nightly job, with real crawls and a clock that is set forward between the nights.

The site changes every day. One night the crawl is killed, one night the disk is full, one day the site is down, and one night no scheduler
runs. The right pages are there, nothing is lost, and the history tells it.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from skitter.backends.sqlite_jobs import SqliteJobs
from skitter.fetch.address import Guard
from skitter.jobs import rules
from skitter.jobs.child import Child
from skitter.jobs.files import Root
from skitter.jobs.model import Crawl, Job, Kind, Notice, Run, State
from skitter.jobs.scheduler import Manner, Scheduler
from skitter.jobs.telling import Teller
from tests.jobs.real import PATIENCE, crawl_process, skitter
from tests.jobs.test_telling import Receiver, receiver

PAGES = 25
FIRST = datetime(2026, 11, 16, 1, tzinfo=UTC).timestamp()  # 02:00 in Berlin
DAY = 86400.0


class Site:
    """Some pages, others every day: page N is new on day N, changes every other day, and the oldest goes away."""

    def __init__(self) -> None:
        self.day = 0
        self.down = False
        self.asked: list[str] = []

    def pages(self) -> dict[str, str]:
        """Path and title of every page of the day."""
        numbers = range(self.day, self.day + PAGES)
        return {
            f"/page-{number}": f"page {number}, version {(self.day + number % 2) // 2}" for number in numbers
        } | {"/": f"the start of day {self.day}"}

    def answer(self, path: str) -> tuple[int, str]:
        self.asked.append(path)
        if self.down:
            return 503, "down"
        if path == "/robots.txt":
            return 404, ""
        title = self.pages().get(path)
        links = "".join(f'<a href="{other}">{other}</a>\n' for other in self.pages()) if path == "/" else ""
        return (
            (200, f"<title>{title}</title><h1>{title}</h1>{links}<p>{title} has a text")
            if title
            else (404, "gone")
        )


@contextmanager
def served(site: Site) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = site.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Week:
    """The job, its scheduler, and the clock."""

    def __init__(self, folder: Path, url: str, told: Receiver, kind: Kind) -> None:
        self._ahead = FIRST - 3600 - time.time()
        self.root = Root(folder / "root")
        self.root.make()
        self.config = folder / "crawl.toml"
        self.full_disk(is_full=False)
        crawl = Crawl(
            urls=(url,),
            config=str(self.config),
            settings={
                "politeness.delay": "30ms",
                "fetch.allow_private": "127.0.0.0/8",
                "fetch.contact": "test@example.org",
                "schedule.retries": "0",
                # A night lasts 40 seconds here, and all pauses are as much shorter.
                "crawl.max_time": "40s",
                "robots.retry_after": '["1s"]',
                "politeness.adaptive_first": "30ms",
                "politeness.adaptive_max": "100ms",
                "politeness.park": '["100ms", "300ms", "45s"]',
            },
        )
        self.store = SqliteJobs(self.root.store_file, self.now)
        job = Job(
            name="nightly",
            crawl=crawl,
            kind=kind,
            line="0 2 * * *",
            zone="Europe/Berlin",
            notice=Notice(webhook=told.url),
        )
        self.job = rules.checked(job, self.now())

    def now(self) -> float:
        return time.time() + self._ahead

    def night(self, number: int) -> None:
        """Set the clock to the moment at which the run of a night is due."""
        self._ahead = FIRST + number * DAY - time.time()

    def later(self, seconds: float) -> None:
        self._ahead += seconds

    def full_disk(self, *, is_full: bool) -> None:
        """A disk with less than the crawl wants to have free is full to it."""
        self.config.write_text(f'[crawl]\nmin_free_disk = "{"9000TiB" if is_full else "1MiB"}"\n')

    @contextmanager
    def scheduling(self) -> Iterator[Scheduler]:
        teller = Teller(self.store, self.root, Guard(["127.0.0.0/8"]))
        scheduler = Scheduler(
            self.store, Child(self.root), teller, self.root.home(), Manner(lease=5.0, poll=0.2)
        )
        serving = asyncio.create_task(scheduler.serve())
        try:
            yield scheduler
        finally:
            scheduler.stop()
            self._serving = serving

    async def stopped(self) -> None:
        await self._serving

    async def runs(self) -> list[Run]:
        return list(reversed(await self.store.runs("nightly")))

    async def until(self, holds: Callable[[Run], bool]) -> Run:
        """Wait until it holds for the latest run."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            runs = await self.runs()
            if runs and holds(runs[-1]):
                return runs[-1]
            await asyncio.sleep(0.05)
        raise AssertionError(f"it never came to that: {await self.runs()}")

    async def over(self, number: int) -> Run:
        """The run of this night, when it is over."""
        return await self.until(lambda run: run.due == FIRST + number * DAY and run.final)


def stored(directory: Path) -> dict[str, str]:
    """Path and title of the pages of a crawl that can be read."""
    lines = skitter("export", str(directory), "--format", "jsonl").splitlines()
    pages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return {"/" + page["url"].split("/", 3)[3]: page["title"] for page in pages if page["status"] == 200}


async def read_pages(directory: Path) -> dict[str, str]:
    return await asyncio.to_thread(stored, directory)


async def live(week: Week, site: Site, kind: Kind) -> list[dict[str, str]]:
    """The week; returns what was stored after each night."""
    seen = []
    await week.store.add(week.job)
    with week.scheduling():
        for number in range(7):
            if number == 5:
                break
            site.day, site.down = number, number == 3
            week.full_disk(is_full=number == 2)
            began = len(site.asked)
            week.night(number)
            if number == 1:  # the crawl is killed in the middle
                run = await week.until(lambda run: run.state is State.RUNNING and run.due == FIRST + DAY)
                while len(site.asked) < began + 6:
                    await asyncio.sleep(0.02)
                os.kill(crawl_process(week.root.crawl(run)), signal.SIGKILL)
                await week.until(lambda run: run.state is State.WAITING)
                week.later(61)
            if number == 2:
                await week.until(lambda run: run.state is State.WAITING and run.due == FIRST + 2 * DAY)
                week.full_disk(is_full=False)
                week.later(61)
            run = await week.over(number)
            seen.append(await read_pages(week.root.crawl(run)) if run.state is State.DONE else {})
    await week.stopped()
    site.day = 6
    week.night(6)  # nobody was there on the fifth night
    with week.scheduling():
        run = await week.over(6)
    await week.stopped()
    return [*seen, await read_pages(week.root.crawl(run))]


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Kind.NEW, Kind.REFRESH])
def test_a_week_in_the_life_of_a_nightly_job(kind, tmp_path):
    site = Site()

    async def story() -> None:
        with served(site) as url, receiver() as told:
            week = Week(tmp_path, url, told, kind)
            seen = await live(week, site, kind)
            for _ in range(3):
                week.later(7200)
                await Teller(week.store, week.root, Guard(["127.0.0.0/8"])).tell()
            runs = await week.runs()
            await week.store.close()
        check(runs, told, seen, kind)

    asyncio.run(story())


def check(runs: list[Run], told: Receiver, seen: list[dict[str, str]], kind: Kind) -> None:
    history = [(round((run.due - FIRST) / DAY), run.state, run.tries) for run in runs]
    assert history == [
        (0, State.DONE, 1),
        (1, State.DONE, 2),  # killed
        (2, State.DONE, 2),  # a full disk
        (3, State.FAILED if kind is Kind.NEW else State.DONE, 1),  # the site was down
        (4, State.DONE, 1),
        (5, State.MISSED, 0),  # nobody was there
        (6, State.DONE, 1),
    ]
    if kind is Kind.NEW:
        assert runs[3].reason == "no page could be fetched" or "answer" in runs[3].reason
    assert runs[5].reason == "no scheduler ran; a later one is run instead"
    for number, pages in zip((0, 1, 2, 4, 6), (*seen[:3], *seen[4:]), strict=True):
        site = Site()
        site.day = number
        assert pages == site.pages(), f"night {number}"
    heard = {json.loads(body)["run"]: json.loads(body)["state"] for _, body in told.got}
    assert heard == {run.id: run.state for run in runs}
