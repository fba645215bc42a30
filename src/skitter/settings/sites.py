"""Which settings hold for a URL: those of the crawl, with what overlays (`[[site]]`) say about it. Pure.

Of all overlays that match, the first that names a setting decides about it. The answer is an ordinary settings tree, made
once for each combination of overlays; without overlays it is the crawl's own, at the price of one comparison.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skitter.settings import BudgetSettings, GroupSettings, LearningSettings, Settings, SiteSettings
from skitter.settings.globs import Glob, SitePattern, host_glob, site_pattern
from skitter.settings.values import KEYS

_REMEMBERED = 10_000  # sites, hosts or combinations; then all are forgotten
_PORTS = {"http": 80, "https": 443}


class Overlay(Struct, frozen=True):
    """One `[[site]]`, ready to be asked."""

    number: int  # from 1, in the order of the file
    pattern: SitePattern
    site: SiteSettings

    def __str__(self) -> str:
        return f"[[site]] {self.number} ({self.site.match})"


class Sites:
    """The overlays and groups of a crawl."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._overlays = tuple(
            Overlay(number, site_pattern(site.match), site)
            for number, site in enumerate(settings.site, start=1)
        )
        self._groups: tuple[tuple[GroupSettings, tuple[Glob, ...]], ...] = tuple(
            (group, tuple(map(host_glob, group.hosts))) for group in settings.group
        )
        self._by_site: dict[str, tuple[Overlay, ...]] = {}
        self._whole: dict[str, Settings] = {}  # the same for sites where no path matters
        self._trees: dict[tuple[int, ...], Settings] = {(): settings}
        self._groups_of: dict[str, tuple[GroupSettings, ...]] = {}

    def __bool__(self) -> bool:
        """Whether any URL may have settings of its own."""
        return bool(self._overlays)

    def of(self, url: str) -> Settings:
        """The settings that hold for a URL, which is in its fetched form."""
        if not self._overlays:
            return self._settings
        site = url[: url.find("/", 8)]
        whole = self._whole.get(site)
        if whole is not None:
            return whole
        overlays = self.matching(url)
        tree = self._trees.get(tuple([overlay.number for overlay in overlays])) or self._tree(overlays)
        if all(overlay.pattern.path is None for overlay in self._by_site[site]):
            self._whole[site] = tree
        return tree

    def each(self) -> Iterator[Settings]:
        """The settings with each overlay alone, for checks at the start."""
        return (overlaid(self._settings, [overlay.site]) for overlay in self._overlays)

    def matching(self, url: str) -> tuple[Overlay, ...]:
        """The overlays that match a URL, in their order."""
        slash = url.find("/", 8)
        site, target = url[:slash], url[slash:]
        found = self._by_site.get(site)
        if found is None:
            if len(self._by_site) >= _REMEMBERED:
                self._by_site.clear()
                self._whole.clear()
            scheme, host, port = _cut(site)
            found = tuple(
                overlay for overlay in self._overlays if overlay.pattern.matches_site(scheme, host, port)
            )
            self._by_site[site] = found
        return tuple(
            [each for each in found if each.pattern.path is None or each.pattern.path.matches(target)]
        )

    def speaker(self, url: str, dotted: str) -> Overlay | None:
        """The overlay that decides about a setting for a URL; None if the crawl's own value holds."""
        return next((overlay for overlay in self.matching(url) if dotted in overlay.site.values), None)

    def speakers(self, url: str) -> dict[str, Overlay]:
        """By setting, the overlay that decides about it for a URL."""
        found: dict[str, Overlay] = {}
        for overlay in self.matching(url):
            for dotted in overlay.site.values:
                found.setdefault(dotted, overlay)
        return found

    def sets(self, dotted: str) -> bool:
        """Whether any overlay names this setting."""
        return any(dotted in overlay.site.values for overlay in self._overlays)

    def values_for_host(self, host: str, dotted: str) -> list[Any]:
        """Every value that a setting may have for some URL of a host."""
        found = []
        for overlay in self._overlays:
            if dotted in overlay.site.values and overlay.pattern.host.matches(host):
                found.append(overlay.site.values[dotted])
                if overlay.pattern.is_whole_host:
                    return found
        section, _, name = dotted.partition(".")
        return [*found, getattr(getattr(self._settings, section), name)]

    def treats_alike(self, host: str, dotted: str) -> bool:
        """Whether a setting is the same for all URLs of a host."""
        return len(set(self.values_for_host(host, dotted))) == 1

    def groups(self, host: str) -> Sequence[GroupSettings]:
        """The groups that a host belongs to."""
        if not self._groups:
            return ()
        found = self._groups_of.get(host)
        if found is None:
            if len(self._groups_of) >= _REMEMBERED:
                self._groups_of.clear()
            found = tuple(group for group, globs in self._groups if any(each.matches(host) for each in globs))
            self._groups_of[host] = found
        return found

    def _tree(self, overlays: tuple[Overlay, ...]) -> Settings:
        numbers = tuple(overlay.number for overlay in overlays)
        tree = self._trees.get(numbers)
        if tree is None:
            if len(self._trees) >= _REMEMBERED:
                self._trees = {(): self._settings}
            tree = self._trees[numbers] = overlaid(self._settings, [overlay.site for overlay in overlays])
        return tree


