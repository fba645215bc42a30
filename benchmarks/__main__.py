"""`make bench`: whole crawls compared with other crawlers, and the building blocks; tables, a JSON file and a chart."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import blocks, crawls, keep, machine, picture, show, targets, wide
from benchmarks.crawlers import CRAWLERS
from benchmarks.webs import BROAD, DOCS, FLEET, SITE, Web

OUT = Path("bench-out")
PARTS = ("site", "broad", "fleet", "wide", "docs", "blocks")
NAMED = (*PARTS, *(web.name for web in DOCS))  # those of docs can also be run one by one
NAMES = tuple(crawler.name for crawler in CRAWLERS)
WIDE_SECONDS = 60  # `make soak` runs ten minutes
EXAMPLES = """examples:
  python -m benchmarks --only site --rounds 1 --crawlers skitter,scrapy
  python -m benchmarks --only blocks --store-baseline
  python -m benchmarks --only docs --keep                  real documentation alone; the other figures in docs/ stay
  python -m benchmarks --keep                              measure, and put the results into docs/
  python -m benchmarks --keep --results bench-out/bench.json    only put them there"""


def _some_of(known: Sequence[str], text: str) -> list[str]:
    given = [name for name in text.split(",") if name]
    if unknown := sorted(set(given) - set(known)):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are: {', '.join(known)}")
    return given


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for flag, known, what in ("--only", NAMED, "parts"), ("--crawlers", NAMES, "crawlers"):
        parser.add_argument(
            flag,
            type=partial(_some_of, known),
            default=[],
            metavar="NAME,…",
            help=f"{what} to measure, of {', '.join(known)} (default: all)",
        )
    parser.add_argument("--rounds", type=int, default=3, help="times that every crawler runs (default: 3)")
    parser.add_argument(
        "--store-baseline", action="store_true", help="later figures of the blocks are compared with these"
    )
    parser.add_argument("--keep", action="store_true", help="put the results into docs/")
    parser.add_argument("--results", type=Path, metavar="FILE", help="do not measure, show these")
    options = parser.parse_args()
    if options.store_baseline and options.only and "blocks" not in options.only:
        parser.error("--store-baseline: the blocks are not measured; add them to --only")
    return options


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    """As in the JSON file."""
    parts = options.only or PARTS
    found = _crawled((SITE, BROAD, FLEET), options)
    real = _crawled(DOCS, options)
    figures = blocks.measure() if "blocks" in parts else []
    if options.store_baseline:
        blocks.store(figures)
    polite = asdict(wide.measure(WIDE_SECONDS)) if "wide" in parts else None
    where = {
        "measured": date.today().isoformat(),  # noqa: DTZ011  the day where it was measured
        "rounds": options.rounds,
        "machine": machine.machine(),
        "versions": machine.versions(),
    }
    return {
        **where,
        "crawls": found,
        "wide": polite,
        "blocks": [asdict(figure) for figure in figures],
        "targets": [asdict(each) for each in targets.compared(found, polite)],
        "docs": where | {"crawls": real, "targets": [asdict(each) for each in targets.compared(real)]},
    }


def _crawled(webs: Sequence[Web], options: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    """The results of each web that could be measured."""
    wanted = [web for web in webs if {web.part, web.name} & set(options.only or PARTS)]
    rows = {web.name: crawls.as_json(crawls.measure(web, options.rounds, options.crawlers)) for web in wanted}
    return {name: found for name, found in rows.items() if found}


def main() -> None:
    """Measure, store, print."""
    options = _options()
    if options.results:
        results = json.loads(options.results.read_text())
    else:
        results = _measured(options)
        OUT.mkdir(exist_ok=True)
        (OUT / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
        if drawn := show.drawn(results):
            (OUT / "bench.svg").write_text(picture.draw(drawn))
    if options.keep:
        keep.keep(results)
    for caption, table in (*show.tables(results), *show.docs(results["docs"])):
        print(f"\n{caption}\n\n{show.as_text(table)}")
    print(f"\n{show.machine(results)}")
    if not options.results:
        print(
            f"Everything is in {OUT}/bench.json, the picture in {OUT}/bench.svg; --keep puts them into docs/."
        )


if __name__ == "__main__":
    main()
