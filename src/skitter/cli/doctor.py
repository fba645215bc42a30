"""`skitter doctor`: is everything here that a crawl needs?

Each check looks at one thing and says what it found and, if that is not enough, what to do. Only what a crawl cannot do
without makes the answer no; the rest is advice. With the settings of a cluster its engines are asked how they are.
"""

import argparse
import asyncio
import importlib
import json
import os
import re
import resource
import shutil
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from msgspec import Struct, to_builtins

from skitter.cli.usage import Exit, Parser
from skitter.reporting.format import amount, printable
from skitter.runtime.installing import install_line
from skitter.settings import Settings
from skitter.settings.file import load

OLDEST_PYTHON = (3, 11)


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def parser() -> Parser:
    """The flags of `skitter doctor`."""
    made = Parser(
        "doctor",
        "Look at everything a crawl needs on this machine: Python, libraries (also those of a cluster's engines), TLS, "
        "certificates, name resolution, open files, disk space; with --config also whether the engines of a cluster answer. "
        "Exit code 1 if something needed is missing.",
        ["skitter doctor", "skitter doctor --json", "skitter doctor --config cluster.toml"],
    )
    made.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where a crawl would go (default: here)",
    )
    made.add_argument("--config", type=Path, metavar="FILE", help="settings file (TOML) with [cluster]")
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Look at everything, tell, and decide."""
    checks = list(look(arguments.directory))
    if arguments.config is not None:
        checks += engines(load(arguments.config, os.environ, {}))
    good = all(check.ok for check in checks if check.needed)
    if arguments.json:
        print(json.dumps({"ok": good, "checks": to_builtins(checks)}))
    else:
        for check in checks:
            mark = "ok" if check.ok else "MISSING" if check.needed else "note"
            said = f"{check.found}; {check.advice}" if not check.ok else check.found
            print(f"{mark:<8} {check.name:<18} {printable(said)}")
        print("everything needed is here" if good else "something needed is missing")
    return Exit.DONE if good else Exit.NO


def look(directory: Path) -> Iterator[Check]:
    """Every check, in order."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= OLDEST_PYTHON, version, "install Python 3.11 or later")
    for name in libraries():
        yield library(name)
    for name, extra in extras().items():
        yield engine(name, extra)
    further: tuple[Callable[[], Check], ...] = (libcurl, certificates, names, open_files)
    for check in further:
        yield check()
    yield disk(directory)


def libraries() -> list[str]:
    """The run-time libraries, by the names they are installed under."""
    required = metadata.requires("skitter") or []
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in required if "extra ==" not in line]


def extras() -> dict[str, str]:
    """The libraries that only a crawl on many machines needs, each with the extra of its engine."""
    required = metadata.requires("skitter") or []
    found = [re.fullmatch(r"([\w.-]+).*extra == .(kafka|postgres|redis|s3).", line) for line in required]
    return {match[1]: match[2] for match in found if match}


def engine(name: str, extra: str) -> Check:
    """Is there a library for an engine of a cluster?"""
    check = library(name)
    advice = f"only a crawl on many machines needs it: {install_line(extra)}"
    return Check(check.name, check.ok, check.found, advice, needed=False)


def engines(settings: Settings) -> list[Check]:
    """Do the engines that the settings name answer?"""
    from skitter.compose.health import health  # noqa: PLC0415  engines' libraries are large

    found = asyncio.run(health(settings))
    return [Check(each.engine, each.up, "up" if each.up else "away", each.said) for each in found]


def library(name: str) -> Check:
    """Is a library installed, and does it load?"""
    advice = f"pip install {name}"
    try:
        importlib.import_module(name.replace("-", "_"))
        version = metadata.version(name)
    except (ImportError, metadata.PackageNotFoundError) as problem:
        return Check(name, ok=False, found=f"cannot be loaded ({problem})", advice=advice)
    return Check(name, ok=True, found=version)


def libcurl() -> Check:
    """What the library that speaks HTTP was built with."""
    try:
        import pycurl  # noqa: PLC0415  the doctor looks at what may be missing
    except ImportError as problem:
        return Check("libcurl", ok=False, found=f"cannot be loaded ({problem})", advice="pip install pycurl")
    built = pycurl.version_info()
    tls = bool(built[4] & pycurl.VERSION_SSL) and "https" in built[8]
    http2 = bool(built[4] & pycurl.VERSION_HTTP2)
    found = f"{built[1]}, TLS by {built[5] or 'nothing'}, HTTP/2 {'yes' if http2 else 'no'}"
    return Check("libcurl", ok=tls, found=found, advice="install a libcurl that was built with TLS")


def certificates() -> Check:
    """Are there certificate authorities to verify servers with?"""
    paths = ssl.get_default_verify_paths()
    file, folder = paths.cafile, paths.capath
    ok = bool(file or (folder and any(Path(folder).iterdir())))
    advice = "install the package ca-certificates, or name a file in fetch.ca_file"
    return Check("certificates", ok=ok, found=str(file or folder or "none"), advice=advice)


def names() -> Check:
    """Does name resolution answer at all? Only localhost is asked for: a doctor does not touch the network."""
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo("localhost", 80)})
    except OSError as problem:
        return Check(
            "names", ok=False, found=f"localhost: {problem}", advice="see /etc/hosts and /etc/resolv.conf"
        )
    return Check("names", ok=True, found=f"localhost is {', '.join(found)}")


def open_files() -> Check:
    """Enough for every connection in flight and kept, and the store's own files."""
    settings = Settings()
    wanted = (
        settings.crawl.concurrency + settings.fetch.keep_connections + 256
    )  # the store's files and the archive's
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ok = soft == resource.RLIM_INFINITY or soft >= wanted
    found = f"{soft} (at most {hard})"
    return Check("open files", ok=ok, found=found, advice=f"run `ulimit -n {wanted}` first", needed=False)


def disk(directory: Path) -> Check:
    """Room for a crawl."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    free, least = shutil.disk_usage(there).free, Settings().crawl.min_free_disk
    found = f"{amount(free)} free at {there}"
    return Check(
        "disk", ok=free > least, found=found, advice=f"a crawl stops below {amount(least)}; make room"
    )
