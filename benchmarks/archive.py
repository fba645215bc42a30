"""What archiving a page costs: `python -m benchmarks.archive` prints CPU µs (user + system) per page, and bytes.

Pages of about 19 kB of made-up HTML with 40 links, each different; groups of 64 as the committer appends them, and a sync
per thousand pages. The bare compression and hashing of the same bytes stand beside it as the floor.
"""

import asyncio
import hashlib
import platform
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from isal import isal_zlib

from skitter.backends.warc import Reader, WarcArchive
from skitter.clock import SystemClock
from skitter.model import Exchange, Page
from skitter.settings import ArchiveSettings
from skitter.testing.contracts.archive import exchange, page_of
from skitter.testing.warc_check import check

PAGES = 4096
GROUP = 64


def pages(*, chunked: bool) -> list[tuple[Exchange, Page]]:
    dice = random.Random(7)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(3000)]
    made = []
    for number in range(PAGES):
        parts = [
            f'<p>{" ".join(dice.choices(words, k=60))} <a href="/topic/{dice.randint(0, 99999)}">{dice.choice(words)}</a></p>\n'
            for _ in range(46)
        ]
        body = ("<!doctype html><title>page</title>\n" + "".join(parts)).encode()
        answered = exchange(f"http://host-{number % 500}.example/topic/{number}", body, chunked=chunked)
        made.append((answered, page_of(answered, body, "http://example.org/start", 3)))
    return made


def cost(work: Callable[[], object]) -> float:
    """CPU µs per page, the best of three."""
    best = float("inf")
    for _ in range(3):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best / PAGES * 1e6


async def store(directory: Path, visits: list[tuple[Exchange, Page]]) -> None:
    archive = WarcArchive(directory, 0, ArchiveSettings(), SystemClock(), software="benchmark")
    for at in range(0, len(visits), GROUP):
        await archive.append(
            [archive.pack(answered, page, None) for answered, page in visits[at : at + GROUP]]
        )
        if at % 1024 == 0:
            await archive.sync()
    await archive.close()


def measure(visits: list[tuple[Exchange, Page]], directory: Path) -> dict[str, float]:
    bodies = [answered.head + answered.body for answered, _ in visits]
    archive = WarcArchive(directory, 0, ArchiveSettings(), SystemClock())

    def floor() -> None:
        for body in bodies:
            isal_zlib.compress(body, 1, 31)
            hashlib.sha1(body).digest()

    def pack() -> None:
        for answered, page in visits:
            archive.pack(answered, page, None)

    costs = {
        "compress and hash alone": cost(floor),
        "pack (three records)": cost(pack),
        "pack, append, sync": cost(lambda: asyncio.run(store(directory, visits))),
    }
    last = max(directory.iterdir())
    costs["read all back"] = cost(
        lambda: sum(len(record.block) for record in Reader(directory).records(last.name))
    )
    costs["check strictly"] = cost(lambda: check(last))
    return costs


def main() -> None:
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, {PAGES} pages"
    )
    for chunked in (False, True):
        visits = pages(chunked=chunked)
        size = sum(len(answered.head + answered.body) for answered, _ in visits)
        with tempfile.TemporaryDirectory() as folder:
            costs = measure(visits, Path(folder))
            stored = max(Path(folder).iterdir()).stat().st_size
        kind = "chunked" if chunked else "plain"
        print(f"{kind} pages of {size / PAGES / 1000:.1f} kB, {stored / PAGES / 1000:.1f} kB stored")
        for name, micros in costs.items():
            print(f"  {name:24}{micros:7.1f} µs")


if __name__ == "__main__":
    main()
