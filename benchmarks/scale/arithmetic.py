"""The scale model itself: from the cost of a page, a URL and a host to the needs of a large crawl. Pure.

`Inputs` are measured or assumed, and every row of the results shows its formula. For other pages, prices or
machines, change the inputs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

DAY, YEAR = 86400.0, 365 * 86400.0
KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12


@dataclass(frozen=True)
class Inputs:
    """Bytes and seconds."""

    label: str
    page: float  # received
    archive: float  # kept of it
    log: float
    cpu: float  # for a page, everything on
    polite: float  # additional CPU per page with many hosts and a delay between requests
    state_page: float  # disk, of a visited URL with its page and links
    state_url: float  # disk, of a waiting URL
    state_host: float  # disk, beyond its URLs
    memory_url: float
    memory_host: float
    memory_worker: float  # of a worker, before URLs
    cycle: float  # delay and response time of a host, as they add up over hosts
    response: float
    fingerprint_bits: int  # by which a URL is known in memory


@dataclass(frozen=True)
class Prices:
    """Assumed: round figures for rented machines; replace them with your own."""

    core_hour: float = 0.04  # dollars, as are the others
    gb_hour: float = 0.005
    disk_tb_month: float = 20.0
    traffic_tb: float = 5.0


@dataclass(frozen=True)
class Machine:
    """Assumed: one machine of a common kind."""

    cores: int = 16
    memory: float = 64 * GB
    disk: float = 15 * TB
    bits: float = 10e9  # a second
    used: float = 0.7  # fraction of each that is used: the rest is for peaks, compactions and the system


@dataclass(frozen=True)
class Goal:
    """What is asked for."""

    rate: float = 1000.0
    urls: float = 1e10
    pages_bytes: float = 100 * TB
    hosts: float = 1e8  # over which the URLs are spread
    shards: int = 128


PRICES, MACHINE, GOAL = Prices(), Machine(), Goal()
Formula = Callable[[Inputs], float]


@dataclass(frozen=True)
class Row:
    """A figure, its formula, and its format."""

    name: str
    formula: str
    value: Formula
    unit: str = ""
    by: float = 1.0


def pages(i: Inputs) -> float:
    """In 100 TB."""
    return GOAL.pages_bytes / i.page


def core_hours(i: Inputs) -> float:
    """For them."""
    return pages(i) * (i.cpu + i.polite) / 3600


def state(i: Inputs) -> float:
    """Bytes on disk of 10 billion waiting URLs and their hosts."""
    return GOAL.urls * i.state_url + GOAL.hosts * i.state_host


def seen(i: Inputs) -> float:
    """Bytes of memory of the same."""
    return GOAL.urls * i.memory_url + GOAL.hosts * i.memory_host


RATE = (
    Row("hosts with work, at every moment", "R · (delay + response)", lambda i: GOAL.rate * i.cycle),
    Row("requests in flight", "R · response", lambda i: GOAL.rate * i.response),
    Row("cores", "R · (cpu + polite)", lambda i: GOAL.rate * (i.cpu + i.polite)),
    Row("bandwidth", "R · page · 8", lambda i: GOAL.rate * i.page * 8, "Mbit/s", MB),
    Row("archive and log per day", "R · 86,400 · (archive + log)", lambda i: GOAL.rate * DAY * (i.archive + i.log), "TB", TB),
    Row("page records per day", "R · 86,400 · state of a page", lambda i: GOAL.rate * DAY * i.state_page, "TB", TB),
    Row("pages per year", "R · 31.5 million", lambda _: GOAL.rate * YEAR, "billion", 1e9),
)  # fmt: skip
URLS = (
    Row("disk, all waiting", "U · state of a URL + H · state of a host", state, "TB", TB),
    Row("disk, all visited", "U · state of a page", lambda i: GOAL.urls * i.state_page, "TB", TB),
    Row("memory", "U · memory of a URL + H · memory of a host", seen, "GB", GB),
    Row("time to visit them", "U / R", lambda _: GOAL.urls / GOAL.rate / DAY, "days"),
    Row("URLs mistaken for another", "U² / shards / 2^(bits + 1)", lambda i: GOAL.urls**2 / GOAL.shards / 2 ** (i.fingerprint_bits + 1)),
)  # fmt: skip
BYTES = (
    Row("pages", "B / page", pages, "billion", 1e9),
    Row("time", "pages / R", lambda i: pages(i) / GOAL.rate / DAY, "days"),
    Row("CPU", "pages · (cpu + polite)", core_hours, "core hours"),
    Row("archive and log", "pages · (archive + log)", lambda i: pages(i) * (i.archive + i.log), "TB", TB),
    Row("page records", "pages · state of a page", lambda i: pages(i) * i.state_page, "TB", TB),
)
MONEY = (
    Row("CPU", "core hours · price", lambda i: core_hours(i) * PRICES.core_hour, "$"),
    Row("memory", "memory of 10 billion URLs · time · GB hour", lambda i: seen(i) / GB * pages(i) / GOAL.rate / 3600 * PRICES.gb_hour, "$"),
    Row("traffic", "B · TB of traffic", lambda _: GOAL.pages_bytes / TB * PRICES.traffic_tb, "$"),
    Row("disk, each month", "(archive + log + page records) · TB month", lambda i: pages(i) * (i.archive + i.log + i.state_page) / TB * PRICES.disk_tb_month, "$"),
)  # fmt: skip


def machine_limits(i: Inputs) -> list[tuple[str, str, float, float]]:
    """What one machine can do: (resource, formula, amount, machines for the goal)."""
    m = MACHINE
    by_cores = m.cores * m.used / (i.cpu + i.polite)
    by_line = m.bits * m.used / 8 / i.page
    by_memory = (m.memory * m.used - m.cores * i.memory_worker) / i.memory_url
    by_disk = m.disk * m.used / i.state_url
    days = m.disk * m.used / (GOAL.rate * (i.archive + i.log + i.state_page)) / DAY
    return [
        ("pages/s, by its cores", "cores · used / (cpu + polite)", by_cores, GOAL.rate / by_cores),
        ("pages/s, by its line", "bits · used / 8 / page", by_line, GOAL.rate / by_line),
        ("billion waiting URLs, by its memory", "(memory · used − cores · worker) / memory of a URL", by_memory / 1e9, GOAL.urls / by_memory),
        ("billion waiting URLs, by its disk", "disk · used / state of a URL", by_disk / 1e9, GOAL.urls / by_disk),
        ("days of 1,000 pages/s on its disk", "disk · used / (R · 86,400 · bytes kept per page)", days, pages(i) / GOAL.rate / DAY / days),
    ]  # fmt: skip


def written(value: float, unit: str = "") -> str:
    """Three digits are more than enough precision."""
    places = 2 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{round(value, places):,.{max(0, places)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"${text}" if unit == "$" else f"{text} {unit}".strip()


def lines(rows: Sequence[Row], inputs: Sequence[Inputs]) -> list[tuple[str, ...]]:
    """Name, formula and a value for each set of inputs."""
    return [
        (row.name, f"`{row.formula}`", *(written(row.value(each) / row.by, row.unit) for each in inputs))
        for row in rows
    ]
