"""Checks that the compared crawlers do the same work: titles, texts and links equal to Skitter's, page by page.

This is also every crawler's first, untimed run: modules get compiled, and the server renders every page.
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.crawlers import Crawler, records
from benchmarks.spending import spend
from benchmarks.webs import Served


class Record(NamedTuple):
    """What was made of a page."""

    title: str
    text: str
    links: frozenset[str]


def agreement(crawlers: Sequence[Crawler], served: Served) -> dict[str, int]:
    """For every peer that reads pages: how many it read like Skitter."""
    peers = any(crawler.stored is records for crawler in crawlers)
    read = {crawler.name: _first_run(crawler, served, export=peers) for crawler in crawlers}
    ours = read.pop("skitter", {})
    return {name: in_common(ours, theirs) for name, theirs in read.items() if ours and theirs}


def in_common(ours: Mapping[str, Record], theirs: Mapping[str, Record]) -> int:
    return sum(theirs.get(url) == record for url, record in ours.items())


def _first_run(crawler: Crawler, served: Served, *, export: bool) -> dict[str, Record]:
    with tempfile.TemporaryDirectory(prefix="skitter-bench-") as name:
        folder = Path(name)
        order = crawler.order(served, folder)
        spend(order.command, order.stdin, codes=order.codes)
        if crawler.name == "skitter" and export:
            return _exported(folder / "crawl")
        if (folder / "pages.jsonl").exists():
            pages = map(json.loads, (folder / "pages.jsonl").read_text().splitlines())
            return _records((page["url"], page["title"], page["text"], page["links"]) for page in pages)
    return {}


def _exported(crawl: Path) -> dict[str, Record]:
    """Skitter's records, by its own export."""
    links: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in list(csv.reader(_export(crawl, "links")))[1:]:
        links[source].append(target)
    pages = [page for page in map(json.loads, _export(crawl, "jsonl")) if page["status"] == 200]
    return _records((page["url"], page["title"], page["text"], links[page["url"]]) for page in pages)


def _export(crawl: Path, form: str) -> list[str]:
    command = [sys.executable, "-m", "skitter", "export", str(crawl), "--format", form, "-q"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _records(found: Iterable[tuple[str, str, str, Iterable[str]]]) -> dict[str, Record]:
    # Line breaks may differ; words and their order may not.
    return {url: Record(title, " ".join(text.split()), frozenset(links)) for url, title, text, links in found}
