"""The results as tables: for a terminal, and for the documentation."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.blocks import REGRESSION
from benchmarks.webs import WEBS
from skitter.reporting.format import counted

Results = Mapping[str, Any]  # as in the JSON file
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # heads, lines


def crawls(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line per crawler."""
    heads = (
        "", "pages/s", "CPU s per 1,000 pages", "spread", "peak MB", "pages", "read alike", "connections", "server core",
    )  # fmt: skip
    lines = [
        (
            row["label"],
            f"{row['pages_per_second']:,.0f}",
            f"{row['cpu']:.2f}",
            f"{row['cpu_least']:.2f}–{row['cpu_most']:.2f}",
            f"{row['peak_mb']:.0f}" if row["peak_mb"] else "–",  # it ended before the first sample
            f"{row['pages']:,} of {row['of']:,}"
            + (f", {row['forbidden']} forbidden" if row["forbidden"] else ""),
            "–" if row["same"] is None else f"{row['same'] / row['of']:.0%}",
            f"{row['connections']:,}",
            f"{row['server_share']:.0%}",
        )
        for row in rows
    ]
    return heads, lines


def blocks(figures: Sequence[Mapping[str, Any]]) -> Table:
    """A line per block, marked if it has become slower."""
    heads = ("block", "now", "baseline", "ratio", "")
    lines = [
        (
            figure["name"],
            f"{figure['now']:.1f}",
            "–" if figure["baseline"] is None else f"{figure['baseline']:.1f}",
            "–" if figure["ratio"] is None else f"{figure['ratio']:.2f}",
            "slower" if (figure["ratio"] or 0) > REGRESSION else "",
        )
        for figure in figures
    ]
    return heads, lines


def wide(crawl: Mapping[str, Any]) -> Table:
    """One line."""
    heads = (
        "",
        "pages/s",
        "CPU s per 1,000 pages",
        "of its core",
        "server core",
        "peak MB",
        "pages",
        "shortest gap",
    )
    line = (
        f"{crawl['seconds'] / 60:.0f} min",
        f"{crawl['pages_per_second']:,.0f}",
        f"{crawl['cpu']:.2f}",
        f"{crawl['cpu_share']:.0%}",
        f"{crawl['server_share']:.0%}",
        f"{crawl['peak_mb']:.0f}",
        f"{crawl['pages']:,}",
        f"{crawl['shortest_gap']:.3f} s",
    )
    return heads, [line]


def targets(reached: Sequence[Mapping[str, Any]]) -> Table:
    """A line per target."""
    heads = ("web", "ratio", "target", "measured", "")
    lines = [
        (
            each["web"],
            each["what"],
            each["target"],
            _ratio(each["measured"]),
            "met" if each["met"] else "not met",
        )
        for each in reached
    ]
    return heads, lines


def _ratio(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.5 else f"1/{1 / value:.1f}"


def tables(results: Results) -> list[tuple[str, Table]]:
    """All of them, each with its caption."""
    found = [(f"{web}: {WEBS[web].about}", crawls(rows)) for web, rows in results["crawls"].items()]
    if results["wide"]:
        found.append((f"wide: {WEBS['wide'].about}; Skitter alone, one worker", wide(results["wide"])))
    if results["blocks"]:
        caption = "Blocks: CPU µs each; the ratio compares on equal machines"
        found.append((caption, blocks(results["blocks"])))
    if results["targets"]:
        found.append(("Ratios and targets", targets(results["targets"])))
    return found


def docs(results: Results) -> list[tuple[str, Table]]:
    """Real documentation, in the same form."""
    found = [(f"{web}: {WEBS[web].about}", crawls(rows)) for web, rows in results["crawls"].items()]
    if results["targets"]:
        found.append(("Real documentation: ratios and targets", targets(results["targets"])))
    return found


def drawn(results: Results) -> dict[str, Any]:
    """The crawls shown in the chart."""
    return {**results["crawls"], **results.get("docs", {}).get("crawls", {})}


def machine(results: Results) -> str:
    """The machine and versions, in a sentence or two."""
    computer = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"Measured on {results['measured']}: {computer['processor']}, {computer['cores']} cores, {computer['memory']}, "
        f"{computer['system']}. {_rounds(results)} {versions}."
    )


def _rounds(results: Results) -> str:
    """How often everything was run; the webs of real documentation may be measured separately."""
    times = {web: len(rows[0]["runs"]) for web, rows in results["crawls"].items() if rows and rows[0]["runs"]}
    said = f"Medians of {results['rounds']} interleaved runs."
    others = [f"{web}: {counted(n, 'run')}" for web, n in times.items() if n != results["rounds"]]
    return f"{said} ({', '.join(others)}.)" if others else said


def as_text(table: Table) -> str:
    """Columns; numbers to the right."""
    heads, lines = table
    widths = [max(len(cell) for cell in column) for column in zip(heads, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < _words(table) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *lines)
    )


def _words(table: Table) -> int:
    """How many of the first columns hold text."""
    heads, lines = table
    return next((n for n in range(len(heads)) if all(line[n][:1].isdigit() for line in lines)), 1)


def as_markdown(table: Table) -> str:
    heads, lines = table
    rule = ["---"] * len(heads)
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, rule, *lines))
