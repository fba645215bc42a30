"""The crawlers, each as a command that a user would type, and how their pages are counted afterwards.

All do the same work: follow links in scope, obey robots.txt, 100 requests at once, no delay, and keep one
record per page with title, text and links. Skitter's record is its archive and its store. Two do less and
serve as reference points: wget keeps the page as a file (it extracts nothing), and the floor fetches a list
of URLs with libcurl and discards them.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from benchmarks.webs import Served
from skitter.settings import FetchSettings

SCRAPYS_PER_HOST = 8  # its default; Crawlee has no such limit, Skitter's default is 1
PEERS = Path(".venv-bench/bin/python")
KEPT_CONNECTIONS = FetchSettings().keep_connections  # more hosts than that are worth a setting


@dataclass(frozen=True)
class Order:
    """A command and its input."""

    command: list[str]
    stdin: str = ""
    codes: tuple[int, ...] = (0,)  # exit codes of a successful crawl


@dataclass(frozen=True)
class Crawler:
    """One line of the table."""

    name: str
    label: str
    order: Callable[[Served, Path], Order]
    stored: Callable[[Served, Path], set[str]]  # the URLs of the pages it kept
    missing: Callable[[], str] = lambda: ""  # why it cannot be measured here
    webs: tuple[str, ...] = ("site", "broad")
    workers: int = 1


# ------------------------------------------------------------------------------------------------ Skitter


def skitter(served: Served, folder: Path, *, near: bool = True, workers: int = 1, time: str = "") -> Order:
    """Everything on, as a user would run it: robots, durable frontier, text, archive, request log."""
    web = served.web
    command = [
        sys.executable,
        "-m",
        "skitter",
        "crawl",
        "--seeds",
        "-",
        "-o",
        str(folder / "crawl"),
        "-q",
        "--json",
        f"--workers={workers}",
    ]
    command += ["--allow-private=127.0.0.0/8", f"--delay={web.delay}s", "--per-address=none"]
    command += [f"--concurrency={web.connections}", "--set", f"dedup.near={str(near).lower()}"]
    command += [f"--per-host={web.per_host}"] if web.per_host else []
    command += [f"--include={re.escape(web.ending)}$"] if web.ending else []
    command += [f"--max-time={time}"] if time else []
    command += [f"--set=fetch.keep_connections={web.hosts}"] if web.hosts > KEPT_CONNECTIONS else []
    return Order(command, "\n".join(served.seeds))


def _skitter(*, near: bool = True, workers: int = 1) -> Callable[[Served, Path], Order]:
    return lambda served, folder: skitter(served, folder, near=near, workers=workers)


def _skitter_pages(_served: Served, folder: Path) -> set[str]:
    command = [sys.executable, "-m", "skitter", "pages", str(folder / "crawl"), "--status", "2xx", "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {json.loads(line)["url"] for line in listed.splitlines()}


# ------------------------------------------------------------------------------------------------ peers


def _peer(script: str, *, bare: bool = False) -> Callable[[Served, Path], Order]:
    def order(served: Served, folder: Path) -> Order:
        plan = {
            "seeds": served.seeds,
            "hosts": served.hosts,
            "connections": served.web.connections,
            "per_host": served.web.per_host or SCRAPYS_PER_HOST,
            "records": str(folder / "pages.jsonl"),
            "bare": bare,
            "ending": served.web.ending,
        }
        return Order([str(PEERS), "-m", f"benchmarks.peers.{script}"], json.dumps(plan))

    return order


def records(_served: Served, folder: Path) -> set[str]:
    with (folder / "pages.jsonl").open() as lines:
        return {json.loads(line)["url"] for line in lines}


def _no_peers() -> str:
    return "" if PEERS.exists() else f"{PEERS} is missing; `make bench` makes it"


_WGET_MET_AN_ERROR = 8  # some links in real documentation are broken


def _wget(served: Served, folder: Path) -> Order:
    """wget makes one request at a time; with many hosts, a hundred of them run in parallel, one per host."""
    command = ["wget", "--recursive", "--level=inf", "--no-parent", "--execute=robots=on", "--no-verbose"]
    command += ["--output-file=/dev/null", f"--directory-prefix={folder}"]
    command += [f"--accept-regex={re.escape(served.web.ending)}$"] if served.web.ending else []
    if len(served.seeds) == 1:
        return Order([*command, *served.seeds], codes=(0, _WGET_MET_AN_ERROR) if served.web.ending else (0,))
    return Order(["xargs", "-P", str(served.web.connections), "-n", "1", *command], "\n".join(served.seeds))


def _files(served: Served, folder: Path) -> set[str]:
    def urls() -> Iterator[str]:
        for file in folder.rglob("*"):
            if file.is_file() and file.name != "robots.txt":
                url = "http://" + quote(str(file.relative_to(folder)), safe="/:")
                yield url if served.web.ending else url.removesuffix("index.html")

    return set(urls())


def _no_wget() -> str:
    return "" if shutil.which("wget") else "wget is not installed"


def _floor(served: Served, _folder: Path) -> Order:
    # Round-robin over hosts, so that a connection is free again when its host's turn comes.
    in_turn = sorted(served.pages, key=lambda url: (url.split("/", 3)[3], url))
    plan = {"urls": in_turn, "connections": served.web.connections}
    return Order([sys.executable, "-m", "benchmarks.floor"], json.dumps(plan))


_ALL = ("site", "broad", "docs")
CRAWLERS = (
    Crawler("skitter", "Skitter", _skitter(), _skitter_pages, webs=("site", "broad", "fleet", "docs")),
    Crawler("skitter-exact", "Skitter, no near-duplicates", _skitter(near=False), _skitter_pages, webs=_ALL),
    Crawler(
        "skitter-2", "Skitter, 2 workers", _skitter(workers=2), _skitter_pages, webs=("fleet",), workers=2
    ),
    Crawler("scrapy", "Scrapy", _peer("scrapy_peer"), records, _no_peers, webs=_ALL),
    Crawler("scrapy-bare", "Scrapy, bare", _peer("scrapy_peer", bare=True), records, _no_peers),
    Crawler("crawlee", "Crawlee", _peer("crawlee_peer"), records, _no_peers),
    Crawler("wget", "wget (keeps files, no text)", _wget, _files, _no_wget, webs=_ALL),
    Crawler("floor", "raw fetch (keeps nothing)", _floor, lambda served, _folder: set(served.pages)),
)
