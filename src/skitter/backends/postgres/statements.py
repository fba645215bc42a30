"""SQL from files, by name, with named parameters.

A file holds pieces that begin with `-- name: …`. A statement is composed from pieces for one schema. If a piece reads
a partitioned table, its shard is written into the text, so that the planner sees one partition, not all of them.
Variable values are parameters `:name`, numbered as PostgreSQL wants them; in a piece repeated for each shard,
`:name_7`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from skitter.frontier.bounded import Bounded

_KNOWN = 1000  # cached statements; which shards they name changes as workers come and go
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_0-9]+)\b")


class Statement:
    """A text with numbered parameters, and their names in that order."""

    def __init__(self, text: str, schema: str = "", shard: int = 0) -> None:
        names: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            return f"${names.setdefault(match[1], len(names) + 1)}"

        numbered = _PARAMETER.sub(number, text)  # first: a schema may have any name
        self.text = numbered.replace("{shard}", str(shard)).replace("{schema}", schema)
        self._names = list(names)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values, in the order of the text."""
        return [values[name] for name in self._names]


class Piece(NamedTuple):
    """A part of a statement; with a shard if it is repeated for each."""

    name: str
    shard: int | None = None

    def text(self, file: str) -> str:
        """The piece as SQL."""
        text = pieces(file)[self.name]
        if self.shard is None:
            return text
        return _PARAMETER.sub(rf":\1_{self.shard}", text).replace("{shard}", str(self.shard))


@cache
def pieces(file: str) -> Mapping[str, str]:
    """The pieces of a file by name."""
    text = (resources.files(__package__) / "sql" / f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(text)[1:]
    return {name: _bare(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _bare(text: str) -> str:
    """Without comments, which may contain colons."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def quoted(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


class Texts:
    """The statements of one schema, and of one shard if they name one; composed once."""

    def __init__(self, schema: str, shard: int = 0) -> None:
        self._schema = quoted(schema)
        self._shard = shard
        self._known: Bounded[tuple[object, ...], Statement] = Bounded(_KNOWN)

    def one(self, file: str, name: str) -> Statement:
        """A piece that is a statement."""
        return self._composed((file, name), lambda: pieces(file)[name])

    def write(self, parts: Sequence[Piece]) -> Statement:
        """One write for some shards: the owners' rows and all other changes; returns the shards that were written."""

        def text() -> str:
            steps = ",\n".join(part.text("write") for part in parts)
            return f"WITH {steps}\nSELECT shard FROM step"

        return self._composed(("write", *parts), text)

    def load(self, shards: Sequence[int], names: Sequence[str]) -> Statement:
        """One row for each shard, with the answers to its questions."""

        def text() -> str:
            return "\nUNION ALL\n".join(_answer(shard, names) for shard in shards)

        return self._composed(("load", *shards, *names), text)

    def _composed(self, key: tuple[object, ...], text: Callable[[], str]) -> Statement:
        if key not in self._known:
            self._known[key] = Statement(text(), self._schema, self._shard)
            self._known.trim()
        return self._known[key]


def _answer(shard: int, names: Sequence[str]) -> str:
    parts = ",\n".join(f"({Piece(name, shard).text('load')}) AS part_{name}" for name in names)
    return f"SELECT {shard} AS shard, * FROM {parts}"  # noqa: S608  our own words
