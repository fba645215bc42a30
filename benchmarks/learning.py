"""A crawl of a web with something to learn, as a user would run it; and the switch that turns learning off."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skitter.settings import Settings
from skitter.testing.learnable import Serving

OVER = (0, 3)  # exit codes of a crawl that ended, or stopped at a limit
_SECTION = "learning"
PATIENCE = 1800.0  # seconds: a bound, not a promise


@dataclass(frozen=True)
class Ran:
    """One crawl."""

    seconds: float
    code: int
    report: dict[str, Any]


def switched(*, learning: bool) -> list[str]:
    """The settings with or without anything learned."""
    section = getattr(Settings(), _SECTION, None)
    if section is None:
        return []
    names = [name for name in section.__struct_fields__ if isinstance(getattr(section, name), bool)]
    return [f"--set={_SECTION}.{name}={str(learning).lower()}" for name in names]


def crawl(seeds: list[str], folder: Path, *flags: str, workers: int = 1) -> Ran:
    """Crawl without delays until it is over."""
    command = [sys.executable, "-m", "skitter", "crawl", *seeds, "-o", str(folder), "-q", "--json"]
    command += ["--allow-private=127.0.0.0/8", "--delay=0", "--per-address=none", f"--workers={workers}"]
    command += ["--set=schedule.retry_base=50ms", "--set=politeness.adaptive=false", *flags]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode not in OVER:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr[-2000:]}")
    return Ran(time.monotonic() - began, done.returncode, json.loads(done.stdout))


def of(server: Serving) -> list[str]:
    """What a crawl of a served web needs: every host of its domain, and its name server."""
    return ["--scope=domain", f"--set=fetch.nameservers={server.nameserver}"]
