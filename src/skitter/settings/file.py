"""Where settings come from: a TOML file, then the environment, then the command line; the later wins.

Nothing is ignored. An unknown key, a value of the wrong type and a value out of range are errors that name
the file and line (or the variable, or the flag), because a misspelt politeness setting must not pass
silently. `dump` writes every resolved setting with its help; loading that gives equal settings.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import fields, replace

from skitter.settings import LISTS, SECTIONS, Settings, SettingsError, overlays
from skitter.settings.engines import SECRETS
from skitter.settings.places import line_of, line_of_entry
from skitter.settings.rules import is_file_name
from skitter.settings.values import KEYS, convert, from_text, written

PREFIX = "SKITTER_"
_FILES = ("fetch.cookies", "fetch.secrets", "fetch.identity", "schedule.rank_file")
LOCAL_SHARDS = 256  # most shards of a crawl on one machine

# Variables with our prefix that are not settings: the folder of conformance cases, and what Kubernetes sets
# in every container for a service whose name begins with "skitter" (kubernetes.io, "Service: environment
# variables").
_NOT_SETTINGS = re.compile(
    r"SKITTER_(CONFORMANCE|TEST_.*|SERVICES_.*|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP).*)?))\Z"
)
_RENAMED = {"scope.max_pages_per_host": "budget.host_pages"}  # as older files have it
_SECRETS = frozenset(SECRETS.values())
_TOML_POSITION = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z", re.DOTALL
)


def load(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """The resolved settings. `flags` says how an override was spelt on the command line, for messages."""
    return build(given(path, environ, overrides, flags))


def given(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    flags: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """The settings given explicitly, by dotted key; all others have their defaults."""
    values: dict[str, object] = {}
    if path is not None:
        values.update(_from_file(path))
    for variable, text in sorted(environ.items()):
        if variable.startswith(PREFIX) and variable not in _SECRETS and not _NOT_SETTINGS.match(variable):
            dotted = _dotted(variable)
            values[dotted] = _located(dotted, value_of(variable, dotted, text), Path())
    for dotted, value in overrides.items():
        where = (flags or {}).get(dotted, "--set")
        values[dotted] = _located(dotted, value_of(where, dotted, value), Path())
    return values


def _located(dotted: str, value: object, folder: Path) -> object:
    """Files of the user's own as absolute paths, so that a crawl may be resumed from elsewhere; all else as it is."""
    if dotted == "site" and isinstance(value, tuple):
        return tuple(
            replace(site, values={name: _located(name, each, folder) for name, each in site.values.items()})
            for site in value
        )
    if dotted in _FILES and value:
        return os.path.abspath(folder / Path(str(value)).expanduser())  # noqa: PTH100  links stay
    if dotted != "crawl.plugins" or not isinstance(value, tuple):
        return value
    return tuple(
        os.path.abspath(folder / Path(name).expanduser()) if is_file_name(name) else name  # noqa: PTH100  links stay
        for name in value
    )


def build(values: Mapping[str, object]) -> Settings:
    """The settings with these values, and defaults for all others."""
    settings = _build(values)
    _consistent(settings)
    return settings


def value_of(where: str, dotted: str, value: object) -> object:
    """One value from a variable or a flag, where numbers and lists are text too."""
    if dotted in LISTS:
        return overlays.read(dotted, value, lambda entry, name: f"{where}: {overlays.nowhere(entry, name)}")
    key = KEYS.get(dotted)
    if key is None:
        raise SettingsError(f"{where}: {_unknown(dotted)}")
    try:
        return convert(key, from_text(key, value) if isinstance(value, str) else value)
    except SettingsError as problem:
        raise SettingsError(f"{where}: {dotted}: {problem}") from None


def _dotted(variable: str) -> str:
    """SKITTER_FETCH_MAX_BODY -> fetch.max_body."""
    return variable.removeprefix(PREFIX).lower().replace("_", ".", 1)


def _build(values: Mapping[str, object]) -> Settings:
    sections: dict[str, Any] = {name: values[name] for name in LISTS if name in values}
    for name, section in SECTIONS.items():
        own = {dotted.partition(".")[2]: v for dotted, v in values.items() if dotted.startswith(f"{name}.")}
        sections[name] = section(**own)
    return Settings(**sections)


def _consistent(settings: Settings) -> None:
    """Checks that involve more than one value."""
    overlays.check(settings.site)
    if settings.schedule.retry_base > settings.schedule.retry_max:
        raise SettingsError(
            "schedule.retry_base is longer than schedule.retry_max; make the one shorter or the other longer"
        )
    if settings.fetch.max_body > settings.fetch.max_in_flight:
        raise SettingsError(
            "fetch.max_body is larger than fetch.max_in_flight, so such a body could never be fetched; raise max_in_flight"
        )
    if settings.cluster.size == "none" and settings.crawl.shards > LOCAL_SHARDS:
        raise SettingsError(
            f"crawl.shards: {settings.crawl.shards} is too many for one machine, where each has its own files; write at most"
            f" {LOCAL_SHARDS}"
        )
    if settings.cluster.renew * 2 > settings.cluster.lease:
        raise SettingsError(
            "cluster.renew is more than half of cluster.lease, so one lost heartbeat would cost a shard; make it shorter"
        )


# ------------------------------------------------------------------------------------------------ the file


