"""A planner, wired: the fetcher and the judge of links of a crawl, without its stores."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from skitter.backends.memory import MemoryCache
from skitter.crawl.plan import Planner
from skitter.fetch.check import access_of, check
from skitter.fetch.http import HttpFetcher
from skitter.fetch.request import user_agent
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import Link
from skitter.robots import product_token
from skitter.runtime.clock import SystemClock
from skitter.settings import Settings
from skitter.settings.sites import sites_of


@asynccontextmanager
async def planner(settings: Settings, seeds: Sequence[Link]) -> AsyncIterator[Planner]:
    """A planner of a crawl from these seeds."""
    check(settings)
    clock = SystemClock()
    sites = sites_of(settings)
    scope = Scope(settings.scope, [seed.url for seed in seeds], sites=sites)
    names = MemoryCache(settings.fetch.dns_cache, clock)
    fetcher = HttpFetcher(settings.fetch, names, clock, access=access_of(settings, sites))
    try:
        token = product_token(user_agent(settings.fetch))
        yield Planner(settings, fetcher, LinkJudge(settings, scope), clock, token)
    finally:
        await fetcher.close()
