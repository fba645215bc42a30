"""Skitter: a polite web crawler that never loses work.

    import skitter

    run = skitter.crawl("https://example.org", max_pages=100, contact="you@example.org")
    for page in run:
        print(page.status, page.url, page.title)
        for heading in page.css("h2"):
            print("   ", heading.text())
    print(run.report.counts.pages, run.report.warnings)

Contents:

    crawl            crawl, and iterate over the pages: help(skitter.crawl)
    Run              what crawl() returns: an iterator of pages, with a report at the end
    Page             one page: its record, html, links and css()
    PageLink         a link on a page: url, text, rel, page
    Report           the result of a run: counts, hosts, warnings
    Settings         all settings of a crawl, as one frozen tree
    SettingsError    an unknown setting or an invalid value
    StateError       a crawl directory that cannot be used
    canonical        the key of a URL
    robots_rules     the rules of a robots.txt for one crawler: .allows(url)
    RobotsRules      what robots_rules() returns

`skitter.testing` serves a synthetic web on loopback for tests. On the command line: `skitter --help`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skitter.api import Run, crawl
    from skitter.links.page import Page, PageLink
    from skitter.ports import StateError
    from skitter.reporting.report import Report
    from skitter.robots import RobotsRules, robots_rules
    from skitter.settings import Settings, SettingsError
    from skitter.urls import canonical

__version__ = "0.2.0"

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
    "Page": "skitter.links.page",
    "PageLink": "skitter.links.page",
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
    """Import a public name on first use: `skitter --version` must not load numpy and RocksDB."""
    import importlib  # noqa: PLC0415

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'skitter' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """This module. `skitter.crawl` stays the function, even after the package of that name was imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "crawl" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names, imported or not, for completion and help()."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
