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

from msgspec.structs import fields

from skitter.settings import SECTIONS, Settings, SettingsError
from skitter.settings.engines import SECRETS
from skitter.settings.rules import is_file_name
from skitter.settings.values import KEYS, Key, convert, from_text, show

PREFIX = "SKITTER_"
LOCAL_SHARDS = 256  # most shards of a crawl on one machine

# Variables with our prefix that are not settings: the folder of conformance cases, and what Kubernetes sets
# in every container for a service whose name begins with "skitter" (kubernetes.io, "Service: environment
# variables").
_NOT_SETTINGS = re.compile(
    r"SKITTER_(CONFORMANCE|TEST_.*|SERVICES_.*|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP).*)?))\Z"
)
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
    """Plug-in files as absolute paths, so that a crawl may be resumed from elsewhere; all else as it is."""
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
    sections = {}
    for name, section in SECTIONS.items():
        own = {dotted.partition(".")[2]: v for dotted, v in values.items() if dotted.startswith(f"{name}.")}
        sections[name] = section(**own)
    return Settings(**sections)


def _consistent(settings: Settings) -> None:
    """Checks that involve more than one value."""
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
    for dotted, value in _flat(path, text, document):
        key = KEYS.get(dotted)
        if key is None:
            raise SettingsError(f"{path}:{_line(text, dotted)}: {_unknown(dotted)}")
        try:
            values[dotted] = _located(dotted, convert(key, value), path.parent)
        except SettingsError as problem:
            raise SettingsError(f"{path}:{_line(text, dotted)}: {dotted}: {problem}") from None
    return values


def from_toml(text: str) -> dict[str, object]:
    """The values in a text written by `to_toml`, by dotted key."""
    found = {}
    for section, table in tomllib.loads(text).items():
        for name, value in table.items():
            dotted = f"{section}.{name}"
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
            f"{KEYS[dotted].name} = {_show(KEYS[dotted], value)}"
            for dotted, value in own.items()
            if value is not None or KEYS[dotted].default is not None
        ]
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
            raise SettingsError(f"{path}:{_line(text, section)}: {_unknown_section(section)}")
        else:
            raise SettingsError(
                f"{path}:{_line(text, section)}: {section} stands outside a section{_suggestion(section)}"
            )


def _syntax(path: Path, text: str, message: str) -> str:
    found = _TOML_POSITION.match(message)
    if found is None:
        return f"{path}: {message}"
    if found["line"] is None:
        return f"{path}:{text.count(chr(10)) + 1}: {found['what']} at the end of the file"
    return f"{path}:{found['line']}: {found['what']} (column {found['column']})"


def _line(text: str, dotted: str) -> int:
    """The line of a key. TOML readers do not report it, so the text is searched; 1 if it is written too oddly."""
    section, _, name = dotted.rpartition(".")
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = re.sub(r"[\s\"']", "", line.partition("#")[0])
        if bare.startswith("["):
            table = bare.strip("[]")
            if not section and table.partition(".")[0] == name:
                return number
        written = bare.partition("=")[0]
        spelt = f"{table}.{written}" if table else written
        if (
            spelt == dotted
            or spelt.startswith(f"{dotted}.")
            or (not table and written == section and name in line)
        ):
            return number
    return 1


# ------------------------------------------------------------------------------------------------ did you mean


def _unknown(dotted: str) -> str:
    section = dotted.partition(".")[0]
    if section not in SECTIONS and not _nearest(dotted):
        return _unknown_section(section)
    return f"unknown key {dotted}{_suggestion(dotted)}"


def _unknown_section(name: str) -> str:
    if name in SECTIONS:
        return f"{name} is a section; write [{name}] on a line of its own and its keys below"
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
            lines.append(f"# {key.name} =" if unset else f"{key.name} = {_show(key, value)}")
    return "\n".join(lines) + "\n"


def _show(key: Key, value: object) -> str:
    """TOML has no word for "not set", so it is a text."""
    return '"none"' if value is None else show(key.kind, value)
