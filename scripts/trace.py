"""Follow one URL through a real crawl: which modules of skitter it passes, and how often control changes between them.

    python scripts/trace.py            the two figures, then the path, station by station
    python scripts/trace.py --pairs    between which modules it goes to and fro, most often first
    python scripts/trace.py --full     every change of module, one a line
    python scripts/trace.py --json     all of it, for a program

What is crawled: a small site on loopback, one host, one request at a time, through `skitter.crawl`. It has a robots.txt
with rules, and its pages come compressed. The URL that is followed is an ordinary HTML page. It was found on the start page,
and it has fourteen links: six to pages that are known, six to new ones, one to another host and one to a picture.

What is counted: the turn of the wheel that belongs to the URL, from the call of `Frontier.lease` that hands it out up to
the call that hands out the next one. In between it is fetched, parsed, judged, compared, archived and settled, and its new
links go the way that it went itself when its parent was visited: judged, then added to the frontier. Other pages of the
same kind went before it, so imports, connections and caches are as they are in the middle of a crawl.

- A module is passed when a function of it is called or goes on. The program that reads the pages (`skitter.api`,
  `skitter.links.page`) and the event loop are not on the path.
- A change of module is a step of control from one module of skitter to another: a call into another module is one, the
  return from it is the next. Comprehensions and lambdas belong to the module they are written in, and what other libraries
  do in between belongs to nobody. A coroutine that goes on is called again, with those that wait for it.

Several pages of the same kind are followed, and the shortest path is told: a timer that happens to fire on a busy machine
can only make it longer. So the figures are the same in every run.

Nothing here knows the layout of the package but the names of a few functions, which sort the path by station; if one of
them is called something else, its part of the path moves to another station, and the two figures stay what they are.
"""

import argparse
import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import skitter

HOST = "site.test"
ALIKE = range(4, 9)  # the pages that are followed
ROBOTS = b"User-agent: *\nDisallow: /private/\nAllow: /\n"
START = [f"/{number}" for number in range(1, 11)]  # the links of the start page
KNOWN = ["/", "/1", "/2", "/3", "/2#part"]
NEW = ["a", "b", "c", "d", "e", "f?x=1&y=2"]  # below each of those
OUTSIDE = ["http://elsewhere.test/", "/picture.png"]

ROOT = Path(skitter.__file__).parent
READERS = ("api", "links.page", "testing")  # those who only look on

# By the name of the function that opens a station. What happens in it belongs to it, to the end.
STATIONS = {
    "lease": "leased",
    "next_due": "leased",
    "fetch": "fetched",
    "parse": "parsed",
    "found": "links judged",
    "hashed": "compared",
    "claim": "compared",
    "pack": "archived",
    "append": "archived",
    "settle": "settled, links added",
}
VISITED = {"make": "visited", "complete": "visited"}  # what is left of these when the stations are taken out
AROUND = "around it"  # leasing, committing, telling
WIDTH = 120  # of a line
FEW = 4  # functions of a module that are named in the list


class Step(NamedTuple):
    """Control has come to a module."""

    module: str
    function: str
    station: str
    depth: int  # how many modules wait for this one to return
    back: bool  # by a return


class Event(NamedTuple):
    """A function of skitter was called, or has returned."""

    module: str
    function: str
    back: bool


class Recorder:
    """Hears every call and return in skitter, and knows which of them handed out which URL."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.leases: dict[str, int] = {}  # where in the events the call began that handed out a URL
        self._begun: list[int] = []
        self._places: dict[CodeType, tuple[str, str] | None] = {}

    def __call__(self, frame: FrameType, event: str, value: object) -> None:
        """What `sys.setprofile` calls."""
        if event not in {"call", "return"}:
            return
        code = frame.f_code
        if code not in self._places:
            self._places[code] = _place(code)
        place = self._places[code]
        if place is None:
            return
        back = event == "return"
        if code.co_name == "lease":
            if not back:
                self._begun.append(len(self.events))
            elif self._begun:
                began = self._begun.pop()
                for visit in value if isinstance(value, list) else ():
                    self.leases[visit.link.url] = min(began, self.leases.get(visit.link.url, began))
        self.events.append(Event(*place, back))


def _place(code: CodeType) -> tuple[str, str] | None:
    """The module and the name of a function; None outside of skitter, and for those who only look on."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] in READERS or ".".join(parts) in READERS:
        return None
    return ".".join(part for part in parts if part != "__init__") or "skitter", code.co_name


