"""Settings of single sites and of groups of hosts, as they are written: `[[site]]` and `[group.NAME]`.

An overlay is a pattern and ordinary settings by their ordinary names, dotted or in nested tables. Of several that match a
URL, the first that names a setting decides about it. One that could therefore never speak, because an earlier one matches
all it matches and says something else, is a contradiction and refused. `sites` asks them.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from skitter.settings import GroupSettings, SettingsError, SiteSettings
from skitter.settings.globs import SitePattern, host_glob, site_pattern
from skitter.settings.values import GROUP_KEYS, KEYS, convert, show, written

Where = Callable[[str, str], str]
"""What an error message begins with, from an entry ("site 2", "group cdn") and a key in it, or nothing."""

EXAMPLES = {
    "site": 'site=[{match = "*.example.org", politeness.delay = "5s"}]',
    "group": 'group={cdn = {hosts = ["*.cdn.example"], delay = "2s"}}',
}
"""Both as they are written after --set."""

# What an overlay may set: how a site is treated. What belongs to the whole crawl or to this machine it may not.
_ALLOWED = (
    "politeness.delay",
    "politeness.window",
    "budget.host_",
    "scope.include",
    "scope.exclude",
    "scope.skip_extensions",
    "scope.max_depth",
    "scope.max_url_length",
    "scope.max_path_segments",
    "scope.max_segment_repeats",
    "scope.max_query_params",
    "scope.max_query_length",
    "scope.calendar_years",
    "scope.session_in_path",
    "fetch.accept_language",
    "fetch.headers",
    "fetch.cookies",
    "fetch.keep_cookies",
    "fetch.secrets",
    "fetch.proxy",
    "fetch.http2",
    "fetch.render",
    "fetch.render_deadline",
    "fetch.render_quiet",
    "fetch.render_gap",
    "fetch.render_requests",
    "fetch.render_post",
    "fetch.render_skip",
    "fetch.render_scroll",
    "fetch.render_click",
    "fetch.screenshots",
    "archive.assets",
    "schedule.recrawl",
    "schedule.refresh_rate",
    "schedule.refresh_share",
    "learning.patterns",
    "learning.parameters",
    "learning.keep",
    "parse.content_start",
    "parse.content_end",
    "parse.ocr",
    "parse.follow_json",
    "parse.next_json",
    "parse.next_param",
    "parse.items_json",
)
_GROUP_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def may_overlay(dotted: str) -> bool:
    """Whether a setting may differ from site to site."""
    return dotted in KEYS and any(
        dotted.startswith(name) if name.endswith("_") else dotted == name for name in _ALLOWED
    )


def nowhere(entry: str, key: str) -> str:
    """The beginning of a message about an entry that is in no file."""
    return f"{entry}: {key}: " if key else f"{entry}: "


def read(name: str, value: object, where: Where = nowhere) -> object:
    """What `site` or `group` stands for, as it is in the settings tree. Text is read as TOML."""
    if isinstance(value, str):
        try:
            value = tomllib.loads(f"it = {value}")["it"]
        except tomllib.TOMLDecodeError as problem:
            raise SettingsError(
                f"{where(name, '')}not TOML ({problem}); write for example {EXAMPLES[name].partition('=')[2]}"
            ) from None
    return _read_sites(value, where) if name == "site" else _read_groups(value, where)


# ------------------------------------------------------------------------------------------------ sites


def _read_sites(value: object, where: Where) -> tuple[SiteSettings, ...]:
    if not isinstance(value, Sequence):
        raise SettingsError(
            f"{where('site 1', '')}there may be several sites; write [[site]], with two brackets"
        )
    sites = tuple(_read_site(f"site {number}", item, where) for number, item in enumerate(value, start=1))
    check(sites, where)
    return sites


def _read_site(entry: str, item: object, where: Where) -> SiteSettings:
    if isinstance(item, SiteSettings):
        item = {"match": item.match, **item.values}
    if not isinstance(item, dict):
        raise SettingsError(f"{where(entry, '')}a site is a table; write [[site]] and its keys below")
    rest = dict(item)
    match = rest.pop("match", None)
    if not isinstance(match, str):
        raise SettingsError(
            f'{where(entry, "match" if match is not None else "")}it names no sites; write for example match = "*.example.org"'
        )
    _located(where(entry, "match"), lambda: site_pattern(match))
    values: dict[str, Any] = {}
    for dotted, found in _flat(rest):
        if not may_overlay(dotted):
            raise SettingsError(f"{where(entry, dotted)}{_not_here(dotted)}")
        values[dotted] = _located(where(entry, dotted), lambda d=dotted, f=found: convert(KEYS[d], f))  # type: ignore[misc]
    if not values:
        raise SettingsError(
            f'{where(entry, "")}it sets nothing for {match}; write for example politeness.delay = "5s", or remove it'
        )
    return SiteSettings(match, values)


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Dotted keys, whichever way they are nested."""
    for name, value in table.items():
        dotted = before + name
        if isinstance(value, dict) and dotted not in KEYS:
            yield from _flat(value, f"{dotted}.")
        else:
            yield dotted, value


