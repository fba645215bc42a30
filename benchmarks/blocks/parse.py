"""From bytes to title, text and links."""

import time
from collections.abc import Iterator

from benchmarks.blocks.material import HEADERS, pages
from skitter.parse import parse
from skitter.settings import ParseSettings


def parse_page() -> Iterator[float]:
    settings, material = ParseSettings(), pages(64)
    while True:
        began = time.process_time()
        for url, body in material:
            parse(url, HEADERS, body, settings)
        yield (time.process_time() - began) / len(material)
