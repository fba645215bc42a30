"""The frontier of a cluster on PostgreSQL: the cost of adding links and of a page, in time and round trips.

    make services && python -m benchmarks.truth [--urls 100000] [--pages 5000]

Everything runs on one machine, including the server: `elapsed` is what a crawl would wait, `client` is the
CPU time of the worker's process alone.
"""

import argparse
import asyncio
import time

from tests.cluster.postgres import seize, settings_for
from tests.engines import engine

from benchmarks.frontier import Web, settlement
from skitter.backends.postgres.migrate import drop, migrate, open_pool
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.store import PostgresStore
from skitter.frontier import ShardFrontier
from skitter.model import Visit
from skitter.ports import Mark

BATCH = 1000  # links in one `add`
AT_ONCE = 64  # visits leased, and settled, together
LINKS, NEW = 20, 2  # on a page, and how many of them are new


async def measure(urls: int, pages: int) -> None:
    settings = settings_for(engine("postgres"))
    await migrate(settings, 1)
    pool = await open_pool(settings)
    try:
        frontier = ShardFrontier(PostgresStore(pool, 0, await seize(pool, 0)), settings)
        await frontier.open(0.0)
        web = Web("zipf")
        await _add(frontier, web, urls, pool)
        await _visit(frontier, web, pages, pool)
    finally:
        await pool.close()
        await drop(settings)


async def _add(frontier: ShardFrontier, web: Web, urls: int, pool: Pool) -> None:
    await frontier.add(web.new(BATCH), [], 0.0)
    trips, cpu, began, offered = pool.trips, time.process_time(), time.perf_counter(), 0
    while web.made < urls:
        await frontier.add(web.mixed(BATCH, BATCH // 2), [], 0.0)
        offered += BATCH
    took = time.perf_counter() - began
    print(
        f"add: {offered / took:,.0f} links/s, half of them known; {(time.process_time() - cpu) / offered * 1e6:.0f} µs client,"
        f" {(pool.trips - trips) / offered * BATCH:.1f} round trips per {BATCH:,} links"
    )


async def _visit(frontier: ShardFrontier, web: Web, pages: int, pool: Pool) -> None:
    trips, cpu, began, done, now = pool.trips, time.process_time(), time.perf_counter(), 0, 1.0
    while done < pages:
        visits: list[Visit] = await frontier.lease(AT_ONCE, now)
        if not visits:
            due = await frontier.next_due(now)
            assert due is not None, "nothing waits any more"
            now = max(due, now + 0.01)
            continue
        ended = [settlement(visit, web.page(visit.link.host, LINKS, NEW), now) for visit in visits]
        await frontier.settle(ended, Mark("00-1.warc.gz", done), now)
        done += len(ended)
        now += 0.02
    took = time.perf_counter() - began
    print(
        f"visits: {done / took:,.0f}/s leased and settled with {LINKS} links, {AT_ONCE} at once;"
        f" {(time.process_time() - cpu) / done * 1e6:.0f} µs client, {(pool.trips - trips) / done:.3f} round trips per visit"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--urls", type=int, default=100_000)
    options.add_argument("--pages", type=int, default=5_000)
    chosen = options.parse_args()
    asyncio.run(measure(chosen.urls, chosen.pages))


if __name__ == "__main__":
    main()
