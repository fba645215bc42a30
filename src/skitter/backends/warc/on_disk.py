"""The archive of a cluster worker without a bucket: all that it has ever written stays in its directory.

How much of a file counts is known once somebody else has taken its shard (see `backends.s3.ends`).
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
from skitter.frontier.patience import patiently
from skitter.model import Exchange, Page, Place
from skitter.ports import Archive, EngineAway, Mark, Packed, Twin
from skitter.reporting.format import amount, counted
from skitter.runtime.process import unwrapped

_LAST_LOOKS = 3  # at what has become of files of lost shards, before a worker goes


class KeptArchive:
    """`ports.Archive` of a shard whose files stay where they were written: this worker has its own, others have theirs."""

    def __init__(self, local: WarcArchive, on_disk: "OnDisk", shard: int, epoch: int) -> None:
        self._local = local
        self._on_disk = on_disk
        self._shard, self._epoch = shard, epoch
        self._mark = Mark()  # until something is appended here, it is where the last owner's files end
        self._settled = True
        local.segmented(first_number(epoch))

    def pack(self, exchange: Exchange, page: Page | None, twin: Twin | None) -> Packed:
        """Render the records of one exchange."""
        return self._local.pack(exchange, page, twin)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Write records out at the end; one place per pack."""
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
        """A file that is not here ends where the mark says: another worker has it, and learns of it by the engine."""
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
        """Finish the current file. If its end is not settled, the next owner of the shard says what counts of it."""
        if not self._settled:
            self._on_disk.doubtful.add(self._mark.file)
        await self._local.close()


class OnDisk:
    """The archive of a worker without a bucket: all that it has ever written stays in its directory."""

    disk = ""
    full = False
    guards: Sequence[Guard] = ()

    def __init__(self, folder: Path, place: str, ends: Ends, warn: Callable[[str], None]) -> None:
        """`place` is where others find the folder, as MACHINE:PATH of the crawl directory."""
        self.folder = folder
        self.place = place
        self.ends = ends
        self._warn = warn
        self.doubtful: set[str] = set()  # files of shards that were lost: their ends may count or not

    async def ready(self) -> None:
        """There always is room."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        return KeptArchive(local, self, shard, epoch)

    async def tidy(self) -> None:
        """Cut from files of earlier leases what nobody settled: whoever took the shards has fetched it again."""
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
        """While the worker lives: whoever has taken a shard tells a moment later what counts."""
        while True:
            await asyncio.sleep(every)
            if self.doubtful:
                with suppress(EngineAway):
                    await self.tidy()

    async def _tidy_last(self, every: float) -> None:
        """When the worker leaves. What is still not known is cut at the next start in this directory."""
        for _ in range(_LAST_LOOKS):
            if not self.doubtful:
                break
            with suppress(EngineAway):
                await self.tidy()
            await asyncio.sleep(every)

    @asynccontextmanager
    async def kept_tidy(self, every: float) -> AsyncIterator[None]:
        """Files of earlier leases hold nothing that nobody settled: from the start on, and until the worker leaves."""
        await patiently(self.tidy)
        tidying = asyncio.create_task(self._tidy_now_and_then(every))
        try:
            yield
        finally:
            tidying.cancel()
            with suppress(asyncio.CancelledError):
                await unwrapped(tidying)
        await self._tidy_last(every)
