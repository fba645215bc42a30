"""The machine and the versions that the figures were measured with."""

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pycurl

from benchmarks.crawlers import PEERS

OURS = ("skitter", "pycurl", "selectolax", "rocksdict", "isal", "numpy", "uvloop")
THEIRS = ("scrapy", "twisted", "crawlee", "impit", "lxml", "uvloop")
_ASK = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"


def machine() -> dict[str, str]:
    """The computer and its system."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """The versions of everything involved."""
    found = {"Python": platform.python_version()}
    found |= {name: metadata.version(name) for name in OURS}
    found["libcurl"] = pycurl.version_info()[1]
    if PEERS.exists():
        asked = subprocess.run([PEERS, "-c", _ASK, *THEIRS], capture_output=True, text=True, check=True)
        found |= json.loads(asked.stdout)
    if shutil.which("wget"):
        found["wget"] = _said("wget", "--version").split()[2]
    if commit := _said("git", "describe", "--always", "--dirty"):
        found["commit"] = commit
    return found


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
