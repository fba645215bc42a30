"""`skitter audit`: prove from its log that a crawl was polite, or say where it was not."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.ports import StateError
from skitter.reporting.format import as_json, count, counted, moment, printable, shortened
from skitter.settings import Settings, SettingsError, seconds

if TYPE_CHECKING:
    from skitter.reporting.audit import Audited, Promise, Violation
    from skitter.reporting.audit.logs import Opened, Promises

_SHOWN = 6  # all violations are counted; so many are shown
_WIDTH = 100
_NO_NAME = "server.invalid"


def parser() -> Parser:
    """The flags of `skitter audit`."""
    made = Parser(
        "audit",
        "Read the request log of a crawl, with the robots.txt answers in its archive, and prove or refute that it was polite: the "
        "wait owed before each request, requests in flight per host, address, domain and group, robots.txt first and obeyed, "
        "Retry-After, windows, budgets, bandwidth, nothing requested twice without a reason. The arithmetic is the audit's own; nothing of the crawler's "
        "politeness code is used. Also reads logs of others: access logs of servers in the common or combined format, and WARC files, judged by "
        "--agent, --delay and the other flags. Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage, 4 no log.",
        [
            "skitter audit skitter-example.org",
            "skitter audit skitter-example.org --json",
            "skitter audit /var/log/nginx/access.log --agent Scrapy --delay 1s --robots robots.txt",
            "skitter audit crawl.warc.gz --agent wget --delay 500ms",
            "skitter audit worker-1 worker-2 worker-3",
        ],
    )
    made.add_argument(
        "log",
        nargs="+",
        type=Path,
        metavar="DIR|FILE",
        help="crawl directories (of one crawl), or request logs, access logs and WARC files",
    )
    made.add_argument(
        "--agent", metavar="TOKEN", help="logs of others: whose requests these are, as named in robots.txt"
    )
    made.add_argument("--delay", metavar="TIME", help="logs of others: the wait that is owed (default: 1s)")
    made.add_argument(
        "--per-host", type=int, metavar="N", help="logs of others: requests in flight per host (default: 1)"
    )
    made.add_argument(
        "--robots",
        action="append",
        default=[],
        metavar="[HOST=]FILE",
        help="access logs: the robots.txt that was served; repeatable",
    )
    made.add_argument(
        "--host", default="", metavar="HOST", help="access logs that do not name it: the host that was asked"
    )
    made.add_argument("--json", action="store_true", help="one JSON object, with up to 1000 violations")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Audit and print."""
    from skitter.reporting.audit import audit  # noqa: PLC0415  with numpy; --help does not need it
    from skitter.reporting.audit.logs import Promises  # noqa: PLC0415  the same

    promises = Promises()
    logs: list[Opened] = []
    archives: list[Path] = []
    for path in arguments.log:
        if not path.exists():
            raise StateError(f"{path} does not exist; name a crawl directory or a log")
        if path.is_dir():
            _open_crawl(path, logs, archives, promises)
        else:
            _open_file(path, arguments, logs, archives, promises)
    done = audit(logs, promises, archives, _robots(arguments.robots))
    names = " ".join(str(path) for path in arguments.log)
    print(as_json(as_fields(names, done)) if arguments.json else "\n".join(as_lines(names, done)))
    return Exit.DONE if done.kept else Exit.NO


# ------------------------------------------------------------------------------------------------ what to read


def _open_crawl(path: Path, logs: "list[Opened]", archives: list[Path], promises: "Promises") -> None:
    from skitter.crawl.directory import CrawlDirectory  # noqa: PLC0415  not for foreign logs
    from skitter.reporting.audit.logs import own_log  # noqa: PLC0415  the same

    directory = CrawlDirectory(path)
    found = sorted(path.glob("log/requests-*.jsonl"))
    if not found:
        raise StateError(
            f"{path} has no request log (log/requests-*.jsonl); name a crawl directory, or a log file"
        )
    default = _promise(
        directory.read_settings() if directory.exists else Settings(), str(directory.settings_file)
    )
    for file in found:
        logs.append(own_log(file, f"{path}/log/{file.name}", len(logs), promises, default))
    archives += [directory.archive / name for name in directory.files()]