def _located(place: str, made: Callable[[], object]) -> object:
    try:
        return made()
    except SettingsError as problem:
        raise SettingsError(f"{place}{problem}") from None


def _not_here(dotted: str) -> str:
    allowed = [key for key in KEYS if may_overlay(key)]
    if dotted in KEYS:
        return f"this setting is for the whole crawl; a site may have its own {', '.join(allowed)}"
    near = difflib.get_close_matches(dotted, allowed, n=1, cutoff=0.7)
    near = near or [key for key in allowed if key.endswith(f".{dotted.rpartition('.')[2]}")]
    hint = f"did you mean {near[0]}?" if near else f"a site may have its own {', '.join(allowed)}"
    return f"unknown key; {hint}"


def check(sites: Sequence[SiteSettings], where: Where = nowhere) -> None:
    """Refuse an overlay that contradicts an earlier one, so that it could never speak."""
    earlier: list[tuple[SitePattern, SiteSettings]] = []
    for number, site in enumerate(sites, start=1):
        pattern = site_pattern(site.match)
        for before, (other, first) in enumerate(earlier, start=1):
            if not other.covers(pattern):
                continue
            for dotted, value in site.values.items():
                if dotted in first.values and first.values[dotted] != value:
                    same = "the same" if other == pattern else "all of that"
                    fix = "remove one of them" if other == pattern else f"put {site.match} first"
                    raise SettingsError(
                        f"{where(f'site {number}', dotted)}{site.match} can never have"
                        f" {written(KEYS[dotted], value)}: site {before} ({first.match}) matches {same} before it and says"
                        f" {written(KEYS[dotted], first.values[dotted])}; {fix}"
                    )
        earlier.append((pattern, site))


# ------------------------------------------------------------------------------------------------ groups


def _read_groups(value: object, where: Where) -> tuple[GroupSettings, ...]:
    if isinstance(value, tuple):  # as in the tree
        return value
    if not isinstance(value, Mapping):
        raise SettingsError(f"{where('group', '')}a group has a name; write for example [group.cdn]")
    return tuple(_read_group(str(name), table, where) for name, table in value.items())


def _read_group(name: str, table: object, where: Where) -> GroupSettings:
    entry = f"group {name}"
    if not _GROUP_NAME.fullmatch(name):
        raise SettingsError(
            f"{where(entry, '')}{name!r} is not a name; write letters, digits, - and _, as in [group.cdn]"
        )
    if not isinstance(table, Mapping):
        raise SettingsError(f"{where(entry, '')}a group is a table; write [group.{name}] and its keys below")
    values: dict[str, Any] = {}
    for field, found in table.items():
        key = GROUP_KEYS.get(f"group.{field}")
        if key is None:
            names = [each.name for each in GROUP_KEYS.values()]
            near = difflib.get_close_matches(field, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"keys of a group are {', '.join(names)}"
            raise SettingsError(f"{where(entry, field)}unknown key; {hint}")
        values[field] = _located(where(entry, field), lambda k=key, f=found: convert(k, f))  # type: ignore[misc]
    if not values.get("hosts"):
        raise SettingsError(
            f'{where(entry, "")}it names no hosts; write for example hosts = ["*.cdn.example"]'
        )
    for host in values["hosts"]:
        _located(where(entry, "hosts"), lambda h=host: host_glob(h))  # type: ignore[misc]
    return GroupSettings(name, **values)


# ------------------------------------------------------------------------------------------------ writing


def write(sites: Sequence[SiteSettings], groups: Sequence[GroupSettings]) -> list[str]:
    """Overlays and groups as lines of TOML; reading them gives the same back."""
    lines: list[str] = []
    for site in sites:
        lines += ["[[site]]", f"match = {show(str, site.match)}"]
        lines += [f"{dotted} = {written(KEYS[dotted], value)}" for dotted, value in site.values.items()]
    for group in groups:
        lines.append(f"[group.{group.name}]")
        for key in GROUP_KEYS.values():
            value = getattr(group, key.name)
            if value != key.default:
                lines.append(f"{key.name} = {written(key, value)}")
    return lines


def described(name: str, value: object) -> str:
    """Overlays or groups in a few words, for a message."""
    assert isinstance(value, tuple)  # noqa: S101  the tree's own type
    if not value:
        return "not set"
    return "; ".join(_site_words(each) if name == "site" else _group_words(each) for each in value)


def _site_words(site: SiteSettings) -> str:
    said = (f"{dotted} = {written(KEYS[dotted], value)}" for dotted, value in site.values.items())
    return f"{site.match} ({', '.join(said)})"


def _group_words(group: GroupSettings) -> str:
    told = ((key, getattr(group, key.name)) for key in GROUP_KEYS.values())
    said = (f"{key.name} = {written(key, value)}" for key, value in told if value != key.default)
    return f"{group.name} ({', '.join(said)})"
