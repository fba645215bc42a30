"""One request over a persistent connection, from the visit to its outcome."""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import replace

import uvloop

from benchmarks.webs import BROAD, cores
from skitter.backends.memory import MemoryCache
from skitter.fetch.http import HttpFetcher
from skitter.model import Fetched, Link, Visit
from skitter.runtime.clock import SystemClock
from skitter.settings import FetchSettings
from skitter.testing.web import serve_process

REQUESTS = 500
AT_ONCE = 20  # each to its own host


def fetch() -> Iterator[float]:
    settings = FetchSettings(allow_private=("127.0.0.0/8",))
    web = replace(BROAD, hosts=AT_ONCE).description()
    with (
        serve_process(web) as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        os.sched_setaffinity(server.pid, {cores()[0]})
        clock = SystemClock()

        async def begin() -> HttpFetcher:
            return HttpFetcher(settings, MemoryCache(100, clock), clock)

        fetcher = runner.run(begin())

        async def some(host: str, url: str) -> None:
            for _ in range(REQUESTS // AT_ONCE):
                outcome = await fetcher.fetch(Visit(Link(url=url, key=url, host=host), 1, 0.0))
                assert isinstance(outcome, Fetched), outcome

        async def all_of_them() -> None:
            await asyncio.gather(*map(some, web.names, server.seeds()))

        runner.run(all_of_them())  # opens the connections
        try:
            while True:
                began = time.process_time()
                runner.run(all_of_them())
                yield (time.process_time() - began) / REQUESTS
        finally:
            runner.run(fetcher.close())
