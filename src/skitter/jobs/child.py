"""One run as a process: `skitter crawl` in a process group of its own, tied to this one.

The command is the same at every try: a directory that holds a crawl continues. What it says goes to a log, its report comes back.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from skitter.control.log import read
from skitter.crawl.directory import CrawlDirectory
from skitter.jobs.files import Root
from skitter.jobs.model import Crawl, Ended, Job, Kind, Run
from skitter.ports import Do
from skitter.runtime import durable

_GRACE = 90.0  # seconds for requests in flight, after which it is told once more, and then killed
_LAST = 10.0
_IN_USE = 1.0  # seconds between looks at a directory in which the crawl of a dead scheduler still runs
_LONGEST_REPORT = 2**20
_TAIL = 4096  # bytes of the log


def crawl_words(crawl: Crawl) -> list[str]:
    """What to crawl, as words of `skitter crawl`."""
    words = [*crawl.urls]
    for flag, values in (("--seeds", crawl.seeds), ("--sitemap", crawl.sitemaps)):
        words += [word for value in values for word in (flag, value)]
    if crawl.config:
        words += ["--config", crawl.config]
    return words + [f"--set={key}={value}" for key, value in sorted(crawl.settings.items())]


def command(job: Job, directory: Path, *, refresh: bool = False) -> list[str]:
    """The words after `skitter`."""
    again = ["--refresh"] if refresh else []
    return ["crawl", *crawl_words(job.crawl), *again, "-o", str(directory), "--json"]


def must_refresh(directory: CrawlDirectory, mark: Path) -> bool:
    """Whether a run has to ask for its round, which it does once, however often it is killed.

    Before its first try a run marks how many rounds the crawl had been asked for, or that there was no crawl yet.
    """
    asked = sum(each.do is Do.REFRESH for each in read(directory.commands_file)) if directory.exists else None
    if not mark.is_file():
        durable.write(mark, msgspec.json.encode(asked))
    before = msgspec.json.decode(mark.read_bytes(), type=int | None)
    return before is not None and asked == before


class Child:
    """Runs crawls as processes."""

    def __init__(self, root: Root, grace: float = _GRACE, environ: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._grace = grace
        self._environ = dict(os.environ if environ is None else environ)

    async def run(self, job: Job, run: Run, stop: asyncio.Event) -> Ended:
        """Crawl to the end, or until `stop` is set."""
        try:
            return await self._run(job, run, stop)
        except OSError as problem:  # no room for its files, or the folder of the job is gone
            return Ended(4, complaint=f"{problem.filename or self._root.path}: {problem.strerror}")

    async def _run(self, job: Job, run: Run, stop: asyncio.Event) -> Ended:
        directory = self._root.crawl(run)
        self._root.log(run).parent.mkdir(parents=True, exist_ok=True)
        while not stop.is_set() and CrawlDirectory(directory).in_use():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _IN_USE)
        if stop.is_set():
            return Ended(130, complaint="stopped before it began")
        refresh = run.kind is Kind.REFRESH and must_refresh(CrawlDirectory(directory), self._root.mark(run))
        words = command(job, directory, refresh=refresh)
        return await self._crawl(words, job.crawl.folder, self._root.log(run), stop)

    async def _crawl(self, words: Sequence[str], folder: str, log: Path, stop: asyncio.Event) -> Ended:
        tied = [
            sys.executable,
            "-m",
            "skitter.runtime.tied",
            str(os.getpid()),
            sys.executable,
            "-m",
            "skitter",
        ]
        with log.open("ab") as said:
            start = said.tell()
            process = await asyncio.create_subprocess_exec(
                *tied,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=said,
                cwd=folder or None,
                env=self._environ,
                start_new_session=True,
            )
        reading = asyncio.create_task(_output(process.stdout))
        try:
            await self._until_over(process, stop)
        finally:
            _kill(process)  # whatever is left of its group
        report = await reading
        complaint = "" if process.returncode in (0, 3) else _last_line(log, start)
        return Ended(process.returncode or 0, report, complaint)

    async def _until_over(self, process: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
        over = asyncio.create_task(process.wait())
        asked = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({over, asked}, return_when=asyncio.FIRST_COMPLETED)
            for patience in (self._grace, _LAST):  # the first signal drains, the second stops at once
                if over.done():
                    return
                with suppress(ProcessLookupError):
                    process.terminate()
                await asyncio.wait({over}, timeout=patience)
            _kill(process)
            await over
        finally:
            asked.cancel()
            if not over.done():
                over.cancel()


async def _output(stream: asyncio.StreamReader | None) -> str:
    """What a process wrote, if it is not too much."""
    if stream is None:
        return ""
    parts, size = [], 0
    while piece := await stream.read(2**16):
        size += len(piece)
        if size <= _LONGEST_REPORT:
            parts.append(piece)
    whole = b"".join(parts).strip()
    return whole.decode("utf-8", "replace") if size <= _LONGEST_REPORT and whole.startswith(b"{") else ""


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path, start: int) -> str:
    """The last complaint of a process that began to write at `start`."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, log.stat().st_size - _TAIL))
            lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    told = [line.removeprefix("skitter: ") for line in lines if line.startswith("skitter: ")]
    return told[-1] if told else ""
