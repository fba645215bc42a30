"""The cost of a cluster, on the engines started by `make services`.

    python -m benchmarks.cluster [links] [crawl] [bytes] [--links 5000000] [--workers 2] [--shards 8] [--hosts 500] [--json FILE]

`links` pushes links through Kafka into PostgreSQL, with one worker that does nothing but add them: how many a
second, how much its memory grows, and that each is stored once. `crawl` crawls the web of `fleet` with a
fleet and then with a cluster, all engines on the same machine, and counts round trips per page: over the
whole crawl, and in the steady state between its start and its end. `bytes` is what a URL and a page take in
PostgreSQL and in Redis (`benchmarks.stored`); it is not run by default.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.webs import FLEET, Served, serving
from skitter.cluster.status import until_finished
from skitter.compose.cluster import joined
from skitter.compose.engines import Engines, make, opened, unmake
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.forwarding import owner_of
from skitter.events import Events
from skitter.model import Counts, Link
from skitter.reporting.report import total
from skitter.settings import Settings
from skitter.settings.file import dump, load

SHARDS = 8
HOSTS = 10_000
STEADY = (0.25, 0.85)  # fractions of the pages: before, every host is new; after, few hosts have work
AT_ONCE = 20_000  # links created and sent at once
ROOT = Path(__file__).resolve().parent.parent


def engines() -> dict[str, str]:
    """The addresses written by `make services`."""
    place = Path(os.environ.get("SKITTER_SERVICES_DIR", ROOT / ".services")) / "env"
    if not place.exists():
        raise SystemExit("the engines are not there; start them with: make services")
    lines = (line.partition("=") for line in place.read_text().splitlines() if "=" in line)
    return {name: shlex.split(value)[0] if value else "" for name, _, value in lines}


def settings_for(name: str, **more: object) -> Settings:
    """A separate crawl on the existing engines."""
    found = engines()
    postgres = found["SKITTER_TEST_POSTGRES"].removeprefix("postgresql://")
    user, _, rest = postgres.partition("@")
    address, _, database = rest.partition("/")
    kafka = {
        f"kafka.{topic}": f"{name}-{topic}"
        for topic in ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
    }
    values: dict[str, object] = {
        "cluster.size": "full",
        "cluster.name": name,
        "crawl.shards": SHARDS,
        "postgres.addresses": [address],
        "postgres.database": database,
        "postgres.user": user,
        "kafka.addresses": [found["SKITTER_TEST_KAFKA"]],
        "redis.addresses": [found["SKITTER_TEST_REDIS"].removeprefix("redis://").partition("/")[0]],
        **kafka,
        **more,
    }
    return load(None, {}, values)


@asynccontextmanager
async def cluster(**more: object) -> AsyncIterator[Settings]:
    """Create a crawl, and remove it afterwards."""
    settings = settings_for(f"bench_{uuid.uuid4().hex[:8]}", **more)
    await make(settings)
    try:
        yield settings
    finally:
        await unmake(settings)


def resident() -> float:
    """Memory of this process, in megabytes."""
    line = next(
        each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


# ------------------------------------------------------------------------------------------------ links


def _link(number: int, hosts: int = HOSTS) -> Link:
    host = f"www.host{number * 2_654_435_761 % hosts}.example"
    url = f"https://{host}/some/section/of/the/site/article-{number}.html"
    return Link(url=url, key=url, host=host, depth=number % 7, parent=f"https://{host}/some/section/")


async def push(settings: Settings, links: int, hosts: int = HOSTS) -> None:
    """Send this many links to their shards, from pages on this many hosts."""
    shards = settings.crawl.shards
    owners = {f"www.host{host}.example": owner_of(f"www.host{host}.example", shards) for host in range(hosts)}
    async with opened(settings, "") as engines:
        for start in range(0, links, AT_ONCE):
            by_shard: defaultdict[int, list[Link]] = defaultdict(list)
            for number in range(start, min(start + AT_ONCE, links)):
                link = _link(number, hosts)
                by_shard[owners[link.host]].append(link)
            await engines.forwarding.send(by_shard)


async def links_through(links: int) -> dict[str, float]:
    """Push links, then let one worker add them."""
    with tempfile.TemporaryDirectory() as folder:
        async with cluster() as settings:
            began = time.perf_counter()
            await push(settings, links)
            pushed = time.perf_counter() - began
            async with joined(CrawlDirectory(Path(folder) / "worker"), settings, Events()) as worker:
                worker.worker.held.closed = True  # it only adds links
                working = asyncio.create_task(worker.run())
                figures = await taken_in(settings, worker.worker.held.counts.added, links)
                worker.leave()
                await working
            async with opened(settings, "") as engines:
                counts = total([shard.counts for shard in await engines.claims.standing()])
                unread = sum((await engines.unread()).values())
    return {
        "links": links,
        "pushed_per_second": links / pushed,
        **figures,
        "stored": counts.added,
        "queued": counts.queued,
        "unread": unread,
    }


async def taken_in(settings: Settings, before: int, links: int) -> dict[str, float]:
    """Wait until the shards have all links.

    The baseline memory is taken when a tenth is in: by then everything is loaded.
    """
    async with opened(settings, "") as engines:
        added, began, cpu, at_first, most = before, time.perf_counter(), time.process_time(), 0.0, 0.0
        while added < links:
            await asyncio.sleep(0.5)
            added = total([shard.counts for shard in await engines.claims.standing()]).added
            if added >= links / 10:
                at_first = at_first or resident()
                most = max(most, resident())
            if sys.stderr.isatty():
                print(f"\r{added:,} of {links:,}", end="", file=sys.stderr, flush=True)
    elapsed = time.perf_counter() - began
    return {
        "taken_in_per_second": links / elapsed,
        "cpu_us_per_link": (time.process_time() - cpu) / links * 1e6,
        "memory_growth_mb": most - at_first,
        "resident_mb": most,
    }


# ------------------------------------------------------------------------------------------------ crawl


class Sample(NamedTuple):
    """What the workers have reported by a given moment."""

    at: float
    pages: int
    trips: dict[str, float]


@contextmanager
def working(settings: Settings, folder: Path, number: int) -> Iterator[None]:
    """Worker processes, started as an operator would."""
    config = folder / "cluster.toml"
    config.write_text(dump(settings))
    command = [sys.executable, "-m", "skitter", "work", "-q", "--config", str(config)]
    started = [subprocess.Popen([*command, "-o", str(folder / f"w{each}")]) for each in range(number)]
    try:
        yield
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        for one in started:
            one.wait()


async def _clustered(served: Served, folder: Path, workers: int, shards: int) -> dict[str, Any]:
    web = {
        "fetch.allow_private": ["127.0.0.0/8"],
        "politeness.delay": f"{served.web.delay}s",
        "politeness.adaptive": False,  # a busy loopback server is no reason to slow down
        "politeness.per_address": "none",
        "crawl.concurrency": served.web.connections // workers,
        "crawl.shards": shards,
    }
    async with cluster(**web) as settings, opened(settings, "") as engines:
        by_shard: defaultdict[int, list[Link]] = defaultdict(list)
        for url in served.seeds:
            host = url.split("/")[2].partition(":")[0]
            by_shard[owner_of(host, shards)].append(Link(url=url, key=url, host=host, seed=True))
        await engines.claims.add_roots(served.seeds)
        await engines.forwarding.send(by_shard)
        with working(settings, folder, workers):
            began = time.perf_counter()
            ending = asyncio.create_task(until_finished(engines, settings))
            samples = [Sample(began, 0, {})]
            while not ending.done():
                await asyncio.wait([ending], timeout=1)
                samples.append(await _sampled(engines))
            counts, elapsed = ending.result().counts, samples[-1].at - began
    return {
        "pages": counts.pages,
        "pages_per_second": counts.pages / elapsed,
        "trips_per_page": _per_page(samples[0], samples[-1]),
        "steady": _steady(samples),
    }


async def _sampled(engines: Engines) -> Sample:
    trips: defaultdict[str, float] = defaultdict(float)
    pages = 0
    for worker in await engines.claims.workers():
        pages += worker.about["pages"]
        for engine, number in worker.about["trips"].items():
            trips[engine] += number
    return Sample(time.perf_counter(), pages, dict(trips))


def _per_page(first: Sample, last: Sample) -> dict[str, float]:
    pages = max(1, last.pages - first.pages)
    return {engine: (number - first.trips.get(engine, 0)) / pages for engine, number in last.trips.items()}


def _steady(samples: Sequence[Sample]) -> dict[str, Any]:
    """The middle of the crawl; nothing if it was too short to have one."""
    whole = samples[-1].pages
    middle = [sample for sample in samples if STEADY[0] * whole <= sample.pages <= STEADY[1] * whole]
    if len(middle) < 2 or middle[0].pages == middle[-1].pages:
        return {}
    first, last = middle[0], middle[-1]
    return {
        "pages": last.pages - first.pages,
        "pages_per_second": (last.pages - first.pages) / (last.at - first.at),
        "trips_per_page": _per_page(first, last),
    }


def _embedded(served: Served, folder: Path, workers: int, shards: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "skitter",
        "crawl",
        "--seeds",
        "-",
        "-q",
        "--json",
        f"--workers={workers}",
    ]
    command += ["-o", str(folder / "fleet"), "--allow-private=127.0.0.0/8", f"--delay={served.web.delay}s"]
    command += [f"--concurrency={served.web.connections}", f"--shards={shards}", "--per-address=none"]
    began = time.perf_counter()
    said = subprocess.run(
        command, input="\n".join(served.seeds), capture_output=True, text=True, check=True
    ).stdout
    counts: Counts = json.loads(said)["counts"]
    return {"pages": counts["pages"], "pages_per_second": counts["pages"] / (time.perf_counter() - began)}  # type: ignore[index]


def crawls(workers: int, shards: int, hosts: int, delay: float) -> dict[str, Any]:
    """The same web with a fleet and with a cluster, one after the other."""
    web = dataclasses.replace(FLEET, hosts=hosts, delay=delay)
    with tempfile.TemporaryDirectory() as folder, serving(web) as served:
        fleet = _embedded(served, Path(folder), workers, shards)
        clustered = asyncio.run(_clustered(served, Path(folder), workers, shards))
    return {"workers": workers, "shards": shards, "fleet": fleet, "cluster": clustered}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", choices=("links", "crawl", "bytes", []), help="default: links, crawl"
    )
    parser.add_argument("--links", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2, help="that crawl")
    parser.add_argument("--shards", type=int, default=8, help="of the crawl")
    parser.add_argument("--hosts", type=int, default=FLEET.hosts, help="of the web that is crawled")
    parser.add_argument("--delay", type=float, default=0.25, help="seconds that each of them wants")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    if "links" in (arguments.parts or ["links"]):
        figures["links"] = asyncio.run(links_through(arguments.links))
    if "crawl" in (arguments.parts or ["crawl"]):
        figures["crawl"] = crawls(arguments.workers, arguments.shards, arguments.hosts, arguments.delay)
    if "bytes" in arguments.parts:
        from benchmarks.stored import stored  # noqa: PLC0415  it uses this module

        figures["bytes"] = stored(arguments.links, arguments.hosts)
    print(json.dumps(figures, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