def _open_file(
    path: Path,
    arguments: argparse.Namespace,
    logs: "list[Opened]",
    archives: list[Path],
    promises: "Promises",
) -> None:
    from skitter.reporting.audit import logs as reading  # noqa: PLC0415  see above

    with path.open("rb") as file:
        start = file.read(4096)
    first = start.lstrip().split(b"\n")[0].decode("utf-8", "replace")
    if first.startswith("{"):
        logs.append(
            reading.own_log(path, str(path), len(logs), promises, _promise(Settings(), "the defaults"))
        )
        return
    terms = promises.number(_promised_by(arguments))
    if start[:2] == b"\x1f\x8b" or start.startswith(b"WARC/"):
        logs.append(reading.warc_log(path, len(logs), terms))
        archives.append(path)
    elif reading.is_access_log(first):
        if not arguments.agent:
            raise UsageError(
                f"{path} is an access log: say whose requests to judge, for example --agent Scrapy"
            )
        host = arguments.host or _NO_NAME
        logs.append(reading.access_log(path, len(logs), terms, arguments.agent, host))
    else:
        raise StateError(
            f"{path} is no log that can be read; it may be a request log, an access log in the common or combined format, or a WARC file"
        )


def _promise(settings: Settings, name: str) -> "Promise":
    from skitter.reporting.audit import Promise  # noqa: PLC0415  see above
    from skitter.reporting.log import terms  # noqa: PLC0415  see above

    agent = settings.fetch.user_agent or "skitter"
    return Promise(agent, terms(settings, agent, 0.0).settings, 0.0, name)


def _promised_by(arguments: argparse.Namespace) -> "Promise":
    """What others are held to: --delay and --per-host, and everything that is nobody's choice."""
    from skitter.reporting.audit import Promise  # noqa: PLC0415  see above

    try:
        delay = 1.0 if arguments.delay is None else seconds(arguments.delay)
    except SettingsError as problem:
        raise UsageError(f"--delay: {problem}") from None
    if delay < 0:
        raise UsageError(f"--delay: {arguments.delay} is negative; write for example --delay 1s")
    most = 1 if arguments.per_host is None else arguments.per_host
    if most < 1:
        raise UsageError(f"--per-host: {most} is too small; write 1 or more")
    politeness = {"delay": delay, "per_host": most, "burst": 1, "per_address": None, "address_delay": 0.0}
    return Promise(arguments.agent or "*", {"politeness": politeness}, 0.0, "the command line")


def _robots(given: Sequence[str]) -> dict[str, bytes]:
    texts = {}
    for word in given:
        host, equals, file = word.rpartition("=")
        try:
            texts[host.lower() if equals else ""] = Path(file).read_bytes()
        except OSError as problem:
            raise UsageError(
                f"--robots: {file}: {problem.strerror}; write --robots FILE or --robots HOST=FILE"
            ) from None
    return texts


# ------------------------------------------------------------------------------------------------ formatting


def as_fields(names: str, done: "Audited") -> dict[str, object]:
    """The audit as one object."""
    from skitter.reporting.audit import CHECKS  # noqa: PLC0415  see above

    return {
        "log": names,
        "kept": done.kept,
        "requests": done.requests,
        "hosts": done.hosts,
        "from": moment(done.first),
        "to": moment(done.last),
        "checks": {
            name: {
                "kept": not done.broken[name],
                "checked": done.checked[name],
                "violations": done.broken[name],
            }
            for name in CHECKS
        },
        "kinds": dict(done.counts),
        "in_flight": {kind: most for kind, (most, _) in done.peaks.items()},
        "unproven": done.unproven,
        "excused": dict(done.excused),
        "terms": done.terms,
        "violations": to_builtins(done.violations),
    }


