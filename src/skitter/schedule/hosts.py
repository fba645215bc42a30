"""In which order free hosts are visited, besides by the level and score of their first link. Pure.

Larger sites first (Baeza-Yates and others, 2005): the host with the most waiting links is next, so that no large site is
left over at the end, when politeness allows one request at a time. Queue pressure: a host whose queue grows faster than its
pages come in sinks by a level, and rises again when that is over.
"""

from msgspec import Struct

from skitter.model import HostRecord, Level
from skitter.settings import ScheduleSettings

LARGER_SITES = "larger-sites"
FEW = 1_000
"""Links that may wait on any host: the first page of an honest site alone may have hundreds."""


def is_pressed(waiting: int, pages: int, pressure: float | None) -> bool:
    """Whether a host has so many links waiting, for the pages stored from it, that it sinks by a level."""
    return pressure is not None and waiting > FEW and waiting > pressure * pages


def pressed(host: HostRecord, settings: ScheduleSettings) -> str:
    """Why a host has sunk by a level, in words; empty if it has not."""
    if not is_pressed(host.lined_up, host.pages, settings.pressure):
        return ""
    return (
        f"has sunk by a level: {host.lined_up:,} links wait there for {host.pages:,} pages stored "
        f"(schedule.pressure is {settings.pressure:g} for each)"
    )


class HostOrder(Struct, frozen=True, gc=False):
    """How free hosts are ordered, where that differs from the order of their first links."""

    by_size: bool
    pressure: float | None

    def placed(self, level: int, score: float, waiting: int, pages: int) -> tuple[int, float]:
        """The level and score by which a host is compared with others, given those of its first link."""
        if level < Level.BACKGROUND and is_pressed(waiting, pages, self.pressure):
            level += 1
        return level, float(waiting) if self.by_size else score


def host_order(settings: ScheduleSettings) -> HostOrder | None:
    """The order that the settings ask for; None if hosts are ordered by their first links alone."""
    by_size = settings.strategy == LARGER_SITES
    return HostOrder(by_size, settings.pressure) if by_size or settings.pressure is not None else None