def sites_of(settings: Settings) -> Sites | None:
    """The overlays and groups of these settings; None if there are none, so that nobody has to ask."""
    return Sites(settings) if settings.site or settings.group else None


def overlaid(settings: Settings, sites: Sequence[SiteSettings]) -> Settings:
    """The settings with what the first of these says about each of them."""
    sections: dict[str, dict[str, Any]] = {}
    for site in reversed(sites):
        for dotted, value in site.values.items():
            sections.setdefault(KEYS[dotted].section, {})[KEYS[dotted].name] = value
    changed = {name: replace(getattr(settings, name), **values) for name, values in sections.items()}
    return replace(settings, **changed)


def judging_settings(settings: Settings) -> bytes:
    """The settings that decide which URLs are wanted, as a text to compare; they are judged again when it changes.

    Without overlays and assets it is that of [scope] alone.
    """
    said = [
        (site.match, dotted, value)
        for site in settings.site
        for dotted, value in site.values.items()
        if dotted.startswith(("scope.", "budget.", "archive.assets", "learning."))
    ]
    assets = settings.archive.assets
    text = msgspec.json.encode(settings.scope) + (msgspec.json.encode(said) if said else b"")
    text += f"assets={assets}".encode() if assets != "off" else b""
    return text + (msgspec.json.encode(settings.learning) if settings.learning != LearningSettings() else b"")


def wants_assets(settings: Settings) -> bool:
    """Whether the assets of any page are wanted."""
    said = (site.values.get("archive.assets", "off") for site in settings.site)
    return settings.archive.assets != "off" or any(value != "off" for value in said)


def learns(settings: Settings, what: str) -> bool:
    """Whether patterns or parameters of any site are learned."""
    said = (bool(site.values.get(f"learning.{what}", False)) for site in settings.site)
    return getattr(settings.learning, what) or any(said)


def waiting_settings(settings: Settings) -> bytes:
    """The settings for which a URL may have to wait; what waits is looked at again when they change."""
    said: list[Any] = [
        (site.match, dotted, value)
        for site in settings.site
        for dotted, value in site.values.items()
        if dotted == "politeness.window"
    ]
    said += list(settings.group)
    said += [settings.politeness.window] if settings.politeness.window else []
    said += [settings.budget] if settings.budget != BudgetSettings() else []
    return msgspec.json.encode(said) if said else b""


def _cut(site: str) -> tuple[str, str, int]:
    """Scheme, host and port of a serialised URL without its path."""
    scheme, _, rest = site.partition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isdigit():  # no port; the colons may be those of an address in brackets
        return scheme, rest, _PORTS.get(scheme, 0)
    return scheme, host, int(port)
