"""`make bench`: whole crawls beside other crawlers, one table, one JSON file.

python -m benchmarks --only site --rounds 1 --crawlers skitter,scrapy
"""

import argparse
import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

from benchmarks import crawls, machine, show, targets
from benchmarks.crawlers import CRAWLERS
from benchmarks.webs import BROAD, SITE

OUT = Path("bench-out")
PARTS = ("site", "broad")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help=f"some of: {', '.join(PARTS)}", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3, help="times that every crawler runs")
    names = ", ".join(crawler.name for crawler in CRAWLERS)
    parser.add_argument("--crawlers", help=f"some of: {names}", default="")
    options = parser.parse_args()
    options.only = options.only.split(",")
    options.crawlers = [name for name in options.crawlers.split(",") if name]
    for given, known in (options.only, PARTS), (options.crawlers, names.split(", ")):
        if unknown := set(given) - set(known):
            parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    return options


def main() -> None:
    """Measure, print, keep."""
    options = _options()
    found = {
        web.name: crawls.as_json(crawls.measure(web, options.rounds, options.crawlers))
        for web in (SITE, BROAD)
        if web.name in options.only
    }
    results = {
        "measured": date.today().isoformat(),  # noqa: DTZ011  the day where it was measured
        "rounds": options.rounds,
        "machine": machine.machine(),
        "versions": machine.versions(),
        "crawls": found,
        "targets": [asdict(each) for each in targets.compared(found)],
    }
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    for caption, table in show.tables(results):
        print(f"\n{caption}\n\n{show.as_text(table)}")
    print(f"\n{show.machine(results)}\nEverything is in {OUT / 'bench.json'}.")


if __name__ == "__main__":
    main()
