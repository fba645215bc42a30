"""Skitter: a polite web crawler that never loses work.

import asyncio, skitter

async def main():
    run = skitter.crawl("https://example.org", max_pages=100)
    async for page in run:
        print(page.status, page.url, page.title)
    print(run.report.counts.pages)

asyncio.run(main())
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skitter.api import Run, crawl
    from skitter.model import Page
    from skitter.report import Report
    from skitter.robots import RobotsRules, robots_rules
    from skitter.settings import Settings
    from skitter.urls import canonical

__version__ = "0.1.0"

__all__ = ["Page", "Report", "RobotsRules", "Run", "Settings", "canonical", "crawl", "robots_rules"]

_HOMES = {
    "Page": "skitter.model",
    "Report": "skitter.report",
    "RobotsRules": "skitter.robots",
    "Run": "skitter.api",
    "Settings": "skitter.settings",
    "canonical": "skitter.urls",
    "crawl": "skitter.api",
    "robots_rules": "skitter.robots",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  a module's attributes are of any type
    """Import a public name when it is first used: `skitter --version` must not wait for numpy and RocksDB."""
    import importlib  # noqa: PLC0415

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'skitter' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value  # `skitter.crawl` is the function, not the module of that name
    return value
