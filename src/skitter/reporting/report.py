"""The report of a run: sums over its parts, as text for people and as one JSON object for programs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from skitter import reasons
from skitter.model import Counts, HostRecord, Stop
from skitter.reporting.format import (
    amount,
    count,
    counted,
    duration,
    escaped,
    moment,
    printable,
    shortened,
    span,
    table,
)
from skitter.reporting.records import host_record
from skitter.reporting.trouble import Trouble, all_explained
from skitter.runtime.metrics import LinkMetrics, Metrics, as_fields
from skitter.settings import Bytes, CrawlSettings, Seconds
from skitter.settings.values import show

TOP_HOSTS = 20  # hosts shown in a report
WARNINGS = 100  # warnings repeated in a report; all of them are in the log
TROUBLES = 10  # failed hosts named in a report
_EXIT_CODES = {Stop.DONE: 0, Stop.UNREACHABLE: 1, Stop.LIMIT: 3, Stop.DISK: 4, Stop.INTERRUPTED: 130}

_OTHERS = {
    "asset": "Assets fetched",
    "feed": "Feeds read",
    "probe": "Probes answered",
    "sitemap": "Sitemaps read",
}

# The possible outcomes of a run, in words.
OUTCOMES: Mapping[str, str] = {
    "done": "finished: nothing is left to do",
    "limit": "stopped at a limit, with work left",
    "interrupted": "interrupted; the state is safe",
    "disk": "stopped because the disk is nearly full; the state is safe",
    "unreachable": "stopped: no host has answered",
    "lost": "stopped because the engine was lost; the state is safe",
}


class Report(Struct, frozen=True, kw_only=True):
    """One run of a crawl, at its end. `counts` are those of the whole crawl, over all its runs."""

    outcome: str  # one of OUTCOMES
    exit_code: int
    started: float
    ended: float
    elapsed: float  # of this run, by the monotonic clock
    pages_per_second: float
    counts: Counts
    directory: str = ""
    hosts: Sequence[HostRecord] = ()  # those with the most pages
    warnings: Sequence[str] = ()
    metrics: Metrics = field(default_factory=Metrics)  # of this run
    limit: str = ""  # the setting that stopped it
    larger: str = ""  # a value for it with which the crawl would continue
    unreachable: Sequence[Trouble] = ()  # if no host has ever answered: what is wrong, and what to do


class Run(Struct, frozen=True):
    """The start of a run: when, and with how many pages from earlier runs."""

    started: float
    began: float  # by the monotonic clock
    had: int

    def report(
        self,
        stop: Stop,
        counts: Counts,
        now: tuple[float, float],
        *,
        limits: CrawlSettings,
        failed: Mapping[str, str],
        **more: Any,  # noqa: ANN401  the fields of Report
    ) -> Report:
        """The report of the run.

        `now` is the time by both clocks; `failed` are unreachable origins with the problem.
        """
        ended, monotonic = now
        elapsed = monotonic - self.began
        limit, larger = reached(stop, limits, counts)
        return Report(
            outcome=stop.value,
            exit_code=1 if stop is Stop.DONE and not _anything(counts) else _EXIT_CODES[stop],
            started=self.started,
            ended=ended,
            elapsed=elapsed,
            pages_per_second=(counts.pages - self.had) / elapsed if elapsed else 0.0,
            counts=counts,
            limit=limit,
            larger=larger,
            unreachable=() if counts.bytes else all_explained(failed)[:TROUBLES],
            **more,
        )


def reached(stop: Stop, limits: CrawlSettings, counts: Counts) -> tuple[str, str]:
    """The setting that stopped a run, and a value with which it would continue: twice as much."""
    if stop is Stop.DISK:
        return "crawl.min_free_disk", ""
    if stop is not Stop.LIMIT:
        return "", ""
    if limits.max_pages is not None and counts.pages >= limits.max_pages:
        return "crawl.max_pages", str(2 * max(limits.max_pages, counts.pages))
    if limits.max_bytes is not None and counts.bytes >= limits.max_bytes:
        more = Bytes(2 * max(limits.max_bytes, counts.bytes))
        return "crawl.max_bytes", show(Bytes, more).strip('"')
    if limits.max_time is not None:
        return "crawl.max_time", show(Seconds, Seconds(2 * limits.max_time)).strip('"')
    return "", ""


def _anything(counts: Counts) -> bool:
    """Whether something was fetched that somebody wanted. A sitemap without a page is nothing yet."""
    return bool(counts.pages or counts.others.get("probe") or counts.others.get("asset"))


def to_json(report: Report) -> str:
    """The report as one JSON object on one line. Times are ISO 8601 in UTC."""
    fields: dict[str, Any] = msgspec.to_builtins(report, str_keys=True)
    fields["metrics"] = as_fields(report.metrics)
    fields["hosts"] = [host_record(host) for host in report.hosts]
    fields["started"] = moment(report.started)
    fields["ended"] = moment(report.ended)
    return escaped(msgspec.json.encode(fields).decode())


def headline(report: Report) -> str:
    """The outcome in a few words."""
    if report.unreachable:
        return (
            OUTCOMES["unreachable"] if report.outcome in {"done", "unreachable"} else OUTCOMES[report.outcome]
        )
    if report.outcome == "done" and report.exit_code:
        return "finished: no page could be fetched"
    return OUTCOMES.get(report.outcome, report.outcome)


def advice(report: Report) -> str:
    """What to do next; empty if nothing is left to do."""
    if not report.directory:
        return ""
    where = _named(report)
    if (
        report.unreachable and report.outcome == "done"
    ):  # their hosts are set aside until they are named again
        return f"Try again with: skitter crawl {printable(report.unreachable[0].origin)}/ -o {where}"
    if report.outcome == "unreachable":
        return f"Try again with: skitter resume {where}"
    if report.outcome == "done":
        look = f"Find out why with: skitter why {where} URL (or: skitter status {where})"
        return look if report.exit_code else ""
    return _going_on(report, where)


def _going_on(report: Report, where: str) -> str:
    """How to continue a crawl that has work left."""
    if report.outcome == "disk":
        return f"Free some space on its disk ({report.limit}), then continue with: skitter resume {where}"
    if not report.limit:
        return f"Continue with: skitter resume {where}"
    flag = "--" + report.limit.removeprefix("crawl.").replace("_", "-")
    return f"The limit is {report.limit}. Continue with: skitter resume {where} {flag} {report.larger}"


def _named(report: Report) -> str:
    """The directory, quoted for a shell."""
    return shlex.quote(printable(report.directory))


def next_steps(report: Report) -> list[str]:
    """Where the pages are, and how to look at them."""
    if not report.directory or not (report.counts.pages or report.counts.others):
        return []
    where = _named(report)
    return [
        "",
        f"The crawl is in {where}. Look at it with:",
        f"  skitter status {where}",
        f"  skitter pages {where}",
        f"  skitter search {where} WORD",
        f"  skitter export {where} --format jsonl -o pages.jsonl",
    ]


def in_one_line(report: Report) -> str:
    """Outcome and advice in one line, for -q."""
    troubles = [line.strip() for trouble in report.unreachable for line in trouble_lines(trouble)]
    return ". ".join([headline(report), *troubles, advice(report)])


def render(report: Report) -> str:
    """The report for people."""
    first = f"Crawl {headline(report)}"
    rate = f"{duration(report.elapsed)}, {report.pages_per_second:.1f} pages/s"
    lines = [f"{first} ({rate})"]
    if report.unreachable:  # there is nothing to count
        lines += ["", *(line for trouble in report.unreachable for line in trouble_lines(trouble))]
    else:
        lines += [*numbers(report.counts), *host_table(report.hosts)]
    if report.warnings:
        lines += ["", "Warnings", *(f"  {printable(warning)}" for warning in report.warnings)]
    lines += next_steps(report)
    if next_step := advice(report):
        lines += ["", next_step]
    return "\n".join(lines) + "\n"


def trouble_lines(trouble: Trouble) -> list[str]:
    """One failed host: what is wrong, and what to do."""
    return [f"{printable(trouble.origin)}: {printable(trouble.problem)}", f"  {printable(trouble.remedy)}"]


def error_answers(counts: Counts) -> int:
    """Number of answers with a 4xx or 5xx status, each request counted."""
    return sum(number for status, number in counts.statuses.items() if status >= 400)


def importance_fetched(counts: Counts) -> float | None:
    """A lower bound of the share of PageRank that the fetched pages have, as seen from the seeds. None if nothing is known."""
    return min(1.0, counts.cash_kept / counts.cash_given) if counts.cash_given else None


def numbers(counts: Counts) -> list[str]:
    """The counts as lines, without hosts; `status` shows the same."""
    refused = sum(counts.refused.values())
    rows = [
        ("URLs seen", counts.seen),
        ("  added", counts.added),
        ("  known already", counts.known),
        ("URLs refused", refused),
        ("URLs waiting", counts.queued),
        *([("  in parked patterns", counts.parked)] if counts.parked else []),
        ("  being fetched", counts.leased),
        ("URLs given up", counts.failed),
        ("Requests", counts.requests),
        ("Pages fetched", counts.pages),
        ("  processed", counts.processed),
        ("  duplicates", counts.duplicates),
        *((_OTHERS.get(purpose, purpose), number) for purpose, number in sorted(counts.others.items())),
        ("Error answers (4xx, 5xx)", error_answers(counts)),
        ("  not found (404, 410)", counts.not_found),
        ("Hosts", counts.hosts),
        ("  set aside", counts.hosts_aside),
        ("Visits lost and redone", counts.lost),
    ]
    width = max(len(name) for name, _ in rows)
    lines = ["", *(f"{name:<{width}}  {count(number):>12}" for name, number in rows)]
    lines.append(f"{'Received':<{width}}  {amount(counts.bytes):>12}")
    if (share := importance_fetched(counts)) is not None:
        lines.append(f"{'Importance fetched':<{width}}  {f'>= {100 * share:.1f} %':>12}")
    lines += _by_reason("Refused because of", counts.refused)
    lines += _by_reason("Given up because of", counts.failures)
    lines += _by_status("Answers by status", counts.statuses)
    return lines + histogram(counts.depths)


def _by_reason(title: str, numbers_by_code: Mapping[str, int]) -> list[str]:
    """URLs by reason, the most frequent first, each with what it means."""
    if not numbers_by_code:
        return []
    width = max(map(len, numbers_by_code))
    ordered = sorted(numbers_by_code.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"  {code:<{width}}  {count(number):>12}  {_meaning(code)}".rstrip() for code, number in ordered]
    return ["", title, *lines]


def _meaning(code: str) -> str:
    entry = reasons.explained(code)
    return "" if entry is None else entry.meaning


def _by_status(title: str, numbers_by_status: Mapping[int, int]) -> list[str]:
    if not numbers_by_status:
        return []
    return [
        "",
        title,
        *(f"  {status}  {count(number):>12}" for status, number in sorted(numbers_by_status.items())),
    ]


def histogram(depths: Mapping[int, int], width: int = 40) -> list[str]:
    """Pages by depth, as bars. Hundreds of levels indicate a trap, so those beyond 20 are summed up."""
    if not depths:
        return []
    shown = {str(depth): depths[depth] for depth in sorted(depths) if depth <= 20}
    deeper = sum(number for depth, number in depths.items() if depth > 20)
    if deeper:
        shown["over 20"] = deeper
    most = max(shown.values())
    label = max(map(len, shown))
    return [
        "",
        "Pages by depth",
        *(
            f"  {depth:>{label}}  {count(number):>12}  {'█' * (-(-number * width // most) if most else 0)}".rstrip()
            for depth, number in shown.items()
        ),
    ]


def host_table(hosts: Sequence[HostRecord], now: float | None = None, opens: float = 0.0) -> list[str]:
    """The hosts as a table, in the order given; with `now`, also when each may be asked again: not before `opens`."""
    if not hosts:
        return []
    head: tuple[str, ...] = ("host", "pages", "requests", "failed tries", "waiting", "received", "delay")
    rows = [
        (
            shortened(printable(host.host), 40),
            count(host.pages),
            count(host.requests),
            count(host.errors),
            count(host.queued),
            amount(host.bytes),
            span(host.delay),
            *([] if now is None else [_next_request(host, now, opens)]),
            shortened(printable(host.aside.code), 24) if host.aside else "",
        )
        for host in hosts
    ]
    head += ("set aside",) if now is None else ("next request", "set aside")
    return ["", "Hosts", *table(head, rows)]


def _next_request(host: HostRecord, now: float, opens: float) -> str:
    """When its clock, and what its pages wait for, allow the next request."""
    if host.aside is not None or not host.queued:
        return ""
    wait = max(host.free_at, host.held, opens) - now
    return "now" if wait <= 0 else f"in {duration(wait)}"


def pace_lines(hosts: Sequence[HostRecord]) -> list[str]:
    """The hosts that get longer delays because they are slow, refuse or fail, one line each."""
    told = [f"  {shortened(printable(host.host), 40)}: {said}" for host in hosts if (said := pace_of(host))]
    return ["", "Slowed down", *told] if told else []


def pace_of(host: HostRecord) -> str:
    """What a host's answers did to its delay; empty if nothing."""
    pace = host.pace
    if pace is None or not (pace.wait or pace.failures or pace.parked):
        return ""
    said = []
    if pace.wait:
        said.append(
            f"doubled {'once' if pace.doubled == 1 else counted(pace.doubled, 'time')}, last for {_CAUSES.get(pace.cause, pace.cause)}"
        )
    if pace.failures:
        said.append(f"{counted(pace.failures, 'failure')} in a row")
    if pace.parked and host.aside is None:
        said.append(f"parked {counted(pace.parked, 'time')}")
    if pace.samples:
        said.append(f"latency {pace.latency:.2g} s, baseline {pace.baseline:.2g} s")
    return f"delay {duration(host.delay)}: {'; '.join(said)}"


