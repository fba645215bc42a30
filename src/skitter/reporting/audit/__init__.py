"""Proves from a log that a crawl was polite, or says where it was not.

Nothing of the crawler's own politeness code is used here (no politeness, schedule, robots or frontier; a test sees to
that): a mistake there would be made twice and found by nobody. What is used is the log, the robots.txt answers in the
archive, and the settings that the log names.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from skitter.reporting.audit.duties import Duties
from skitter.reporting.audit.ledger import Ledger
from skitter.reporting.audit.logs import Bad, Opened, Promises, RobotsTexts
from skitter.reporting.audit.ordering import in_order
from skitter.reporting.audit.robots_kept import RobotsKept
from skitter.reporting.audit.values import CHECKS, Promise, Request, Violation
from skitter.reporting.format import counted

__all__ = ["CHECKS", "Audited", "Promise", "Violation", "audit"]

MOST_KEPT = 1_000  # violations with all their details; the rest is counted


class Audited(Struct, kw_only=True):
    """The result of an audit."""

    requests: int = 0
    hosts: int = 0
    first: float = 0.0
    last: float = 0.0
    logs: list[str]
    terms: list[dict[str, Any]]
    violations: list[Violation]
    counts: Counter[str]  # violations by kind
    broken: Counter[str]  # violations by check
    checked: Counter[str]  # how often each check was made
    peaks: dict[str, tuple[int, str]]
    closest: tuple[float, str]
    unproven: list[str]  # what could not be checked, in words
    excused: Counter[str]

    @property
    def kept(self) -> bool:
        """Whether no promise was found broken."""
        return not self.broken


def audit(
    logs: Sequence[Opened],
    promises: Promises,
    archives: Iterable[Path] = (),
    robots: Mapping[str, bytes] | None = None,
) -> Audited:
    """Read the logs twice, and judge every request."""
    sources = [log for log, _ in logs]
    surveyed = _survey(logs)
    texts = RobotsTexts()
    texts.give(robots or {})
    for path in archives:
        texts.read(path, surveyed.moved)
    kept = RobotsKept(texts)
    duties = [Duties(promise) for promise in promises.all]
    ledger = Ledger(sources, duties, kept, surveyed.repeated)
    done = Audited(
        logs=[log.name for log in sources], terms=[_shown(promise) for promise in promises.all],
        violations=[], counts=Counter(), broken=Counter(), checked=ledger.counted, peaks=ledger.peaks,
        closest=ledger.closest, unproven=[], excused=ledger.excused, hosts=surveyed.hosts,
    )  # fmt: skip
    for file, bad in surveyed.bad:
        _complain(
            done,
            Violation(
                "log", "log", "", f"{sources[file].name}:{bad.line}", "", 0.0, "a whole line", bad.what
            ),
        )
    for request in in_order(_requests(logs)):
        for (check, kind, owed, found), key in ledger.judge(request):
            where = f"{sources[request.file].name}:{request.line}"
            _complain(done, Violation(check, kind, key, where, request.url, request.start, owed, found))
        if not request.lost:
            done.requests += 1
            done.first = min(done.first or request.start, request.start)
            done.last = max(done.last, request.end)
    done.closest = ledger.closest
    done.checked["robots obeyed"] = kept.checked
    done.checked["origins"] = len(kept)
    done.unproven = _unproven(sources, kept, promises)
    return done


class _Survey(Struct):
    """What has to be known before the first request is judged."""

    moved: frozenset[str]  # URLs to which a robots.txt has moved
    repeated: frozenset[int]  # hashes of URLs that were requested more than once
    hosts: int
    bad: list[tuple[int, Bad]]


def _survey(logs: Sequence[Opened]) -> _Survey:
    hashes, moved, hosts = array("q"), set(), set()
    bad: list[tuple[int, Bad]] = []
    for number, (_, read) in enumerate(logs):
        for found in read():
            if isinstance(found, Bad):
                bad.append((number, found))
                continue
            hashes.append(hash(found.url))
            hosts.add(found.host)
            if found.origin or found.purpose == "robots":
                moved.add(found.url)
    seen, times = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True) if hashes else ((), ())
    repeated = frozenset(int(one) for one, often in zip(seen, times, strict=True) if often > 1)
    return _Survey(frozenset(moved), repeated, len(hosts), bad)


def _requests(logs: Sequence[Opened]) -> Iterator[Request]:
    for _, read in logs:
        yield from (found for found in read() if isinstance(found, Request))


def _complain(done: Audited, violation: Violation) -> None:
    done.broken[violation.check] += 1
    done.counts[violation.kind] += 1
    if len(done.violations) < MOST_KEPT:
        done.violations.append(violation)


def _shown(promise: Promise) -> dict[str, Any]:
    return {"agent": promise.agent, "from": promise.name, "settings": promise.settings}


def _unproven(sources: Sequence[Any], kept: RobotsKept, promises: Promises) -> list[str]:
    found = []
    if not all(log.ends for log in sources):
        found.append("requests in flight: these logs do not tell when an answer ended")
    if any(promise.settings.get("budget", {}).get("memory") for promise in promises.all):
        found.append(
            "memory (budget.memory): it is promised to the operator's machine, and no request tells of it"
        )
    if kept.unproven:
        some = ", ".join(sorted(kept.unproven)[:3])
        found.append(
            f"robots obeyed at {counted(len(kept.unproven), 'origin')}: no archive or --robots here has the robots.txt ({some})"
        )
    if any(log.kind == "access" for log in sources):
        found.append("Retry-After: an access log does not tell what the server asked for")
    return found
