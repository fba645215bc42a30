"""`skitter doctor`: check the installation and the engines.

Each check reports what it found and, if that is not enough, what to do. Only what a crawl requires can make the answer
no; the rest is advice. With the settings of a cluster, its engines are checked too.
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

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.ports import StateError
from skitter.reporting.format import amount, printable
from skitter.runtime.extras import is_there
from skitter.runtime.installing import install_line
from skitter.settings import Settings, SettingsError
from skitter.settings.file import load

OLDEST_PYTHON = (3, 11)
# The extras of what a page can hold and what can be made of it, and the programs of other people that they start.
_FAMILIES = {
    "pdf": "reading PDF",
    "images": "describing images",
    "main": "main content by trafilatura, languages that pages do not declare, and comparing crawls",
    "tables": "Parquet, SQL and reports",
    "identity": "signing requests and WACZ files, and checking such signatures",
}
_PROGRAMS = {
    "tesseract": ("reading text in images (parse.ocr)", ("tesseract",)),
}
_GET = "install it with the package manager of your system, if you need it"


class Check(Struct, frozen=True):
    """The result of one check."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def parser() -> Parser:
    """The flags of `skitter doctor`."""
    made = Parser(
        "doctor",
        "Check what a crawl needs on this machine: Python, libraries (also those of a cluster's engines and of all extras), TLS, "
        "certificates, name resolution, open files, disk space; with --config also whether the engines of a cluster "
        "answer. With --citizen instead: the six MUSTs of the IETF's best practices for crawlers, each with its proof, for the crawl in "
        "DIR or these settings. Exit code 1 if something required is missing.",
        [
            "skitter doctor",
            "skitter doctor --json",
            "skitter doctor --config cluster.toml",
            "skitter doctor --citizen --set fetch.contact=https://bot.example.org/",
        ],
    )
    made.add_argument(
        "--citizen", action="store_true", help="is it a good citizen of the web? nothing is fetched"
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="with --citizen: any setting; repeatable",
    )
    made.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="directory for the crawl (default: the current one)",
    )
    made.add_argument("--config", type=Path, metavar="FILE", help="settings file (TOML) with [cluster]")
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Run all checks and print them."""
    if arguments.citizen:
        return _citizen(arguments)
    if arguments.set:
        raise UsageError("--set goes with --citizen; other checks read --config")
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
        print("everything required is present" if good else "something required is missing")
    return Exit.DONE if good else Exit.NO


def _citizen(arguments: argparse.Namespace) -> Exit:
    from skitter.crawl.directory import CrawlDirectory  # noqa: PLC0415  not for the other checks
    from skitter.fetch.request import user_agent  # noqa: PLC0415  the same
    from skitter.reporting.citizen import citizen  # noqa: PLC0415  the same

    directory = CrawlDirectory(arguments.directory)
    if arguments.directory != Path() and not directory.exists:
        raise StateError(
            f"{directory.path} holds no crawl; name the directory of one, or settings with --config or --set"
        )
    file = directory.settings_file if directory.exists else arguments.config
    given = dict(word.partition("=")[::2] for word in arguments.set)
    settings = load(file, os.environ, given)
    musts = citizen(settings, user_agent(settings.fetch))
    good = all(must.met for must in musts)
    if arguments.json:
        print(json.dumps({"ok": good, "musts": to_builtins(musts)}))
        return Exit.DONE if good else Exit.NO
    for number, must in enumerate(musts, start=1):
        print(f"{'met' if must.met else 'NOT MET':<8} {number}. {must.name}")
        print(f"         {printable(must.proof)}")
        print(f"         tested by {', '.join(test.partition('::')[2] or test for test in must.tests)}")
        if must.advice:
            print(f"         do: {printable(must.advice)}")
    print("all six are met" if good else f"{sum(not must.met for must in musts)} of six are not met")
    return Exit.DONE if good else Exit.NO


def look(directory: Path) -> Iterator[Check]:
    """Run the local checks, in order."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= OLDEST_PYTHON, version, "install Python 3.11 or later")
    for name in libraries():
        yield library(name)
    for name, extra in extras().items():
        yield engine(name, extra)
    for extra, use in _FAMILIES.items():
        yield family(extra, use)
    for name, (use, commands) in _PROGRAMS.items():
        yield program(name, use, commands)
    further: tuple[Callable[[], Check], ...] = (libcurl, certificates, names, open_files)
    for check in further:
        yield check()
    yield disk(directory)
    yield browser()


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
    """Check the library of a cluster engine; only a note if it is missing."""
    check = library(name)
    advice = f"only a crawl on many machines needs it: {install_line(extra)}"
    return Check(check.name, check.ok, check.found, advice, needed=False)


