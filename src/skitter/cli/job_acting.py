"""What `skitter job` does: each action opens the jobs, does one thing, and says what came of it."""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from skitter import seeds
from skitter.cli.crawl import sitemaps_mode
from skitter.cli.job_shown import job_fields, job_lines, log_lines, table_lines
from skitter.cli.options import FLAGS
from skitter.cli.stopping import stoppable
from skitter.cli.usage import Exit, UsageError
from skitter.compose.jobs import make_scheduler, open_jobs
from skitter.fetch.address import Guard
from skitter.jobs.book import Book, check
from skitter.jobs.files import Root
from skitter.jobs.model import BadJob, Crawl, Job, Keep, Kind, Notice, Overlap, Run, State
from skitter.jobs.scheduler import Manner, Scheduler
from skitter.jobs.words import fields, in_words
from skitter.reporting.format import as_json, printable
from skitter.seeds import BadSeed
from skitter.settings import seconds
from skitter.settings.file import build, given, load

_LAST = 5  # runs that `show` shows
_LEAST_LEASE = 1.0
_MOST_AT_ONCE = 100


@asynccontextmanager
async def _opened(arguments: argparse.Namespace, *, make: bool = False) -> AsyncIterator[tuple[Book, Root]]:
    root = Root(arguments.root)
    if not make and arguments.cluster is None and not root.store_file.is_file():
        raise BadJob(f"there are no jobs in {arguments.root}; add one with: skitter job add NAME URL")
    cluster = load(arguments.cluster, os.environ, {}) if arguments.cluster else None
    store = await open_jobs(root, cluster)
    try:
        yield Book(store), root
    finally:
        await store.close()


# ------------------------------------------------------------------------------------------------ add


async def _add(arguments: argparse.Namespace) -> int:
    job = Job(
        name=arguments.name,
        crawl=crawl_of(arguments),
        kind=Kind(arguments.kind),
        line=arguments.every,
        zone=arguments.zone,
        overlap=Overlap(arguments.overlap),
        deadline=_time(arguments.deadline),
        keep=Keep(arguments.keep, _time(arguments.keep_for)),
        notice=Notice(arguments.webhook, _file(arguments.secret_file), arguments.command),
    )
    check(job, time.time())  # before anything is made
    async with _opened(arguments, make=True) as (book, root):
        known = arguments.replace and await book.store.job(job.name)
        job = await book.edit(job) if known else await book.add(job, home=root.home())
        _answer(arguments, job_fields(job, []), job_lines(job, []))
    return Exit.DONE


def crawl_of(arguments: argparse.Namespace) -> Crawl:
    """What to crawl, from the flags of `skitter crawl`, checked as that command would."""
    if mode := sitemaps_mode(arguments):
        arguments.set = [*arguments.set, f"scope.sitemaps={mode}"]
    chosen = dict(_assigned(each) for each in arguments.set)
    for flag in FLAGS.values():
        value = getattr(arguments, flag.key)
        if value is not None:
            chosen[flag.key] = json.dumps(value) if isinstance(value, list) else value
    settings = build(given(arguments.config, os.environ, chosen))
    for seed in seeds.named([*arguments.url, *arguments.sitemap], settings.urls):
        if isinstance(seed, BadSeed):
            raise UsageError(f"it would not be crawled: {seed.complaint}")
    for file in arguments.seeds:
        if file == "-" or not Path(file).is_file():
            raise UsageError(f"--seeds: {file}: name an existing file, since it is read at every run")
    return Crawl(
        urls=tuple(arguments.url),
        seeds=tuple(_file(file) for file in arguments.seeds),
        sitemaps=tuple(arguments.sitemap),
        config=_file(str(arguments.config)) if arguments.config else "",
        settings=chosen,
        folder=str(Path.cwd()),
    )


