"""What the rules of a file say about a URL: the longest match decides, Allow before Disallow (RFC 9309 2.2.2).

A file is untrusted input of up to 500 KiB and is consulted for every link, so nothing here backtracks. Rules
without a wildcard are found by bisection, the others by plain substring searches. A question costs at most
their number times the length of the path, and `RuleIndex.too_much` bounds that.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from skitter.model import Statement

_SHOWN = 200  # characters of a line shown to a person
MAX_WORK = (
    1 << 22
)  # the largest of 1,911 real files needs 1,149 wildcard rules × 2,000 characters of a long URL

# A rule's rank is one integer, and the higher rank decides: the length of the rule, then Allow before
# Disallow, then the earlier line. No file of 500 KiB has 2^20 lines. Rank 0 means no rule.
_LINE_BITS = 20
_LAST_LINE = (1 << _LINE_BITS) - 1
_ALLOWS = 1 << _LINE_BITS
_LENGTH_SHIFT = _LINE_BITS + 1


def stamp(line: int, *, allow: bool) -> int:
    """The part of a rank that is known before the rule is normalised."""
    return (_ALLOWS if allow else 0) | _LAST_LINE - line


def _forbids(rank: int) -> bool:
    """Whether this is the rank of a Disallow rule."""
    return rank != 0 and not rank & _ALLOWS


def _line_number(rank: int) -> int:
    """The line number of the rule with this rank."""
    return _LAST_LINE - (rank & _LAST_LINE)


class Glob(Struct, frozen=True, gc=False):
    """A rule with a wildcard in its middle: `head`, then each of `pieces` in turn, then `tail` at the very end."""

    rank: int
    needle: str  # the longest part after the head: a path without it cannot match
    head: str
    pieces: tuple[str, ...]
    tail: str

    def matches(self, path: str) -> bool:
        """Take each piece at its first occurrence: correct for `*`, and each search starts where the last one ended."""
        if not path.startswith(self.head):
            return False
        at = len(self.head)
        for piece in self.pieces:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(path) - at >= len(self.tail) and path.endswith(self.tail)


class RuleIndex(Struct, frozen=True, eq=False):
    """The rules of one group, indexed for looking up paths."""

    prefixes: tuple[str, ...]  # sorted
    parents: "array[int]"  # for each prefix the index of the longest other one that it starts with, or -1
    ranks: "array[int]"  # for each prefix the best rank of itself and its parents
    exact: dict[str, int]  # rules that end in `$`, by path
    globs: tuple[Glob, ...]  # best rank first

    def same_as(self, other: "RuleIndex") -> bool:
        """Whether both decide alike, wherever their lines are in the file."""
        return self.rules() == other.rules()

    def rules(self) -> tuple[object, ...]:
        """The rules without their places."""
        return (
            [(prefix, _forbids(rank)) for prefix, rank in zip(self.prefixes, self.ranks, strict=True)],
            {path: _forbids(rank) for path, rank in self.exact.items()},
            {(glob.head, glob.pieces, glob.tail, _forbids(glob.rank)) for glob in self.globs},
        )

    def too_much(self, path: str) -> bool:
        """Whether a question would cost more than for any honest file.

        Only a hostile file or a monstrous URL gets there.
        """
        return len(self.globs) * len(path) > MAX_WORK

    def deciding(self, path: str) -> int:
        """The rank of the rule that decides about a path, 0 if none matches."""
        best = self.exact.get(path, 0)
        # Everything sorted between a prefix of the path and the path begins with that prefix, so the longest
        # one is the last entry not after the path, or one of its parents.
        at = bisect_right(self.prefixes, path) - 1
        while at >= 0:
            if path.startswith(self.prefixes[at]):
                best = max(best, self.ranks[at])
                break
            at = self.parents[at]
        for glob in self.globs:
            if glob.rank < best:
                break
            if glob.needle in path and glob.matches(path):
                return glob.rank
        return best


class Sayings(Protocol):
    """What a file says about the uses of pages; see `saying`."""

    @property
    def licenses(self) -> Sequence[str]:
        """Licences that it names, as absolute URLs."""
        ...

    def statements(self, url: str) -> list[Statement]:
        """All that applies to a URL."""
        ...


class RobotsLine(Struct, frozen=True):
    """The line that decides about a URL. `number` is 0 if the URL is forbidden without one."""

    number: int
    text: str


class RobotsRules(Struct, frozen=True, kw_only=True, eq=False):
    """What one robots.txt says to one product token."""

    index: RuleIndex
    body: bytes  # as read; lines are looked up in it
    crawl_delay: float | None = None  # seconds
    request_rate: float | None = None  # seconds per request
    visit_time: tuple[int, int] | None = None  # from, until: minutes of the day, UTC; until may come first
    sitemaps: tuple[str, ...] = ()  # as written: may be relative
    said: Sayings | None = None  # about the uses of pages; None: nothing
    reachable: bool = True  # False: there was no answer, so nothing is allowed (RFC 9309 2.3.1.4)

    @property
    def delay(self) -> float | None:
        """Seconds between requests: the larger of Crawl-delay and Request-rate."""
        if self.crawl_delay is None or self.request_rate is None:
            return self.crawl_delay if self.request_rate is None else self.request_rate
        return max(self.crawl_delay, self.request_rate)

    def allows(self, url: str) -> bool:
        """Whether this URL, of the origin that the file belongs to, may be fetched."""
        path = path_of(url)
        if path == "/robots.txt":  # always allowed: RFC 9309 2.2.2
            return True
        if not self.reachable or self.index.too_much(path):
            return False
        return not _forbids(self.index.deciding(path))

    def line(self, url: str) -> RobotsLine | None:
        """The line that decides about this URL; None if there is none."""
        path = path_of(url)
        if path == "/robots.txt" or not self.reachable:
            return None
        if self.index.too_much(path):
            return RobotsLine(
                0, f"{len(self.index.globs)} rules with wildcards are too many for so long a URL"
            )
        rank = self.index.deciding(path)
        if not rank:
            return None
        number = _line_number(rank)
        text = self.body.splitlines()[number - 1].strip()
        return RobotsLine(number, text[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN])


# ------------------------------------------------------------------------------------------------ making the index


def rule_index(rules: Sequence[tuple[str, int]]) -> RuleIndex:
    """Index rules, given as written with their stamps; of two equal ones the better stays."""
    prefixes: dict[str, int] = {}
    exact: dict[str, int] = {}
    globs: dict[str, Glob] = {}
    for rule, (_, low) in zip(normal_rules([value for value, _ in rules]), rules, strict=False):
        # An empty Disallow forbids nothing.
        rank = len(rule) << _LENGTH_SHIFT | low if rule else low | _ALLOWS
        if "*" in rule or "$" in rule:
            _sort_in(rule, rank, prefixes, exact, globs)
        elif rank > prefixes.get(rule, 0):
            prefixes[rule] = rank
        if low & _ALLOWS and "/index.htm" in rule:
            # Google: allowing the index page of a folder allows the folder itself.
            folder, _, page = rule.rpartition("/")
            if page.startswith("index.htm"):
                _sort_in(f"{folder}/$", len(folder) + 2 << _LENGTH_SHIFT | low, prefixes, exact, globs)
    order = tuple(sorted(prefixes))
    parents, ranks = _chained(order, prefixes)
    return RuleIndex(order, parents, ranks, exact, tuple(sorted(globs.values(), key=lambda glob: -glob.rank)))


def _sort_in(
    rule: str, rank: int, prefixes: dict[str, int], exact: dict[str, int], globs: dict[str, Glob]
) -> None:
    """Classify a rule with `*` or `$`: `/a$` is a path, `/a*` and `/a*$` are prefixes."""
    anchored = rule.endswith("$")
    head, *parts = rule.removesuffix("$").split("*")
    if anchored and not parts:
        exact[head] = max(rank, exact.get(head, 0))
        return
    tail = parts.pop() if anchored else ""
    pieces = tuple(part for part in parts if part)
    if not pieces and not tail:
        prefixes[head] = max(rank, prefixes.get(head, 0))
    elif rule not in globs or rank > globs[rule].rank:
        globs[rule] = Glob(rank, max((*pieces, tail), key=len), head, pieces, tail)


def _chained(order: Sequence[str], own: dict[str, int]) -> tuple["array[int]", "array[int]"]:
    """The parent of each prefix, and the best rank on the way up. In sorted order parents come first."""
    parents, ranks = array("i"), array("q")
    above: list[int] = []
    for at, prefix in enumerate(order):
        while above and not prefix.startswith(order[above[-1]]):
            above.pop()
        parents.append(above[-1] if above else -1)
        ranks.append(max(own[prefix], ranks[above[-1]]) if above else own[prefix])
        above.append(at)
    return parents, ranks


# ------------------------------------------------------------------------------------------------ normal form of paths
#
# `%70rivate`, `/a/../private` and `/private` are the same (RFC 9309 2.2.2). Escaped letters, digits and
# `-._~` are unescaped, everything not allowed in a URL is escaped, hexadecimal digits are upper case.
# Reserved characters stay as written: `%2F` is not a slash. Bytes are handled as Latin-1 text, one character
# each, until they are escaped.

# Characters that stand for themselves in a path. Not `'`, which WHATWG escapes in queries; and not `*` and
# `$`, which are literals in a URL but special in a rule.
_PLAIN = r"A-Za-z0-9\-._~/?&=+,;:@!()\[\]"
# Escapes that change: lower-case hexadecimal digits, and what RFC 3986 2.3 calls unreserved.
_ESCAPE = r"%(?:[0-9A-F][a-f]|[a-f][0-9A-Fa-f]|2[DE]|3\d|4[1-9A-F]|5[\dAF]|6[1-9A-F]|7[\dAE])"
_ODD = re.compile(rf"{_ESCAPE}|[^{_PLAIN}%]", re.ASCII)
_ODD_IN_RULES = re.compile(rf"{_ESCAPE}|\$(?!\n|\Z)|[^{_PLAIN}%*$\n]", re.ASCII)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_PLAIN_URL = re.compile(rf"https?://[^/?;#\\]*(/[{_PLAIN}]*)\Z")
_ANY_URL = re.compile(r"(?://)?(?:[^/?;#\\]*://)?[^/?;#\\]*([^#]*)")
_AS_IN_PATHS = str.maketrans("\\", "/", "\t\n\r")  # what WHATWG does with these in the path of an http URL


def path_of(url: str) -> str:
    """The path and query that rules are matched with. Where the path of an odd URL begins is decided as Google does."""
    plain = _PLAIN_URL.match(url)
    if plain and "/." not in plain[1]:
        return plain[1]
    found = _ANY_URL.match(url)
    path, question, query = (found[1] if found else "").partition("?")
    path = path.translate(_AS_IN_PATHS) + question + query
    if not path.startswith("/"):
        path = "/" + path
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    path = _ODD.sub(_respell, path)
    return _without_dots(path) if "/." in path else path


def normal_rules(values: Sequence[str]) -> list[str]:
    """Normalise the paths of rules, none containing a line end, in one pass. `*` and a final `$` stay special.

    No rules come out as one empty rule, the result of joining and splitting nothing.
    """
    return _ODD_IN_RULES.sub(_respell, "\n".join(values)).split("\n")


def _respell(odd: re.Match[str]) -> str:
    text = odd[0]
    if len(text) == 1:
        return f"%{ord(text):02X}"
    octet = chr(int(text[1:], 16))
    return octet if octet in _UNRESERVED else text.upper()


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` (RFC 3986 5.2.4), as a client does before it sends a request."""
    path, question, query = path.partition("?")
    kept: list[str] = []
    *names, last = path.split("/")[1:]
    for name in names:
        if name == "..":
            del kept[-1:]
        elif name != ".":
            kept.append(name)
    if last == "..":
        del kept[-1:]
    kept.append("" if last in {".", ".."} else last)
    return "/" + "/".join(kept) + question + query
