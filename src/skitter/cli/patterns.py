"""`skitter patterns`: what a crawl has learned of the URLs of its hosts."""

import argparse
from functools import partial
from typing import Any

from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser
from skitter.export.source import Source
from skitter.reporting.format import as_json, count, counted, printable
from skitter.schedule.learning.learned import Learned, Pattern, host_of
from skitter.schedule.learning.parameters import NEEDLESS, WRONG, Parameter, said
from skitter.schedule.learning.patterns import of_domain

_SHOWN = 40  # patterns of a host


def parser() -> Parser:
    """The flags of `skitter patterns`."""
    made = Parser(
        "patterns",
        "Show the URL patterns of a crawl, and what their visits have brought. A pattern that brings nothing new is demoted, "
        "then parked: its URLs wait, and some are tried again now and then. Below them are the query parameters of the host, and "
        "which of them change nothing. Works while "
        "the crawl runs.",
        [
            "skitter patterns skitter-example.org",
            "skitter patterns skitter-example.org www.example.org",
            "skitter patterns skitter-example.org --json",
            "skitter patterns --config cluster.toml",
        ],
    )
    add_crawl(made)
    made.add_argument("host", nargs="?", metavar="HOST", help="only this host")
    made.add_argument("--parked", action="store_true", help="only parked patterns")
    made.add_argument("--json", action="store_true", help="one JSON object per pattern, and per parameter")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Print the patterns."""
    if arguments.config is not None and arguments.directory is not None and arguments.host is None:
        # With --config alone, the one name is that of a host.
        arguments.host, arguments.directory = str(arguments.directory), None
    return ask(arguments, partial(_tell, arguments))


async def _tell(arguments: argparse.Namespace, source: Source) -> Exit:
    found = 0
    async for learned in _rows(arguments.host, source):
        some = _chosen(learned, only_parked=arguments.parked)
        judged = [] if arguments.parked else _judged(learned)
        if not some and not judged:
            continue
        found += len(some) + len(judged)
        if arguments.json:
            for name, pattern in some:
                print(as_json(_fields(learned.name, name, pattern)))
            for name, parameter in judged:
                print(as_json(_parameter_fields(learned.name, name, parameter)))
        else:
            print("\n".join(_story(learned.name, some) + _parameter_story(judged)))
    if not arguments.json:
        parked = (await source.frontier.counts()).parked
        nothing = "no pattern is parked" if arguments.parked else "nothing was learned yet"
        print(f"{counted(parked, 'URL waits', 'URLs wait')} in parked patterns" if found else nothing)
    return Exit.DONE


async def _rows(host: str | None, source: Source) -> Any:  # noqa: ANN401  an iterator
    if host is None:
        async for learned in source.frontier.all_learned():
            yield learned
        return
    from skitter import urls  # noqa: PLC0415  slow to import; `--help` does not need it

    for name in (host, of_domain(urls.registrable_domain(host))):
        row = await source.frontier.learned(name)
        if row is not None:
            yield row


def _chosen(learned: Learned, *, only_parked: bool) -> list[tuple[str, Pattern]]:
    some = [
        (name, pattern) for name, pattern in learned.patterns.items() if pattern.parked or not only_parked
    ]
    return sorted(some, key=lambda one: (-one[1].parked, -one[1].fetched, one[0]))


def _judged(learned: Learned) -> list[tuple[str, Parameter]]:
    """Parameters with evidence, those that change nothing first."""
    some = [(name, each) for name, each in learned.parameters.items() if each.groups]
    return sorted(
        some, key=lambda one: (one[1].state != NEEDLESS, one[1].state != WRONG, -one[1].groups, one[0])
    )


def _parameter_story(judged: list[tuple[str, Parameter]]) -> list[str]:
    lines = [f"  {printable(said(name, parameter))}" for name, parameter in judged[:_SHOWN]]
    if len(judged) > _SHOWN:
        lines.append(f"  and {count(len(judged) - _SHOWN)} more parameters; --json shows all")
    return lines


def _parameter_fields(name: str, parameter: str, known: Parameter) -> dict[str, Any]:
    return {
        "host": name,
        "parameter": parameter,
        "needless": known.state == NEEDLESS,
        "undone": known.state == WRONG,
        "equal": known.equal,
        "groups": known.groups,
        "values": None if known.any_value else known.values,
        "retested": known.retested,
        "failed": known.failed,
    }


def _story(name: str, patterns: list[tuple[str, Pattern]]) -> list[str]:
    lines = [f"hosts of {host_of(name)}" if name.startswith("*.") else printable(name)]
    lines += [f"  {'fetched':>8} {'new':>8} {'waiting':>8}  pattern"]
    for pattern, known in patterns[:_SHOWN]:
        numbers = f"{count(known.fetched):>8} {count(known.useful):>8} {count(known.held):>8}"
        lines.append(f"  {numbers}  {printable(pattern)}{'  (parked)' if known.parked else ''}")
    if len(patterns) > _SHOWN:
        lines.append(f"  and {count(len(patterns) - _SHOWN)} more; --json shows all")
    return lines


def _fields(name: str, pattern: str, known: Pattern) -> dict[str, Any]:
    of_hosts = name.startswith("*.")
    return {
        "host": None if of_hosts else name,
        "domain": host_of(name) if of_hosts else None,
        "pattern": pattern,
        "fetched": known.fetched,
        "useful": known.useful,
        "dry": round(known.dry, 2),
        "parked": known.parked,
        "waiting": known.held,
    }
