"""Telling people how runs ended: a webhook, a command, feeds. And removing the crawls of old runs."""

import asyncio
import logging
import os
import shlex
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from skitter.fetch.address import Guard
from skitter.jobs import rules
from skitter.jobs.feed import NEWEST, feed
from skitter.jobs.files import Root
from skitter.jobs.model import Job, Keep, Run
from skitter.jobs.ports import JobStore
from skitter.jobs.words import fields, in_words
from skitter.reporting.format import as_json
from skitter.runtime import durable

_log = logging.getLogger("skitter.jobs")
_LEASE = 120.0  # seconds in which only one scheduler tells of a run; longer than an attempt takes
_COMMAND = 60.0  # seconds for a command
_KNOWN = 10_000  # runs of a job that are looked at for old ones


class Teller:
    """`skitter.jobs.scheduler.Aftermath` for the jobs of a root."""

    def __init__(self, store: JobStore, root: Root, guard: Guard) -> None:
        self._store = store
        self._root = root
        self._home = root.home()
        self._guard = guard

    async def tell(self) -> None:
        """Tell of runs that have ended. Each is told at least once, and again after a pause if nobody has heard it."""
        for run in await self._store.to_tell(_LEASE):
            job = await self._store.job(run.job)
            if job is None:
                continue
            problems = [said for said in (await self._call(job, run), await self._execute(job, run)) if said]
            for problem in problems:
                _log.warning("%s: %s", run.id, problem)
            now = await self._store.now()
            await self._store.note(rules.told(run, now, heard=not problems))

    async def _call(self, job: Job, run: Run) -> str:
        """Send the webhook; returns what went wrong."""
        from skitter.fetch.webhook import Delivery, deliver  # noqa: PLC0415  libcurl is slow to import

        notice = job.notice
        if not notice.webhook:
            return ""
        try:
            secret = _secret(notice.secret_file)
        except OSError as problem:
            return f"webhook: {notice.secret_file}: {problem.strerror}; nothing is sent without its signature"
        body = as_json(fields(run)).encode()
        delivery = Delivery(notice.webhook, body, f"{run.id}-{run.state}", await self._store.now(), secret)
        wrong = await asyncio.to_thread(deliver, delivery, self._guard)
        return f"webhook {notice.webhook}: {wrong}" if wrong else ""

    async def _execute(self, job: Job, run: Run) -> str:
        """Run the command: without a shell, with a line of text on its standard input."""
        words = shlex.split(job.notice.command)
        if not words:
            return ""
        told = {"JOB": run.job, "RUN": run.id, "RUN_STATE": run.state.value, "RUN_JSON": as_json(fields(run))}
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=os.environ | told,
                cwd=job.crawl.folder or None,
                start_new_session=True,
            )
        except OSError as problem:
            return f"command {words[0]}: {problem.strerror}"
        try:
            await asyncio.wait_for(process.communicate(f"{run.id}: {in_words(run)}\n".encode()), _COMMAND)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            return f"command {words[0]}: not over after {_COMMAND:g} s"
        return f"command {words[0]}: exit code {process.returncode}" if process.returncode else ""

    async def tidy(self, job: Job) -> None:
        """Write the feeds, and remove the crawls of old runs."""
        durable.make_folder(self._root.job_feed(job.name).parent)
        of_job = await self._store.runs(job.name, limit=NEWEST)
        durable.write(self._root.job_feed(job.name), feed(f"Runs of {job.name}", of_job))
        durable.write(self._root.feed, feed("Runs of all jobs", await self._store.runs(limit=NEWEST)))
        if job.keep != Keep():
            known = await self._store.runs(job.name, limit=_KNOWN)
            runs = [run for run in known if run.home == self._home]
            for run in rules.expired(job.keep, runs, await self._store.now()):
                if await asyncio.to_thread(self._root.remove, run):
                    _log.info("%s: its crawl was removed", run.id)
                    await self._store.note(replace(run, directory=""))


def _secret(file: str) -> bytes:
    return Path(file).read_bytes().strip() if file else b""
