"""The real engines, for tests that need one: their addresses, and fault injection.

    def test_a_lease_survives_the_server():
        postgres = engine("postgres")          # skips, and says why, when there is none
        ...
        with frozen("postgres"): ...           # it keeps its connections and says nothing
        kill("postgres"); start("postgres")    # comes back on the same port, with its data

`make services` starts them and writes their addresses to `.services/env`. A variable like SKITTER_TEST_POSTGRES in the
environment names another server instead; that one is used, but never killed. With SKITTER_TEST_REQUIRE=1 (as in CI) a
missing engine is a failure.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pycurl
import pytest
from scripts.engines.place import PROJECT, find_place, read_env

MISSING = ": make services"  # how the reason of a test ends that was skipped for want of an engine
NAMES = ("postgres", "redis", "kafka", "opensearch", "s3")


@dataclass(frozen=True)
class Engine:
    """One engine that was started: a name of NAMES, and what a client must know."""

    name: str
    address: str
    settings: Mapping[str, str] = field(default_factory=dict)  # S3: ACCESS_KEY, SECRET_KEY, REGION
    ours: bool = False  # started by scripts/services, so that it may be killed

    @property
    def host(self) -> str:
        """Where it listens."""
        return str(self.parts.hostname)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.parts.port or 0)

    @property
    def parts(self):
        """The address, taken apart; Kafka's has no scheme."""
        return urlsplit(self.address if "://" in self.address else f"//{self.address}")

    @property
    def pid(self) -> int:
        """Its process now: another one after every restart."""
        return int(addresses()[f"SKITTER_TEST_{self.name.upper()}_PID"])

    @property
    def data(self) -> Path:
        """Where it keeps what must survive."""
        return Path(self.settings["DATA"])


def addresses() -> dict[str, str]:
    """What `make services` wrote down."""
    return read_env(find_place(os.environ, os.geteuid()).env)


def known_engines(written: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, Engine]:
    """The engines that somebody named: the environment before the file."""
    found = {}
    for name in NAMES:
        key = f"SKITTER_TEST_{name.upper()}"
        source = environ if key in environ else written
        if key in source:
            settings = {
                more.removeprefix(f"{key}_"): source[more] for more in source if more.startswith(f"{key}_")
            }
            ours = key in written and source[key] == written[key]
            found[name] = Engine(name, source[key], settings, ours)
    return found


def engines() -> dict[str, Engine]:
    """The engines that accept a connection now, by name."""
    known = known_engines(addresses(), os.environ)
    return {name: each for name, each in known.items() if reachable(each)}


def engine(name: str) -> Engine:
    """This engine, or the test ends here and says what is missing."""
    found = known_engines(addresses(), os.environ).get(name)
    if found is not None and reachable(found):
        return found
    missing = "was not started" if found is None else f"does not answer at {found.address}"
    reason = f"{name} {missing}{MISSING}"
    if os.environ.get("SKITTER_TEST_REQUIRE"):
        pytest.fail(reason)
    pytest.skip(reason)


def our_engine(name: str) -> Engine:
    """This engine if it may be killed: one that scripts/services started."""
    found = engine(name)
    if not found.ours:
        pytest.skip(f"{name} at {found.address} is not ours to disturb; `make services` starts one that is")
    return found


def reachable(each: Engine) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((each.host, each.port), timeout=5).close()
    except OSError:
        return False
    return True


def make_bucket(s3: Engine, bucket: str) -> None:
    """A bucket for one test; object store clients can use buckets but not make them."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"{s3.address}/{bucket}")
    curl.setopt(pycurl.CUSTOMREQUEST, "PUT")
    curl.setopt(pycurl.AWS_SIGV4, f"aws:amz:{s3.settings['REGION']}:s3")
    curl.setopt(pycurl.USERPWD, f"{s3.settings['ACCESS_KEY']}:{s3.settings['SECRET_KEY']}")
    answer = curl.perform_rs()
    status = curl.getinfo(pycurl.RESPONSE_CODE)
    curl.close()
    assert status == 200, f"the bucket {bucket} was not made: {status} {answer}"


def start(name: str) -> None:
    """Start it again after `kill`; returns when it answers."""
    services("up", name)


def restart(name: str) -> None:
    """Stop it properly and start it again; returns when it answers."""
    services("restart", name)


def kill(name: str) -> None:
    """kill -9, with everything it started; returns when it is gone."""
    services("kill", name)


def freeze(name: str) -> None:
    """Stop its processes where they are: connections stay open and nothing answers."""
    services("freeze", name)


def thaw(name: str) -> None:
    """Let it go on."""
    services("thaw", name)


@contextmanager
def frozen(name: str) -> Iterator[None]:
    """Frozen for a while, thawed whatever happens."""
    freeze(name)
    try:
        yield
    finally:
        thaw(name)


@contextmanager
def killed(name: str) -> Iterator[None]:
    """Dead for a while, then up again, whatever happens."""
    kill(name)
    try:
        yield
    finally:
        start(name)


def services(verb: str, name: str) -> None:
    """The same command that people type; in a process of its own, so that no engine becomes a child of the tests."""
    command = [sys.executable, str(PROJECT / "scripts" / "services"), verb, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"scripts/services {verb} {name}: {done.stdout}{done.stderr}"
