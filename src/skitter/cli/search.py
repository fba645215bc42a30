"""`skitter search`: full-text search in a crawl directory or in a cluster's index.

The index of a crawl directory is a file in it, updated before each search. The crawl itself is only read.
"""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.search.text import Hit, Query, Results
from skitter.export.source import Source
from skitter.reporting.format import as_json, counted, moment, printable

_TEMPORARY = "{} is not writable, so its index is updated in a temporary copy"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def parser() -> Parser:
    """The flags of `skitter search`."""
    made = Parser(
        "search",
        "Search the titles and texts of crawled pages. All words must be present; double quotes make a phrase; case "
        "and accents do not matter. The index is a file in the crawl directory, search.sqlite, which is updated "
        "first; works while the crawl runs. Pages that ask not to be indexed (noindex), answers other than 2xx and "
        "exact copies are not indexed. With --config and without DIR, the search server named by [search] is used; "
        "with --index too, an index in this file, which is updated from the bucket or from the workers' directories "
        "named with --from. Exit code 1 if nothing is found.",
        [
            "skitter search skitter-example.org welcome",
            "skitter search skitter-example.org welcome home --domain example.org --limit 3 --json",
            "skitter search --config cluster.toml '\"annual report\" 2024'",
            "skitter search --config cluster.toml --index words.sqlite --from /data/worker-1 welcome",
        ],
    )
    made.add_argument(
        "words",
        nargs="+",
        metavar="WORD",
        help="the crawl directory (unless --config is given), then the query",
    )
    made.add_argument(
        "--config", type=Path, metavar="FILE", help="settings file with the [search] section to use"
    )
    made.add_argument(
        "--index",
        type=Path,
        metavar="FILE",
        help="with --config: use an index in this file, created if missing",
    )
    made.add_argument(
        "--from",
        dest="folders",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="with --index: a worker's directory to read from; repeatable",
    )
    made.add_argument("--limit", type=int, default=10, metavar="N", help="show at most N pages (default: 10)")
    made.add_argument(
        "--offset", type=int, default=0, metavar="N", help="skip the first N pages (default: 0)"
    )
    made.add_argument(
        "--domain", default="", metavar="D", help="only pages of this registrable domain or host"
    )
    made.add_argument(
        "--language", default="", metavar="L", help="only pages in this language, as in en or pt-br"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object: total and results")
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing on standard error")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Update the index if it is a local file, then search."""
    if arguments.limit < 1:
        raise UsageError("--limit: write 1 or more")
    if arguments.offset < 0:
        raise UsageError("--offset: write 0 or more")
    words = arguments.words if arguments.config else arguments.words[1:]
    if not words:
        raise UsageError("no search words; write skitter search DIR WORD … (see skitter search --help)")
    if (arguments.index or arguments.folders) and not (arguments.config and arguments.index):
        raise UsageError("--index and --from go with --config; a crawl directory has its own index")
    return _shared(arguments, words) if arguments.config and not arguments.index else _local(arguments, words)


def _query(arguments: argparse.Namespace, words: list[str]) -> Query:
    from skitter.export.search.text import query  # noqa: PLC0415  --help does not need it

    # Shell quotes alone do not make a phrase: "a b" is two words, '"a b"' is a phrase.
    made = query(" ".join(words), arguments.domain, arguments.language)
    if not made.terms:
        raise UsageError(
            f"no searchable word in {printable(' '.join(words))!r}; write what a page should contain"
        )
    if made.cut and not arguments.quiet:
        print("skitter: the query is too long; its end was cut off", file=sys.stderr)
    return made


def _local(arguments: argparse.Namespace, words: list[str]) -> Exit:
    from skitter.cli.reading import ask_crawl, missing_lines  # noqa: PLC0415

    query = _query(arguments, words)

    async def answer(source: Source) -> Exit:
        from skitter.cli.indexing import brought_up_to_date  # noqa: PLC0415  --help does not need the parsers
        from skitter.compose.searching import local_index, writable_index  # noqa: PLC0415
        from skitter.export.search.stored import as_asked  # noqa: PLC0415

        with ExitStack() as stack:
            file = arguments.index or stack.enter_context(writable_index(source.directory.search_file))
            if file != (arguments.index or source.directory.search_file) and not arguments.quiet:
                print(f"skitter: {printable(_TEMPORARY.format(source.directory.path))}", file=sys.stderr)
            index = local_index(file)
            await index.open()
            try:
                if await brought_up_to_date(source, index, quiet=arguments.quiet) and not arguments.quiet:
                    for line in await missing_lines(source):
                        print(f"skitter: {printable(line)}", file=sys.stderr)
                found = await index.search(query, arguments.limit, arguments.offset)
                return show(await as_asked(found, source), arguments)
            finally:
                await index.close()

    folders = arguments.folders if arguments.config else [Path(arguments.words[0])]
    return ask_crawl(folders, arguments.config, answer)


def _shared(arguments: argparse.Namespace, words: list[str]) -> Exit:
    import asyncio  # noqa: PLC0415

    from skitter.compose.searching import shared_index  # noqa: PLC0415
    from skitter.settings.file import load  # noqa: PLC0415

    query = _query(arguments, words)
    index = shared_index(load(arguments.config, os.environ, {}))

    async def answer() -> Exit:
        try:
            await index.open()
            return show(await index.search(query, arguments.limit, arguments.offset), arguments)
        finally:
            await index.close()

    return asyncio.run(answer())


# ------------------------------------------------------------------------------------------------ output


def show(results: Results, arguments: argparse.Namespace) -> Exit:
    """Print the results."""
    if arguments.json:
        found = {"total": results.total, "results": [_record(hit) for hit in results.hits]}
        print(as_json(found))
    elif results.hits:
        bold = sys.stdout.isatty() and "NO_COLOR" not in os.environ  # https://no-color.org
        print("\n\n".join(block(hit, bold=bold) for hit in results.hits))
    if not arguments.json and not arguments.quiet:
        print(_summary(results, arguments.offset), file=sys.stderr)
    return Exit.DONE if results.hits else Exit.NO


def _summary(results: Results, offset: int) -> str:
    found = counted(results.total, "page")
    if not results.total:
        return "skitter: nothing found"
    if not results.hits:
        return f"skitter: {found} found, none after number {offset}"
    if len(results.hits) == results.total:
        return f"skitter: {found} found"
    return f"skitter: {found} found, {offset + 1} to {offset + len(results.hits)} shown"


def block(hit: Hit, *, bold: bool) -> str:
    """One result for people: title, URL, and the text around the match."""
    on, off = (_BOLD, _PLAIN) if bold else ("", "")
    lines = [f"{on}{printable(hit.title or '(no title)')}{off}", f"  {printable(hit.url)}"]
    if hit.snippet:
        lines.append(f"  {_marked(hit, on, off)}")
    return "\n".join(lines)


def _marked(hit: Hit, on: str, off: str) -> str:
    pieces, at = [], 0
    for start, end in hit.marks:
        pieces += [printable(hit.snippet[at:start]), on, printable(hit.snippet[start:end]), off]
        at = end
    return "".join([*pieces, printable(hit.snippet[at:])])


def _record(hit: Hit) -> dict[str, object]:
    """One result as JSON. `matches` are positions in the snippet: [start, end)."""
    return {
        "url": hit.url,
        "title": hit.title,
        "snippet": hit.snippet,
        "matches": [list(mark) for mark in hit.marks],
        "score": round(hit.score, 6),
        "domain": hit.domain,
        "fetched_at": moment(hit.fetched_at),
    }
