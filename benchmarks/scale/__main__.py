"""The scale model: a simulated week of crawling, measured costs, and the result in docs/scale.md.

python -m benchmarks.scale                 the week at 1:2500, about a minute
python -m benchmarks.scale --full --keep   the week at 1:400, about eight minutes, into docs/
python -m benchmarks.scale --costs --keep  bytes and CPU per page, URL and host, into docs/
python -m benchmarks.scale --render        docs/scale.md and docs/scale.svg anew, from the JSON files in docs/
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import machine, show
from benchmarks.scale import costs, document, picture
from benchmarks.scale.population import Plan
from benchmarks.scale.simulation import GROUP, HOUR, Result, Simulation
from skitter.runtime import process

OUT, DOCS = Path("bench-out"), Path("docs")
PLANS = (
    Plan("enough", "2,000,000 hosts: the machine is the limit", hosts=2_000_000),
    Plan("too-few", "200,000 hosts: politeness is the limit", hosts=200_000),
)
SMALL, FULL = 2500, 400  # how many times smaller the model is
TOLERANCE = 0.03  # of the capacity, in any hour


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help=f"the model at 1:{FULL} instead of 1:{SMALL}")
    parser.add_argument("--shrink", type=int, help="the model at another size")
    parser.add_argument("--days", type=float, default=7.0, help="simulated time (default: 7)")
    parser.add_argument(
        "--slow", type=int, default=10, help="how slow and small a model host is (default: 10)"
    )
    parser.add_argument("--costs", action="store_true", help="measure costs instead of simulating")
    parser.add_argument("--render", action="store_true", help="measure nothing, only write the document")
    parser.add_argument("--keep", action="store_true", help="put the results into docs/")
    return parser.parse_args()


def simulate(plan: Plan) -> Result:
    """One run, in its own directory."""
    with tempfile.TemporaryDirectory(prefix="skitter-scale-") as folder, process.collecting_rarely():
        return Simulation(plan, Path(folder) / "state").run()


def wrong(result: Result) -> list[str]:
    """What a run must show, but does not."""
    limit = result.plan.model_capacity
    group = GROUP / HOUR  # requests start in groups, so an hour may hold one more or one less
    found = []
    if result.too_soon:
        found.append(f"{result.too_soon} requests came sooner than their host is owed")
    if result.forbidden:
        found.append(f"{result.forbidden} requests for what robots.txt forbids")
    if result.disagreements:
        found.append(f"frontier and books counted differently in {result.disagreements} hours")
    if max(hour.rate for hour in result.hours) > limit + group:
        found.append("more requests than the machine can make")
    if result.worst() > TOLERANCE + group / limit:
        found.append(f"the rate of an hour is {result.worst():.1%} of the capacity off the prediction")
    return found


def _simulated(options: argparse.Namespace) -> list[dict[str, Any]]:
    process.tune_allocator()
    shrink = options.shrink or (FULL if options.full else SMALL)
    runs, problems = [], []
    for plan in PLANS:
        result = simulate(replace(plan, shrink=shrink, days=options.days, slow=options.slow))
        runs.append(result.as_json())
        problems += [f"{plan.name}: {what}" for what in wrong(result)]
        print(f"\n{plan.about}\n\n{show.as_text(document.week(runs[-1], every=12))}")
        print(f"\n{document.checked(runs[-1])}", flush=True)
    if problems:
        sys.exit("\n".join(problems))
    return runs


def _part(options: argparse.Namespace) -> dict[str, Any]:
    return {"costs": costs.measure()} if options.costs else {"runs": _simulated(options)}


def main() -> None:
    """Measure, store, print."""
    options = _options()
    folder = DOCS if options.keep or options.render else OUT
    folder.mkdir(exist_ok=True)
    file = folder / "scale.json"
    part = {} if options.render else _part(options)
    kept = json.loads(file.read_text()) if file.exists() else {}
    if part:
        noted = {"measured": date.today().isoformat(), "machine": machine.machine()}  # noqa: DTZ011  where it was measured
        kept |= part | noted
        file.write_text(document.as_json(kept))
    if "costs" in kept:
        print(f"\n{show.as_text(document.costs_table(kept['costs']))}")
    if "runs" in kept:
        (folder / "scale.svg").write_text(picture.draw(kept["runs"]))
    if folder is DOCS and {"costs", "runs"} <= kept.keys():
        document.write(DOCS)
    print(f"\nEverything is in {file}.")


if __name__ == "__main__":
    main()
