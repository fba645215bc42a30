"""Debian's Prometheus: promtool, and a server that scrapes."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def needed(program: str) -> str:
    """The path of a program of the Debian package prometheus; in CI it must be there."""
    found = shutil.which(program)
    if found is None:
        message = f"{program} is not installed (Debian package prometheus)"
        if os.environ.get("SKITTER_TEST_REQUIRE"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def promtool(*words: object, stdin: str = "") -> str:
    """Run promtool; its complaints fail the test."""
    done = subprocess.run(
        [needed("promtool"), *map(str, words)], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Server:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._at = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        url = f"{self._at}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression now; a wrong one raises."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def metric_names(self) -> set[str]:
        return set(self.get("/api/v1/label/__name__/values")["data"])

    def until(self, expression: str, patience: float = 60.0) -> list[dict[str, Any]]:
        """Wait until an expression has a result."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if found := self.query(expression):
                return found
            time.sleep(0.2)
        raise AssertionError(
            f"{expression} has no result after {patience:.0f} s: {self.get('/api/v1/targets')}"
        )

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._at}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def prometheus(
    folder: Path, targets: Mapping[str, Sequence[str]], rules: Sequence[Path] = ()
) -> Iterator[Server]:
    """A Prometheus that scrapes these targets, HOST:PORT by job, every second."""
    program, port = needed("prometheus"), free_port()
    jobs = [
        {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
        for job, addresses in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": jobs,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))  # JSON is YAML
    log = (folder / "log").open("wb")
    flags = [
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    process = subprocess.Popen([program, *flags], stdout=log, stderr=log)
    try:
        server, end = Server(port), time.monotonic() + 60
        while not server.is_ready():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "Prometheus does not start"
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)
        log.close()
