"""What one setting may be: its kind, how it is written in a file or a variable, and which values make sense.

The kinds are the annotations of `settings.py`; nothing is declared twice. A value that does not fit raises SettingsError
whose message names what to write instead; `settings_file` puts in front of it where the value stood.
"""

import dataclasses
import ipaddress
import math
import re
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skitter.settings import SECTIONS, Bytes, Seconds, SettingsError, seconds, size

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_UNSET = frozenset({"", "none"})


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: where it stands, its kind, its default and its help."""

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


def _keys() -> dict[str, Key]:
    found: dict[str, Key] = {}
    for section, cls in SECTIONS.items():
        kinds = typing.get_type_hints(cls)
        for part in dataclasses.fields(cls):
            key = Key(section, part.name, kinds[part.name], part.default, part.metadata["doc"])
            found[key.dotted] = key
    return found


KEYS: Mapping[str, Key] = _keys()


def optional(kind: Any) -> tuple[Any, bool]:  # noqa: ANN401  type expressions have no type
    """The kind without its None, and whether it had one."""
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        (inner,) = (arm for arm in typing.get_args(kind) if arm is not type(None))
        return inner, True
    return kind, False


# ------------------------------------------------------------------------------------------------ reading


def convert(key: Key, value: object) -> object:
    """The value as the settings tree holds it, or SettingsError."""
    kind, may_be_unset = optional(key.kind)
    if may_be_unset and (value is None or value == "none"):
        return None
    made = _convert(kind, value)
    _check(key, made)
    return made


def from_text(key: Key, text: str) -> object:
    """A variable or a flag as TOML would have given it. Lists are written like TOML arrays; a single item may stand bare."""
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
    if not text.lstrip().startswith("["):
        return [text] if text else []
    try:
        return tomllib.loads(f"items = {text}")["items"]
    except tomllib.TOMLDecodeError:
        raise SettingsError(f"""{text!r} is not a list; write for example ["one", "two"]""") from None


def _example(key: Key) -> str:
    return show(key.kind, key.default) if key.default is not None else "100"


def _convert(kind: Any, value: object) -> object:  # noqa: ANN401
    if typing.get_origin(kind) is tuple:
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
    # Numbers do not pass through text: repr(1e-07) is no duration, but the number is.
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
    """The value as it is written in TOML; reading it gives the same value back."""
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
        # 24h says more to a reader than 1d, and 1d is the only unit with that trouble.
        if count and count * worth == value and count < 10**9 and not (unit == "d" and count == 1):
            return f'"{int(count)}{unit}"'
    return repr(value)


def _escape(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[letter]
    # Everything else that TOML forbids in a string, and what would make a line of the file look like two.
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"


# ------------------------------------------------------------------------------------------------ what makes sense


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest value, and why."""

    low: float = 0
    high: float = math.inf
    why: str = ""


_ANY = Range()
_SHARE = Range(0, 1, "it is a share")
_POSITIVE = Range(1)

RANGES: Mapping[str, Range] = {
    **dict.fromkeys(
        (
            "scope.max_url_length",
            "scope.max_path_segments",
            "scope.max_segment_repeats",
            "politeness.per_host",
            "politeness.burst",
            "fetch.max_body",
            "fetch.max_headers",
            "fetch.max_in_flight",
            "fetch.dns_cache",
            "parse.max_input",
            "archive.max_file",
            "frontier.expected_urls",
            "frontier.window",
            "crawl.max_pages",
            "crawl.max_bytes",
            "crawl.concurrency",
            "crawl.shards",
            "crawl.commit_visits",
        ),
        _POSITIVE,
    ),
    **dict.fromkeys(
        ("fetch.deadline", "fetch.connect_timeout", "fetch.idle_timeout", "crawl.max_time"),
        Range(0.001, why="nothing is done in no time"),
    ),
    "schedule.retry_jitter": _SHARE,
    "robots.jitter": _SHARE,
    "robots.cache": Range(1, 86400, "RFC 9309 2.4: a copy is not used for more than 24 hours"),
    "robots.max_redirects": Range(5, why="RFC 9309 2.3.1.2: at least five are followed"),
    "dedup.distance": Range(0, 3, "the index of near-duplicates finds no more"),
}


def _in_range(key: Key, value: float) -> None:
    allowed = RANGES.get(key.dotted, _ANY)
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


def _one_of(*words: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in words:
            raise SettingsError(f"{value!r} is not one of {', '.join(words[:-1])} or {words[-1]}")

    return check


def _pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as problem:
        raise SettingsError(f"{value!r} is not a regular expression: {problem}") from None


def _number_pattern(value: str) -> None:
    if _pattern(value).groups < 1:
        raise SettingsError(rf"{value!r} has no group 1; put the number in parentheses, as in page=(\d+)")


def _network(value: str) -> None:
    try:
        ipaddress.ip_network(value)
    except ValueError as problem:
        raise SettingsError(
            f"{value!r} is not a network ({problem}); write for example 10.0.0.0/8 or ::1/128"
        ) from None


def _pair(value: str) -> None:
    host, _, address = value.partition(":")
    if not host or not _is_address(address):
        raise SettingsError(
            f"{value!r} is not HOST:ADDRESS; write for example example.org:192.0.2.1 or example.org:[2001:db8::1]"
        )


def _nameserver(value: str) -> None:
    address, _, port = value.rpartition(":")
    if not (
        _is_address(value)
        or (_is_address(address) and port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    ):
        raise SettingsError(
            f"{value!r} is not a DNS server; write an address such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53"
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return False
    return True


def _field_value(value: str) -> None:
    """It goes into a header field: RFC 9110 5.5, and nothing that could end the line."""
    if not value.isascii() or not value.isprintable():
        raise SettingsError(
            f"{value!r} has characters that cannot stand in a header field; write printable ASCII only"
        )


def _user_agent(value: str) -> None:
    _field_value(value)
    # RFC 9309 2.2.1: the product token is what robots.txt files address, and it has letters, "_" and "-" only.
    if value and not re.match(r"[A-Za-z_-]+(?:[/ ]|\Z)", value):
        raise SettingsError(
            f"{value!r} does not begin with a product token of letters, - or _; write for example mybot/1.0 (+https://example.org/bot)"
        )


def _extension(value: str) -> None:
    if not re.fullmatch(r"[^./?#\s]+", value):
        raise SettingsError(f"{value!r} is not a file name ending; write it without a dot, as in pdf")


def _host_pattern(value: str) -> None:
    if not re.fullmatch(r"[^\s/?#@]+", value):
        raise SettingsError(
            f"{value!r} is not a host pattern; write a host name alone, as in www.example.org or *.example.org"
        )


RULES: Mapping[str, Callable[[str], object]] = {
    "scope.kind": _one_of("page", "prefix", "host", "domain", "any"),
    "scope.hosts": _host_pattern,
    "scope.include": _pattern,
    "scope.exclude": _pattern,
    "scope.skip_extensions": _extension,
    "schedule.strategy": _one_of("bfs", "dfs", "depth", "number"),
    "schedule.number_pattern": _number_pattern,
    "fetch.user_agent": _user_agent,
    "fetch.contact": _field_value,
    "fetch.accept_language": _field_value,
    "fetch.allow_private": _network,
    "fetch.resolve": _pair,
    "fetch.nameservers": _nameserver,
}


def _check(key: Key, value: object) -> None:
    rule = RULES.get(key.dotted)
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, str):
            if rule is not None:
                rule(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            _in_range(key, item)
