"""Scrapy, tuned: uvloop, its own seen set, the lxml tree read directly, no cookies, no console, few log lines.

That is the fast version that its users write: records are items for its JSON lines feed, and retries,
decompression and depth work as usual, as they do in Skitter. *Bare* goes as far as possible: every middleware
and extension that this crawl can do without is off, and records are written without the framework.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

from benchmarks.peers.reading import Plan, Reader, plan


class Pages(scrapy.Spider):  # type: ignore[misc]  # Scrapy is not in the environment that is checked
    """Every page in scope, once."""

    name = "pages"

    def __init__(self, wanted: Plan, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wanted = wanted
        self.reader = Reader(wanted)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for url in self.wanted.seeds:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response: Response) -> Iterator[scrapy.Request | dict[str, Any]]:
        encoding = getattr(response, "encoding", None)
        if encoding is None:
            return  # not a text
        if self.wanted.bare:
            fresh = self.reader.read(response.url, response.body, encoding)
        else:
            record, fresh = self.reader.found(response.url, response.body, encoding)
            yield record
        for url in fresh:
            yield scrapy.Request(url, dont_filter=True)  # the reader's set already deduplicates

    def closed(self, _reason: str) -> None:
        self.reader.close()


def settings(wanted: Plan) -> dict[str, Any]:
    tuned = {
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": wanted.connections,
        "CONCURRENT_REQUESTS_PER_DOMAIN": wanted.per_host,
        "LOG_LEVEL": "ERROR",
        "COOKIES_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
    }
    if wanted.bare:
        return tuned | BARE
    return tuned | {"FEEDS": {wanted.records: {"format": "jsonlines"}}}


BARE = {
    "STATS_DUMP": False,
    "DOWNLOADER_STATS": False,
    "RETRY_ENABLED": False,
    "COMPRESSION_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "REFERER_ENABLED": False,
    "MEMUSAGE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    },
    "SPIDER_MIDDLEWARES": {
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
        "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
    },
    "EXTENSIONS": {
        "scrapy.extensions.corestats.CoreStats": None,
        "scrapy.extensions.logcount.LogCount": None,
        "scrapy.extensions.logstats.LogStats": None,
        "scrapy.extensions.feedexport.FeedExporter": None,
    },
}


if __name__ == "__main__":
    asked = plan()
    process = CrawlerProcess(settings(asked))
    process.crawl(Pages, wanted=asked)
    process.start()
