"""`skitter status`: the state of a crawl, what to do next, and its numbers."""

import argparse
import shlex
import time
from collections.abc import Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from skitter import reasons
from skitter.cli.progress import troubles
from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser
from skitter.control.notifying import read
from skitter.control.orders import is_paused
from skitter.crawl.directory import CrawlDirectory
from skitter.export.source import Source
from skitter.model import Counts, HostRecord, Stop
from skitter.politeness.hours import windows_of
from skitter.politeness.keys import Key, keys_of
from skitter.reporting.format import (
    as_json,
    count,
    counted,
    duration,
    printable,
    shortened,
    span,
    table,
    window_words,
)
from skitter.reporting.records import host_record, window_fields
from skitter.reporting.report import (
    error_answers,
    host_table,
    importance_fetched,
    metric_lines,
    numbers,
    pace_lines,
    reached,
)
from skitter.runtime import metrics
from skitter.runtime.metrics import Metrics
from skitter.schedule.hosts import pressed
from skitter.settings import Settings
from skitter.settings.sites import Sites


def parser() -> Parser:
    """The flags of `skitter status`."""
    made = Parser(
        "status",
        "Show the state of a crawl: running, finished, or stopped and why; how much it has and what to do next. Then "
        "the numbers: URLs, pages, requests, refusals and failures by reason, hosts. Works while the crawl runs. With "
        "--follow, a running crawl is shown live, with its warnings, until it ends or Ctrl-C; exit code 1 if it does not "
        "run.",
        [
            "skitter status skitter-example.org",
            "skitter status skitter-example.org --json",
            "skitter status skitter-example.org --follow",
            "skitter status --config cluster.toml",
        ],
    )
    add_crawl(made)
    made.add_argument(
        "--hosts",
        type=int,
        default=10,
        metavar="N",
        help="number of hosts to show, those with most pages first (default: 10)",
    )
    made.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also show hosts that are slowed down, the requests that those with most work may get, caches, connections and other metrics",
    )
    made.add_argument("--json", action="store_true", help="one JSON object; with --follow, one a line")
    made.add_argument(
        "-f", "--follow", action="store_true", help="show a running crawl live, until it ends or Ctrl-C"
    )
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Show the numbers."""
    if arguments.follow:
        from skitter.cli.following import follow  # noqa: PLC0415  the numbers alone do not need it
        from skitter.cli.ordering import Target  # noqa: PLC0415  the same

        words = [] if arguments.directory is None else [str(arguments.directory)]
        target = Target(argparse.Namespace(words=words, config=arguments.config))
        return Exit(follow(target, json=arguments.json))
    return ask(arguments, partial(_show, arguments))


async def _show(arguments: argparse.Namespace, source: Source) -> Exit:
    counts = await source.frontier.counts()
    hosts, waiting, blocked = await _largest(source, max(0, arguments.hosts))
    paused = is_paused(await source.commands())
    now = standing(
        source.name,
        source.settings,
        counts,
        running=source.directory.in_use(),
        short=_shortage(source),
        paused=paused,
    )
    measured = source.directory.read_statistics()
    hours = windows_of(source.settings.politeness.window)
    alerts = alerts_of(source.directory)
    if arguments.json:
        fields = as_fields(source.name, now, counts, hosts, measured)
        window = None if hours is None else window_fields(hours, time.time())
        for host, told in zip(hosts, fields["hosts"], strict=True):
            told["bucket"] = _bucket(host, source.settings)
        beside = {"paused": paused, "hosts_blocked": blocked, "window": window, "alerts": alerts}
        print(as_json(fields | beside))
    else:
        opens = 0.0 if hours is None else hours.closed_until(time.time())
        lines = as_lines(source.name, now, counts, hosts, blocked, time.time(), opens)
        lines[2:2] = alert_lines(alerts, time.time())
        if hours is not None and counts.queued:
            lines.insert(2, f"  its window: {printable(window_words(hours, time.time()))}")
        if arguments.verbose:
            buckets = bucket_lines(waiting, source.settings, time.time(), opens)
            sunk = pressure_lines(waiting, source.settings)
            lines += [*pace_lines(hosts), *buckets, *sunk, *metric_lines(measured)]
        print("\n".join(lines))
    return Exit.DONE


def alerts_of(directory: CrawlDirectory) -> list[dict[str, Any]]:
    """The alerts that are firing; of a crawl that does not run, those of its end."""
    return [msgspec.to_builtins(alert) for alert in read(directory.alerts_file).firing]


def alert_lines(alerts: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Each alert in a line."""
    return [
        f"  alert: {each['name']}, for {duration(now - each['since'])}: {printable(each['summary'])}"
        for each in alerts
    ]


def _bucket(host: HostRecord, settings: Settings) -> dict[str, Any]:
    now = time.time()
    own = _key(host, settings, now)
    return {"tokens": own.tokens, "rate": own.rate, "wait": max(0.0, (own.free_at or 0.0) - now)}


def _key(host: HostRecord, settings: Settings, now: float) -> Key:
    """What a host may get; its delay may be longer than that of the settings, by its robots.txt."""
    own = keys_of(f"http://{host.host}/", host, Sites(settings), None, now)[0]
    return replace(own, delay=max(own.delay, host.delay))


