"""`skitter report`: the numbers of a crawl and what the checks find in it, as text, JSON or one HTML page."""

import argparse
import sys
import time
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skitter.cli.loading import Loading
from skitter.cli.progress import screen
from skitter.cli.reading import add_crawl, ask
from skitter.cli.status import as_lines
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.control.orders import is_paused
from skitter.export.source import Source
from skitter.reporting.format import as_json, count
from skitter.reporting.standing import standing

if TYPE_CHECKING:
    from skitter.export.checks.running import Finding
    from skitter.export.report import Summary


def parser() -> Parser:
    """The flags of `skitter report`."""
    made = Parser(
        "report",
        "Report on a crawl, while it runs too: its numbers, and what the named questions of `skitter sql --list` find: broken "
        "links, redirect chains, duplicate titles, slow pages and many more. As text; with --html as one page with charts, "
        "which needs neither a network nor a script. Needs the extra tables.",
        [
            "skitter report skitter-example.org",
            "skitter report skitter-example.org --html -o report.html",
            "skitter report skitter-example.org --json",
        ],
    )
    add_crawl(made, several=True)
    made.add_argument("--html", action="store_true", help="one HTML page")
    made.add_argument(
        "--json", action="store_true", help="one JSON object, with the first rows of each check"
    )
    made.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="output file (default: -, standard output)"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Write the report."""
    if arguments.html and arguments.json:
        raise UsageError("--html and --json: choose one")
    if arguments.output != "-" and Path(arguments.output).is_dir():
        raise UsageError(f"{arguments.output} is a folder; name a file, as in -o report.html")
    return ask(arguments, partial(_report, arguments))


async def _report(arguments: argparse.Namespace, source: Source) -> Exit:
    from asyncio import CancelledError  # noqa: PLC0415  `--help` does not need it

    from skitter.cli.stopping import cancelled_by_signals  # noqa: PLC0415  the same
    from skitter.export.destination import destination  # noqa: PLC0415  the same

    try:
        with cancelled_by_signals(), destination(arguments.output) as files:
            text = await _text(arguments, source)
            with_end = text if text.endswith("\n") else f"{text}\n"
            files.open("report").write(with_end.encode("utf-8", "backslashreplace"))
    except CancelledError:
        raise KeyboardInterrupt("interrupted; no report was written") from None
    if arguments.output != "-" and not arguments.quiet:
        print(f"skitter: written to {arguments.output}", file=sys.stderr)
    return Exit.DONE


async def _text(arguments: argparse.Namespace, source: Source) -> str:
    from skitter.export import report  # noqa: PLC0415  `--help` does not need it

    counts = await source.frontier.counts()
    now = standing(
        source.name,
        source.settings,
        counts,
        running=source.directory.in_use(),
        paused=is_paused(await source.commands()),
    )
    found = await _findings(source, quiet=arguments.quiet)
    summary = report.Summary(source.name, now.said, time.time(), counts)
    if arguments.html:
        return report.page(summary, found)
    if arguments.json:
        return as_json(as_fields(summary, found))
    return "\n".join([*as_lines(source.name, now, counts, []), *finding_lines(source.name, found)])


async def _findings(source: Source, *, quiet: bool) -> "list[Finding]":
    from skitter.export.checks import checks  # noqa: PLC0415  `--help` does not need it
    from skitter.export.checks.running import findings  # noqa: PLC0415  the same
    from skitter.export.tables.asking import crawl_database  # noqa: PLC0415  the same

    known = checks()
    shown = screen(sys.stderr, quiet=quiet)
    try:
        questions = [check.sql for check in known.values()]
        async with crawl_database(source, questions, told=Loading(shown).loaded, ours=True) as opened:
            return [found async for found in findings(opened, known.values(), MOST)]
    finally:
        shown.end()


MOST = 100  # rows that a chart can have


def finding_lines(name: str, found: "list[Finding]") -> list[str]:
    """What the problems are, group by group, and how to see them."""
    problems = [each for each in found if each.check.kind == "problem"]
    lines = ["", "Checks"]
    for group, some in groupby(problems, key=lambda each: each.check.group):
        met = [each for each in some if each.total]
        if met:
            lines += [f"  {group}"]
            lines += [f"    {count(each.total):>9}  {each.check.name:<24} {each.check.about}" for each in met]
    fine = sum(not each.total for each in problems)
    lines.append(f"  {count(fine)} of {count(len(problems))} checks found nothing")
    return [
        *lines,
        "",
        f"See the rows with: skitter sql {name} NAME; all as a page: skitter report {name} --html",
    ]


def as_fields(summary: "Summary", found: "list[Finding]") -> dict[str, object]:
    """The report as one object."""
    from skitter.cli.answers import jsonable  # noqa: PLC0415  only for --json
    from skitter.export.report import SHOWN  # noqa: PLC0415  the same

    return {
        "crawl": summary.name,
        "state": summary.state,
        "counts": msgspec.to_builtins(summary.counts, str_keys=True),
        "checks": [
            {
                "name": each.check.name,
                "title": each.check.title,
                "kind": each.check.kind,
                "rows": each.total,
                "first": [
                    {name: jsonable(value) for name, value in zip(each.columns, row, strict=True)}
                    for row in each.rows[:SHOWN]
                ],
            }
            for each in found
        ],
    }
