"""Whole crawls against the raw fetch floor, side by side in one run.

The *site* is one host with 3,000 pages of 18 KB and 40 links each. The server has a core of its own; crawler and floor
share the other, one after the other, in turn, and medians are reported with their spread. CPU is user + system of the whole
process, start-up included.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skitter.testing.web import Features, Server, SyntheticWeb, serve_process

OUT = Path("bench-out")
ROUNDS = 3
CONNECTIONS = 100


def timed(command: list[str], stdin: str = "") -> dict[str, float]:
    """Run a process on the last core; what it cost."""
    began = time.perf_counter()
    core = str(max(os.sched_getaffinity(0)))
    child = subprocess.Popen(
        ["taskset", "--cpu-list", core, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(stdin)
    child.stdin.close()
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[:4]} ended with {child.returncode}: {output[-500:]}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "output": output,  # type: ignore[dict-item]
    }


def floor(pages: list[str]) -> dict[str, float]:
    plan = {"urls": pages, "address": "127.0.0.1", "connections": CONNECTIONS}
    return timed([sys.executable, "-m", "benchmarks.floor"], json.dumps(plan)) | {"pages": len(pages)}


def skitter(server: Server, *, near: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="skitter-bench-") as folder:
        resolve = [f"--resolve={host}:{address}" for host, address in server.web.resolve_map().items()]
        command = [
            sys.executable,
            "-m",
            "skitter",
            "crawl",
            *server.seeds(),
            "-o",
            f"{folder}/crawl",
            "--json",
            "-q",
        ]
        command += [
            "--allow-private=127.0.0.0/8",
            "--delay=0s",
            f"--per-host={CONNECTIONS}",
            f"--concurrency={CONNECTIONS}",
        ]
        command += ["--set", f"dedup.near={str(near).lower()}", *resolve]
        cost = timed(command)
    report = json.loads(cost["output"])  # type: ignore[arg-type]
    return cost | {"pages": report["counts"]["pages"], "crawl_seconds": report["elapsed"]}


def summary(runs: list[dict[str, float]]) -> dict[str, float]:
    def median(values: list[float]) -> float:
        return statistics.median(values)

    per_thousand = [run["cpu"] / run["pages"] * 1000 for run in runs]
    return {
        "pages": runs[0]["pages"],
        "pages_per_second": median([run["pages"] / run.get("crawl_seconds", run["seconds"]) for run in runs]),
        "cpu_per_1000_pages": median(per_thousand),
        "spread": max(per_thousand) - min(per_thousand),
        "peak_mb": median([run["peak_mb"] for run in runs]),
    }


def main() -> None:
    """One table and one JSON file."""
    web = SyntheticWeb(seed=1, hosts=1, pages_per_host=3000, features=Features.plain(foreign_share=0.0))
    runs: dict[str, list[dict[str, float]]] = {
        "raw fetch floor": [],
        "skitter": [],
        "skitter, exact duplicates only": [],
    }
    with serve_process(web) as server:
        pages = sorted(server.truth("host").pages)
        floor(pages)  # every page is rendered once before anybody is timed
        for _ in range(ROUNDS):
            runs["raw fetch floor"].append(floor(pages))
            runs["skitter"].append(skitter(server, near=True))
            runs["skitter, exact duplicates only"].append(skitter(server, near=False))
    table = {name: summary(results) for name, results in runs.items()}
    base = table["raw fetch floor"]["cpu_per_1000_pages"]
    print(f"{'':32}{'pages':>8}{'pages/s':>10}{'CPU s/1,000':>14}{'spread':>9}{'x floor':>9}{'peak MB':>9}")
    for name, row in table.items():
        print(
            f"{name:32}{row['pages']:>8.0f}{row['pages_per_second']:>10.0f}{row['cpu_per_1000_pages']:>14.3f}"
            f"{row['spread']:>9.3f}{row['cpu_per_1000_pages'] / base:>9.1f}{row['peak_mb']:>9.0f}"
        )
    OUT.mkdir(exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(),
    }
    (OUT / "crawls.json").write_text(json.dumps({"machine": machine, "table": table}, indent=1))
    print(
        f"\n{machine['system']}, Python {machine['python']}, {machine['cores']} cores; details in {OUT / 'crawls.json'}"
    )
