"""Writes the results to docs/performance.json and .svg, and to the tables in performance.md and scale.md."""

import json
from pathlib import Path

from benchmarks import picture, show
from benchmarks.scale import document

DOCS = Path("docs")
BEGIN = "<!-- figures: written by `python -m benchmarks --keep`, do not edit -->"
END = "<!-- end of figures -->"


def keep(results: show.Results, docs: Path = DOCS) -> None:
    """Write them all; the scale model uses these figures too. What was not measured stays as it was."""
    file = docs / "performance.json"
    results = merged(json.loads(file.read_text()), results)
    file.write_text(json.dumps(results, indent=1) + "\n")
    (docs / "performance.svg").write_text(picture.draw(show.drawn(results)))
    page = docs / "performance.md"
    page.write_text(with_figures(page.read_text(), results))
    document.write(docs)


def merged(kept: show.Results, results: show.Results) -> show.Results:
    """The figures of synthetic webs and of real documentation may come from two runs, each with its machine and day."""
    measured_synthetic = results["crawls"] or results["wide"] or results["blocks"]
    whole = results if measured_synthetic else kept
    if "docs" not in kept or not results["docs"]["crawls"]:
        return {**whole, "docs": kept.get("docs", results["docs"])}
    old, new = kept["docs"], results["docs"]
    crawled = {**old["crawls"], **new["crawls"]}
    met = [each for each in old["targets"] if each["web"] not in new["crawls"]] + list(new["targets"])
    rounds = max(old.get("rounds", 0), new.get("rounds", 0))
    return {**whole, "docs": {**new, "rounds": rounds, "crawls": crawled, "targets": met}}


def with_figures(text: str, results: show.Results) -> str:
    """The page with its figures replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"performance.md has no place for figures: {BEGIN} … {END}")
    parts = ["![CPU seconds per 1,000 pages, by crawler](performance.svg)"]
    parts += [f"**{caption}**\n\n{show.as_markdown(table)}" for caption, table in show.tables(results)]
    parts.append(show.machine(results))
    if "docs" in results:
        parts += [
            f"**{caption}**\n\n{show.as_markdown(table)}" for caption, table in show.docs(results["docs"])
        ]
        parts.append(show.machine(results["docs"]))
    return before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + after
