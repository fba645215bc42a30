"""The keywords of `skitter.crawl()`: every setting by section and name, and the short names of the command line."""

import difflib
from collections.abc import Mapping

from skitter.settings import LISTS, SettingsError
from skitter.settings.values import KEYS

SHORT: Mapping[str, str] = {
    "max_pages": "crawl.max_pages",
    "max_depth": "scope.max_depth",
    "max_time": "crawl.max_time",
    "max_bytes": "crawl.max_bytes",
    "scope": "scope.kind",
    "include": "scope.include",
    "exclude": "scope.exclude",
    "delay": "politeness.delay",
    "per_host": "politeness.per_host",
    "per_address": "politeness.per_address",
    "address_delay": "politeness.address_delay",
    "concurrency": "crawl.concurrency",
    "contact": "fetch.contact",
    "user_agent": "fetch.user_agent",
    "allow_private": "fetch.allow_private",
    "resolve": "fetch.resolve",
    "sitemaps": "scope.sitemaps",
    "strategy": "schedule.strategy",
    "recrawl": "schedule.recrawl",
    "shards": "crawl.shards",
    "assets": "archive.assets",
    "main": "parse.main",
    "render": "fetch.render",
    "metrics": "metrics.address",
}
# A crawl from Python is one process on this machine.
_NOT_HERE = ("cluster.", "redis.", "postgres.", "kafka.", "s3.", "search.", "crawl.worker")
LONG: Mapping[str, str] = {
    f"{key.section}_{key.name}": key.dotted for key in KEYS.values() if not key.dotted.startswith(_NOT_HERE)
}
_OTHERS = ("directory", "links", "settings", *LISTS)


def dotted(keyword: str) -> str:
    """The setting of a keyword."""
    if "." in keyword or keyword in LISTS:
        return keyword
    found = SHORT.get(keyword) or LONG.get(keyword)
    if found is None:
        raise SettingsError(f"unknown keyword {keyword}; {_hint(keyword)}")
    return found


def _hint(keyword: str) -> str:
    """A suggestion: a short name first, then a setting of that name in some section."""
    near = difflib.get_close_matches(keyword, (*SHORT, *_OTHERS), 1)
    near = near or [name for name in LONG if name.partition("_")[2] == keyword]
    near = near or difflib.get_close_matches(keyword, LONG, 1)
    if near:
        return f"did you mean {near[0]}?"
    return (
        f"keywords are {', '.join((*_OTHERS, *SHORT))}; any other setting is named by its section, as in "
        'fetch_deadline="10s"'
    )
