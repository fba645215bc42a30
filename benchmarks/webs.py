"""The webs that are crawled, and the process that serves them.

*site* is one large host: the cost of a page without any waiting. *broad* is 500 small hosts that answer after
50 ms: many connections, many robots.txt files. *fleet* is *broad* with more pages: one worker beside two.
*wide* is 3,000 hosts with a delay of one second, which is what a polite crawl of the real web looks like.
*docs* are real sites: documentation packaged by Debian (see `manuals`). All hosts have their own loopback
addresses (127.x.y.z), the one way of naming hosts that every crawler here understands without configuration.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import manuals
from skitter.testing.web import Features, Refusal, Server, SyntheticWeb, serve_process


@dataclass(frozen=True)
class Web:
    """A web to measure on, and what its crawlers are allowed."""

    name: str
    about: str
    hosts: int
    pages_per_host: int
    robots: str  # the variant that all its hosts have
    latency: float = 0.0
    connections: int = 100  # requests in flight
    per_host: int | None = None  # None: the crawler's own choice
    delay: float = 0.0
    foreign_share: float = 0.1
    folder: str = ""  # of real documentation: a pattern under /usr/share/doc
    package: str = ""  # that has it

    @property
    def part(self) -> str:
        """The name by which it is measured, or left out."""
        return "docs" if self.folder else self.name

    @property
    def ending(self) -> str:
        """All crawlers ignore pages whose names do not end like this."""
        return ".html" if self.folder else ""

    def missing(self) -> str:
        """Why it cannot be served here."""
        return manuals.missing(self.folder, self.package) if self.folder else ""

    def description(self) -> SyntheticWeb:
        """What is served: pages of 18 KB with 40 links."""
        features = Features.plain(foreign_share=self.foreign_share)
        return SyntheticWeb(
            1, self.hosts, self.pages_per_host, features, addressing="literal", robots=(self.robots,)
        )


SITE = Web(
    "site",
    "one host, 3,000 pages of 18 KB with 40 links",
    1,
    3000,
    "disallow",
    per_host=100,
    foreign_share=0.0,
)
BROAD = Web("broad", "500 hosts with 10 such pages, 50 ms latency", 500, 10, "rules", latency=0.05)
# Enough pages that start-up does not dominate, and enough requests in flight that the latency does not.
FLEET = Web(
    "fleet",
    "500 hosts with 50 such pages, 50 ms latency, 400 requests at once",
    500,
    50,
    "rules",
    0.05,
    connections=400,
)
WIDE = Web("wide", "3,000 hosts with 250 such pages, 1 s delay", 3000, 250, "rules", delay=1.0)
DOCS = tuple(
    Web(
        f"docs-{name}",
        f"{about}, as in Debian's {package}",
        1,
        0,
        "",
        per_host=100,
        folder=folder,
        package=package,
    )
    for name, about, folder, package in (
        ("python", "the documentation of Python", "python3-doc/html", "python3-doc"),
        ("postgresql", "the documentation of PostgreSQL", "postgresql-doc-*/html", "postgresql-doc-15"),
        ("java", "the javadoc of OpenJDK", "openjdk-*-doc/api", "openjdk-17-doc"),
    )
)
WEBS = {web.name: web for web in (SITE, BROAD, FLEET, WIDE, *DOCS)}


@dataclass
class Served:
    """A web that is being served, and what can be found in it."""

    web: Web
    server: Server | manuals.Nginx
    pages: frozenset[str]
    forbidden: frozenset[str]  # by robots.txt

    @property
    def seeds(self) -> list[str]:
        if isinstance(self.server, manuals.Nginx):
            return [f"http://{self.hosts[0]}/index.html"]
        return self.server.seeds()

    @property
    def hosts(self) -> list[str]:
        names = [self.server.address] if isinstance(self.server, manuals.Nginx) else self.server.web.names
        return [f"{name}:{self.server.port}" for name in names]


def cores() -> tuple[int, int]:
    """The server's core and the crawler's."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


@contextmanager
def serving(web: Web) -> Iterator[Served]:
    """Serve it in a process pinned to its own core."""
    if web.folder:
        with _serving_docs(web) as served:
            yield served
        return
    with serve_process(web.description(), latency=web.latency) as server:
        os.sched_setaffinity(server.pid, {cores()[0]})
        if web.delay:  # such a web is never crawled to its end, so its truth is not needed
            yield Served(web, server, frozenset(), frozenset())
            return
        truth = server.truth("host")
        forbidden = [url for url, why in truth.refused.items() if why is Refusal.ROBOTS]
        yield Served(web, server, frozenset(truth.pages), frozenset(forbidden))


@contextmanager
def _serving_docs(web: Web) -> Iterator[Served]:
    root = manuals.folder(web.folder)
    if root is None:
        raise SystemExit(f"{web.name}: {web.missing()}")
    with manuals.serving(root) as server:
        os.sched_setaffinity(server.pid, {cores()[0]})
        base = f"http://{server.address}:{server.port}/"
        yield Served(web, server, frozenset(base + path for path in manuals.pages(root)), frozenset())


def cpu_of(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
