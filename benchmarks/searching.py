"""How fast pages are indexed and found.

    python -m benchmarks.searching --pages 10000
    python -m benchmarks.searching --pages 10000 --address http://127.0.0.1:9200

Pages consist of invented words whose frequencies follow Zipf's law, as in real text. With an address,
OpenSearch is measured beside SQLite, in a separate index that is deleted afterwards.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from skitter.backends.opensearch import OpenSearchIndex
from skitter.backends.opensearch.http import Cluster
from skitter.backends.sqlite_fts import FtsIndex
from skitter.export.search.text import query
from skitter.ports import Entry, SearchIndex
from skitter.settings.engines import SearchSettings
from skitter.testing.contracts.search import entry

WORDS = 50_000
PAGE_WORDS = 600  # about 4 kB of text
BATCH = 200
QUERIES = 200
INDEX = "skitter-benchmark"


def pages(number: int) -> tuple[list[Entry], list[str]]:
    """This many pages, and the vocabulary, the most frequent word first."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnoprstuvw", k=dice.randint(3, 9))) for _ in range(WORDS)]
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))

    def text(length: int) -> str:
        return " ".join(dice.choices(words, cum_weights=weights, k=length))

    made = [entry(f"https://h{n % 100}.example/{n}", text(6), text(PAGE_WORDS)) for n in range(number)]
    return made, words


async def measure(name: str, index: SearchIndex, entries: Sequence[Entry], words: Sequence[str]) -> None:
    """Fill an index and query it; prints a line for each."""
    await index.open()
    started, spent = time.perf_counter(), time.process_time()
    for start in range(0, len(entries), BATCH):
        assert await index.index(entries[start : start + BATCH]) == []
    await index.refresh()
    took, cpu = time.perf_counter() - started, (time.process_time() - spent) / len(entries) * 1000
    print(
        f"{name}: {len(entries):,} pages in {took:.1f} s, {len(entries) / took:,.0f} pages/s, {cpu:.2f} ms of our CPU each"
    )
    dice = random.Random(8)
    kinds = {
        "one rare word": lambda: dice.choice(words[2_000:10_000]),
        "two common words": lambda: " ".join(dice.sample(words[10:200], 2)),
        "a phrase": lambda: f'"{" ".join(dice.choice(entries).page.text.split()[10:13])}"',
        "the most frequent word": lambda: words[0],
    }
    for kind, made in kinds.items():
        times, totals = [], []
        for _ in range(QUERIES if kind != "the most frequent word" else 20):
            asked = query(made())
            started = time.perf_counter()
            totals.append((await index.search(asked)).total)
            times.append((time.perf_counter() - started) * 1000)
        middle, worst = statistics.median(times), sorted(times)[int(len(times) * 0.95)]
        found = statistics.median(totals)
        print(
            f"{name}: {kind}: median {middle:.1f} ms, 95 % within {worst:.1f} ms ({found:,.0f} pages found)"
        )
    await index.close()


async def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.searching", description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--address", help="of an OpenSearch or Elasticsearch")
    options = parser.parse_args()
    entries, words = pages(options.pages)
    size = sum(len(each.page.text) for each in entries)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.sqlite"
        await measure("SQLite FTS5", FtsIndex(path), entries, words)
        print(f"SQLite FTS5: {path.stat().st_size / 1e6:.0f} MB on disk for {size / 1e6:.0f} MB of text")
    if options.address:
        settings = SearchSettings(addresses=(options.address,), index=INDEX)
        cluster = Cluster(settings, "")
        try:
            await measure("OpenSearch", OpenSearchIndex(settings), entries, words)
        finally:
            await cluster.ask("DELETE", f"/{INDEX}")
            await cluster.ask("DELETE", f"/_index_template/{INDEX}")
            await cluster.close()


if __name__ == "__main__":
    asyncio.run(main())
