"""One setting: its type, and how it is written in a file or an environment variable. `rules` has the allowed values.

The types are the annotations of the settings classes; nothing is declared twice. A value that does not fit
raises SettingsError with a message that says what to write instead; `file` adds where the value was.
"""

import math
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from skitter.settings import SECTIONS, Bytes, GroupSettings, Seconds, SettingsError, seconds, size
from skitter.settings.rules import ANY, RANGES, RULES

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_UNSET = frozenset({"", "none"})
# Lists that mostly have one item, which may stand without brackets.
_OFTEN_ONE = frozenset({"scope.skip_extensions", "parse.follow_json", "parse.items_json"})


class Key(Struct, frozen=True):
    """One setting: its section, type, default and help."""

    section: str
    name: str
    kind: Any  # a type expression: str, int, Seconds, tuple[str, ...], int | None …
    default: object
    doc: str

    @property
    def dotted(self) -> str:
        """As in messages and in --set."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"SKITTER_{self.section}_{self.name}".upper()


def _keys(sections: Mapping[str, type[Any]]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for section, cls in sections.items():
        kinds = typing.get_type_hints(cls, include_extras=True)
        for field in fields(cls):
            if (hints := typing.get_args(kinds[field.name])) and isinstance(hints[-1], str):
                key = Key(section, field.name, hints[0], field.default, hints[-1])
                found[key.dotted] = key
    return found


KEYS: Mapping[str, Key] = _keys(SECTIONS)
GROUP_KEYS: Mapping[str, Key] = _keys(
    {"group": GroupSettings}
)  # as in group.delay; a group has a name besides


def optional(kind: Any) -> tuple[Any, bool]:  # noqa: ANN401  type expressions have no type
    """The type without None, and whether it had None."""
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        (inner,) = (arm for arm in typing.get_args(kind) if arm is not type(None))
        return inner, True
    return kind, False


# ------------------------------------------------------------------------------------------------ reading


def convert(key: Key, value: object) -> object:
    """The value as it is in the settings tree, or SettingsError."""
    kind, may_be_unset = optional(key.kind)
    if may_be_unset and (value is None or value == "none"):
        return None
    if key.dotted in _OFTEN_ONE and isinstance(value, str):
        value = [value]
    made = _convert(kind, value)
    _check(key, made)
    return made


def from_text(key: Key, text: str) -> object:
    """A variable or a flag as TOML would have given it.

    Lists are written like TOML arrays; a single item needs no brackets.
    """
    kind, may_be_unset = optional(key.kind)
    if may_be_unset and text.strip().lower() in _UNSET:
        return None
    if typing.get_origin(kind) is tuple:
        return _array(text)
    if kind is bool:
        word = text.strip().lower()
        if word not in _TRUE | _FALSE:
            raise SettingsError(f"{text!r} is neither true nor false")
        return word in _TRUE
    if kind in {int, float}:
        try:
            return kind(text)
        except ValueError:
            raise SettingsError(f"{text!r} is not a number; write for example {_example(key)}") from None
    return text


def _array(text: str) -> object:
    if not text.lstrip().startswith(("[", "{")):
        return [text] if text else []
    try:
        return tomllib.loads(f"items = {text}")["items"]
    except tomllib.TOMLDecodeError:
        raise SettingsError(f"""{text!r} is not a list; write for example ["one", "two"]""") from None


def _example(key: Key) -> str:
    return show(key.kind, key.default) if key.default is not None else "100"


def _convert(kind: Any, value: object) -> object:  # noqa: ANN401
    if typing.get_origin(kind) is tuple:
        if isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()):
            value = [f"{name}: {each}" for name, each in value.items()]  # header fields as a table
        if not isinstance(value, list | tuple):
            raise SettingsError(f"""{value!r} is not a list; write for example ["one", "two"]""")
        return tuple(_convert(typing.get_args(kind)[0], item) for item in value)
    return _READERS[kind](value)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{value!r} is not text; put it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{value!r} is not valid UTF-8 text") from None
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{value!r} is neither true nor false; write true or false, without quotes")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{value!r} is not a whole number; write for example 10, without quotes")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"{value!r} is not a number; write for example 0.5, without quotes")
    return float(value)


def _duration(value: object) -> Seconds:
    # Numbers do not pass through text: repr(1e-07) is not a duration, but the number is.
    return seconds(value) if isinstance(value, str) else Seconds(_number(value))


def _bytes(value: object) -> Bytes:
    return size(value) if isinstance(value, str) else Bytes(_whole(value))


_READERS: Mapping[Any, Callable[[object], object]] = {
    str: _string,
    bool: _boolean,
    int: _whole,
    float: _number,
    Seconds: _duration,
    Bytes: _bytes,
}


# ------------------------------------------------------------------------------------------------ writing


def show(kind: Any, value: object) -> str:  # noqa: ANN401
    """The value in TOML; reading it gives the same value back."""
    kind, _ = optional(kind)
    if typing.get_origin(kind) is tuple:
        assert isinstance(value, tuple)  # noqa: S101  the tree's own type
        return _show_list([show(typing.get_args(kind)[0], item) for item in value])
    if kind is Seconds:
        return _show_units(value, {"d": 86400, "h": 3600, "m": 60, "s": 1})
    if kind is Bytes:
        return _show_units(value, {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10})
    if isinstance(value, str):
        return '"' + "".join(_escape(letter) for letter in value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def written(key: Key, value: object) -> str:
    """The value as in a settings file. TOML has no word for "not set", so it is a text."""
    return '"none"' if value is None else show(key.kind, value)


def _show_list(items: list[str]) -> str:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > 100:
            lines.append("")
        lines[-1] += f"{item}, " if lines[-1] else f"    {item}, "
    if len(lines) == 1:
        return "[" + ", ".join(items) + "]"
    return "[\n" + "".join(f"{line.rstrip()}\n" for line in lines) + "]"


def _show_units(value: Any, units: Mapping[str, int]) -> str:  # noqa: ANN401
    for unit, worth in units.items():
        count = value // worth
        # 24h is clearer than 1d, and 1d is the only unit with that problem.
        if count and count * worth == value and count < 10**9 and not (unit == "d" and count == 1):
            return f'"{int(count)}{unit}"'
    return repr(value)


def _escape(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[letter]
    # Everything else that TOML forbids in a string, and what could look like a line break in the file.
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"


# ------------------------------------------------------------------------------------------------ what makes sense


def _check(key: Key, value: object) -> None:
    rule = RULES.get(key.dotted)
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, str):
            if rule is not None:
                rule(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            _in_range(key, item)


def _in_range(key: Key, value: float) -> None:
    allowed = RANGES.get(key.dotted, ANY)
    because = f" ({allowed.why})" if allowed.why else ""
    if value < allowed.low:
        raise SettingsError(
            f"{_bare(key, value)} is too small; write {_bare(key, allowed.low)} or more{because}"
        )
    if value > allowed.high:
        raise SettingsError(
            f"{_bare(key, value)} is too large; write {_bare(key, allowed.high)} or less{because}"
        )


def _bare(key: Key, value: float) -> str:
    return show(key.kind, value).strip('"')