def as_lines(names: str, done: "Audited") -> list[str]:
    """The audit for people: the answer, each check, the first violations, and what cannot be known."""
    from skitter.reporting.audit import CHECKS  # noqa: PLC0415  see above

    total = sum(done.broken.values())
    answer = "kept every promise" if done.kept else f"broke {counted(total, 'promise')}"
    span = f"{_minute(done.first)} to {_minute(done.last)} UTC" if done.requests else "no time"
    lines = [
        f"{printable(names)}: {answer}",
        f"  {counted(done.requests, 'request')} to {counted(done.hosts, 'host')}, {span}",
        f"  held to: {', '.join(_terms(done))}",
        "",
    ]
    for name, what in CHECKS.items():
        lines.append(f"  {_verdict(name, done):<12} {name:<14} {what}{_detail(name, done)}")
    if done.violations:
        lines += ["", "Broken"]
        lines += (f"  {count(number)} × {kind}" for kind, number in done.counts.most_common())
        for violation in _first(done):
            lines += _told(violation)
        if total > _SHOWN:
            lines.append(f"  … {count(total)} in all (see --json)")
    if done.unproven or done.excused:
        lines += ["", "Not judged"]
        lines += (f"  {printable(text)}" for text in done.unproven)
        lines += (f"  {counted(number, 'case')}: {why}" for why, number in done.excused.items() if number)
    if any(_NO_NAME in line for line in lines):
        lines += ["", f"{_NO_NAME} stands for the host, which this log does not name; name it with --host"]
    return lines


def _minute(at: float) -> str:
    return moment(at)[:16].replace("T", " ")


def _terms(done: "Audited") -> Iterator[str]:
    sets = {
        f"{terms['agent']}, {terms['settings'].get('politeness', {}).get('delay', 1.0):g} s ({printable(terms['from'])})"
        for terms in done.terms
    }
    yield from sorted(sets)[:3]
    if len(sets) > 3:
        yield f"{len(sets) - 3} more"


def _verdict(name: str, done: "Audited") -> str:
    if done.broken[name]:
        return f"BROKEN {count(done.broken[name])}"
    asked = {"gap", "windows", "budgets", "bandwidth", "Retry-After", "in flight", "robots obeyed"}
    if done.checked[name] or name not in asked:
        return "kept"
    return "not judged" if any(name in text.partition(":")[0] for text in done.unproven) else "not asked"


def _detail(name: str, done: "Audited") -> str:
    if name == "gap" and done.checked["gap"]:
        beyond, host = done.closest
        close = f"; the closest {beyond:.3f} s after its time ({printable(host)})" if host else ""
        return f" ({count(done.checked['gap'])}{close})"
    if name == "in flight" and done.peaks:
        most = ", ".join(f"{most} per {kind}" for kind, (most, _) in sorted(done.peaks.items()))
        return f" (at most {most})"
    if name == "robots first":
        return f" ({counted(done.checked['origins'], 'origin')})"
    if name in {"robots obeyed", "Retry-After"} and done.checked[name]:
        return f" ({count(done.checked[name])})"
    return ""


def _first(done: "Audited") -> "list[Violation]":
    """Some of every kind."""
    seen: dict[str, int] = {}
    each = max(1, _SHOWN // max(1, len(done.counts)))
    chosen: list[Violation] = []
    for violation in done.violations:
        seen[violation.kind] = seen.get(violation.kind, 0) + 1
        if seen[violation.kind] <= each and len(chosen) < _SHOWN:
            chosen.append(violation)
    return chosen


def _told(violation: "Violation") -> Iterator[str]:
    key = f" {printable(violation.key)}" if violation.key else ""
    at = f" at {moment(violation.at)}" if violation.at else ""
    yield f"  {violation.kind}{key}{at} ({printable(violation.where)})"
    url = f"{shortened(printable(violation.url), _WIDTH)}; " if violation.url else ""
    yield f"    {url}owed: {printable(violation.owed)}; found: {printable(violation.found)}"
