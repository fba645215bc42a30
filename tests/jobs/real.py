"""Real schedulers and real crawls, as processes, on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 180.0  # seconds: a bound for loops, not a promise


def skitter(*words: str, cwd: Path | None = None, code: int | None = 0) -> str:
    """Run a command, and return what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=PATIENCE,
        check=False,
    )
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if not code else done.stdout + done.stderr


class Jobs:
    """The jobs of a root, as the command line shows them."""

    def __init__(self, root: Path, *more: str) -> None:
        self.root = root
        self.more = ("--root", str(root), *more)

    def __call__(self, action: str, *words: str, code: int | None = 0) -> str:
        return skitter("job", action, *words, *self.more, code=code)

    def read(self, action: str, *words: str) -> Any:
        return json.loads(self(action, *words, "--json"))

    def runs(self, name: str) -> list[dict[str, Any]]:
        """The history, the earliest first."""
        return list(reversed(self.read("log", name, "--limit", "1000")["runs"]))

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds, and return it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := holds():
                return found
            time.sleep(0.2)
        raise AssertionError("it never came to that")

    @contextmanager
    def scheduler(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A scheduler, killed at the end if it still runs."""
        command = [sys.executable, "-m", "skitter", "job", "serve", *self.more, *words]
        with (self.root.parent / f"scheduler-{time.monotonic_ns()}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def crawl_process(directory: Path) -> int:
    """The process that crawls there; 0 if there is none."""
    try:
        number = int((directory / "lock").read_text())
        os.kill(number, 0)
    except (OSError, ValueError):
        return 0
    return number
