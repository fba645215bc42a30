"""Installs engines with the usual client of each ecosystem: apt, Maven, Go.

Downloads go to the cache under a name with their version, complete or not at all. From there they are linked
into the private directory, because the engines' user may not be able to read the cache (root's home is
closed).
"""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .place import EngineError, Place, tail

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>skitter</groupId> <artifactId>services</artifactId> <version>1</version> <packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency> <groupId>{}</groupId> <artifactId>{}</artifactId> <version>{}</version> </dependency>"""


APT_PATIENCE = 600  # seconds to wait for others that install packages, as a freshly booted machine does
APT_LOCKED = ("Could not get lock", "Unable to lock")
# Engines are installed in parallel. apt allows one process at a time, and Maven's repository has no locks.
APT, MAVEN = threading.Lock(), threading.Lock()


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print a step and how long it took: some take minutes, and nobody should wonder."""
    print(f"  {what} …", flush=True)
    since = time.monotonic()
    yield
    print(f"  {what}: {time.monotonic() - since:.1f} s", flush=True)


def need(program: str, package: str, hint: str = "") -> str:
    """The path of a program; installed from its Debian package if it is missing and we may do that."""
    found = shutil.which(program)
    if found is None and package:
        apt(package)
        found = shutil.which(program)
    if found is None:
        raise EngineError(f"{program} is missing: install {hint or package}")
    return found


def apt(*packages: str) -> None:
    """Install system packages if we are root on Debian; otherwise say which ones are needed."""
    wanted = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineError(f"install {wanted} (as root: apt-get install {wanted})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["-qq", "-o", f"DPkg::Lock::Timeout={APT_PATIENCE}"]
    with APT, step(f"apt-get install {wanted}"):
        patiently(["apt-get", "update", *options], environment)
        patiently(["apt-get", "install", "-y", "--no-install-recommends", *options, *packages], environment)


def patiently(command: Sequence[str], environment: dict[str, str], pause: float = 2.0) -> None:
    """Run apt-get, waiting while another one is running: apt has no timeout for the lock of its lists."""
    deadline, waits = time.monotonic() + APT_PATIENCE, False
    while True:
        try:
            return call(command, environment)
        except EngineError as trouble:
            if not any(words in str(trouble) for words in APT_LOCKED) or time.monotonic() > deadline:
                raise
        if not waits:
            print("  apt is in use by another process; waiting …", flush=True)
            waits = True
        time.sleep(pause)


def fetched(place: Place, name: str, fetch: Callable[[Path], None]) -> Path:
    """The files of this name in the private directory: linked from the cache, which is filled first if necessary."""
    kept, used, partial = (
        place.cache / name,
        place.directory / "opt" / name,
        place.directory / "opt" / f"{name}.part",
    )
    if used.exists():
        return used
    with place.alone(place.cache / "locks" / name):
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=place.cache) as unfinished:
                fetch(Path(unfinished) / "files")
                (Path(unfinished) / "files").rename(kept)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(kept, partial, copy_function=link_or_copy)
    partial.rename(used)
    return used


def link_or_copy(source: str, target: str) -> None:
    """A hard link if possible: nothing to copy or store."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def maven(artifacts: Sequence[tuple[str, str, str]]) -> Callable[[Path], None]:
    """Download these artifacts with their run-time dependencies, jar by jar."""

    def fetch(target: Path) -> None:
        need("java", "default-jre-headless")
        program = need("mvn", "maven")
        pom = target.parent / "pom.xml"
        pom.write_text(
            POM.format(dependencies="".join(DEPENDENCY.format(*artifact) for artifact in artifacts))
        )
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        names = ", ".join(f"{artifact} {version}" for _, artifact, version in artifacts[:1])
        with MAVEN, step(f"mvn: {names} and what it needs"):
            call([program, "-q", "-B", "-f", str(pom), *goal], dict(os.environ))

    return fetch


def go(module: str) -> Callable[[Path], None]:
    """Build a Go program at the version that the module path names."""

    def fetch(target: Path) -> None:
        program = need("go", "", hint="Go 1.25 or newer (go.dev; distributions are often behind)")
        target.mkdir()
        with step(f"go install {module}"):
            call([program, "install", module], {**os.environ, "GOBIN": str(target)})

    return fetch


def call(command: Sequence[str], environment: dict[str, str]) -> None:
    """Run an installer; only its failure is reported."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{Path(command[0]).name} failed: {tail(done.stdout + done.stderr, 5)}")
