"""`skitter check`: verify the stored state and archive of a crawl, or a WACZ file."""

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skitter.cli.progress import LINES_EVERY, REDRAW
from skitter.cli.reading import add_directory, is_wacz
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.crawl.directory import CrawlDirectory
from skitter.reporting.format import amount, as_json, count, counted, printable

if TYPE_CHECKING:
    from skitter.reporting.checking import Checked, Finding

_SHOWN_URLS = 5  # of a finding; --json has more
_SHOWN_FINDINGS = 10  # of a file


def parser() -> Parser:
    """The flags of `skitter check`."""
    made = Parser(
        "check",
        "Read everything that a crawl has stored and report what is damaged or missing, file by file: the state "
        "against its own counts, every page against its record in the archive, every record against its checksums and "
        "digests. Changes nothing, and works while the crawl runs. With --repair, the next `skitter resume` fetches "
        "pages with damaged records again, and a damaged state is rebuilt if what is left of it is consistent. Exit "
        "codes: 0 no damage, 1 damage found, 4 no crawl, or it cannot be read. A WACZ file is checked against its digests and "
        "its signature, if it has one; that says which key has signed it, and --signed-by whether it is the one you expect.",
        [
            "skitter check skitter-example.org",
            "skitter check skitter-example.org --json",
            "skitter check skitter-example.org --repair",
            "skitter check example.wacz --signed-by SHA256:Tdf2x0Z0Vw…",
        ],
    )
    add_directory(made, ", or a WACZ file")
    made.add_argument(
        "--repair",
        action="store_true",
        help="repair what can be repaired; no crawl may be running in the directory",
    )
    made.add_argument(
        "--signed-by",
        metavar="KEY",
        help="for a WACZ file: damaged unless this key has signed it (its fingerprint, or the whole public key)",
    )
    made.add_argument("--json", action="store_true", help="one JSON object")
    made.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Check, repair if asked to, and check again."""
    if is_wacz(arguments.directory):
        from skitter.cli.check_wacz import check  # noqa: PLC0415  not for crawls

        return check(arguments)
    if arguments.signed_by is not None:
        raise UsageError("--signed-by is for WACZ files; a crawl is not signed")
    import asyncio  # noqa: PLC0415  slow to import; --help does not need it

    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> Exit:
    from skitter.compose.checking import OnDisk  # noqa: PLC0415  with the engine
    from skitter.crawl.check import Check, repair  # noqa: PLC0415  the same

    directory, shown = CrawlDirectory(arguments.directory), _Shown(quiet=arguments.quiet)
    check = Check(directory, OnDisk(directory), shown.progress)
    done, repaired = await check.run(), []
    shown.end()
    if arguments.repair and any(finding.mendable for finding in done.findings):
        repaired = await repair(check)
        check = Check(directory, OnDisk(directory), shown.progress)
        done = await check.run()
        shown.end()
    if arguments.json:
        print(as_json(as_fields(directory.path, done, repaired)))
    else:
        print("\n".join(as_lines(directory.path, done, repaired)))
    return Exit.DONE if done.sound else Exit.NO


class _Shown:
    """Progress on standard error: one redrawn line on a terminal, a line every few seconds elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._every = REDRAW if self._terminal else LINES_EVERY
        self._next = time.monotonic() + self._every

    def progress(self, what: str, read: int, of: int) -> None:
        """Called very often; prints every few seconds."""
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        said = f"{amount(read)} of {amount(of)}" if of else counted(read, "row")
        print(
            f"\r\x1b[K{what}: {said}" if self._terminal else f"skitter: {what}: {said}",
            end="" if self._terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        """Erase the line."""
        if self._terminal and not self._quiet:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------ formatting


def as_fields(directory: Path, done: "Checked", repaired: list[str]) -> dict[str, object]:
    """The check as one object."""
    return {
        "directory": str(directory),
        "sound": done.sound,
        "running": done.in_use,
        "read": {
            "files": len(done.files),
            "urls": done.urls,
            "pages": done.pages,
            "records": done.records,
            "bytes": done.bytes,
        },
        "findings": [msgspec.to_builtins(finding) for finding in done.findings],
        "repaired": repaired,
        "advice": list(advice(directory, done, repaired)),
    }


def as_lines(directory: Path, done: "Checked", repaired: list[str]) -> list[str]:
    """The check for people: the answer, what was found file by file, and what to do."""
    bad = {finding.file for finding in done.findings if finding.damage}
    answer = "sound" if done.sound else f"damaged: {counted(len(bad), 'file')} of {count(len(done.files))}"
    lines = [f"{printable(str(directory))} is {answer}"]
    read = f"{counted(done.urls, 'URL')}, {counted(done.pages, 'page')}"
    lines.append(f"  read: {read}, {counted(done.records, 'record')} ({amount(done.bytes)}) of the archive")
    if done.in_use:
        lines.append("  a crawl is running in it: what it stored after the check started was not checked")
    for file in dict.fromkeys(finding.file for finding in done.findings):
        lines += ["", f"  {printable(file)}"]
        lines += _told([finding for finding in done.findings if finding.file == file])
    lines += ["", "Repaired", *(f"  {printable(line)}" for line in repaired)] if repaired else []
    to_do = list(advice(directory, done, repaired))
    return [*lines, "", "What to do", *(f"  {line}" for line in to_do)] if to_do else lines


def _told(findings: "list[Finding]") -> Iterator[str]:
    for finding in findings[:_SHOWN_FINDINGS]:
        pages = f": {counted(finding.pages, 'page')} lost" if finding.pages else ""
        yield f"    {'' if finding.damage else 'harmless: '}{printable(finding.problem)}{pages}"
        yield from (f"      {printable(url)}" for url in finding.urls[:_SHOWN_URLS])
        if max(finding.pages, len(finding.urls)) > _SHOWN_URLS:
            yield f"      … and {count(max(finding.pages, len(finding.urls)) - _SHOWN_URLS)} more (--json names {len(finding.urls)})"
    if len(findings) > _SHOWN_FINDINGS:
        yield f"    … and {count(len(findings) - _SHOWN_FINDINGS)} more (see --json)"


def advice(directory: Path, done: "Checked", repaired: list[str]) -> Iterator[str]:
    """Advice for each kind of damage."""
    where = shlex.quote(printable(str(directory)))
    stop_first = " (stop the crawl first)" if done.in_use else ""
    damage = [finding for finding in done.findings if finding.damage]
    if repaired and not damage:
        yield f"continue with: skitter resume {where}"
    if done.lost:
        again = f"skitter check {where} --repair && skitter resume {where}"
        yield f"fetch {counted(done.lost, 'page')} again with: {again}{stop_first}"
        yield "or restore a copy of these files and check again"
    if any(finding.file.startswith("state/") and finding.mendable for finding in damage):
        yield f"restore the state from a backup, or rebuild it with: skitter check {where} --repair{stop_first}"
    elif any(finding.file.startswith("state/") for finding in damage):
        yield "the state is inconsistent: restore it from a backup, or start another crawl with -o"
    if any(finding.file == "crawl.toml" for finding in damage):
        yield "crawl.toml: fix it in an editor, or copy it from a crawl with the same settings"
    if any(finding.file == "roots.txt" for finding in damage):
        yield "roots.txt: write the seeds into it again, one per line"
    rest = [finding for finding in damage if finding.file.startswith("archive/") and not finding.mendable]
    if rest:
        yield "archive: restore the damaged files from a copy; their other pages can still be read"
