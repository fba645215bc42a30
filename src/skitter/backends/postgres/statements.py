"""SQL from files, by name, with named parameters.

A file holds pieces that begin with `-- name: …`. A statement is composed from pieces for one schema and one shard: both are
written into the text, so that the planner sees one partition and not all of them. What varies is a parameter `:name`,
numbered as PostgreSQL wants it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


class Statement:
    """A text with numbered parameters, and their names in that order."""

    def __init__(self, text: str, schema: str = "", shard: int = 0) -> None:
        names: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            return f"${names.setdefault(match[1], len(names) + 1)}"

        numbered = _PARAMETER.sub(number, text)  # first: a schema may be called anything
        self.text = numbered.replace("{shard}", str(shard)).replace("{schema}", schema)
        self._names = list(names)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the text."""
        return [values[name] for name in self._names]


@cache
def pieces(file: str) -> Mapping[str, str]:
    """The pieces of a file by name."""
    text = (resources.files(__package__) / "sql" / f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(text)[1:]
    return {name: _bare(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _bare(text: str) -> str:
    """Without comments, which may have colons in them."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def quoted(name: str) -> str:
    """An identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


class Texts:
    """The statements of one schema, and of one shard where they speak of one; composed once."""

    def __init__(self, schema: str, shard: int = 0) -> None:
        self._schema = quoted(schema)
        self._shard = shard
        self._known: dict[tuple[str, ...], Statement] = {}

    def one(self, file: str, name: str) -> Statement:
        """A piece that is a statement."""
        key = (file, name)
        if key not in self._known:
            self._known[key] = self._statement(pieces(file)[name])
        return self._known[key]

    def write(self, names: Sequence[str]) -> Statement:
        """One step: the owner's row and what else is to be changed with it; says whether it was ours to do."""
        key = ("write", *names)
        if key not in self._known:
            steps = ",\n".join(pieces("write")[name] for name in ("owner", *names))
            self._known[key] = self._statement(f"WITH {steps}\nSELECT count(*) FROM step")
        return self._known[key]

    def load(self, names: Sequence[str]) -> Statement:
        """One row with an answer to each question."""
        key = ("load", *names)
        if key not in self._known:
            parts = ",\n".join(f"({pieces('load')[name]}) AS part_{name}" for name in names)
            self._known[key] = self._statement(f"SELECT * FROM {parts}")  # noqa: S608  our own words
        return self._known[key]

    def _statement(self, text: str) -> Statement:
        return Statement(text, self._schema, self._shard)
