"""The state of a crawl: running, finished, or stopped and why; and what to do next."""

import shlex
from typing import NamedTuple

from msgspec.structs import replace

from skitter.model import Counts, Stop
from skitter.reporting.format import counted, printable
from skitter.reporting.report import error_answers, reached
from skitter.settings import Settings


class Standing(NamedTuple):
    """The state of a crawl: one of STATES, the same in words, and what to do next."""

    state: str
    said: str
    advice: str


STATES = ("running", "finished", "limit", "stopped", "cluster")


def standing(
    name: str, settings: Settings, counts: Counts, *, running: bool, short: str = "", paused: bool = False
) -> Standing:
    """Derive the state from the counts, the lock, the limits and the last command."""
    where = shlex.quote(printable(name))
    left = counts.queued + counts.leased - counts.parked
    failed = counts.failed + error_answers(counts)
    look = f"see what failed: skitter pages {where} --failed" if failed else ""
    if settings.cluster.size != "none":
        said = f"a crawl on many machines{', paused' if paused else ''}"
        return Standing("cluster", said, "see its workers: skitter cluster status")
    if running:
        go_on = f"continue with: skitter continue {where}" if paused else look
        return Standing("running", "running, but paused" if paused else "running", go_on)
    if not left:
        return _nothing_left(settings, counts, where, look)
    limit, larger = _limit(settings, counts)
    if limit:
        flag = "--" + limit.removeprefix("crawl.").replace("_", "-")
        return Standing(
            "limit",
            f"stopped at a limit ({limit}), with work left",
            f"continue with: skitter resume {where} {flag} {larger}",
        )
    said = "stopped with visits in flight; nothing is lost" if counts.leased else "stopped, with work left"
    room = f"free some space first: {short}; then " if short else ""
    after = f", and then: skitter continue {where} (it is paused)" if paused else ""
    return Standing("stopped", said, f"{room}continue with: skitter resume {where}{after}")


def _nothing_left(settings: Settings, counts: Counts, where: str, look: str) -> Standing:
    if counts.pages and counts.again.get("pages") and settings.schedule.recrawl != "off":
        said = f"stopped; {counted(int(counts.again['pages']), 'page')} will be fetched again"
        return Standing("stopped", said, f"continue with: skitter resume {where}")
    if not counts.pages:
        return Standing("finished", "finished: no page could be fetched", look or _why(where))
    if counts.parked:
        said = f"finished: {counted(counts.parked, 'URL waits', 'URLs wait')} in parked patterns, and nothing else is left"
        return Standing("finished", said, look or f"see them: skitter patterns {where} --parked")
    return Standing("finished", "finished: nothing is left to do", look)


def _limit(settings: Settings, counts: Counts) -> tuple[str, str]:
    """The limit that was reached. Time starts again in every run, so the counts cannot show that one."""
    return reached(Stop.LIMIT, replace(settings.crawl, max_time=None), counts)


def _why(where: str) -> str:
    return f"find out why with: skitter why {where} URL"


def per_second(number: int, counts: Counts) -> float:
    """The average rate over all runs of the crawl."""
    return number / counts.elapsed if counts.elapsed else 0.0