def _assigned(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set: {text!r} has no value; write for example --set fetch.deadline=10s")
    return key.strip(), value


def _file(name: str) -> str:
    return str(Path(name).absolute()) if name else ""


def _time(text: str) -> float | None:
    return None if text == "none" else seconds(text)


# ------------------------------------------------------------------------------------------------ reading


async def _list(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, _):
        jobs = await book.store.jobs()
        last = {job.name: await book.store.runs(job.name, limit=1) for job in jobs}
    shown = [job_fields(job, last[job.name]) for job in jobs]
    _answer(arguments, {"jobs": shown}, table_lines(jobs, last))
    return Exit.DONE


async def _show(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, _):
        job = await book.find(arguments.name)
        runs = await book.store.runs(job.name, limit=_LAST)
    _answer(arguments, job_fields(job, runs), job_lines(job, runs))
    return Exit.DONE


async def _log(arguments: argparse.Namespace) -> int:
    if arguments.limit < 1:
        raise UsageError("--limit: write 1 or more")
    async with _opened(arguments) as (book, root):
        job = await book.find(arguments.name)
        if arguments.run:
            return await _said(arguments, await book.store.run(arguments.run), root)
        runs = await book.store.runs(job.name, limit=arguments.limit)
    _answer(arguments, {"runs": [fields(run) for run in runs]}, log_lines(job, runs))
    return Exit.DONE


async def _said(arguments: argparse.Namespace, run: Run | None, root: Root) -> int:
    """What the crawl of one run has said."""
    if run is None or run.job != arguments.name:
        raise UsageError(
            f"{arguments.name} has no run {arguments.run}; see: skitter job log {arguments.name}"
        )
    file = root.log(run)
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    lines = [f"{run.id}: {in_words(run)}", *map(printable, text.splitlines())]
    _answer(arguments, fields(run, report=True) | {"said": text}, lines)
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ changing


async def _pause(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, _):
        job = await book.pause(arguments.name)
    _answer(arguments, job_fields(job, []), [f"{job.name} is paused; skitter job continue {job.name}"])
    return Exit.DONE


async def _continue(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, _):
        job = await book.resume(arguments.name)
    _answer(arguments, job_fields(job, []), job_lines(job, []))
    return Exit.DONE


async def _stop(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, _):
        run = await book.stop(arguments.name)
    if run is None:
        _answer(arguments, {"run": None}, [f"{arguments.name} has no run that is not over"])
        return Exit.NO
    said = "stops" if run.state is State.RUNNING else run.state.value
    _answer(arguments, fields(run), [f"{run.id}: {said}"])
    return Exit.DONE


async def _remove(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (book, root):
        await book.remove(arguments.name)
    _answer(
        arguments,
        {"removed": arguments.name},
        [f"{arguments.name} is removed; its crawls stay in {printable(str(root.path / arguments.name))}"],
    )
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ running


async def _run(arguments: argparse.Namespace) -> int:
    manner = _manner(arguments, at_once=1)
    async with _opened(arguments) as (book, root):
        run = await book.ask(arguments.name)
        if arguments.queue:
            _answer(arguments, fields(run), [f"{run.id} waits for a scheduler (skitter job serve)"])
            return Exit.DONE
        scheduler = make_scheduler(book.store, root, manner, Guard(arguments.allow_private))
        _log_to_standard_error()
        with stoppable(scheduler.stop, scheduler.stop):
            await scheduler.run_one(run.id)
        run = await book.store.run(run.id) or run
    _answer(arguments, fields(run, report=True), [f"{run.id}: {in_words(run)}"])
    code = run.exit_code
    return code if run.final and code is not None and code >= 0 else Exit.INTERRUPTED


async def _serve(arguments: argparse.Namespace) -> int:
    manner = _manner(arguments, at_once=arguments.at_once)
    async with _opened(arguments, make=True) as (book, root):
        scheduler = make_scheduler(book.store, root, manner, Guard(arguments.allow_private))
        _log_to_standard_error()
        await _until_stopped(scheduler, root)
    return Exit.DONE


async def _until_stopped(scheduler: Scheduler, root: Root) -> None:
    logging.getLogger("skitter.jobs").info("serving the jobs of %s as %s", root.path, scheduler.owner)
    with stoppable(scheduler.stop, scheduler.stop):
        await scheduler.serve()


def _manner(arguments: argparse.Namespace, at_once: int) -> Manner:
    lease = seconds(arguments.lease)
    if lease < _LEAST_LEASE:
        raise UsageError("--lease: write 1s or more")
    if not 1 <= at_once <= _MOST_AT_ONCE:
        raise UsageError(f"--at-once: write 1 to {_MOST_AT_ONCE}")
    return Manner(at_once=at_once, lease=lease, poll=min(5.0, lease / 2))


class _Line(logging.Formatter):
    """A line with its time; texts of strangers are shown harmlessly."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="seconds")
        return f"{at} {printable(record.getMessage())}"


def _log_to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    log = logging.getLogger("skitter.jobs")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)


def _answer(arguments: argparse.Namespace, for_programs: object, lines: list[str]) -> None:
    print(as_json(for_programs) if arguments.json else "\n".join(lines))


ACTIONS: Mapping[str, Callable[[argparse.Namespace], Coroutine[None, None, int]]] = {
    "add": _add,
    "list": _list,
    "show": _show,
    "run": _run,
    "pause": _pause,
    "continue": _continue,
    "stop": _stop,
    "remove": _remove,
    "log": _log,
    "serve": _serve,
}
