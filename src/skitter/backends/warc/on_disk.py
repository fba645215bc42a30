"""The archive of a cluster worker without a bucket: everything it writes stays in its directory.

How much of a file is settled is known once another worker has taken its shard (see `backends.s3.ends`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from skitter.backends.s3.ends import by_shard, settled_end
from skitter.backends.s3.names import first_number
from skitter.backends.s3.segments import WHOLE
from skitter.backends.warc import WarcArchive, trim
from skitter.cluster.ports import End, Ends
from skitter.engines.breaker import Guard
from skitter.engines.retry import patiently
from skitter.model import Exchange, Page, Place, Rendering
from skitter.ports import Archive, EngineAway, Mark, Packed, Twin
from skitter.reporting.format import amount, counted
from skitter.runtime.metrics import Metrics
from skitter.runtime.process import unwrapped

_LAST_LOOKS = 3  # checks for the ends of files of lost shards, before a worker leaves


class KeptArchive:
    """`ports.Archive` of a shard whose files stay on the worker that wrote them."""

    def __init__(self, local: WarcArchive, on_disk: "OnDisk", shard: int, epoch: int) -> None:
        self._local = local
        self._on_disk = on_disk
        self._shard, self._epoch = shard, epoch
        self._mark = Mark()  # until something is appended here, the end of the last owner's files
        self._settled = True
        local.segmented(first_number(epoch))

    def pack(
        self, exchange: Exchange, page: Page | None, twin: Twin | None, rendering: Rendering | None = None
    ) -> Packed:
        """Render the records of one exchange."""
        return self._local.pack(exchange, page, twin, rendering)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Append records; one place per pack."""
        places = await self._local.append(packs)
        if places:
            self._mark, self._settled = self._local.mark(), False
        return places

    def mark(self) -> Mark:
        """The current end of the archive."""
        return self._mark

    def settled(self) -> None:
        """Everything appended so far is settled."""
        self._settled = True
        self._local.settled()

    async def sync(self) -> None:
        """Make everything appended survive a power loss."""
        await self._local.sync()

    async def cut(self, mark: Mark) -> Mark:
        """Truncate to the mark. If its file is on another worker, that one learns of the mark through the engine."""
        here = not mark.file or (self._on_disk.folder / mark.file).exists()
        end = await self._local.cut(mark)
        self._local.leave()
        self._mark = end if here else mark
        self._settled = True
        found = End(self._shard, self._epoch, self._mark, self._on_disk.place)
        await patiently(lambda: self._on_disk.ends.add_end(found))
        return self._mark

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return self._local.read(place)

    async def close(self) -> None:
        """Finish the current file. If its end is not settled, the next owner of the shard decides how much of it is."""
        if not self._settled:
            self._on_disk.doubtful.add(self._mark.file)
        await self._local.close()


class OnDisk:
    """The archive of a worker without a bucket: everything it writes stays in its directory."""

    disk = ""
    full = False
    guards: Sequence[Guard] = ()

    def __init__(self, folder: Path, place: str, ends: Ends, warn: Callable[[str], None]) -> None:
        """`place` is where others find the folder, as MACHINE:PATH of the crawl directory."""
        self.folder = folder
        self.place = place
        self.ends = ends
        self._warn = warn
        self.doubtful: set[str] = set()  # files of lost shards, whose ends may be settled or not

    async def ready(self) -> None:
        """There is always room."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        return KeptArchive(local, self, shard, epoch)

    def metrics(self) -> Metrics:
        """Nothing waits for upload."""
        return Metrics()

    async def tidy(self) -> None:
        """Truncate files of earlier leases to what was settled: the shards' new owners have fetched the rest again."""
        found = by_shard(await self.ends.ends())
        known = {path.name: settled_end(path.name, found) for path in self.folder.glob("*.warc.gz")}
        cut = [trim(self.folder / file, end) for file, end in known.items() if end not in (None, WHOLE)]
        self.doubtful = {file for file in self.doubtful if known.get(file, 0) is None}
        if gone := sum(cut):
            files = counted(sum(map(bool, cut)), "file")
            self._warn(
                f"{amount(gone)} that this worker fetched and did not settle, because others had taken its shards, are cut "
                f"from {files} of its archive; they have fetched these pages"
            )

    async def _tidy_now_and_then(self, every: float) -> None:
        """While the worker runs: the new owner of a shard reports soon how much is settled."""
        while True:
            await asyncio.sleep(every)
            if self.doubtful:
                with suppress(EngineAway):
                    await self.tidy()

    async def _tidy_last(self, every: float) -> None:
        """When the worker leaves. Files whose end is still unknown are truncated at the next start in this directory."""
        for _ in range(_LAST_LOOKS):
            if not self.doubtful:
                break
            with suppress(EngineAway):
                await self.tidy()
            await asyncio.sleep(every)

    @asynccontextmanager
    async def kept_tidy(self, every: float) -> AsyncIterator[None]:
        """Keep files of earlier leases free of unsettled records, from the start until the worker leaves."""
        await patiently(self.tidy)
        tidying = asyncio.create_task(self._tidy_now_and_then(every))
        try:
            yield
        finally:
            tidying.cancel()
            with suppress(asyncio.CancelledError):
                await unwrapped(tidying)
        await self._tidy_last(every)
