"""The parameter web: how many requests its duplicates cost, and which parameters were learned to be needless.

A site whose URLs have forty kinds of parameters (`skitter.testing.learnable.parameters`), judged by the server's own log
and the web's own table of truth; with learning and without it, in one run.

    python -m benchmarks.parameters
    python -m benchmarks.parameters --pages 6000 --duplicates 0.4 --noise
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.learning import crawl, of, switched
from skitter.compose import open_reader
from skitter.schedule.learning.parameters import NEEDLESS, Parameter, said
from skitter.testing.learnable import KINDS, Judged, ParameterWeb, judged, serving


def learned_in(path: Path) -> dict[str, Parameter]:
    """What a crawl has learned of parameters, by name."""

    async def read() -> dict[str, Parameter]:
        reader = open_reader(path)
        try:
            rows = [row async for row in reader.frontier.all_learned()]
        finally:
            await reader.close()
        return {name: parameter for row in rows for name, parameter in row.parameters.items()}

    return asyncio.run(read())


def measure(
    web: ParameterWeb, *, learning: bool, kept: Path | None = None
) -> tuple[Judged, dict[str, Parameter]]:
    """One crawl, judged by the log, and what it learned."""
    with serving(web) as server, tempfile.TemporaryDirectory(prefix="skitter-params-") as folder:
        where = (kept or Path(folder)) / ("learning" if learning else "plain")
        # Patterns would park some of what repeats, before parameters are told apart.
        crawl(server.seeds, where, *of(server), *switched(learning=learning), "--set=learning.patterns=false")
        return judged(web, server.log()), learned_in(where)


def judged_rules(learned: dict[str, Parameter]) -> tuple[list[str], list[str]]:
    """Which parameters were rightly learned to be needless, and which wrongly.

    One that is only dropped with certain values is judged by these: `start=0` is needless, `start` is not.
    """
    right: list[str] = []
    wrong: list[str] = []
    for kind in KINDS:
        parameter = learned.get(kind.name)
        if parameter is None or parameter.state != NEEDLESS:
            continue
        is_right = kind.needless or (
            kind.name == "start" and parameter.values == ["0"] and not parameter.any_value
        )
        (right if is_right else wrong).append(kind.name)
    return right, wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.parameters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=2400, help="distinct pages")
    parser.add_argument("--duplicates", type=float, default=0.25, help="their share of all URLs")
    parser.add_argument("--noise", action="store_true", help="every answer has a number of its own")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the crawls there, to look at them")
    parser.add_argument("--counts", action="store_true", help="show what was counted of each parameter")
    options = parser.parse_args()
    web = ParameterWeb(pages=options.pages, duplicates=options.duplicates, noise=options.noise)
    plain, _ = measure(web, learning=False, kept=options.keep)
    learned, found_out = measure(web, learning=True, kept=options.keep)
    for name, found in ("without learning", plain), ("with learning", learned):
        print(
            f"{name}: {found.fetched} of {found.real} distinct pages in {found.requests:,} requests, "
            f"{found.wasted:,} of them for nothing new"
        )
    right, wrong = judged_rules(found_out)
    print(f"{len(right)} needless parameters learned: {', '.join(right)}")
    print(
        f"{len(wrong)} wrongly: {', '.join(wrong) or 'none'}; precision {len(right) / max(1, len(right) + len(wrong)):.1%}"
    )
    if options.counts:
        print(*(said(name, parameter) for name, parameter in sorted(found_out.items())), sep="\n")
    print(
        f"{1 - learned.requests / plain.requests:.1%} fewer fetches; at most {plain.wasted_share:.1%} are possible"
    )


if __name__ == "__main__":
    main()
