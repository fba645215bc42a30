"""Sends links into a cluster's Kafka as fast as it can, up to a rate, for some seconds; prints how many, and how long it took.

    python -m tests.cluster.bursting cluster.toml FIRST RATE SECONDS

A process of its own, so that what it costs is not the worker's.
"""

import asyncio
import sys
import time
from pathlib import Path

from skitter.backends.kafka.forwarding import KafkaForwarding
from skitter.backends.kafka.packing import owner
from skitter.backends.kafka.sending import Sender
from skitter.model import Level, Link
from skitter.settings import Settings
from skitter.settings.file import load

_HOSTS = 997
_BATCH = 10_000  # links
_UNDER_WAY = 3  # batches that are not acknowledged yet


def links(first: int, count: int) -> list[Link]:
    made = []
    for number in range(first, first + count):
        host = f"www.h{number % _HOSTS}.example"
        url = f"https://{host}/some/section/article-{number}.html"
        made.append(Link(url=url, key=url, host=host, level=Level.NORMAL, depth=2))
    return made


async def burst(settings: Settings, first: int, rate: float, seconds: float) -> tuple[int, float]:
    """Links that are acknowledged, and seconds until the last of them was."""
    sender = Sender(settings.kafka)
    forwarding, owners = KafkaForwarding(settings, sender), dict[str, int]()
    room = asyncio.Semaphore(_UNDER_WAY)

    async def send(by_shard: dict[int, list[Link]]) -> None:
        await forwarding.send(by_shard)
        room.release()

    began, sent = time.perf_counter(), 0
    async with asyncio.TaskGroup() as tasks:
        while time.perf_counter() - began < seconds:
            await room.acquire()
            by_shard: dict[int, list[Link]] = {}
            for link in links(first + sent, _BATCH):
                shard = owners.get(link.host)
                if shard is None:
                    shard = owners[link.host] = owner(link, settings.crawl.shards)
                by_shard.setdefault(shard, []).append(link)
            tasks.create_task(send(by_shard))
            sent += _BATCH
            await asyncio.sleep(max(0.0, began + sent / rate - time.perf_counter()))
    elapsed = time.perf_counter() - began
    await sender.close()
    return sent, elapsed


def main() -> None:
    config, first, rate, seconds = sys.argv[1:]
    sent, elapsed = asyncio.run(burst(load(Path(config), {}, {}), int(first), float(rate), float(seconds)))
    print(sent, elapsed)


if __name__ == "__main__":
    main()
