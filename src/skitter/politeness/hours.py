"""Windows of single sites and of groups: may this URL be requested at this hour? Pure; time is an argument.

The window of a site replaces that of the crawl, as every setting of a site does; the windows of the groups of a host have
to be open besides.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from skitter import reasons, urls
from skitter.model import Link, NotNow, Reason, Refused
from skitter.robots import RobotsRules
from skitter.runtime import windows
from skitter.runtime.windows import Window, Windows
from skitter.settings import Settings
from skitter.settings.sites import Sites

_WINDOW = "politeness.window"
_DAY = 86400.0


class Hours:
    """The windows of a crawl, by URL."""

    def __init__(self, settings: Settings, sites: Sites | None) -> None:
        self._settings = settings
        self._sites = sites
        self._known: dict[str, Windows | None] = {}  # by text: few differ

    def not_now(self, link: Link, now: float) -> NotNow | Refused | None:
        """Why a visit waits for a window, and until when, or is never made; None if it may be. A robots.txt is a visit like others."""
        latest, closed = 0.0, ""
        every = list(self.of(link.url, link.host))
        for who, hours in every:
            if (opens := hours.closed_until(now)) > latest:
                latest, closed = opens, f"{hours.name} ({who})"
        if not latest:
            return None
        if (reason := never(every, now)) is not None:
            return Refused(reason)
        reason = Reason(reasons.WINDOW, f"outside its window, {closed}")
        return NotNow(reason, latest, whole_host=self._is_of_host(link.host))

    def of(self, url: str, host: str) -> Iterator[tuple[str, Windows]]:
        """The windows of a URL, and whose they are."""
        settings = self._settings if self._sites is None else self._sites.of(url)
        own = self._windows(settings.politeness.window)
        if own is not None:
            speaker = None if self._sites is None else self._sites.speaker(url, _WINDOW)
            yield (_WINDOW if speaker is None else str(speaker)), own
        for group in () if self._sites is None else self._sites.groups(host):
            hours = self._windows(group.window)
            if hours is not None:
                yield f"[group.{group.name}]", hours

    def _is_of_host(self, host: str) -> bool:
        """Whether all URLs of a host have the same windows."""
        return self._sites is None or self._sites.treats_alike(host, _WINDOW)

    def _windows(self, text: str) -> Windows | None:
        if text not in self._known:
            self._known[text] = windows_of(text)
        return self._known[text]


def never(every: Sequence[tuple[str, Windows]], now: float) -> Reason | None:
    """Why a visit that has to keep to all of these is never made; None if they are open at the same time within a year."""
    if len(every) < 2 or _ever_meet(tuple(hours.windows for _, hours in every), int(now // _DAY)):
        return None
    named = ", ".join(f"{hours.name} ({who})" for who, hours in every)
    return Reason(reasons.WINDOW_NEVER, f"its windows are never open at the same time: {named}")


@lru_cache(maxsize=1000)
def _ever_meet(every: tuple[tuple[Window, ...], ...], day: int) -> bool:
    return windows.ever_meet([Windows(each) for each in every], day * _DAY)


def hours(settings: Settings, sites: Sites | None) -> Hours | None:
    """The windows that differ from URL to URL; None if none do, so that nobody has to ask."""
    if sites is None or not (sites.sets(_WINDOW) or any(group.window for group in settings.group)):
        return None
    return Hours(settings, sites)


def common_hours(settings: Settings, sites: Sites | None) -> Windows | None:
    """The window of the whole crawl; None if it has none, or if a site has another."""
    return None if sites is not None and sites.sets(_WINDOW) else windows_of(settings.politeness.window)


def windows_of(text: str) -> Windows | None:
    """The windows of a setting; None if it is always open."""
    return Windows(map(windows.read, windows.split(text))) if text.strip() else None


def all_hours(
    url: str, settings: Settings, sites: Sites | None, rules: RobotsRules | None
) -> tuple[tuple[str, Windows], ...]:
    """Every window that a URL has to keep, its robots.txt's included, and whose each is."""
    own = tuple(Hours(settings, sites).of(url, urls.host(url)))
    asked = None if rules is None or rules.visit_time is None else windows.daily(*rules.visit_time)
    return own if asked is None else (*own, ("Visit-time of its robots.txt", asked))
