"""Runs for people and for programs. Pure."""

from typing import Any

import msgspec

from skitter.jobs.model import Run
from skitter.reporting.format import counted, duration, moment, printable


def counts(run: Run) -> dict[str, Any]:
    """The counts of the run's crawl, from its report; empty if there is none."""
    try:
        read = msgspec.json.decode(run.report, type=dict[str, Any]) if run.report else {}
    except msgspec.DecodeError:
        return {}
    found = read.get("counts")
    return found if isinstance(found, dict) else {}


def fields(run: Run, *, report: bool = False) -> dict[str, Any]:
    """A run for programs."""
    found = {
        "run": run.id,
        "job": run.job,
        "state": run.state.value,
        "reason": run.reason,
        "kind": run.kind.value,
        "by_hand": run.by_hand,
        "due": moment(run.due),
        "started": moment(run.started_at) if run.started_at else None,
        "ended": moment(run.ended_at) if run.ended_at else None,
        "exit_code": run.exit_code,
        "tries": run.tries,
        "directory": run.directory or None,
        "counts": {name: value for name, value in counts(run).items() if isinstance(value, int)},
    }
    if report:
        found["report"] = msgspec.json.decode(run.report) if run.report else None
    return found


def in_words(run: Run) -> str:
    """A run in one line, without its id."""
    parts = [f"{run.state}: {run.reason}" if run.reason else run.state.value]
    if (pages := counts(run).get("pages")) is not None:
        parts.append(counted(pages, "page"))
    if run.started_at and run.ended_at:
        parts.append(f"took {duration(run.ended_at - run.started_at)}")
    if run.tries > 1:
        parts.append(f"{run.tries} tries")
    return printable("; ".join(parts))
