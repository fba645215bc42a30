"""The server's own log of every request, from which politeness is judged without asking the crawler.

A request starts when its head is complete and ends when the last byte of the answer was handed to the socket.
These intervals show whether two requests were ever in flight on one host, and how long each host was idle.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec


class Request(msgspec.Struct, gc=False):
    """One request as the server saw it. Times are wall-clock seconds."""

    host: str  # as named by the Host header, without the port
    path: str  # as requested, including the query
    page: str  # path and query in normal form: two spellings of one page share it
    address: str  # the connection it arrived on
    connection: int
    start: float
    end: float | None  # None: the answer was not complete yet, or the client left before
    status: int  # 0: none was sent
    agent: str
    in_flight: int  # requests in flight on this host when it started, including itself
    whole: bool = True  # False: the client left before it had everything


_decoder = msgspec.json.Decoder(Request)


def read(file: Path) -> list[Request]:
    """The requests in a log file, oldest first."""
    lines = file.read_bytes().splitlines()
    return sorted((_decoder.decode(line) for line in lines), key=lambda request: request.start)


def _by_host(requests: Iterable[Request]) -> Iterator[tuple[str, list[Request]]]:
    hosts: dict[str, list[Request]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.start):
        hosts[request.host].append(request)
    yield from hosts.items()


def gaps(requests: Iterable[Request]) -> dict[str, list[float]]:
    """Per host: seconds from the end of each response to the start of the next request."""
    found: dict[str, list[float]] = {}
    for host, mine in _by_host(requests):
        ends, found[host] = float("-inf"), []
        for request in mine:
            if ends > float("-inf"):
                found[host].append(request.start - ends)
            ends = max(ends, request.start if request.end is None else request.end)
    return found


def overlaps(requests: Iterable[Request], *, slack: float = 0.25) -> list[tuple[Request, Request]]:
    """Pairs of requests in flight on one host at the same time.

    When a client gives up, the server learns of it a little later, perhaps after the next request: the end of
    an abandoned request is assumed to be up to `slack` seconds earlier than it was noticed.
    """
    found: list[tuple[Request, Request]] = []
    for _host, mine in _by_host(requests):
        running: list[tuple[float, Request]] = []
        for request in mine:
            running = [(end, other) for end, other in running if end > request.start]
            found += [(other, request) for _end, other in running]
            end = float("inf") if request.end is None else request.end
            running.append((end if request.whole else end - slack, request))
    return found


def crowds(requests: Iterable[Request], *, slack: float = 0.25) -> dict[str, int]:
    """Per address: the most requests in flight at one time. `slack` is that of `overlaps`."""
    most: dict[str, int] = defaultdict(int)
    running: dict[str, list[float]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.start):
        end = float("inf") if request.end is None else request.end
        here = [other for other in running[request.address] if other > request.start]
        running[request.address] = [*here, end if request.whole else end - slack]
        most[request.address] = max(most[request.address], len(here) + 1)
    return dict(most)