def family(extra: str, use: str) -> Check:
    """Check the libraries of an extra that reads or writes more; only a note if they are missing."""
    versions = [f"{name} {metadata.version(name)}" for name in _distributions(extra) if _is_installed(name)]
    found = ", ".join(versions) if is_there(extra) else f"not installed, and needed for {use}"
    return Check(f"extra {extra}", is_there(extra), found, install_line(extra), needed=False)


def _distributions(extra: str) -> list[str]:
    required = metadata.requires("skitter") or []
    found = [re.fullmatch(rf"([\w.-]+).*extra == .{extra}.", line) for line in required]
    return [match[1] for match in found if match]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def program(name: str, use: str, commands: tuple[str, ...]) -> Check:
    """Check for a program that a part of Skitter starts, under any of its names; only a note if it is missing."""
    found = next(filter(None, map(shutil.which, commands)), None)
    return Check(name, found is not None, found or f"not found: {use} is not possible", _GET, needed=False)


def engines(settings: Settings) -> list[Check]:
    """Check whether the engines in the settings answer."""
    from skitter.compose.health import health  # noqa: PLC0415  slow to import

    found = asyncio.run(health(settings))
    return [Check(each.engine, each.up, "up" if each.up else "away", each.said) for each in found]


def library(name: str) -> Check:
    """Check that a library is installed and can be imported."""
    advice = f"pip install {name}"
    try:
        importlib.import_module(name.replace("-", "_"))
        version = metadata.version(name)
    except (ImportError, metadata.PackageNotFoundError) as problem:
        return Check(name, ok=False, found=f"cannot be loaded ({problem})", advice=advice)
    return Check(name, ok=True, found=version)


def libcurl() -> Check:
    """Check that libcurl was built with TLS."""
    try:
        import pycurl  # noqa: PLC0415  it may be missing
    except ImportError as problem:
        return Check("libcurl", ok=False, found=f"cannot be loaded ({problem})", advice="pip install pycurl")
    built = pycurl.version_info()
    tls = bool(built[4] & pycurl.VERSION_SSL) and "https" in built[8]
    http2 = bool(built[4] & pycurl.VERSION_HTTP2)
    found = f"{built[1]}, TLS by {built[5] or 'nothing'}, HTTP/2 {'yes' if http2 else 'no'}"
    return Check("libcurl", ok=tls, found=found, advice="install a libcurl that was built with TLS")


def certificates() -> Check:
    """Check for CA certificates."""
    paths = ssl.get_default_verify_paths()
    file, folder = paths.cafile, paths.capath
    ok = bool(file or (folder and any(Path(folder).iterdir())))
    advice = "install the package ca-certificates, or name a file in fetch.ca_file"
    return Check("certificates", ok=ok, found=str(file or folder or "none"), advice=advice)


def names() -> Check:
    """Check name resolution, with localhost only: doctor does not use the network."""
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo("localhost", 80)})
    except OSError as problem:
        return Check(
            "names", ok=False, found=f"localhost: {problem}", advice="see /etc/hosts and /etc/resolv.conf"
        )
    return Check("names", ok=True, found=f"localhost is {', '.join(found)}")


def open_files() -> Check:
    """Check the limit on open files: connections in flight and idle, and the store's files."""
    settings = Settings()
    wanted = (
        settings.crawl.concurrency + settings.fetch.keep_connections + 256
    )  # the store's files and the archive's
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ok = soft == resource.RLIM_INFINITY or soft >= wanted
    found = f"{soft} (at most {hard})"
    return Check("open files", ok=ok, found=found, advice=f"run `ulimit -n {wanted}` first", needed=False)


def browser() -> Check:
    """Check for a browser, and for what keeps it off the network; only pages that need JavaScript need them."""
    from skitter.fetch.browser import finding  # noqa: PLC0415  not for other commands

    advice = f"only --render needs it: {finding.INSTALL}"
    try:
        program = finding.browser()
    except SettingsError:
        return Check("browser", ok=False, found="none", advice=advice, needed=False)
    found = f"{finding.version(program) or 'of unknown version'} ({program})"
    if finding.bubblewrap():
        return Check("browser", ok=True, found=f"{found}, shut in by bubblewrap", needed=False)
    return Check(
        "browser",
        ok=False,
        found=f"{found}, kept off the network by its own switches alone",
        advice="install bubblewrap, and allow it to make namespaces",
        needed=False,
    )


def disk(directory: Path) -> Check:
    """Check the free disk space."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    free, least = shutil.disk_usage(there).free, Settings().crawl.min_free_disk
    found = f"{amount(free)} free at {there}"
    return Check(
        "disk", ok=free > least, found=found, advice=f"a crawl stops below {amount(least)}; free some space"
    )
