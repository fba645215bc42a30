"""The contract of ports.Archive, executable. Subclass it, say how yours is opened, and let pytest collect it:

    class TestMyArchive(ArchiveContract):
        def open(self, directory: Path) -> Archive:
            return MyArchive(directory)

`shorten` stands for a loss of power: it takes octets off the end of what is stored. The default does so to the file that
the mark names; an archive that keeps no files says itself how.
"""

import asyncio
import base64
import hashlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from skitter.model import Exchange, Page, Place
from skitter.ports import Archive, Mark, Packed, Twin

T = TypeVar("T")

STARTED = 1_767_323_045.123456  # 2026-01-02T03:04:05.123456Z


def exchange(url: str = "http://example.org/", body: bytes = b"hello", *, chunked: bool = False) -> Exchange:
    """An answered request, as it would arrive over the wire."""
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    return Exchange(
        url=url,
        address="192.0.2.7",
        started=STARTED,
        ended=STARTED + 0.25,
        request=b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: contract/1\r\n\r\n",
        head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + framing + b"\r\n\r\n",
        body=in_chunks(body) if chunked else body,
    )


def in_chunks(body: bytes, size: int = 1000) -> bytes:
    """A chunked body (RFC 9112 7.1)."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def page_of(answered: Exchange, payload: bytes, parent: str = "", depth: int = 0) -> Page:
    """The page record of an exchange with that payload."""
    digest = base64.b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode()
    return Page(
        url=answered.url,
        requested_url=answered.url,
        key=answered.url,
        host="example.org",
        domain="example.org",
        status=200,
        fetched_at=answered.started,
        headers=[("content-type", "text/html")],
        content_type="text/html",
        charset="utf-8",
        digest=f"sha1:{digest}",
        parent=parent,
        depth=depth,
    )


def message(answered: Exchange) -> bytes:
    """What reading its place must return."""
    return answered.head + answered.body


class ArchiveContract:
    """The promises of ports.Archive. Each test name contains the number of its invariant."""

    def open(self, directory: Path) -> Archive:
        """Open the archive in an existing directory."""
        raise NotImplementedError

    def shorten(self, directory: Path, mark: Mark, octets: int) -> None:
        """Remove this many bytes from the end of the archive that ends at the mark."""
        os.truncate(directory / mark.file, mark.end - octets)

    # -- 1: exactly these records, in order, and where they lie ----------------------------------------------

    def test_1_every_pack_gets_its_own_place_in_order(self, tmp_path: Path) -> None:
        """Places in one file are in order and do not overlap."""

        async def use(archive: Archive) -> list[Place]:
            return await archive.append([_packed(archive, exchange(body=b"%d" % n)) for n in range(20)])

        places = self._run(tmp_path, use)
        assert len(places) == 20
        for one, other in pairwise(places):
            assert one.file != other.file or one.offset + one.length <= other.offset

    def test_1_appending_nothing_changes_nothing(self, tmp_path: Path) -> None:
        """An empty batch writes nothing."""

        async def use(archive: Archive) -> tuple[list[Place], bool]:
            await archive.append([_packed(archive, exchange())])
            before = archive.mark()
            return await archive.append([]), archive.mark() == before

        assert self._run(tmp_path, use) == ([], True)

    # -- 2: what was appended can be read back ---------------------------------------------------------------

    def test_2_what_was_appended_reads_back_at_once_byte_for_byte(self, tmp_path: Path) -> None:
        """Every byte, framing included, of small, large, binary, chunked and empty bodies."""
        bodies = [b"", b"x", bytes(range(256)) * 40, os.urandom(200_000), b"<p>hello</p>\n" * 20_000]
        answers = [exchange(body=body, chunked=chunked) for body in bodies for chunked in (False, True)]

        async def use(archive: Archive) -> list[bytes]:
            places = await archive.append([_packed(archive, answer) for answer in answers])
            return [archive.read(place) for place in places]

        assert self._run(tmp_path, use) == [message(answer) for answer in answers]

    def test_2_another_opener_reads_it_too(self, tmp_path: Path) -> None:
        """Even while the first one keeps writing."""
        answer = exchange()

        async def use(archive: Archive) -> bytes:
            place, _ = await archive.append([_packed(archive, answer), _packed(archive, exchange())])
            read = self.open(tmp_path).read(place)
            await archive.append([_packed(archive, exchange())])
            return read

        assert self._run(tmp_path, use) == message(answer)

    def test_2_of_an_identical_payload_only_the_head_is_kept(self, tmp_path: Path) -> None:
        """With a twin, the answer's head reads back, and less is stored than without."""
        first = exchange("http://example.org/a", os.urandom(5000))
        second = exchange("http://example.org/b", first.body)
        page = page_of(first, first.body)
        twin = Twin(first.url, first.started, page.digest, None)

        async def use(archive: Archive) -> tuple[bytes, int]:
            packs = [archive.pack(first, page, None), archive.pack(second, page_of(second, first.body), twin)]
            places = await archive.append(packs)
            return archive.read(places[1]), _size(packs[0]) - _size(packs[1])

        head, saved = self._run(tmp_path, use)
        assert head == second.head
        assert saved > 4000

    # -- 3: cut ----------------------------------------------------------------------------------------------

    def test_3_cut_removes_what_lies_behind_the_mark_and_nothing_else(self, tmp_path: Path) -> None:
        """What is before the mark reads back, and what is appended afterwards follows it."""
        kept, lost, later = (exchange(body=body) for body in (b"kept", b"lost", b"later"))

        async def write(archive: Archive) -> tuple[Place, Mark, list[Place]]:
            (place,) = await archive.append([_packed(archive, kept)])
            mark = archive.mark()
            behind = await archive.append([_packed(archive, lost), _packed(archive, lost)])
            behind += await archive.append([_packed(archive, lost)])
            return place, mark, behind

        place, mark, behind = self._run(tmp_path, write, close=False)

        async def resume(archive: Archive) -> tuple[Mark, list[bytes], Place]:
            end = await archive.cut(mark)
            assert all(_is_gone(archive, other) for other in behind)
            (new,) = await archive.append([_packed(archive, later)])
            return end, [archive.read(place), archive.read(new)], new

        end, read, new = self._run(tmp_path, resume)
        assert end == mark
        assert read == [message(kept), message(later)]
        assert new.file != mark.file or new.offset == mark.end

    def test_3_cutting_at_the_end_changes_nothing(self, tmp_path: Path) -> None:
        """The usual case: the last run stopped cleanly."""
        answer = exchange()

        async def use(archive: Archive) -> tuple[Place, Mark]:
            (place,) = await archive.append([_packed(archive, answer)])
            return place, archive.mark()

        place, mark = self._run(tmp_path, use)
        assert self._run(tmp_path, lambda archive: archive.cut(mark)) == mark
        assert self.open(tmp_path).read(place) == message(answer)

    def test_3_cutting_at_the_very_beginning_leaves_an_empty_archive(self, tmp_path: Path) -> None:
        """A crash before the first settlement: everything is removed, and starting over works."""
        answer = exchange(body=b"again")

        async def use(archive: Archive) -> None:
            await archive.append([_packed(archive, exchange())])

        async def resume(archive: Archive) -> tuple[Mark, Mark, bytes]:
            end = await archive.cut(Mark())
            mark = archive.mark()
            (place,) = await archive.append([_packed(archive, answer)])
            return end, mark, archive.read(place)

        self._run(tmp_path, use, close=False)
        assert self._run(tmp_path, resume) == (Mark(), Mark(), message(answer))

    def test_3_a_lost_tail_is_reported_and_whole_visits_remain(self, tmp_path: Path) -> None:
        """However much is missing: the end is before the mark, the visits before the end read back, writing
        continues.
        """
        answers = [exchange(body=b"%d" % n) for n in range(3)]

        async def write(archive: Archive) -> tuple[list[Place], list[Mark]]:
            places: list[Place] = []
            marks: list[Mark] = []
            for answer in answers:
                places += await archive.append([_packed(archive, answer)])
                marks.append(archive.mark())
            return places, marks

        for missing in (1, 2, 50, 400):
            directory = tmp_path / str(missing)
            directory.mkdir()
            places, marks = self._run(directory, write)
            self.shorten(directory, marks[-1], missing)
            end, read = self._run(directory, partial(_resumed, mark=marks[-1]))
            assert end.file == marks[-1].file
            assert end.end < marks[-1].end
            assert read == message(exchange(body=b"more"))
            opened = self.open(directory)
            for place, mark, answer in zip(places, marks, answers, strict=True):
                if (mark.file != end.file) or mark.end <= end.end:
                    assert opened.read(place) == message(answer)
                else:
                    assert mark.end > marks[-1].end - missing, "more was cut than what was torn"

    # -- 4: sync ---------------------------------------------------------------------------------------------

    def test_4_sync_may_be_called_at_any_time(self, tmp_path: Path) -> None:
        """Before anything was written, while more is being appended, twice at once, and after everything."""
        answer = exchange()

        async def use(archive: Archive) -> list[bytes]:
            await archive.sync()
            first = await archive.append([_packed(archive, answer)])
            syncing = [asyncio.ensure_future(archive.sync()) for _ in range(2)]
            second = await archive.append([_packed(archive, answer)])
            await asyncio.gather(*syncing)
            await archive.sync()
            return [archive.read(place) for place in (*first, *second)]

        assert self._run(tmp_path, use) == [message(answer)] * 2

    # -- how the tests are run -------------------------------------------------------------------------------

    def _run(self, directory: Path, use: Callable[[Archive], Awaitable[T]], *, close: bool = True) -> T:
        """Use a freshly opened archive; without `close` it is left as a killed process would leave it."""

        async def whole() -> T:
            archive = self.open(directory)
            result = await use(archive)
            if close:
                await archive.close()
            return result

        return asyncio.run(whole())


def _packed(archive: Archive, answered: Exchange) -> Packed:
    return archive.pack(answered, None, None)


def _is_gone(archive: Archive, place: Place) -> bool:
    try:
        archive.read(place)
    except OSError:
        return True
    return False


def _size(packed: Packed) -> int:
    return sum(map(len, packed.records))


async def _resumed(archive: Archive, mark: Mark) -> tuple[Mark, bytes]:
    end = await archive.cut(mark)
    (place,) = await archive.append([_packed(archive, exchange(body=b"more"))])
    return end, archive.read(place)
