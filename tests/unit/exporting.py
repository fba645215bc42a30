"""A process of `skitter export` with two formats more, for tests that interrupt it: python -m tests.unit.exporting FOLDER WORD…

endless   lines without end, of a million
parts     two binary files in a folder: what a format may do that is not made of lines
"""

import os
import resource
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from skitter import compose
from skitter.cli import export, main
from skitter.export.formats import FORMATS
from skitter.export.source import Source
from skitter.export.writing import Destination, Format, Lines, Listener
from tests.unit.crawled import CrawledSource, crawled


class Opened(CrawledSource):
    async def close(self) -> None:
        pass


async def _endless(_source: Source, into: Destination, told: Listener) -> None:
    told.expect(1_000_000, "line")
    lines = Lines(into, "lines", ".txt")
    for number in count():
        await lines.write(f"{number} {'x' * 1000}\n")
        told.done()


async def _parts(_source: Source, into: Destination, told: Listener) -> None:
    told.expect(2, "part")
    for name in ("table.bin", "index.bin"):
        with into.open(name) as file:
            file.write(b"\0\xff" + name.encode())
        told.done()


ENDLESS = Format(name="endless", about="lines without end", write=_endless)
PARTS = Format(name="parts", about="two binary files", write=_parts, streams=False, lines=False)


def patched(source: CrawledSource, put: Callable[[Any, str, Any], None]) -> None:
    """The reading commands find this crawl, and the table has two formats more."""

    async def open_source(_paths: object, _config: object) -> Opened:
        return Opened(source.frontier, source.archive, source.directory)

    put(compose, "open_source", open_source)
    put(export, "FORMATS", {**FORMATS, ENDLESS.name: ENDLESS, PARTS.name: PARTS})


if __name__ == "__main__":
    if limit := os.environ.get("SKITTER_TEST_FILE_SIZE"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    patched(crawled(Path(sys.argv[1])), setattr)
    sys.exit(main(["export", sys.argv[1], *sys.argv[2:]]))