_CAUSES = {
    "slow": "slow answers",
    "timeout": "a time-out",
    "reset": "a reset",
    "429": "a 429",
    "503": "a 503",
}


def metric_lines(measured: Metrics) -> list[str]:
    """What was measured, one line a group, without what is zero."""
    lines = []
    for group, numbers_of_group in as_fields(measured).items():
        told = [
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.3g}"
            for name, value in numbers_of_group.items()
            if isinstance(value, (int, float)) and value
        ]
        if told:
            lines.append(f"  {group}: {', '.join(told)}")
    if number := measured.requests.seconds.number:
        mean = measured.requests.seconds.total / number
        lines.append(f"  requests: {count(number)} of this run, {mean * 1000:.1f} ms each on average")
    return ["", "Metrics", *lines] if lines else []


def link_remarks(links: LinkMetrics) -> list[str]:
    """Sentences about links that came back or went because the settings changed, or that the scorer failed for."""
    said = []
    if number := links.returned:
        are = (
            "URL that earlier settings refused is"
            if number == 1
            else "URLs that earlier settings refused are"
        )
        said.append(f"{count(number)} {are} wanted by the current settings")
    if number := links.dropped:
        are = "waiting URL is" if number == 1 else "waiting URLs are"
        said.append(f"{count(number)} {are} no longer wanted by the current settings")
    if number := links.unscored:
        said.append(
            f"your scorer failed {count(number)} times (schedule.strategy); `skitter why` shows the reason"
        )
    return said


# ------------------------------------------------------------------------------------------------ sums


def total(parts: Sequence[Counts]) -> Counts:
    """The counts of a crawl from those of its shards. Elapsed time is not summed: they run at the same time."""
    if len(parts) == 1:
        return parts[0]
    whole = Counts()
    for part in parts:
        for name in Counts.__struct_fields__:
            value = getattr(part, name)
            if isinstance(value, dict):
                sums = getattr(whole, name)
                for key, number in value.items():
                    sums[key] = sums.get(key, 0) + number
            elif name == "elapsed":
                whole.elapsed = max(whole.elapsed, value)
            else:
                setattr(whole, name, getattr(whole, name) + value)
    return whole
