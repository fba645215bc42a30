"""Exports on request: made by the command line in a process of its own, kept in the server's folder until they are deleted."""

import asyncio
import secrets
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skitter.export.formats import FORMATS
from skitter.reporting.format import moment
from skitter.runtime import durable
from skitter.serve.catalogue import Served, is_name
from skitter.serve.problems import bad_request, conflict, not_found
from skitter.serve.shapes import Export, Exports, NewExport

_AT_ONCE = 2
_MOST = 100  # kept
_SINGLE = tuple(name for name, each in FORMATS.items() if not each.tree)  # those that are one file


class _Kept(Struct, frozen=True):
    """What is known about an export, in a file beside it."""

    id: str
    crawl: str
    format: str
    at: float
    state: str = "running"
    problem: str = ""


class Exporting:
    """Makes exports, a few at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "exports"
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def made(self, served: Served) -> Exports:
        """Those of a crawl, the latest first."""
        found = [kept for kept in self._all() if kept.crawl == served.id]
        return Exports([self._shown(kept) for kept in sorted(found, key=lambda each: -each.at)])

    async def create(self, served: Served, new: NewExport) -> Export:
        """Begin an export."""
        if new.format not in _SINGLE:
            raise bad_request(f"format: {new.format[:50]!r} is none of {', '.join(_SINGLE)}")
        if len(list(self._folder.glob("*/about.json"))) >= _MOST:
            raise conflict(f"{_MOST} exports are kept; delete some")
        kept = _Kept(secrets.token_hex(8), served.id, new.format, time.time())
        durable.make_folder(self._folder / kept.id)
        self._write(kept)
        self._tasks[kept.id] = asyncio.create_task(self._make(served, kept))
        return self._shown(kept)

    async def _make(self, served: Served, kept: _Kept) -> None:
        named = [str(served.path)] if served.path is not None else ["--config", str(served.config)]
        words = ["export", *named, "--format", kept.format, "--output", str(self._file(kept)), "--quiet"]
        try:
            async with self._places:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "skitter",
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                )
                try:
                    _, complaint = await process.communicate()
                finally:
                    if process.returncode is None:
                        process.terminate()
                        await process.wait()
            lines = complaint.decode("utf-8", "replace").strip().splitlines()
            problem = (lines[-1] if lines else "it said nothing") if process.returncode else ""
            done = (
                process.returncode in (0, 1) and self._file(kept).is_file()
            )  # 1: some pages could not be read
            self._write(replace(kept, state="done" if done else "failed", problem=problem[:1000]))
        except asyncio.CancelledError:
            self._write(replace(kept, state="failed", problem="the server was stopped; begin it again"))
            raise
        finally:
            self._tasks.pop(kept.id, None)

    def of(self, served: Served, export: str) -> Export:
        """One export."""
        return self._shown(self._find(served, export))

    def file(self, served: Served, export: str) -> Path:
        """The file of an export that is done."""
        kept = self._find(served, export)
        path = self._file(kept)
        if kept.state != "done" or not path.is_file():
            raise conflict(f"the export is {self._shown(kept).state}")
        return path

    async def delete(self, served: Served, export: str) -> None:
        """Remove an export; one that is being made is stopped."""
        kept = self._find(served, export)
        if (task := self._tasks.get(kept.id)) is not None:
            task.cancel()
            await asyncio.wait([task])
        folder = self._folder / kept.id
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    async def close(self) -> None:
        """Stop what is being made."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _find(self, served: Served, export: str) -> _Kept:
        if is_name(export):
            for kept in self._read(self._folder / export / "about.json"):
                if kept.crawl == served.id:
                    return kept
        raise not_found("there is no such export of this crawl")

    def _all(self) -> list[_Kept]:
        return [kept for path in self._folder.glob("*/about.json") for kept in self._read(path)]

    def _read(self, path: Path) -> list[_Kept]:
        try:
            return [msgspec.json.decode(path.read_bytes(), type=_Kept)]
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def _write(self, kept: _Kept) -> None:
        durable.write(self._folder / kept.id / "about.json", msgspec.json.encode(kept))

    def _file(self, kept: _Kept) -> Path:
        return self._folder / kept.id / f"export{FORMATS[kept.format].suffix or '.' + kept.format}"

    def _shown(self, kept: _Kept) -> Export:
        state, problem = kept.state, kept.problem
        if state == "running" and kept.id not in self._tasks:
            state, problem = "failed", "the server was killed; begin it again"
        path = self._file(kept)
        size = path.stat().st_size if path.is_file() else None
        return Export(
            id=kept.id,
            format=kept.format,
            created=moment(kept.at),
            state=state,
            problem=problem or None,
            size=size if state == "done" else None,
        )
