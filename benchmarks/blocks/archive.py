"""Three WARC records per page, compressed and hashed, appended in groups as by the committer."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.blocks.material import pages
from skitter.backends.warc import WarcArchive
from skitter.runtime.clock import SystemClock
from skitter.settings import ArchiveSettings
from skitter.testing.contracts.archive import exchange, page_of

GROUP = 64
GROUPS = 4


def archive() -> Iterator[float]:
    answered = [(exchange(url, body), body) for url, body in pages(GROUP)]
    visits = [(one, page_of(one, body, "http://example.org/start", 3)) for one, body in answered]
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        warc = WarcArchive(Path(folder), 0, ArchiveSettings(), SystemClock(), software="benchmark")

        async def store() -> None:
            for _ in range(GROUPS):
                await warc.append([warc.pack(one, page, None) for one, page in visits])
            await warc.sync()

        while True:
            began = time.process_time()
            runner.run(store())
            yield (time.process_time() - began) / (GROUP * GROUPS)
