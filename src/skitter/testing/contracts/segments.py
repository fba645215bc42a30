"""The contract of the register of segments (`skitter.backends.s3.Segments`), executable. Subclass it and say how yours opens:

    class TestMySegments(SegmentsContract):
        @asynccontextmanager
        async def opened(self, directory: Path) -> AsyncIterator[Segments]:
            yield MySegments(directory)

What was said under one opening is known under the next with the same directory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from skitter.backends.s3.names import first_number
from skitter.backends.s3.segments import WHOLE, Segment, Segments, Stage
from skitter.ports import Mark


def segment(serial: int, epoch: int = 1, shard: int = 0) -> str:
    """The name of a segment."""
    return f"{shard:02d}-20260102030405-{first_number(epoch) + serial:05d}.warc.gz"


class SegmentsContract:
    """The promises of a register. Each test name contains the number of its invariant."""

    def opened(self, directory: Path) -> AbstractAsyncContextManager[Segments]:
        """The register of an existing directory."""
        raise NotImplementedError

    def test_1_what_was_begun_is_its_workers(self, tmp_path: Path) -> None:
        """And can be looked up by name by everybody, also later."""

        async def use(register: Segments) -> None:
            await register.begun(segment(0), 0, "w1")
            await register.begun(segment(0, shard=1), 1, "w2")

        async def look(register: Segments) -> None:
            assert await register.pending("w1") == [Segment(segment(0), 0, "w1")]
            assert await register.pending("w3") == []
            found = await register.look_up([segment(0), segment(0, shard=1), segment(99)])
            assert {each.name: each.worker for each in found} == {segment(0): "w1", segment(0, shard=1): "w2"}

        self._run(tmp_path, use)
        self._run(tmp_path, look)

    def test_2_who_takes_a_shard_seals_what_earlier_owners_left(self, tmp_path: Path) -> None:
        """Completely before the mark, up to it, and not at all behind it; other shards and epochs are not touched."""

        async def use(register: Segments) -> None:
            for serial in range(4):
                await register.begun(segment(serial, epoch=3), 0, "w1")
            await register.finished(segment(0, epoch=3), 70, "sha256:0")
            await register.begun(segment(0, epoch=5), 0, "w2")
            await register.begun(segment(0, epoch=1, shard=1), 1, "w1")
            await register.sealed(0, Mark(segment(2, epoch=3), 99), 5)
            await register.sealed(0, Mark(segment(2, epoch=3), 98), 4)  # a worker that comes too late

        async def look(register: Segments) -> None:
            assert await self._known(register, *(segment(serial, epoch=3) for serial in range(4))) == [
                (Stage.FINISHED, 70),
                (Stage.SEALED, WHOLE),
                (Stage.SEALED, 99),
                (Stage.SEALED, 0),
            ]
            others = await self._known(register, segment(0, epoch=5), segment(0, shard=1))
            assert others == [(Stage.BEGUN, WHOLE)] * 2

        self._run(tmp_path, use)
        self._run(tmp_path, look)

    def test_2_what_an_earlier_owner_began_after_it_was_replaced_does_not_count(self, tmp_path: Path) -> None:
        """It was frozen, and its replacement sealed what it had started before."""

        async def use(register: Segments) -> None:
            await register.begun(segment(0), 0, "w1")
            await register.sealed(0, Mark(segment(0), 5), 2)
            await register.begun(segment(0, epoch=2), 0, "w2")
            await register.begun(segment(1), 0, "w1")  # it wakes up, and does not know yet
            await register.sealed(0, Mark(segment(0, epoch=2), 7), 3)
            names = segment(0), segment(1), segment(0, epoch=2)
            assert await self._known(register, *names) == [(Stage.SEALED, size) for size in (5, 0, 7)]

        self._run(tmp_path, use)

    def test_2_a_shard_of_which_nothing_is_settled(self, tmp_path: Path) -> None:
        """Nothing that was written counts."""

        async def use(register: Segments) -> None:
            await register.begun(segment(0), 0, "w1")
            await register.sealed(0, Mark(), 2)
            assert await self._known(register, segment(0)) == [(Stage.SEALED, 0)]

        self._run(tmp_path, use)

    def test_3_from_finished_to_uploaded(self, tmp_path: Path) -> None:
        """With size and digest, whether started or sealed; an uploaded segment belongs to no single worker."""

        async def use(register: Segments) -> None:
            for serial in range(2):
                await register.begun(segment(serial), 0, "w1")
            await register.sealed(0, Mark(segment(1), 5), 2)
            for serial in range(2):
                assert await register.finished(segment(serial), 5, "sha256:x")
                (found,) = await register.look_up([segment(serial)])
                assert found == Segment(segment(serial), 0, "w1", Stage.FINISHED, 5, "sha256:x")
            assert len(await register.pending("w1")) == 2
            for serial in range(2):
                assert await register.uploaded(segment(serial))
            assert await register.pending("w1") == []
            assert await self._known(register, segment(0)) == [(Stage.UPLOADED, 5)]

        self._run(tmp_path, use)

    def test_4_abandoned_for_good_but_never_when_uploaded(self, tmp_path: Path) -> None:
        """At any earlier stage; from then on its worker is refused."""

        async def use(register: Segments) -> None:
            for serial in range(4):
                await register.begun(segment(serial), 0, "w1")
            await register.finished(segment(0), 5, "sha256:x")
            await register.uploaded(segment(0))
            await register.finished(segment(1), 5, "sha256:x")
            named = [segment(serial) for serial in (0, 1, 2, 99)]
            assert sorted(await register.abandoned(named)) == [segment(1), segment(2)]
            for name in (segment(1), segment(2)):
                assert not await register.finished(name, 5, "sha256:x")
                assert not await register.uploaded(name)
            await register.sealed(0, Mark(segment(3), 7), 2)
            stages = [stage for stage, _ in await self._known(register, *(segment(n) for n in range(4)))]
            assert stages == [Stage.UPLOADED, Stage.ABANDONED, Stage.ABANDONED, Stage.SEALED]
            assert [each.name for each in await register.pending("w1")] == [segment(3)]

        self._run(tmp_path, use)

    def test_5_to_say_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        """The first answer may have been lost."""

        async def use(register: Segments) -> None:
            for _ in range(2):
                await register.begun(segment(0), 0, "w1")
                await register.begun(segment(1), 0, "w1")
            for _ in range(2):
                await register.sealed(0, Mark(segment(1), 7), 2)
            assert await self._known(register, segment(0), segment(1)) == [
                (Stage.SEALED, WHOLE),
                (Stage.SEALED, 7),
            ]
            for _ in range(2):
                assert await register.finished(segment(0), 5, "sha256:x")
            for _ in range(2):
                assert await register.uploaded(segment(0))
            assert await register.finished(segment(0), 5, "sha256:x")
            assert await self._known(register, segment(0)) == [(Stage.UPLOADED, 5)]
            for _ in range(2):
                assert await register.abandoned([segment(1)]) == [segment(1)]

        self._run(tmp_path, use)

    def test_6_abandoned_segments_are_lost_until_their_pages_are_pending_again(self, tmp_path: Path) -> None:
        """Recorded once, and known to everybody from then on; if nothing was settled there is nothing to do."""

        async def use(register: Segments) -> None:
            for serial in range(3):
                await register.begun(segment(serial), 0, "w1")
            await register.begun(segment(0, shard=1), 1, "w1")
            await register.sealed(0, Mark(segment(1), 7), 2)
            assert await register.lost() == []
            named = [segment(serial) for serial in range(3)]
            assert sorted(await register.abandoned(named)) == named
            await register.reopened([segment(0), segment(0, shard=1)])

        async def look(register: Segments) -> None:
            assert [(each.name, each.shard) for each in await register.lost()] == [(segment(1), 0)]
            await register.abandoned([segment(0), segment(0, shard=1)])
            assert {each.name for each in await register.lost()} == {segment(1), segment(0, shard=1)}
            for _ in range(2):
                await register.reopened([segment(1), segment(0, shard=1), segment(99)])
            assert await register.lost() == []

        self._run(tmp_path, use)
        self._run(tmp_path, look)

    async def _known(self, register: Segments, *names: str) -> list[tuple[Stage, int]]:
        found = {each.name: (each.stage, each.size) for each in await register.look_up(names)}
        return [found[name] for name in names]

    def _run(self, directory: Path, use: Callable[[Segments], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with self.opened(directory) as register:
                await use(register)

        asyncio.run(whole())
