"""Places in a JSON document, as settings name them: `$.items[*].url` (JSONPath, RFC 9535) or `/items/*/url` (RFC 6901). Pure.

Of JSONPath there are names, indexes and `*`; of pointers all there is, and `*`. Every step looks at each value once, so that
no path takes longer than reading the document.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from skitter.settings.units import SettingsError

_ALL = None  # a step to all members or elements
_STEP = re.compile(
    r"""\.(\*|[^\s.\[\]'"*]+)|\[\s*(?:(\*)|(-?\d{1,9})|'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]"""
)
Step = str | int | None


@lru_cache(256)
def steps(path: str) -> tuple[Step, ...]:
    """The steps of a path; SettingsError if it is none."""
    if path.startswith("/"):
        return tuple(_pointed(word) for word in path[1:].split("/"))
    if not path.startswith("$"):
        raise SettingsError(f"{path!r} is no place in a JSON document; write for example $.items[*].url")
    found: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise SettingsError(
                f"{path!r} cannot be read from {path[at:]!r} on; names, indexes and * are possible, as in $.items[*].url"
            )
        name, every, index, single, double = match.groups()
        if every or name == "*":
            found.append(_ALL)
        elif index:
            found.append(int(index))
        else:
            found.append(name or re.sub(r"\\(.)", r"\1", single if single is not None else double or ""))
        at = match.end()
    return tuple(found)


def _pointed(word: str) -> Step:
    return _ALL if word == "*" else word.replace("~1", "/").replace("~0", "~")


def values(document: Any, path: str) -> Iterator[Any]:  # noqa: ANN401  whatever JSON holds
    """The values at a path, in order."""
    found = [document]
    for step in steps(path):
        found = [inner for value in found for inner in _inside(value, step)]
    return iter(found)


def _inside(value: Any, step: Step) -> list[Any]:  # noqa: ANN401
    if isinstance(value, dict):
        if step is _ALL:
            return list(value.values())
        return [value[step]] if isinstance(step, str) and step in value else []
    if isinstance(value, list):
        if step is _ALL:
            return value
        index = int(step) if isinstance(step, int) or (step.isdecimal() and len(step) < 10) else None
        return [value[index]] if index is not None and -len(value) <= index < len(value) else []
    return []
