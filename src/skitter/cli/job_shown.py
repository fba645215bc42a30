"""Jobs and runs as `skitter job` shows them."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from skitter.jobs.child import crawl_words
from skitter.jobs.cron import read_zone, upcoming
from skitter.jobs.model import Job, Run
from skitter.jobs.words import counts, fields, in_words
from skitter.reporting.format import count, duration, moment, printable, table

_NEXT = 3
_WIDTH = 10


def job_fields(job: Job, runs: Sequence[Run]) -> dict[str, Any]:
    """A job for programs."""
    crawl = {key: value for key, value in to_builtins(job.crawl).items() if value}
    return {
        "job": job.name,
        "kind": job.kind.value,
        "every": job.line or None,
        "zone": job.zone,
        "paused": job.paused,
        "next": None if job.next_due is None else moment(job.next_due),
        "overlap": job.overlap.value,
        "deadline": job.deadline,
        "keep": to_builtins(job.keep),
        "notice": to_builtins(job.notice),
        "crawl": crawl,
        "created": moment(job.created_at),
        "version": job.version,
        "runs": [fields(run) for run in runs],
    }


def table_lines(jobs: Sequence[Job], last: Mapping[str, Sequence[Run]]) -> list[str]:
    """All jobs, one a line."""
    if not jobs:
        return ["no jobs"]
    rows = [(job.name, job.kind.value, _when(job), _next(job), _ended(last[job.name])) for job in jobs]
    shown = [tuple(printable(cell) for cell in row) for row in rows]
    return [line.rstrip() for line in table(("job", "kind", "every", "next run", "last run"), shown, "")]


def _when(job: Job) -> str:
    return f"{job.line} ({job.zone})" if job.line else "by hand"


def _next(job: Job) -> str:
    if job.paused:
        return "paused"
    return "" if job.next_due is None else local(job.next_due, job.zone)


def _ended(runs: Sequence[Run]) -> str:
    return f"{local(runs[0].due, 'UTC')}: {in_words(runs[0])}" if runs else "never"


def local(at: float, zone: str) -> str:
    """A time as the clocks of the zone show it."""
    return f"{datetime.fromtimestamp(at, read_zone(zone)):%Y-%m-%d %H:%M %Z}"


def job_lines(job: Job, runs: Sequence[Run]) -> list[str]:
    """A job for people."""
    lines = [f"{job.name} ({job.kind})", _row("crawl", shlex.join(crawl_words(job.crawl)))]
    lines.append(_row("every", _when(job)))
    if job.paused:
        lines.append(_row("next", f"paused; skitter job continue {job.name}"))
    elif job.line:
        lines.append(
            _row("next", ", ".join(local(at, job.zone) for at in upcoming(job.line, job.zone, _NEXT)))
        )
    lines.append(_row("overlap", job.overlap.value))
    if job.deadline is not None:
        lines.append(_row("deadline", duration(job.deadline)))
    if job.keep.runs is not None:
        lines.append(_row("keep", f"{count(job.keep.runs)} runs"))
    if job.keep.seconds is not None:
        lines.append(_row("keep", duration(job.keep.seconds)))
    for name, value in (("webhook", job.notice.webhook), ("command", job.notice.command)):
        if value:
            lines.append(_row(name, value))
    return lines + ([_row("runs", "")] if runs else []) + [f"  {run.id}: {in_words(run)}" for run in runs]


def _row(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}}{printable(text)}".rstrip()


def log_lines(job: Job, runs: Sequence[Run]) -> list[str]:
    """The history of a job, the latest run first."""
    if not runs:
        return [f"{job.name} has never run"]
    rows = [
        (
            run.id,
            local(run.due, job.zone),
            run.state.value,
            str(counts(run).get("pages", "")),
            duration(run.ended_at - run.started_at) if run.started_at and run.ended_at else "",
            str(run.tries or ""),
            run.reason,
        )
        for run in runs
    ]
    shown = [tuple(printable(cell) for cell in row) for row in rows]
    head = ("run", "due", "state", "pages", "took", "tries", "why")
    return [line.rstrip() for line in table(head, shown, "")]
