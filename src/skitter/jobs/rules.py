"""What becomes of a due time, and of a run whose process has ended. Pure: time is an argument, and nothing is stored here.

Of the due times that have passed unnoticed, the latest is run, once, unless its deadline is over; those before it were missed.
A job has one run at a time: what is due before the last one is over is skipped, or waits. A run whose process was killed, or that
could not go on for want of a disk or an engine, goes on later under its id.
"""

import re
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from skitter.jobs.cron import due_times, next_due, read_line, read_zone
from skitter.jobs.model import BadJob, Ended, Job, Keep, Kind, Overlap, Run, State

ONE_CRAWL = "crawl"  # the directory that runs share unless each is a new crawl
MOST_TRIES = 8
_PAUSES = (
    60.0,
    300.0,
    900.0,
    3600.0,
)  # seconds before a run goes on that could not; the last one again and again
_DONE, _LIMIT, _STATE, _INTERRUPTED = 0, 3, 4, 130  # exit codes of `skitter crawl`
_IN_WORDS = {
    _DONE: "nothing was left to do",
    1: "no page could be fetched",
    2: "wrong settings",
    _LIMIT: "stopped at a limit",
    _STATE: "disk full, directory in use, or an engine was lost",
    _INTERRUPTED: "interrupted",
}
RECORDED = 100  # missed runs that get a row each; earlier ones are counted in the first of them
_LOOK_BACK = 366 * 86400.0  # seconds; due times before that are not counted
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_LONGEST_REASON = 300
TOLD = (State.DONE, State.FAILED, State.STOPPED, State.MISSED)


# ------------------------------------------------------------------------------------------------ jobs


def checked(job: Job, now: float) -> Job:
    """The job as it is stored, due from now on; BadJob if it cannot be."""
    if not _NAME.fullmatch(job.name):
        raise BadJob(
            f"{job.name!r} is no name of a job; write lower-case letters, digits, hyphens and underscores, 64 at most"
        )
    crawl = job.crawl
    if not (crawl.urls or crawl.seeds or crawl.sitemaps):
        raise BadJob("there is nothing to crawl; name a URL, a file of URLs with --seeds, or a sitemap")
    if strange := [url for url in crawl.urls if url.startswith("-")]:
        raise BadJob(f"{strange[0]!r} is not a URL")
    if job.keep.runs is not None and job.keep.runs < 1:
        raise BadJob("--keep: write 1 or more")
    if job.keep != Keep() and job.kind is not Kind.NEW:
        raise BadJob(
            f"the runs of a job of kind {job.kind} share one crawl, so there are no old ones to remove"
        )
    read_zone(job.zone)
    line = read_line(job.line) if job.line else ""
    return replace(job, line=line, next_due=next_due(line, job.zone, now))


def paused(job: Job) -> Job:
    """The job without a next run. What would have been due meanwhile was not wanted, and is not missed."""
    return replace(job, paused=True, next_due=None, version=job.version + 1)


def continued(job: Job, now: float) -> Job:
    """The job, due again from now on."""
    due = next_due(job.line, job.zone, now)
    return replace(job, paused=False, next_due=due, version=job.version + 1)


# ------------------------------------------------------------------------------------------------ due times


def plan(job: Job, unfinished: Sequence[Run], now: float) -> tuple[list[Run], float | None]:
    """The rows for all due times up to now, and the next due time. `unfinished` are the job's runs that are not over."""
    if job.next_due is None or job.next_due > now:
        return [], job.next_due
    passed: deque[float] = deque([job.next_due], maxlen=RECORDED + 1)
    number, coming = 1, None
    for due in due_times(job.line, job.zone, max(job.next_due, now - _LOOK_BACK)):
        if due > now:
            coming = due
            break
        passed.append(due)
        number += 1
    latest = passed.pop()
    rows = [_missed(job, due, now, "no scheduler ran; a later one is run instead") for due in passed]
    if (uncounted := number - 1 - len(rows)) > 0:
        rows[0] = replace(rows[0], reason=f"{rows[0].reason}; so were {uncounted} before it")
    return [*rows, _decided(job, latest, unfinished, now)], coming


def _decided(job: Job, due: float, unfinished: Sequence[Run], now: float) -> Run:
    if job.deadline is not None and now - due > job.deadline:
        return _missed(job, due, now, f"no scheduler ran until its deadline of {job.deadline:g} s was over")
    if unfinished and (job.overlap is Overlap.SKIP or len(unfinished) > 1):
        why = f"{unfinished[-1].id} was not over yet"
        return replace(new_run(job, due), state=State.SKIPPED, ended_at=now, reason=why, directory="")
    return new_run(job, due)