def bucket_lines(
    hosts: Sequence[HostRecord], settings: Settings, now: float, opens: float = 0.0
) -> list[str]:
    """What each of these hosts may be asked now, how often in the long run, and when again; nothing before `opens`."""
    rows = []
    for host in hosts:
        own = _key(host, settings, now)
        wait = max(own.free_at or 0.0, opens) - now
        rate = "no limit" if own.rate is None else f"1 every {span(own.delay)}"
        tokens = "0" if wait > 0 else str(own.tokens)
        next_one = "now" if wait <= 0 else f"in {duration(wait)}"
        rows.append((shortened(printable(host.host), 40), count(host.queued), tokens, rate, next_one))
    head = ("host", "waiting", "may start", "rate", "next")
    return (
        ["", "Requests that hosts may get, those with most URLs waiting", *table(head, rows)] if rows else []
    )


def pressure_lines(hosts: Sequence[HostRecord], settings: Settings) -> list[str]:
    """Which of these hosts have sunk by a level, and why."""
    told = [
        f"  {shortened(printable(host.host), 40)} {said}"
        for host in hosts
        if (said := pressed(host, settings.schedule))
    ]
    return ["", "Hosts whose queue grows faster than their pages come in", *told] if told else []


async def _largest(source: Source, number: int) -> tuple[list[HostRecord], list[HostRecord], int]:
    """The hosts with the most pages, and with the most URLs waiting, without keeping the others; and how many are blocked."""
    most: list[HostRecord] = []
    busy: list[HostRecord] = []
    blocked = 0
    async for host in source.frontier.hosts():
        blocked += host.aside is not None and host.aside.code == reasons.BLOCKED
        most.append(host)
        if host.queued and host.aside is None:
            busy.append(host)
        if len(most) > 1000 + 2 * number:
            most = nlargest(number, most, key=_pages_of)
        if len(busy) > 1000 + 2 * number:
            busy = nlargest(number, busy, key=_queued_of)
    return nlargest(number, most, key=_pages_of), nlargest(number, busy, key=_queued_of), blocked


def _queued_of(host: HostRecord) -> int:
    return host.queued


def _pages_of(host: HostRecord) -> tuple[int, int]:
    return host.pages, host.requests


def _shortage(source: Source) -> str:
    path = source.directory.path
    return source.directory.shortage(source.settings.crawl.min_free_disk) if path.is_dir() else ""


# ------------------------------------------------------------------------------------------------ the answer


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
    if not left and not counts.pages:
        return Standing("finished", "finished: no page could be fetched", look or _why(where))
    if not left:
        aside = f"only {counted(counts.parked, 'URL')} in parked patterns" if counts.parked else "nothing"
        look = look or (f"see them: skitter patterns {where} --parked" if counts.parked else "")
        return Standing(
            "finished",
            f"finished: {aside} is left to do".replace(
                "URLs in parked patterns is", "URLs in parked patterns are"
            ),
            look,
        )
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


def _limit(settings: Settings, counts: Counts) -> tuple[str, str]:
    """The limit that was reached. Time starts again in every run, so the counts cannot show that one."""
    return reached(Stop.LIMIT, replace(settings.crawl, max_time=None), counts)


def _why(where: str) -> str:
    return f"find out why with: skitter why {where} URL"


def per_second(number: int, counts: Counts) -> float:
    """The average rate over all runs of the crawl."""
    return number / counts.elapsed if counts.elapsed else 0.0


def as_fields(
    directory: str,
    now: Standing,
    counts: Counts,
    hosts: list[HostRecord],
    measured: Metrics,
) -> dict[str, Any]:
    """The status as one object."""
    return {
        "directory": directory,
        "state": now.state,
        "advice": now.advice or None,
        "counts": msgspec.to_builtins(counts, str_keys=True),
        "importance_fetched_at_least": importance_fetched(counts),
        "rates": {
            "pages_per_second": per_second(counts.pages, counts),
            "requests_per_second": per_second(counts.requests, counts),
            "bytes_per_second": per_second(counts.bytes, counts),
        },
        "hosts": [host_record(host) for host in hosts],
        "metrics": metrics.as_fields(measured),
    }


def as_lines(
    directory: str,
    now: Standing,
    counts: Counts,
    hosts: list[HostRecord],
    blocked: int = 0,
    at: float | None = None,
    opens: float = 0.0,
) -> list[str]:
    """The status for people: the state first, then the numbers."""
    parts = [
        counted(counts.pages, "page"),
        f"{count(counts.queued + counts.leased)} waiting",
        troubles(counts, ", "),
        f"{duration(counts.elapsed)} of crawling, {per_second(counts.pages, counts):.1f} pages/s on average",
    ]
    lines = [f"{printable(directory)}: {now.said}", f"  {', '.join(parts)}"]
    if blocked:
        lines.append(f"  {counted(blocked, 'host')} blocked (skitter unblock)")
    if now.advice:
        lines.append(f"  {now.advice}")
    return [*lines, *numbers(counts), *host_table(hosts, at, opens)]
