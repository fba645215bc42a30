"""What a robots.txt says about uses: Content-Usage and Content-Signal of the group that applies to us, and licences.

Both kinds of lines may begin with a path, which is matched like that of Allow and Disallow. The line with the longest
path applies, alone; equal paths apply together. Paths that may not be crawled are never asked about.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from skitter.model import Statement
from skitter.robots import usage
from skitter.robots.matching import MAX_WORK, Glob, normal_rules, path_of

_MOST_LINES = 1_000  # of one kind; asking costs a match for each of them
_MOST_SAID = 100  # statements about one URL; honest files have a handful


class _Line(Struct, frozen=True, gc=False):
    """A path, ready to be matched, and what is said about it."""

    length: int
    exact: bool  # it ends in `$`, and has no wildcard
    glob: Glob
    statement: Statement

    def matches(self, path: str) -> bool:
        return path == self.glob.head if self.exact else self.glob.matches(path)


class PathStatements(Struct, frozen=True):
    """Statements by path, the longest first."""

    lines: tuple[_Line, ...]

    def about(self, path: str) -> list[Statement]:
        """Those with the longest path that matches."""
        found: list[Statement] = []
        length = -1
        if len(self.lines) * len(path) > MAX_WORK:  # no honest file, or a monstrous URL: unknown
            return found
        for line in self.lines:
            if line.length < length:
                break
            if line.matches(path):
                found.append(line.statement)
                length = line.length
        return found


def by_path(said: Sequence[tuple[str, Statement]]) -> PathStatements:
    """Index statements by their paths, given as in a rule (octets as Latin-1); an empty path is every path."""
    said = said[:_MOST_LINES]
    lines = [
        _line(rule, statement)
        for rule, (_, statement) in zip(normal_rules([path for path, _ in said]), said, strict=False)
    ]
    return PathStatements(tuple(sorted(lines, key=lambda line: -line.length)))


def _line(rule: str, statement: Statement) -> _Line:
    anchored = rule.endswith("$")
    head, *parts = rule.removesuffix("$").split("*")
    tail = parts.pop() if anchored and parts else ""
    pieces = tuple(part for part in parts if part)
    exact = anchored and "*" not in rule
    return _Line(len(rule), exact, Glob(0, "", head, pieces, tail), statement)


class Said(Struct, frozen=True):
    """What a file says to us about uses; a file that says nothing has none of this."""

    usage: PathStatements
    signals: PathStatements
    licenses: tuple[str, ...]  # absolute URLs, as written

    def statements(self, url: str) -> list[Statement]:
        """All that applies to a URL."""
        path = path_of(url)
        licensed = [usage.statement(usage.LICENSE_ROBOTS, one, {}) for one in self.licenses]
        return [*self.usage.about(path), *self.signals.about(path), *licensed][:_MOST_SAID]


def said(usages: Iterable[str], signals: Iterable[str], licenses: Iterable[str]) -> Said | None:
    """The values of all lines of each kind."""
    first = [_usage_line(value) for value in usages]
    second = [_signal_line(value) for value in signals]
    named = tuple(dict.fromkeys(one for one in licenses if len(one) <= usage.SHOWN))[: usage.MOST_LICENSES]
    return Said(by_path(first), by_path(second), named) if first or second or named else None


def _usage_line(value: str) -> tuple[str, Statement]:
    path, expression = _split(value)
    return path, usage.statement(usage.USAGE_ROBOTS, _text(value), usage.usage(expression))


def _signal_line(value: str) -> tuple[str, Statement]:
    path, expression = _split(value)
    return path, usage.statement(usage.SIGNAL_ROBOTS, _text(value), usage.signals(expression))


def _split(value: str) -> tuple[str, str]:
    """The path in front, if there is one, and the rest."""
    if not value.startswith("/"):
        return "", value
    path, _, rest = value.replace("\t", " ").partition(" ")
    return path, rest


def _text(value: str) -> str:
    """Lines are read as Latin-1, one character for each octet."""
    return value.encode("latin-1").decode("utf-8", "replace")