def _missed(job: Job, due: float, now: float, why: str) -> Run:
    run = replace(new_run(job, due), state=State.MISSED, ended_at=now, reason=why, directory="")
    return replace(run, tell_at=now if _tells(job) else None)


def new_run(job: Job, due: float, *, by_hand: bool = False) -> Run:
    """A run that waits. Its id says which job and when."""
    stamp = f"{datetime.fromtimestamp(due, UTC):%Y%m%dT%H%M%SZ}"
    place = f"{job.name}/{stamp if job.kind is Kind.NEW else ONE_CRAWL}"
    return Run(
        id=f"{job.name}-{stamp}", job=job.name, due=due, kind=job.kind, by_hand=by_hand, directory=place
    )


# ------------------------------------------------------------------------------------------------ ends


def ended(job: Job, run: Run, how: Ended, now: float) -> Run:
    """The run after its process: over, or waiting to go on under its id."""
    run = replace(run, exit_code=how.exit_code, report=how.report or run.report, owner="", lease_until=0.0)
    said = how.complaint[:_LONGEST_REASON] or _IN_WORDS.get(how.exit_code, "")
    said = said or (
        f"killed by signal {-how.exit_code}" if how.exit_code < 0 else f"exit code {how.exit_code}"
    )
    if how.exit_code in (_DONE, _LIMIT):
        return over(job, run, State.DONE, said, now)
    if run.stop_asked:
        return over(job, run, State.STOPPED, "somebody stopped it", now)
    passing = how.exit_code in (_STATE, _INTERRUPTED) or how.exit_code < 0
    if passing and run.tries < MOST_TRIES:
        pause = _PAUSES[min(run.tries, len(_PAUSES)) - 1] if run.tries else 0.0
        return replace(run, state=State.WAITING, not_before=now + pause, reason=f"goes on later: {said}")
    return over(job, run, State.FAILED, said + (f", {run.tries} times" if passing else ""), now)


def worn_out(run: Run) -> bool:
    """Whether a claimed run was begun so often, and never came to an end, that another try would be no better."""
    return run.tries > MOST_TRIES


def released(run: Run, now: float) -> Run:
    """The run after its scheduler was told to stop: it goes on as soon as there is one, and this was no failure of its own."""
    return replace(
        run,
        state=State.WAITING,
        not_before=now,
        owner="",
        lease_until=0.0,
        tries=max(0, run.tries - 1),
        reason="goes on later: the scheduler was stopped",
    )


def over(job: Job, run: Run, state: State, why: str, now: float) -> Run:
    """The run in a final state."""
    told = now if state in TOLD and _tells(job) else None
    return replace(
        run, state=state, reason=why, ended_at=now, owner="", lease_until=0.0, stop_asked=False, tell_at=told
    )


def _tells(job: Job) -> bool:
    return bool(job.notice.webhook or job.notice.command)


_TELL_PAUSES = (60.0, 300.0, 900.0, 3600.0, 6 * 3600.0)


def told(run: Run, now: float, *, heard: bool) -> Run:
    """The run after an attempt to tell of its end: once more after a pause, and given up after the last."""
    tries = run.tell_tries + 1
    again = None if heard or tries > len(_TELL_PAUSES) else now + _TELL_PAUSES[tries - 1]
    return replace(run, tell_at=again, tell_tries=tries)


# ------------------------------------------------------------------------------------------------ old runs


def expired(keep: Keep, runs: Sequence[Run], now: float) -> list[Run]:
    """The runs whose crawls may be removed: over, with a directory of their own, and beyond what is kept.

    The newest crawl that is done stays in any case.
    """
    held = sorted((run for run in runs if run.directory and run.kind is Kind.NEW), key=lambda run: -run.due)
    newest = next((run.id for run in held if run.state is State.DONE), "")
    return [
        run
        for place, run in enumerate(held)
        if run.final and run.id != newest and _is_old(keep, run, place, now)
    ]


def _is_old(keep: Keep, run: Run, place: int, now: float) -> bool:
    too_many = keep.runs is not None and place >= keep.runs
    too_old = keep.seconds is not None and now - (run.ended_at or run.due) > keep.seconds
    return too_many or too_old
