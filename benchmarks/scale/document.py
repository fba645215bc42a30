"""docs/scale.md: the tables between its markers, from docs/scale.json and docs/performance.json.

The text around them is written by hand. Every figure in a table is an input with its source, or a formula of
inputs.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import show
from benchmarks.scale import arithmetic
from benchmarks.scale.arithmetic import GB, GOAL, MACHINE, PRICES, TB, Inputs, written
from benchmarks.scale.population import CRAWL_DELAY, DELAY, RESPONSE, SHARES, Kind
from skitter.backends.rocksdb.seen import FINGERPRINT_BITS

Kept = Mapping[str, Any]  # docs/scale.json
ID_BYTES = 16  # a link in the record of a page


def as_json(kept: Kept) -> str:
    """Short numbers, and every list of them on one line."""
    text = json.dumps(
        json.loads(json.dumps(kept), parse_float=lambda digits: float(f"{float(digits):.6g}")), indent=1
    )
    return (
        re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", text)
        + "\n"
    )


def week(run: Mapping[str, Any], every: int) -> show.Table:
    """The week at full size, one row per several hours."""
    heads = (
        "hour",
        "requests/s",
        "predicted",
        "hosts ready",
        "with work",
        "known",
        "URLs waiting",
        "RSS MB",
        "frontier µs",
        "all µs",
    )
    plan, hours = run["plan"], run["hours"]
    many = plan["shrink"] / plan["slow"]
    picked = [
        n for n, hour in enumerate(hours["hour"]) if hour % every == 0 or hour in (1, len(hours["hour"]))
    ]
    lines = [
        (
            str(hours["hour"][n]),
            f"{hours['rate'][n] * plan['shrink']:,.0f}",
            f"{hours['predicted'][n] * plan['shrink']:,.0f}",
            written(hours["ready"][n] * many),
            written(hours["working"][n] * many),
            written(hours["known"][n] * many),
            written(hours["queue"][n] * plan["shrink"]),
            f"{hours['resident_mb'][n]:.0f}",
            f"{hours['frontier_us'][n]:.0f}",
            f"{hours['visit_us'][n]:.0f}",
        )
        for n in picked
    ]
    return heads, lines


def checked(run: Mapping[str, Any]) -> str:
    """What was counted and checked in a run."""
    return (
        f"The model made {run['requests']:,} requests in {run['cpu']:.0f} s of CPU, {run['pages']:,} pages stored, {run['urls']:,} URLs; "
        f"{run['too_soon']} requests too soon, {run['forbidden']} forbidden, {run['disagreements']} hours in which frontier and "
        f"books counted differently. Against the prediction: {abs(run['overall']):.2%} off over the week, {run['worst']:.1%} of the capacity in its worst hour."
    )


# ------------------------------------------------------------------------------------------------ inputs


def inputs(kept: Kept, whole: Mapping[str, Any] | None) -> list[Inputs]:
    """One set for each kind of page that was crawled. For synthetic ones, the figures of `make bench` are used."""
    stores = kept["costs"]["stores"]
    cycle = kept["runs"][0]["cycle"]
    found = []
    for number, page in enumerate(kept["costs"]["pages"]):
        cpu = _bench_cpu(whole) if number == 0 else None
        state_page = stores["pages"]["disk"] + (page["links"] - stores["pages"]["links"]) * ID_BYTES
        found.append(
            Inputs(
                label=page["label"],
                page=page["wire"],
                archive=page["archive"],
                log=page["log"],
                cpu=cpu or page["cpu"],
                polite=_bench_polite(whole),
                state_page=state_page,
                state_url=stores["urls"]["disk"],
                state_host=max(0.0, stores["hosts"]["disk"] - stores["urls"]["disk"]),
                memory_url=stores["urls"]["memory"],
                memory_host=max(0.0, stores["hosts"]["memory"] - stores["urls"]["memory"]),
                memory_worker=page["peak_mb"] * 2**20,
                cycle=cycle,
                response=cycle - DELAY,
                fingerprint_bits=FINGERPRINT_BITS,
            )
        )
    return found


def _bench_cpu(whole: Mapping[str, Any] | None) -> float | None:
    """Seconds per page of *site*, one worker, everything on."""
    rows = whole["crawls"].get("site", ()) if whole else ()
    return next((row["cpu"] / 1000 for row in rows if row["name"] == "skitter"), None)


def _bench_polite(whole: Mapping[str, Any] | None) -> float:
    """Additional seconds per page of *wide* over *site*: connections, robots.txt files, clocks."""
    cpu, wide = _bench_cpu(whole), whole["wide"] if whole else None
    return max(0.0, wide["cpu"] / 1000 - cpu) if cpu and wide else 0.0


def costs_table(costs: Mapping[str, Any]) -> show.Table:
    """As measured, for a terminal."""
    heads = ("per page", "pages", "links", "received", "archive", "log", "CPU µs", "peak MB")
    lines = [
        (
            page["label"],
            f"{page['pages']:,}",
            *(f"{page[name]:,.0f}" for name in ("links", "wire", "archive", "log")),
            f"{page['cpu'] * 1e6:,.0f}",
            f"{page['peak_mb']:.0f}",
        )
        for page in costs["pages"]
    ]
    return heads, lines


def _inputs_table(sets: Sequence[Inputs], kept: Kept, whole: Mapping[str, Any] | None) -> show.Table:
    stores = kept["costs"]["stores"]
    crawl = "`benchmarks.scale --costs`, a whole crawl"
    bench = "`make bench`, *site*" if _bench_cpu(whole) else crawl
    urls, hosts = (f"`--costs`, {stores[name]['urls']:,.0f} waiting URLs" for name in ("urls", "hosts"))
    rows: list[tuple[str, str, str, str, float]] = [
        ("*page*: bytes received", "page", "KB", crawl, 1e3),
        ("*cpu* of a page, everything on", "cpu", "ms", f"{bench}; {crawl}" if bench != crawl else crawl, 1e-3),
        ("*polite*: what it costs more on many hosts with 1 s delay", "polite", "ms", "`make bench`, *wide* less *site*", 1e-3),
        ("*archive*: bytes kept in WARC files", "archive", "KB", crawl, 1e3),
        ("*log*: bytes kept in the request log", "log", "bytes", crawl, 1),
        ("*worker*: memory before URLs", "memory_worker", "MB", crawl, 1e6),
        ("*state of a page*: its record, links, duplicate index", "state_page", "bytes", f"`--costs`, {stores['pages']['pages']:,.0f} visited pages", 1),
        ("*state of a URL* that waits", "state_url", "bytes", f"{urls} on 100,000 hosts", 1),
        ("*state of a host*, beyond its URLs", "state_host", "bytes", f"{hosts}, each on its own host", 1),
        ("*memory of a URL*", "memory_url", "bytes", f"{urls}: what the last two thirds added", 1),
        ("*memory of a host*, beyond its URLs", "memory_host", "bytes", "the same, each on its own host", 1),
        ("*delay + response* of a host", "cycle", "s", _of_hosts(), 1),
        ("*bits* by which a URL is known in memory", "fingerprint_bits", "", "`backends/rocksdb/seen.py`", 1),
    ]  # fmt: skip
    heads = ("input", *(_headed(each) for each in sets), "from")
    lines = [(name, *_same([written(getattr(each, field) / by, unit) for each in sets]), source) for name, field, unit, source, by in rows]  # fmt: skip
    return heads, lines


def _of_hosts() -> str:
    return (
        f"{DELAY:g} s and lognormal times with a median of {RESPONSE:g} s; {SHARES[Kind.SLOW]} % of the hosts ask "
        f"for {CRAWL_DELAY:g} s; harmonic mean"
    )


def _headed(each: Inputs) -> str:
    return f"{each.label}, {each.page / 1e3:.0f} KB"


def _same(values: Sequence[str]) -> list[str]:
    """What is equal in all columns is written once."""
    return [values[0], *("" if value == values[0] else value for value in values[1:])]


def _assumed() -> str:
    return (
        f"**Assumed, not measured: put in your own.** Prices: ${PRICES.core_hour} per core and hour, ${PRICES.gb_hour} per GB of "
        f"memory and hour, ${PRICES.disk_tb_month:g} per TB of disk and month, ${PRICES.traffic_tb:g} per TB of traffic. One machine: "
        f"{MACHINE.cores} cores, {MACHINE.memory / GB:.0f} GB, {MACHINE.disk / TB:.0f} TB of SSD, {MACHINE.bits / 1e9:g} Gbit/s, each used to "
        f"{MACHINE.used:.0%}. The goal: R = {GOAL.rate:,.0f} pages/s; U = {GOAL.urls / 1e9:.0f} billion URLs on H = {GOAL.hosts / 1e6:.0f} million hosts, in "
        f"{GOAL.shards} shards; B = {GOAL.pages_bytes / TB:.0f} TB received."
    )


# ------------------------------------------------------------------------------------------------ results


def _results(sets: Sequence[Inputs]) -> str:
    parts = []
    for caption, rows in (
        (f"{GOAL.rate:,.0f} pages/s, sustained", arithmetic.RATE),
        (f"{GOAL.urls / 1e9:.0f} billion URLs", arithmetic.URLS),
        (f"{GOAL.pages_bytes / TB:.0f} TB of pages", arithmetic.BYTES),
        (f"{GOAL.pages_bytes / TB:.0f} TB in money, at the assumed prices", arithmetic.MONEY),
    ):
        heads = (caption, "formula", *(_headed(each) for each in sets))
        table = heads, [(*line[:2], *_same(line[2:])) for line in arithmetic.lines(rows, sets)]
        parts.append(show.as_markdown(table))
    return "\n\n".join(parts)


def _machines(sets: Sequence[Inputs]) -> str:
    heads = ["one machine", "formula"]
    for each in sets:
        heads += [_headed(each), "machines for the goal"]
    limits = [arithmetic.machine_limits(each) for each in sets]
    lines = []
    for rows in zip(*limits, strict=True):
        cells = [rows[0][0], f"`{rows[0][1]}`"]
        for _, _, much, machines in rows:
            cells += [written(much), written(machines)]
        lines.append(cells)
    return show.as_markdown((heads, lines))


def _short(sets: Sequence[Inputs], kept: Kept) -> str:
    small, large = sets[0], sets[-1]
    few = next(run for run in kept["runs"] if run["plan"]["name"] == "too-few")
    last = few["hours"]["rate"][-1] * few["plan"]["shrink"]
    cores, _, memory, disk, _ = (limit[3] for limit in arithmetic.machine_limits(small))
    money = {row.name: row.value(large) for row in arithmetic.MONEY}
    keeping = money.pop("disk, each month") * 12
    points = (
        f"""**Politeness decides.** {GOAL.rate:,.0f} pages/s at one request per second and host need
        **{written(GOAL.rate * small.cycle)} hosts with work at every moment**, whatever the machine. {few["plan"]["hosts"]:,} hosts of all
        sizes keep that up for {_full_hours(few)} hours of the simulated week, and end it at {written(last)} pages/s.""",
        f"""**{GOAL.rate:,.0f} pages/s** are {written(GOAL.rate * (small.cpu + small.polite))} cores on pages of {small.page / 1e3:.0f} KB and
        {written(GOAL.rate * (large.cpu + large.polite))} on pages of {large.page / 1e3:.0f} KB: {_machines_for(cores)}.""",
        f"""**{GOAL.urls / 1e9:.0f} billion URLs** are {written(arithmetic.seen(small) / GB)} GB of memory and
        {written(arithmetic.state(small) / TB)} TB of disk before a page is fetched, and {written(GOAL.urls / GOAL.rate / 86400)} days at
        that rate: {_machines_for(max(memory, disk))}, for their {"memory" if memory > disk else "disk"}.""",
        f"""**{GOAL.pages_bytes / TB:.0f} TB of pages** are {written(arithmetic.pages(small) / 1e9)} billion small or
        {written(arithmetic.pages(large) / 1e9)} billion large pages. At the assumed prices, keeping the large ones for a year costs
        {written(keeping / sum(money.values()))} times what fetching them did.""",
    )
    return "\n".join(f"- {' '.join(point.split())}" for point in points)


def _machines_for(number: float) -> str:
    return "one machine" if number <= 1 else f"{math.ceil(number)} machines"


def _full_hours(run: Mapping[str, Any]) -> int:
    """Hours in which the machine was used to 99 %."""
    capacity = run["plan"]["capacity"] / run["plan"]["shrink"]
    return sum(rate > 0.99 * capacity for rate in run["hours"]["rate"])


def _weeks(kept: Kept) -> str:
    parts = ["![Rate, hosts and queue over a simulated week](scale.svg)"]
    for run in kept["runs"]:
        parts.append(f"**{run['plan']['about']}.** {checked(run)}")
        parts.append(show.as_markdown(week(run, every=24)))
    return "\n\n".join(parts)


def rendered(page: str, kept: Kept, whole: Mapping[str, Any] | None) -> str:
    """The page with its figures replaced."""
    sets = inputs(kept, whole)
    computer = kept["machine"]
    where = f"Measured on {kept['measured']}: {computer['processor']}, {computer['cores']} cores, {computer['memory']}, {computer['system']}."
    parts = {
        "short": _short(sets, kept),
        "inputs": f"{show.as_markdown(_inputs_table(sets, kept, whole))}\n\n{where}\n\n{_assumed()}",
        "results": _results(sets),
        "machines": _machines(sets),
        "week": _weeks(kept),
    }
    for name, text in parts.items():
        begin, end = (
            f"<!-- {name}: written by `python -m benchmarks.scale --render` -->",
            f"<!-- end of {name} -->",
        )
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"scale.md has no place for figures: {begin} … {end}")
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return page


def write(docs: Path) -> None:
    """Render docs/scale.md again from the JSON files beside it."""
    kept = json.loads((docs / "scale.json").read_text())
    page, bench = docs / "scale.md", docs / "performance.json"
    whole = json.loads(bench.read_text()) if bench.exists() else None
    page.write_text(rendered(page.read_text(), kept, whole))
