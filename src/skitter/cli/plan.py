"""`skitter plan`: what a crawl would meet and cost, before it starts."""

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from skitter import seeds
from skitter.cli.options import add_settings, resolve
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.crawl.plan import Costs, Range, SitePlan, costs
from skitter.model import Link, Reason
from skitter.reporting.format import amount, as_json, count, counted, duration, printable, span, window_words
from skitter.reporting.records import explained_reason
from skitter.seeds import BadSeed
from skitter.settings import Settings

_WIDTH = 12


def parser() -> Parser:
    """The flags of `skitter plan`."""
    made = Parser(
        "plan",
        "Say what a crawl would meet and cost, without fetching a page: robots.txt and the sitemaps it names are read, with the "
        "delay that the crawl would keep. Shows what would be refused and why, how many pages the sitemaps list, and time, "
        "traffic and disk as ranges. A window that is closed is shown; robots.txt and sitemaps are read all the same. It takes the settings of `skitter crawl`. Exit code 1 if no URL could be fetched.",
        [
            "skitter plan https://example.org",
            "skitter plan example.org --scope domain --delay 2s --pages 5000",
            "skitter plan example.org --config crawl.toml --json",
        ],
    )
    made.add_argument("url", nargs="+", metavar="URL", help="where the crawl would start")
    made.add_argument("--config", type=Path, metavar="FILE", help="settings file (TOML)")
    made.add_argument(
        "--pages",
        type=int,
        metavar="N",
        help="how many pages you expect, if you know better than the sitemaps",
    )
    made.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(made)
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Look at the sites, and print what a crawl would do."""
    settings = resolve(arguments, arguments.config)
    if arguments.pages is not None and arguments.pages < 1:
        raise UsageError(f"--pages {arguments.pages} is no number of pages; write 1 or more")
    named = list(seeds.named(arguments.url, settings.urls))
    for seed in named:
        if isinstance(seed, BadSeed):
            raise UsageError(f"nothing can be planned: {seed.complaint}")
    links = [seed for seed in named if isinstance(seed, Link)]
    sites = asyncio.run(_look(settings, links))
    estimate = costs(sites, settings, time.time(), arguments.pages)
    if arguments.json:
        print(as_json(as_fields(sites, estimate)))
    else:
        print("\n".join(story(sites, estimate, guessed=arguments.pages is None)))
    return Exit.NO if estimate is None else Exit.DONE


async def _look(settings: Settings, links: Sequence[Link]) -> list[SitePlan]:
    from skitter.compose.planning import planner  # noqa: PLC0415  slow to import; usage errors do not need it

    async with planner(settings, links) as planning:
        return await planning.plan(links)


# ------------------------------------------------------------------------------------------------ for people


def story(sites: Sequence[SitePlan], estimate: Costs | None, *, guessed: bool) -> list[str]:
    """The plan for a person."""
    lines = [line for site in sites for line in (*_site(site), "")]
    if estimate is None:
        return [*lines, "Nothing would be fetched."]
    return [*lines, *_costs(estimate, guessed=guessed)]


def _row(name: str, text: str) -> str:
    return f"  {name:<{_WIDTH}}{printable(text)}"


def _site(site: SitePlan) -> Iterator[str]:
    yield printable(site.origin)
    copy = site.robots
    if copy is not None and copy.status:
        length = f", {amount(len(copy.body))}" if copy.body else ""
        yield _row("robots.txt", f"status {copy.status}{length}, answered in {span(site.answered_in)}")
    if site.problem:
        yield _row("problem", site.problem)
    for url, reason in site.seeds:
        yield _row("seed", f"{url} {_fate(reason)}")
    if site.problem:
        return
    rate = f", {count(round(3600 / site.delay))} requests an hour at most" if site.delay else ""
    yield _row("delay", f"{span(site.delay)} between requests ({site.delay_by}){rate}")
    for who, hours in site.hours:
        yield _row("window", f"{window_words(hours, time.time())} ({who})")
    for overlay in site.overlays:
        yield _row("overlay", overlay)
    for sitemap in site.sitemaps:
        remark = f" ({sitemap.problem})" if sitemap.problem else ""
        entries = f"{sitemap.kind or 'no sitemap'}, {counted(sitemap.entries, 'entry', 'entries')}"
        yield _row("sitemap", f"{sitemap.url}: {entries}{remark}")
    if site.more_sitemaps:
        yield _row("", f"{counted(site.more_sitemaps, 'more sitemap')} not read")
    if site.sitemaps:
        refused = ", ".join(f"{count(number)} {code}" for code, number in sorted(site.refused.items()))
        yield _row(
            "listed", f"{counted(site.listed, 'page')} wanted{'; refused: ' + refused if refused else ''}"
        )
    else:
        yield _row("sitemap", "none is named in robots.txt")


def _fate(reason: Reason | None) -> str:
    if reason is None:
        return "would be crawled"
    return f"would be refused ({reason.code}): {reason.detail}"


def _costs(estimate: Costs, *, guessed: bool) -> Iterator[str]:
    known = estimate.pages.high is not None
    more = "" if known else " or more: the seeds and what sitemaps list; links may lead to others"
    yield f"The crawl: {counted(round(estimate.pages.low), 'page')}{more}"
    if estimate.limit:
        yield _row("ends at", estimate.limit)
    yield _row("time", _range(estimate.seconds, duration))
    yield _row("traffic", f"{_range(estimate.received, amount)} received")
    yield _row("disk", _range(estimate.disk, amount))
    yield _row("bandwidth", f"{_range(estimate.bandwidth, amount)} a second on average")
    if guessed and not known:
        yield _row("", "if you know how many pages there are, say so with --pages")


def _range(span: Range, shown: Any) -> str:  # noqa: ANN401  a function of a number
    low = shown(span.low)
    high = low if span.high is None else shown(span.high)
    return low if low == high else f"{low} to {high}"


# ------------------------------------------------------------------------------------------------ for programs


def as_fields(sites: Sequence[SitePlan], estimate: Costs | None) -> dict[str, Any]:
    """The plan as one JSON object."""
    return {
        "sites": [_site_fields(site) for site in sites],
        "estimate": None if estimate is None else to_builtins(estimate),
    }


def _site_fields(site: SitePlan) -> dict[str, Any]:
    copy = site.robots
    return {
        "origin": site.origin,
        "problem": site.problem or None,
        "seeds": [{"url": url, "refused": explained_reason(reason)} for url, reason in site.seeds],
        "robots": None
        if copy is None
        else {"status": copy.status, "size": len(copy.body), "access": copy.access},
        "answered_in": site.answered_in,
        "delay": {"seconds": site.delay, "asked_by": site.delay_by},
        "overlays": site.overlays,
        "windows": [{"window": hours.name, "of": who} for who, hours in site.hours],
        "sitemaps": [to_builtins(sitemap) for sitemap in site.sitemaps],
        "sitemaps_not_read": site.more_sitemaps,
        "listed": site.listed,
        "refused": site.refused,
    }
