"""The SimHash that finds near-duplicates."""

import time
from collections.abc import Iterator

from benchmarks.blocks.material import HEADERS, pages
from skitter.dedup.simhash import simhash
from skitter.parse import parse
from skitter.settings import ParseSettings


def simhash_page() -> Iterator[float]:
    texts = [parse(url, HEADERS, body, ParseSettings()).text for url, body in pages(64)]
    while True:
        began = time.process_time()
        for text in texts:
            simhash(text, 10)
        yield (time.process_time() - began) / len(texts)
