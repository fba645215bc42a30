"""`skitter status`: a crawl in numbers."""

import argparse
from functools import partial
from heapq import nlargest
from typing import Any

import msgspec

from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser
from skitter.display import as_json, duration
from skitter.export.records import host_record
from skitter.export.source import Source
from skitter.model import Counts, HostRecord
from skitter.report import cache_lines, host_table, numbers


def parser() -> Parser:
    """The flags of `skitter status`."""
    made = Parser(
        "status",
        "Show a crawl in numbers: URLs, pages, requests, refusals and failures by reason, hosts, caches. Works while the "
        "crawl runs.",
        [
            "skitter status skitter-example.org",
            "skitter status skitter-example.org --json",
            "skitter status --config cluster.toml",
        ],
    )
    add_crawl(made)
    made.add_argument(
        "--hosts", type=int, default=10, metavar="N", help="hosts with the most pages to show (default: 10)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Show the numbers."""
    return ask(arguments, partial(_show, arguments))


async def _show(arguments: argparse.Namespace, source: Source) -> Exit:
    counts = await source.frontier.counts()
    every = [host async for host in source.frontier.hosts()]
    hosts = nlargest(max(0, arguments.hosts), every, key=lambda host: (host.pages, host.requests))
    caches = source.directory.read_statistics()
    if arguments.json:
        print(as_json(as_fields(source.name, counts, hosts, caches)))
    else:
        print("\n".join(as_lines(source.name, counts, hosts, caches)))
    return Exit.DONE


def per_second(number: int, counts: Counts) -> float:
    """A rate over all the time the crawl has run."""
    return number / counts.elapsed if counts.elapsed else 0.0


def as_fields(
    directory: str, counts: Counts, hosts: list[HostRecord], caches: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """The status as one object."""
    return {
        "directory": directory,
        "counts": msgspec.to_builtins(counts, str_keys=True),
        "rates": {
            "pages_per_second": per_second(counts.pages, counts),
            "requests_per_second": per_second(counts.requests, counts),
            "bytes_per_second": per_second(counts.bytes, counts),
        },
        "hosts": [host_record(host) for host in hosts],
        "caches": caches,
    }


def as_lines(
    directory: str, counts: Counts, hosts: list[HostRecord], caches: dict[str, dict[str, float]]
) -> list[str]:
    """The status for people."""
    rate = per_second(counts.pages, counts)
    lines = [f"{directory}: {duration(counts.elapsed)} of crawling so far, {rate:.1f} pages/s"]
    return [*lines, *numbers(counts), *host_table(hosts), *cache_lines(caches)]
