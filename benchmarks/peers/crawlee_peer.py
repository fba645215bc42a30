"""Crawlee for Python, tuned: no parser of its own, storage in memory, no sessions, no statistics, uvloop."""

import asyncio
import logging
from datetime import timedelta

import uvloop
from crawlee import ConcurrencySettings
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

from benchmarks.peers.reading import Plan, Reader, plan


async def crawl(wanted: Plan) -> None:
    reader = Reader(wanted)
    crawler = HttpCrawler(
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        use_session_pool=False,
        retry_on_blocked=False,
        max_request_retries=0,
        configure_logging=False,
        status_message_logging_interval=timedelta(hours=1),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=wanted.connections,
            max_concurrency=wanted.connections,
            desired_concurrency=wanted.connections,
        ),
    )

    @crawler.router.default_handler  # type: ignore[untyped-decorator]  # as Scrapy is not
    async def read(context: HttpCrawlingContext) -> None:
        body = await context.http_response.read()
        fresh = reader.read(context.request.url, body, "utf-8")
        if fresh:
            await context.add_requests(fresh)

    await crawler.run(wanted.seeds)
    reader.close()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(crawl(plan()))
