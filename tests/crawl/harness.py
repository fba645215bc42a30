"""Whole crawls of the synthetic web, on the real store, archive and network code: in this process, or by a fleet."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from skitter import seeds, urls
from skitter.compose import open_reader, opened
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_crawl import Crawl
from skitter.events import Event, Events
from skitter.fleet.parent import assembled
from skitter.fleet.processes import COMMAND
from skitter.model import Page, UrlRecord
from skitter.reporting.report import Report
from skitter.runtime.process import run
from skitter.settings import Settings
from skitter.settings.file import load
from skitter.testing.web import Server

# Tests go to loopback and do not wait for sites that nobody else reads. Politeness tests set their own delays.
HASTY: dict[str, object] = {
    "fetch.allow_private": ("127.0.0.0/8",),
    "politeness.delay": "0s",
    "politeness.adaptive": False,
    "politeness.per_address": "none",
    "schedule.retry_base": "50ms",
    "robots.retry_after": ("100ms", "100ms"),
    "crawl.min_free_disk": "1MiB",
}


@dataclass
class Crawled:
    """What a crawl left behind."""

    report: Report
    pages: list[Page]
    records: dict[str, UrlRecord]  # by key
    events: list[Event]

    @property
    def keys(self) -> set[str]:
        """The keys of the stored 2xx pages."""
        return {page.key for page in self.pages if 200 <= page.status < 300}


def settings_for(server: Server | None = None, **overrides: object) -> Settings:
    """Settings for a crawl of a synthetic web; overrides use "__" for the dot."""
    values = dict(HASTY)
    if server is not None:
        values["fetch.resolve"] = tuple(
            f"{host}:{address}" for host, address in server.web.resolve_map().items()
        )
    values |= {name.replace("__", "."): value for name, value in overrides.items()}
    return load(None, {}, values)


def crawl(
    path: Path,
    starts: list[str],
    settings: Settings,
    meanwhile: Callable[[Crawl], None] | None = None,
) -> Crawled:
    """Crawl from the starts to the end, and read everything back."""
    return run(crawl_on_this_loop(path, starts, settings, meanwhile))


async def crawl_on_this_loop(
    path: Path,
    starts: list[str],
    settings: Settings,
    meanwhile: Callable[[Crawl], None] | None = None,
) -> Crawled:
    """The same beside other tasks, such as a server."""
    heard: list[Event] = []
    async with opened(path, settings, Events(heard.append)) as running:
        await running.seed(seeds.named(starts, settings.urls))
        if meanwhile is not None:
            meanwhile(running)
        report = await running.run()
    return await read_back(path, report, heard)


def crawl_with(
    workers: int,
    path: Path,
    starts: list[str],
    settings: Settings,
    command: Sequence[str] = COMMAND,
) -> Crawled:
    """The same by a fleet of so many workers, which are processes of their own."""
    heard: list[Event] = []
    wanted = replace(settings, crawl=replace(settings.crawl, workers=workers))
    with assembled(path, wanted, Events(heard.append), command=command) as fleet:
        report = asyncio.run(fleet.run(seeds.named(starts, settings.urls)))
    return asyncio.run(read_back(path, report, heard))


async def read_back(path: Path, report: Report, heard: list[Event]) -> Crawled:
    reader = open_reader(path)
    try:
        pages = [page async for page in reader.frontier.pages()]
        records = {record.key: record async for record in reader.frontier.urls()}
    finally:
        await reader.close()
    return Crawled(report, pages, records, heard)


def requested(path: Path) -> list[dict[str, Any]]:
    """The requests and lost visits of all request logs of a crawl, without the terms of its runs."""
    files = sorted(path.glob("log/requests-*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if line["type"] != "Terms"]


def keys(found: set[str] | dict[str, object]) -> set[str]:
    """The keys of a set of URLs."""
    return {key for url in found if (key := urls.key(url)) is not None}


def archives(path: Path) -> list[Path]:
    return sorted(CrawlDirectory(path).archive.glob("*.warc.gz"))


def pages_and_words(path: Path) -> tuple[str, str]:
    """The URL of a page of a finished crawl, and a word of its title."""

    async def read() -> tuple[str, str]:
        reader = open_reader(path)
        try:
            found = [page async for page in reader.frontier.pages() if page.title]
        finally:
            await reader.close()
        return found[0].url, found[0].title.split()[0]

    return asyncio.run(read())
