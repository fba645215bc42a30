"""Skitter: a polite web crawler that never loses work.

    import skitter

    run = skitter.crawl("https://example.org", max_pages=100, contact="you@example.org")
    for page in run:
        print(page.status, page.url, page.title)
        for heading in page.css("h2"):
            print("   ", heading.text())
    print(run.report.counts.pages, run.report.warnings)

What there is:

    crawl            crawl, and iterate over the pages: help(skitter.crawl)
    Run              what crawl() returns: an iterator of pages, with a report at its end
    Page             one page: its record, html, links and css()
    PageLink         a link on a page: url, text, rel, page
    Report           what a run came to: counts, hosts, warnings
    Settings         all settings of a crawl, as one frozen tree
    SettingsError    a setting is unknown, or its value does not fit
    StateError       a crawl directory cannot be used
    canonical        the key that a URL is known by
    robots_rules     the rules of a robots.txt for one crawler: .allows(url)
    RobotsRules      what robots_rules() returns

`skitter.testing` serves a synthetic web on loopback for tests. On the command line: `skitter --help`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skitter.api import Run, crawl
    from skitter.page import Page, PageLink
    from skitter.ports import StateError
    from skitter.reporting.report import Report
    from skitter.robots import RobotsRules, robots_rules
    from skitter.settings import Settings, SettingsError
    from skitter.urls import canonical

__version__ = "0.1.0"

__all__ = [
    "Page",
    "PageLink",
    "Report",
    "RobotsRules",
    "Run",
    "Settings",
    "SettingsError",
    "StateError",
    "canonical",
    "crawl",
    "robots_rules",
]

_HOMES = {
    "Page": "skitter.page",
    "PageLink": "skitter.page",
    "Report": "skitter.reporting.report",
    "RobotsRules": "skitter.robots",
    "Run": "skitter.api",
    "Settings": "skitter.settings",
    "SettingsError": "skitter.settings",
    "StateError": "skitter.ports",
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
    globals()[name] = value
    return value


class _Package(ModuleType):
    """This module: `skitter.crawl` is the function, whoever has imported the package of that name before."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "crawl" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names, imported or not, so that completion and help() show them."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
