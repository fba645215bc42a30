"""ports.Archive for one shard of a cluster: local WARC files that are uploaded once settled.

A segment is only closed when all of it is settled. So a closed segment counts as a whole, and each shard has
at most one segment of which only a part counts: the last. The next owner determines how much (`cut`),
wherever it runs. Under a new epoch no old segment is continued.
"""

import asyncio
from collections.abc import Sequence

from skitter.backends.s3 import names
from skitter.backends.s3.uploader import Uploader
from skitter.backends.warc import WarcArchive
from skitter.model import Exchange, Page, Place, Rendering
from skitter.ports import Clock, EngineError, Mark, Packed, Twin
from skitter.settings.engines import S3Settings


class S3Archive:
    """`local` writes into the uploader's directory. `epoch` is the one under which the shard was taken."""

    def __init__(
        self,
        local: WarcArchive,
        uploads: Uploader,
        settings: S3Settings,
        clock: Clock,
        *,
        shard: int,
        epoch: int,
    ) -> None:
        self._local = local
        self._uploads = uploads
        self._settings = settings
        self._clock = clock
        self._shard = shard
        self._epoch = epoch
        self._segment = ""  # the current one
        self._begun = 0.0
        self._mark = Mark()
        self._settled = True
        local.segmented(names.first_number(epoch))

    def pack(
        self, exchange: Exchange, page: Page | None, twin: Twin | None, rendering: Rendering | None = None
    ) -> Packed:
        """Build the records of one exchange. With a twin, an identical payload is not stored again."""
        return self._local.pack(exchange, page, twin, rendering)

    def mark(self) -> Mark:
        """The current end of the archive."""
        return self._mark

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place, from this disk or from the bucket, which is slow."""
        return self._uploads.reader.read(place)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Append records; one place per pack. A new segment is in the register before this returns.

        All of them, or an exception and none: while the register is away, nothing is kept here that it does
        not know.
        """
        self._leave_if_due()
        before = self._mark
        places = await self._local.append(packs)
        if not places:
            return places
        self._mark, self._settled = self._local.mark(), False
        if self._mark.file != self._segment:
            self._segment, self._begun = self._mark.file, self._clock.monotonic()
            try:
                await self._uploads.begin(self._segment, self._shard)
            except (EngineError, asyncio.CancelledError):
                await self._take_back(before)
                raise
        return places

    async def _take_back(self, before: Mark) -> None:
        """Drop the segment begun last; everything before it was settled, or it would not have been closed."""
        self._let_go()
        async with self._uploads.disk:
            await self._local.cut(before)
        self._local.leave()
        self._mark, self._settled = before, True

    def settled(self) -> None:
        """Everything appended so far is settled: it may be uploaded."""
        self._settled = True
        self._leave_if_due()

    async def sync(self) -> None:
        """Make everything appended survive a power loss. Called periodically, so old segments are noticed here."""
        self._leave_if_due()
        await self._local.sync()

    async def cut(self, mark: Mark) -> Mark:
        """Drop everything after the mark, and record in the register what counts of earlier owners' segments.

        A segment that is not on this disk ends where the mark says: its worker has it, or the bucket. If
        neither is true it is abandoned, which is handled separately.
        """
        self._let_go()
        async with self._uploads.disk:  # an earlier segment may be uploading right now
            here = not mark.file or self._uploads.has(mark.file)
            end = await self._local.cut(mark)
        self._local.leave()
        self._mark = end if here else mark
        self._settled = True
        await self._uploads.seal(self._shard, self._mark, self._epoch)
        return self._mark

    async def close(self) -> None:
        """Close the current segment. If its end is not settled, the next owner of the shard determines what counts."""
        if self._settled:
            self._leave()
        self._let_go()
        await self._local.close()

    # -- leaving ---------------------------------------------------------------------------------------------

    def _leave_if_due(self) -> None:
        old = self._clock.monotonic() - self._begun >= self._settings.segment_time
        if self._segment and self._settled and (old or self._mark.end >= self._settings.segment):
            self._leave()

    def _leave(self) -> None:
        if self._segment:
            self._local.leave()
            self._uploads.finish(self._segment)
            self._segment = ""

    def _let_go(self) -> None:
        if self._segment:
            self._uploads.let_go(self._segment)
            self._segment = ""
