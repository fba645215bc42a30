"""Where the engines are: one private directory with their data, logs, ports and process ids.

The directory is `.services/` in the project (or `SKITTER_SERVICES_DIR`). Downloads are kept in the user's
cache (`SKITTER_SERVICES_CACHE`), so that a second clone starts in seconds. An engine keeps its port: a client
that waits for a killed engine must find the restarted one at the same address.
"""

import fcntl
import json
import os
import pwd
import random
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
# Below every ephemeral range in use (Linux: 32768 and up). Within that range a client that reconnects to a
# dead engine may be given the engine's own port as its source, and then talks to itself while the engine
# cannot bind.
PORTS = range(20000, 30000)


class EngineError(Exception):
    """An engine cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class Place:
    """The private directory, the cache of downloads, and the user that engines run as (the current one, unless
    we are root).
    """

    directory: Path
    cache: Path
    user: str | None = None

    @property
    def env(self) -> Path:
        """The file with the addresses, read by the tests."""
        return self.directory / "env"

    def home(self, name: str) -> Path:
        """The directory of one engine."""
        path = self.directory / name
        self.give(path)
        return path

    def give(self, path: Path) -> None:
        """Create a directory that the engines' user may write to."""
        path.mkdir(parents=True, exist_ok=True)
        if self.user is not None:
            entry = pwd.getpwnam(self.user)
            os.chown(path, entry.pw_uid, entry.pw_gid)

    def run(self, command: Sequence[str], home: Path) -> str:
        """Run a tool as the engines' user; returns its output, or raises EngineError with its last lines."""
        done = subprocess.run(
            command,
            cwd=home,
            env=self.variables(home),
            text=True,
            capture_output=True,
            check=False,
            **self.identity(),
        )
        if done.returncode != 0:
            raise EngineError(f"{Path(command[0]).name}: {tail(done.stdout + done.stderr, 5)}")
        return str(done.stdout)

    def identity(self) -> dict[str, Any]:
        """The arguments that make `subprocess` drop root privileges."""
        if self.user is None:
            return {}
        entry = pwd.getpwnam(self.user)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def variables(self, home: Path) -> dict[str, str]:
        """The environment of an engine: nothing of ours but PATH."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "TMPDIR": str(home),
        }

    def ports(self, name: str, purposes: Sequence[str], choices: Sequence[int] = PORTS) -> dict[str, int]:
        """The ports of an engine: its previous ones, or free ones that are stored from now on."""
        file = self.directory / "ports.json"
        known: dict[str, dict[str, int]] = json.loads(file.read_text()) if file.exists() else {}
        mine = known.get(name, {})
        taken = {port for ports in known.values() for port in ports.values()}
        for purpose in purposes:
            if purpose not in mine:
                mine[purpose] = free_port(choices, taken)
                taken.add(mine[purpose])
        known[name] = mine
        write(file, json.dumps(known, indent=1) + "\n")
        return mine

    @contextmanager
    def alone(self, path: Path) -> Iterator[None]:
        """Hold a lock while something is changed that two concurrent runs would break."""
        path.mkdir(parents=True, exist_ok=True)
        with (path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def find_place(environ: Mapping[str, str], uid: int) -> Place:
    """The place that the environment asks for. Root does not run engines: PostgreSQL refuses it, the others should."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Place(
        directory=Path(environ.get("SKITTER_SERVICES_DIR") or PROJECT / ".services").resolve(),
        cache=Path(environ.get("SKITTER_SERVICES_CACHE") or f"{cache}/skitter-services").resolve(),
        user=environ.get("SKITTER_SERVICES_USER", "nobody") if uid == 0 else None,
    )


def check_reachable(place: Place) -> None:
    """The engines' user must be able to reach the directory; a project in root's home hides it."""
    place.directory.mkdir(parents=True, exist_ok=True)
    reached = subprocess.run(
        ["test", "-x", str(place.directory)],
        cwd="/",
        check=False,
        stderr=subprocess.DEVNULL,
        **place.identity(),
    )
    if reached.returncode != 0:
        raise EngineError(
            f"{place.directory} cannot be reached by the user {place.user}; set SKITTER_SERVICES_DIR to a directory that can"
        )


def is_free(port: int) -> bool:
    """Whether an engine could listen on this port of loopback now."""
    with socket.socket() as probe:
        # Like the engines: lingering connections of a former run in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(choices: Sequence[int], taken: set[int]) -> int:
    """A random port, so that two clones started together rarely collide."""
    for port in random.sample(choices, len(choices)):
        if port not in taken and is_free(port):
            return port
    raise EngineError(f"no free port between {min(choices)} and {max(choices)}")


def write_env(path: Path, settings: Mapping[str, str]) -> None:
    """Shell lines KEY=value, written atomically."""
    lines = ["# Written by scripts/services. Source it, or let tests/engines.py read it.\n"]
    lines += [f"{key}={shlex.quote(value)}\n" for key, value in settings.items()]
    write(path, "".join(lines))


def read_env(path: Path) -> dict[str, str]:
    """What `write_env` wrote; empty if no engine was started."""
    if not path.exists():
        return {}
    words = shlex.split(path.read_text(), comments=True)
    return dict(word.split("=", 1) for word in words)


def write(path: Path, text: str) -> None:
    """Replace a file atomically: concurrent readers see the old or the new one."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def tail(text: str, lines: int) -> str:
    """The last lines of a log, on one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-lines:]) or "it said nothing"
