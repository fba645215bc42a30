from skitter.backends.memory import MemoryCache
from skitter.fetch.http import HttpFetcher
from skitter.ports import Fetcher
from skitter.runtime.clock import SystemClock
from skitter.settings import FetchSettings
from skitter.testing.contracts.fetcher import FetcherContract


class TestHttpFetcher(FetcherContract):
    def open(self, settings: FetchSettings) -> Fetcher:
        clock = SystemClock()
        return HttpFetcher(settings, MemoryCache(settings.dns_cache, clock), clock)