# ------------------------------------------------------------------------------------------------ the crawl


def _words(path: str) -> str:
    """Some that differ in letters: numbers alone would not make it an ordinary page."""
    own = "".join(chr(ord("a") + ord(letter) % 26) for letter in path)
    return " ".join(f"{own}{letter}{own}" for letter in "bcdfghjklmnp")


def page(path: str) -> str:
    """The HTML at a path."""
    links = START
    if path != "/":
        new = [f"{path}/{name}" for name in NEW] if path in START else []
        links = [*KNOWN, path, *new, *OUTSIDE]
    anchors = "".join(f'<li><a href="{link}">to {link}</a>' for link in links)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page {path}</title>'
        f'<meta name="description" content="About {path}"></head>'
        f"<body><h1>{path}</h1><p>Words that only this page has: {_words(path)}.</p><ul>{anchors}</ul></body>"
    )


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until the other side closes it."""
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            if path == "/robots.txt":
                kind, body = "text/plain", ROBOTS
            else:
                kind, body = (
                    "text/html; charset=utf-8\r\nContent-Encoding: gzip",
                    gzip.compress(page(path).encode()),
                )
            head = (
                f'HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nETag: "1"\r\n\r\n'
            )
            writer.write(head.encode() + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def crawl(recorder: Recorder) -> list[str]:
    """Crawl the site up to the last page that is followed; the URLs of these."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        site = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        pages = [f"{site}/{number}" for number in ALIKE]
        run = skitter.crawl(
            f"{site}/",
            resolve=[f"{HOST}:127.0.0.1"],
            allow_private=["127.0.0.0/8"],
            contact="trace@example.org",
            concurrency=1,
            delay=0,
            crawl_sync_interval=3600,
        )
        sys.setprofile(recorder)
        try:
            async for stored in run:
                if stored.url == f"{site}/{ALIKE.stop}":
                    break
        finally:
            sys.setprofile(None)
            await run.aclose()
    return pages


# ------------------------------------------------------------------------------------------------ the path


def paths(recorder: Recorder, pages: Sequence[str]) -> list[list[Step]]:
    """The path of each page: from the step into its lease up to the one into the next."""
    steps = positions(recorder.events)
    borders = {began: url for url, began in sorted(recorder.leases.items(), key=lambda lease: lease[1])}
    return [
        [step for step in steps[began - 1 : end] if step is not None]
        for began, end in pairwise(borders)
        if borders[began] in pages
    ]


def positions(events: Sequence[Event]) -> list[Step | None]:
    """Where control is after each event; None outside of skitter."""
    steps: list[Step | None] = []
    stack: list[Step] = []
    for event in events:
        above = stack[-1] if stack else None
        if not event.back:
            depth = 0 if above is None else above.depth + (above.module != event.module)
            stack.append(Step(event.module, event.function, _station(event, above), depth, back=False))
            steps.append(stack[-1])
        else:
            if stack:
                stack.pop()
            steps.append(stack[-1]._replace(back=True) if stack else None)
    return steps


def _station(event: Event, above: Step | None) -> str:
    if above is not None and above.station in STATIONS.values():
        return above.station
    inherited = above.station if above is not None else AROUND
    if above is None and event.module.split(".")[0] == "fetch":  # the event loop has news of a connection
        inherited = STATIONS["fetch"]
    return STATIONS.get(event.function) or VISITED.get(event.function, inherited)


def changes_of(path: Sequence[Step]) -> list[tuple[Step, Step]]:
    """Every change of module: where from, where to."""
    return [(before, after) for before, after in pairwise(path) if before.module != after.module]


class Passed(NamedTuple):
    """A module as a station of the path sees it."""

    station: str
    module: str
    caller: str  # who came to it first
    depth: int
    entries: int  # changes of module that led into it by a call
    functions: list[str]  # that were called from outside