def _from_file(path: Path) -> dict[str, object]:
    text = _read(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SettingsError(_syntax(path, text, str(problem))) from None
    values: dict[str, object] = {}

    def where(entry: str, key: str) -> str:
        return f"{path}:{line_of_entry(text, entry, key)}: {overlays.nowhere(entry, key)}"

    for name in LISTS:
        if name in document:
            values[name] = _located(name, overlays.read(name, document.pop(name), where), path.parent)
    for named, value in _flat(path, text, document):
        dotted = _RENAMED.get(named, named)
        key = KEYS.get(dotted)
        if key is None:
            raise SettingsError(f"{path}:{line_of(text, dotted)}: {_unknown(dotted)}")
        try:
            values[dotted] = _located(dotted, convert(key, value), path.parent)
        except SettingsError as problem:
            raise SettingsError(f"{path}:{line_of(text, dotted)}: {dotted}: {problem}") from None
    return values


def from_toml(text: str) -> dict[str, object]:
    """The values in a text written by `to_toml`, by dotted key."""
    found: dict[str, object] = {}
    for section, table in tomllib.loads(text).items():
        if section in LISTS:
            found[section] = overlays.read(section, table)
            continue
        for name, value in table.items():
            dotted = _RENAMED.get(f"{section}.{name}", f"{section}.{name}")
            if dotted not in KEYS:
                raise SettingsError(_unknown(dotted))
            found[dotted] = convert(KEYS[dotted], value)
    return found


def to_toml(values: Mapping[str, object]) -> str:
    """These values as TOML; unset ones are left out if that is their default."""
    lines: list[str] = []
    for section in SECTIONS:
        own = {dotted: value for dotted, value in values.items() if dotted.startswith(f"{section}.")}
        lines += [f"[{section}]"] if own else []
        lines += [
            f"{KEYS[dotted].name} = {written(KEYS[dotted], value)}"
            for dotted, value in own.items()
            if value is not None or KEYS[dotted].default is not None
        ]
    lines += overlays.write(*(values.get(name, ()) for name in LISTS))  # type: ignore[arg-type]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as problem:
        raise SettingsError(
            f"{path}: cannot be read ({problem.strerror}); name an existing settings file"
        ) from None
    except UnicodeDecodeError as problem:
        raise SettingsError(f"{path}: is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None


def _flat(path: Path, text: str, document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for section, table in document.items():
        if section in SECTIONS and isinstance(table, dict):
            yield from ((f"{section}.{name}", value) for name, value in table.items())
        elif isinstance(table, dict) or section in SECTIONS:
            raise SettingsError(f"{path}:{line_of(text, section)}: {_unknown_section(section)}")
        else:
            raise SettingsError(
                f"{path}:{line_of(text, section)}: {section} stands outside a section{_suggestion(section)}"
            )


def _syntax(path: Path, text: str, message: str) -> str:
    found = _TOML_POSITION.match(message)
    if found is None:
        return f"{path}: {message}"
    if found["line"] is None:
        return f"{path}:{text.count(chr(10)) + 1}: {found['what']} at the end of the file"
    hint = (
        '; a value that is a word stands in quotes, as in "5s" or "none"' if "value" in found["what"] else ""
    )
    return f"{path}:{found['line']}: {found['what']} (column {found['column']}){hint}"


# ------------------------------------------------------------------------------------------------ did you mean


def _unknown(dotted: str) -> str:
    section = dotted.partition(".")[0]
    if section not in SECTIONS and not _nearest(dotted):
        return _unknown_section(section)
    return f"unknown key {dotted}{_suggestion(dotted)}"


def _unknown_section(name: str) -> str:
    if name in SECTIONS:
        return f"{name} is a section; write [{name}] on a line of its own and its keys below"
    if name in LISTS:
        return f"{name} is set as a whole; write {overlays.EXAMPLES[name]}, or change it in the settings file"
    near = difflib.get_close_matches(name, SECTIONS, n=1)
    hint = f"did you mean [{near[0]}]?" if near else f"sections are {', '.join(SECTIONS)}"
    return f"unknown section [{name}]; {hint}"


def _suggestion(dotted: str) -> str:
    near = _nearest(dotted)
    if near:
        return f"; did you mean {near}?"
    section = dotted.partition(".")[0]
    names = [key.name for key in KEYS.values() if key.section == section]
    return (
        f"; keys of [{section}] are {', '.join(names)}" if names else f"; sections are {', '.join(SECTIONS)}"
    )


def _nearest(dotted: str) -> str:
    """The key most likely meant: misspelt in its section, or correct in another one."""
    section, _, name = dotted.rpartition(".")
    siblings = [key.name for key in KEYS.values() if key.section == section]
    if close := difflib.get_close_matches(name, siblings, n=1, cutoff=0.7):
        return f"{section}.{close[0]}"
    if elsewhere := [key.dotted for key in KEYS.values() if key.name == name]:
        return elsewhere[0]
    return next(iter(difflib.get_close_matches(dotted, KEYS, n=1, cutoff=0.7)), "")


# ------------------------------------------------------------------------------------------------ writing


def dump(settings: Settings) -> str:
    """All settings as TOML, each with its help."""
    lines = ["# The settings of a crawl, as resolved when it was made."]
    for section, cls in SECTIONS.items():
        lines += ["", f"[{section}]", f"# {(cls.__doc__ or '').strip()}"]
        values = getattr(settings, section)
        for field in fields(cls):
            key = KEYS[f"{section}.{field.name}"]
            value = getattr(values, field.name)
            lines += ["", f"# {key.doc}"]
            unset = value is None and key.default is None
            lines.append(f"# {key.name} =" if unset else f"{key.name} = {written(key, value)}")
    lines += ["", *overlays.write(settings.site, settings.group)]
    return "\n".join(lines) + "\n"
