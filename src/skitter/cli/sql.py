"""`skitter sql`: questions about a crawl in SQL, and a library of named ones."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.cli.loading import Loading
from skitter.cli.progress import screen
from skitter.cli.reading import ask_crawl
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.checks import checks
from skitter.export.source import Source
from skitter.settings import SettingsError, seconds, size

if TYPE_CHECKING:
    from skitter.export.tables.duck import Database

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def parser() -> Parser:
    """The flags of `skitter sql`."""
    made = Parser(
        "sql",
        "Ask a crawl in SQL, while it runs too. Its tables are pages, links, urls, requests and hosts, and the view "
        "html_pages; their columns are those of `export --format parquet` (see them with 'describe pages'). QUESTION is one "
        "SELECT, or the name of a question in the library (--list). The SQL is DuckDB's, and can neither write nor reach a file "
        "or the network. DIR may also be a folder made by `export --format parquet`, which answers at once. Needs the "
        "extra tables. Exit code 3 after --timeout.",
        [
            "skitter sql skitter-example.org broken-links",
            "skitter sql skitter-example.org 'select url, size from pages order by size desc limit 10'",
            'skitter sql skitter-example.org "select fetch_status, count(*) from urls group by all" --json',
            "skitter sql --list",
            "skitter sql skitter-example.org duplicate-titles --csv",
        ],
    )
    made.add_argument("words", nargs="*", metavar="DIR QUESTION", help="the crawl directory, and what to ask")
    made.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings file of a cluster: its crawl is read from the engines, and no directory is needed; requests are in "
        "the directories of its workers",
    )
    made.add_argument("--list", action="store_true", help="list the named questions")
    made.add_argument("--show", metavar="NAME", help="print the SQL of a named question, to change it")
    made.add_argument("--csv", action="store_true", help="CSV, with cells that are safe in a spreadsheet")
    made.add_argument("--json", action="store_true", help="one JSON object per row")
    made.add_argument(
        "--timeout", metavar="TIME", default="10m", help="give up after this time, as in 30s (default: 10m)"
    )
    made.add_argument(
        "--memory",
        metavar="SIZE",
        default="512MB",
        help="memory of the database; what is more goes to temporary files (default: 512MB)",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Answer the question."""
    if arguments.list:
        print("\n".join(listed()))
        return Exit.DONE
    if arguments.show is not None:
        print(question_of(arguments.show))
        return Exit.DONE
    if arguments.csv and arguments.json:
        raise UsageError("--csv and --json: choose one")
    words: list[str] = arguments.words
    if not words or (len(words) == 1 and arguments.config is None):
        raise UsageError(
            "name the crawl directory and a question, as in: skitter sql DIR broken-links (questions: skitter sql --list)"
        )
    question = question_of(words[-1])
    limit, memory = _limit(arguments.timeout), _memory(arguments.memory)
    print_answer = partial(_answered, arguments=arguments, question=question, limit=limit)
    return answer_from(
        [Path(word) for word in words[:-1]],
        arguments.config,
        [question],
        print_answer,
        memory,
        quiet=arguments.quiet,
        ours=words[-1] in checks(),
    )


def answer_from(
    directories: Sequence[Path],
    config: Path | None,
    questions: Sequence[str],
    use: "Callable[[AbstractAsyncContextManager[Database]], object]",
    memory: int,
    *,
    quiet: bool,
    ours: bool = False,
) -> Exit:
    """Open the tables that these questions need, of a crawl or of a Parquet folder, and use them."""
    from asyncio import run  # noqa: PLC0415  `--help` does not need it

    from skitter.export.tables.asking import crawl_database, folder_database  # noqa: PLC0415  the same
    from skitter.export.tables.duck import parquet_files  # noqa: PLC0415  the same

    if (
        len(directories) == 1
        and not (directories[0] / "crawl.toml").exists()
        and parquet_files(directories[0])
    ):
        return run(use(folder_database(directories[0], questions, memory)))  # type: ignore[arg-type]

    async def work(source: Source) -> Exit:
        shown = screen(sys.stderr, quiet=quiet)
        try:
            return await use(  # type: ignore[misc,no-any-return]
                crawl_database(source, questions, memory, Loading(shown).loaded, ours=ours)
            )
        finally:
            shown.end()

    return ask_crawl(directories, config, work)


async def _answered(
    opening: "AbstractAsyncContextManager[Database]",
    arguments: argparse.Namespace,
    question: str,
    limit: float,
) -> Exit:
    from asyncio import CancelledError, timeout  # noqa: PLC0415  `--help` does not need it

    from skitter.cli import answers  # noqa: PLC0415  the same
    from skitter.cli.stopping import cancelled_by_signals  # noqa: PLC0415  the same
    from skitter.export.tables.duck import QuestionError  # noqa: PLC0415  the same

    try:
        with cancelled_by_signals():
            async with timeout(limit), opening as database:
                answer = await database.ask(question)
                if arguments.csv:
                    await answers.as_csv(answer)
                elif arguments.json:
                    await answers.as_json_lines(answer)
                elif remark := await answers.as_table(answer):
                    print(f"skitter: {remark}", file=sys.stderr)
    except QuestionError as problem:
        raise UsageError(str(problem)) from None
    except TimeoutError:
        print(f"skitter: no answer within {arguments.timeout} (--timeout)", file=sys.stderr)
        return Exit.LIMIT
    except CancelledError:
        raise KeyboardInterrupt("interrupted") from None
    return Exit.DONE


def question_of(text: str) -> str:
    """The SQL of a named question, or the text itself."""
    if not _NAME.fullmatch(text):
        return text
    known = checks()
    if text in known:
        return known[text].sql
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "list them with: skitter sql --list"
    raise UsageError(f"{text!r} is neither SQL nor a named question; {hint}")


def listed() -> list[str]:
    """The named questions, group by group."""
    known = checks().values()
    width = max(len(check.name) for check in known)
    lines = []
    for group, some in groupby(known, key=lambda check: check.group):
        lines += ["", group, *(f"  {check.name:<{width}}  {check.about}" for check in some)]
    return lines[1:]


def _limit(text: str) -> float:
    try:
        found = seconds(text)
    except SettingsError as problem:
        raise UsageError(f"--timeout: {problem}") from None
    if found <= 0:
        raise UsageError("--timeout: write a time above 0, for example 30s")
    return found


def _memory(text: str) -> int:
    try:
        found = size(text)
    except SettingsError as problem:
        raise UsageError(f"--memory: {problem}") from None
    if found < 32 << 20:
        raise UsageError(f"--memory: {text} is too small; write 32MB or more")
    return found