def passed(path: Sequence[Step]) -> list[Passed]:
    """The modules of each station, in the order in which they are first come to."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    entries: Counter[tuple[str, str]] = Counter()
    functions: dict[tuple[str, str], dict[str, None]] = {}
    for before, step in changes_of(path):
        place = step.station, step.module
        if not step.back:
            entries[place] += 1
            first.setdefault(place, (before.module, step.depth))
            functions.setdefault(place, {})[step.function] = None
    stations = [*dict.fromkeys(station for station, _ in entries if station != AROUND), AROUND]
    ordered = sorted(entries, key=lambda place: stations.index(place[0]))
    return [Passed(*place, *first[place], entries[place], list(functions[place])) for place in ordered]


class Pair(NamedTuple):
    """Two modules between which control goes to and fro."""

    caller: str
    called: str
    changes: int
    functions: dict[str, int]  # that are called, and how often


def pairs(path: Sequence[Step]) -> list[Pair]:
    """Who calls whom, most changes first."""
    changes: Counter[tuple[str, str]] = Counter()
    functions: dict[tuple[str, str], Counter[str]] = {}
    for before, after in changes_of(path):
        pair = (after.module, before.module) if after.back else (before.module, after.module)
        changes[pair] += 1
        if not after.back:
            functions.setdefault(pair, Counter())[after.function] += 1
    return [
        Pair(*pair, count, dict(functions.get(pair, Counter()).most_common()))
        for pair, count in changes.most_common()
    ]


# ------------------------------------------------------------------------------------------------ telling


def figures(path: Sequence[Step]) -> str:
    """The two figures."""
    return f"{len({step.module for step in path})} modules, {len(changes_of(path))} changes of module for one URL"


def as_list(path: Sequence[Step]) -> list[str]:
    """The path, station by station: its modules in order, how often each is entered (if more than once), by which functions.

    Behind a `>` stands a module that the one before it calls, behind a dot one that is called by the same; where neither
    holds, or the line is full, a new line is indented by how many modules are waiting.
    """
    changes = Counter(to.station for _, to in changes_of(path))
    modules = passed(path)
    lines: list[str] = []
    before: Passed | None = None
    outermost = 0
    for module in modules:
        if before is None or module.station != before.station:
            lines.append(f"{module.station} ({changes[module.station]})")
            outermost = min(other.depth for other in modules if other.station == module.station)
            before = None
        times = f" {module.entries}" if module.entries > 1 else ""
        text = f"{module.module}{times}: {_few(module.functions)}"
        mark = ""
        if before is not None and module.caller in {before.module, before.caller}:
            mark = " > " if module.caller == before.module else " · "
        if mark and len(lines[-1]) + len(mark) + len(text) <= WIDTH:
            lines[-1] += mark + text
        else:
            lines.append("  " * (module.depth - outermost + 1) + text)
        before = module
    return lines


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:FEW]) + (", …" if len(names) > FEW else "")


def as_pairs(path: Sequence[Step]) -> list[str]:
    """A table of those who call each other."""
    return [
        f"{pair.changes:>4}  {pair.caller} -> {pair.called}: "
        + ", ".join(f"{name} {count}" for name, count in pair.functions.items())
        for pair in pairs(path)
    ]


def as_changes(path: Sequence[Step]) -> list[str]:
    """Every change, in order."""
    return [
        f"{'  ' * to.depth}{'<-' if to.back else '->'} {to.module}.{to.function}"
        for _, to in changes_of(path)
    ]


def as_json(path: Sequence[Step]) -> str:
    """All of it, for a program."""
    return json.dumps(
        {
            "modules": len({step.module for step in path}),
            "changes": len(changes_of(path)),
            "path": [module._asdict() for module in passed(path)],
            "pairs": [pair._asdict() for pair in pairs(path)],
        },
        indent=1,
    )


def trace() -> list[Step]:
    """Crawl, and give the path of one URL."""
    recorder = Recorder()
    pages = asyncio.run(crawl(recorder))
    alike = paths(recorder, pages)
    if not alike:
        raise SystemExit(
            "the path is cut where `Frontier.lease` hands out a page, and nothing of that name did"
        )
    return min(alike, key=lambda path: len(changes_of(path)))


def main() -> None:
    """Trace, and tell it the way that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--pairs", action="store_true", help="who calls whom, most changes first")
    how.add_argument("--full", action="store_true", help="every change of module")
    how.add_argument("--json", action="store_true", help="all of it, for a program")
    chosen = parser.parse_args()
    path = trace()
    if chosen.json:
        print(as_json(path))
        return
    told = as_pairs(path) if chosen.pairs else as_changes(path) if chosen.full else as_list(path)
    print("\n".join([figures(path), "", *told]))


if __name__ == "__main__":
    main()
