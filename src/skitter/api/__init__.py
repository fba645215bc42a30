"""The Python API: the same engine and settings as the command line, as an iterator of pages."""

from pathlib import Path
from typing import Unpack

from msgspec.structs import asdict

from skitter.api.options import Options
from skitter.api.run import Run
from skitter.crawl.directory import CrawlDirectory
from skitter.links.filter import Wanted, checked
from skitter.settings import LISTS, SECTIONS, Settings, SettingsError
from skitter.settings.file import load
from skitter.settings.keywords import dotted

__all__ = ["Options", "Run", "crawl"]


def crawl(
    *urls: str,
    directory: str | Path | None = None,
    links: Wanted | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> Run:
    """Crawl from these URLs and iterate over the pages as they become durable.

        for page in skitter.crawl("https://example.org", max_pages=100):
            print(page.status, page.url, page.title)

    In asynchronous code write `async for`; everything else is the same.

    `directory` keeps the crawl: a later call with the same one, or `skitter resume`, continues where this one
    stopped. Without it the crawl lives in a temporary directory and is deleted at the end.

    `links` is a function that decides which links to follow. It is called for every link in scope, once on
    each page:

        skitter.crawl("https://example.org", links=lambda link: "/blog/" in link.url and link.text != "Print")

    Every setting is a keyword, by its section and name (`fetch_deadline="10s"`, `dedup_near=False`); those of
    the command line have short names: max_pages, max_depth, max_time, max_bytes, scope ("page", "prefix",
    "host", "domain" or "any"), include, exclude, delay, per_host, concurrency, contact, user_agent,
    allow_private, resolve, strategy, shards. Durations and sizes are numbers (seconds, bytes) or carry a
    unit: "2s", "10MiB". Without settings of its own, a call continues a directory with the stored ones;
    `settings` replaces them all.
    """
    if not urls and directory is None:
        raise ValueError("there is nothing to crawl: name a URL, or the directory of a crawl to continue")
    keywords: dict[str, str] = {}
    values: dict[str, object] = {}
    for keyword, value in options.items():
        name = dotted(keyword)
        if name in values:
            raise SettingsError(f"{keywords[name]} and {keyword} are the same setting; remove one of them")
        keywords[name], values[name] = keyword, value
    kept = None if directory is None else CrawlDirectory(Path(directory)).kept_settings()
    if settings is not None:
        values, kept = _flat(settings) | values, None
    resolved = load(kept, {}, values, flags=keywords)
    return Run(urls, directory, resolved, None if links is None else checked(links))


def _flat(settings: Settings) -> dict[str, object]:
    own = {
        f"{section}.{name}": value
        for section in SECTIONS
        for name, value in asdict(getattr(settings, section)).items()
        if value is not None
    }
    return own | {name: getattr(settings, name) for name in LISTS}
