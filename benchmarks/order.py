"""The order of visits: how much of a web's PageRank the first pages of a crawl hold, by strategy, against breadth first.

    python -m benchmarks.order [--pages 10000] [--hosts 100] [--webs 2] [--keep]

The webs are synthetic and their PageRank is known (`linked_web`). The crawls are whole crawls in virtual time: frontier, visits,
politeness, parser and archive are the product's, only the network and the clock are not. One request is in flight at a time, which
takes 0.05 s, and each host rests for 0.1 s afterwards: as in a large crawl there are many more hosts than requests, and something to choose. Each web is crawled from a quarter of its front pages,
by every strategy, and again from a twentieth, breadth first and by opic. With --keep, figures and chart are written to docs/order.*.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.crawl.virtual import ROCKSDB, VirtualCrawl, crawl, html

from benchmarks import curves
from benchmarks.linked_web import LinkedWeb, make, pagerank
from skitter import urls
from skitter.reporting.report import importance_fetched

STRATEGIES = ("bfs", "opic", "importance", "features", "larger-sites")
FIRST = 0.1  # of the pages
AT_ONCE = 1
DELAY = "100ms"
TAKES = 0.05  # seconds until an answer is there
MANY, FEW = 4, 20  # one of so many front pages is a seed
POINTS = 100  # of a curve
DOCS = Path("docs")
BEGIN = "<!-- figures: written by `python -m benchmarks.order --keep`, do not edit -->"
END = "<!-- end of figures -->"


class Ordered(NamedTuple):
    """A crawl: its pages in the order in which they were settled, and what it claimed of their importance, if it does."""

    pages: list[int]
    bounds: list[tuple[int, float]]  # (pages so far, the share of importance that they have at least)


def crawled(web: LinkedWeb, strategy: str, directory: Path, *, store: str = ROCKSDB) -> Ordered:
    """Crawl the whole web."""
    number = {url: page for page, url in enumerate(web.urls)}
    answers = {
        url: html(*(web.urls[target] for target in targets), takes=TAKES)
        for url, targets in zip(web.urls, web.links, strict=True)
    }
    done, bounds = [], []

    def watch(made: VirtualCrawl) -> None:
        frontier = made.stations.frontier
        settle = frontier.settle

        async def settled(settlements, mark, now):
            told = await settle(settlements, mark, now)
            done.extend(number[each.page.url] for each in settlements if each.page is not None)
            share = importance_fetched(await frontier.counts())
            if share is not None:
                bounds.append((len(done), share))
            return told

        frontier.settle = settled  # type: ignore[method-assign]

    crawl(
        directory / strategy,
        [web.urls[page] for page in web.seeds],
        {**answers},
        store=store,
        meanwhile=watch,
        schedule__strategy=strategy,
        schedule__rank_file=str(_rank_file(web, directory)) if strategy == "importance" else "",
        crawl__concurrency=AT_ONCE,
        politeness__delay=DELAY,
    )
    return Ordered(done, bounds)


def _rank_file(web: LinkedWeb, directory: Path) -> Path:
    """Domains by how many others link to them, as a list of the kind that is published would rank them."""
    sites = [urls.host(url) for url in web.urls]
    linking: dict[str, set[str]] = {site: set() for site in sites}
    for page, targets in enumerate(web.links):
        for target in targets:
            if sites[target] != sites[page]:
                linking[sites[target]].add(sites[page])
    ranked = sorted(linking, key=lambda site: (-len(linking[site]), site))
    file = directory / "ranks.csv"
    file.write_text("".join(f"{place},{site}\n" for place, site in enumerate(ranked, 1)))
    return file


class Held(NamedTuple):
    """What the pages of a crawl hold: the share of PageRank after each of them."""

    of_anybody: list[float]  # of a reader who starts anywhere
    of_seeds: list[float]  # of one who starts at a seed

    @property
    def first(self) -> float:
        """Of the first tenth of the pages."""
        return self.of_anybody[round(len(self.of_anybody) * FIRST) - 1]


def held(web: LinkedWeb, done: Ordered) -> Held:
    """The shares of PageRank."""
    anybody, seeds = pagerank(web), pagerank(web, web.seeds)
    return Held(anybody[done.pages].cumsum().tolist(), seeds[done.pages].cumsum().tolist())


def highest(bounds: Sequence[tuple[int, float]], truth: Held) -> float:
    """The largest quotient of a bound and the truth of that moment: above 1 if it was ever too large."""
    return max(share / truth.of_seeds[pages - 1] for pages, share in bounds if pages)


def best(web: LinkedWeb) -> float:
    """The most that a tenth of the pages can hold, in an order that knows everything."""
    ranks = sorted(pagerank(web), reverse=True)
    return float(sum(ranks[: round(len(ranks) * FIRST)]))


# ------------------------------------------------------------------------------------------------ measuring


def measure(web: LinkedWeb, strategies: Sequence[str]) -> dict[str, Any]:
    """The figures of some strategies on one web."""
    found: dict[str, Any] = {"limit": best(web), "crawls": {}}
    for strategy in strategies:
        with tempfile.TemporaryDirectory() as directory:
            done = crawled(web, strategy, Path(directory))
        truth = held(web, done)
        told: dict[str, Any] = {
            "first": truth.first,
            "pages": len(done.pages),
            "curve": _thinned(truth.of_anybody),
        }
        if done.bounds:
            told["bound"] = {
                "highest": highest(done.bounds, truth),
                "samples": len(done.bounds),
                "last": done.bounds[-1][1],
                "curve": _thinned([share for _, share in done.bounds]),
                "truth": _thinned([truth.of_seeds[max(0, pages - 1)] for pages, _ in done.bounds]),
            }
        found["crawls"][strategy] = told
        print(f"  {strategy}: {len(done.pages):,} pages, the first tenth holds {truth.first:.3f}", flush=True)
    return found


def _thinned(values: Sequence[float]) -> list[float]:
    """Some of many values, the last included."""
    return [round(values[round(at * (len(values) - 1) / POINTS)], 4) for at in range(POINTS + 1)]


def main() -> None:
    """Measure, print, and keep."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pages", type=int, default=10_000)
    options.add_argument("--hosts", type=int, default=100)
    options.add_argument("--webs", type=int, default=2)
    options.add_argument(
        "--keep", action="store_true", help="write docs/order.json, order.svg and the figures in order.md"
    )
    chosen = options.parse_args()
    results: dict[str, Any] = {"pages": chosen.pages, "hosts": chosen.hosts, "many": [], "few": []}
    for seed in range(1, chosen.webs + 1):
        for name, every, strategies in (("many", MANY, STRATEGIES), ("few", FEW, ("bfs", "opic"))):
            print(f"web {seed}, one of {every} front pages is a seed")
            web = make(
                chosen.pages, chosen.hosts, seeds=max(1, chosen.hosts // every), dice=random.Random(seed)
            )
            results[name].append(measure(web, strategies))
    print(figures(results))
    if chosen.keep:
        keep(results)


# ------------------------------------------------------------------------------------------------ showing


def keep(results: dict[str, Any], docs: Path = DOCS) -> None:
    """Write the figures and the chart."""
    (docs / "order.json").write_text(json.dumps(results) + "\n")
    (docs / "order.svg").write_text(curves.draw(results))
    page = docs / "order.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"order.md has no place for figures: {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n\n{figures(results)}\n\n{END}{after}")


def figures(results: dict[str, Any]) -> str:
    """The tables for people."""
    parts = [
        "![Share of PageRank held by the first pages of a crawl, by strategy](order.svg)",
        _table(
            results["many"],
            f"{results['pages']:,} pages on {results['hosts']} hosts, a quarter of the front pages are seeds",
        ),
        _table(results["few"], "the same webs, a twentieth of the front pages are seeds"),
        _bounds([*results["many"], *results["few"]]),
    ]
    return "\n\n".join(parts)


def _table(webs: Sequence[dict[str, Any]], about: str) -> str:
    columns = " | ".join(f"web {number}" for number in range(1, len(webs) + 1))
    lines = [
        f"**{about}: PageRank in the first tenth of the pages**",
        "",
        f"| strategy | {columns} | against bfs |",
        "| --- |" + " --- |" * (len(webs) + 1),
    ]
    lines += [_row(name, [web["crawls"][name]["first"] for web in webs], webs) for name in webs[0]["crawls"]]
    lines.append(_row("the most there can be", [web["limit"] for web in webs], webs))
    return "\n".join(lines)


def _row(name: str, shares: Sequence[float], webs: Sequence[dict[str, Any]]) -> str:
    ratios = [share / web["crawls"]["bfs"]["first"] for share, web in zip(shares, webs, strict=True)]
    spread = f"{min(ratios):.2f}" if min(ratios) == max(ratios) else f"{min(ratios):.2f}–{max(ratios):.2f}"
    return f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + f" | {spread} |"


def _bounds(webs: Sequence[dict[str, Any]]) -> str:
    found = [web["crawls"]["opic"]["bound"] for web in webs]
    samples = sum(bound["samples"] for bound in found)
    ends = [bound["last"] for bound in found]
    return (
        f"The bound that `status` tells, compared with the truth after each of {samples:,} writes: at most "
        f"{max(bound['highest'] for bound in found):.3f} of it; {min(ends):.2f} to {max(ends):.2f} when all pages are fetched."
    )


if __name__ == "__main__":
    main()
