"""URL patterns, their yield, and what follows from it. Pure.

A URL belongs to a pattern: its path, with shapes in the place of numbers, tokens and names of files, the names of its
parameters and the shapes of their values. Generators make ever new patterns, so each pattern also belongs to families:
the same path with any query, the same beginning of a path with anything behind it, and a token, such as the id of a
session, in the same place. A path that repeats itself has
one pattern at any depth. A visit is useful if it brought something new; a pattern whose visits bring nothing is demoted
step by step, then parked. A pattern that has not proved useful, or no longer does, shares the fate of its families, and
its visits count for them.

The yield is judged by the visits since the last useful one, not by all: a forum whose topics were new, until each comes
again under a new session id, is dry now. With no success in n visits, Wilson's upper bound of the yield (z = 1.28, one
side, 90 %) is z²/(n + z²): 29 % after 4, 17 % after 8, 12 % after 12.
"""

import re
from typing import NamedTuple

from skitter import reasons
from skitter.model import Reason
from skitter.schedule.learning.learned import Learned, Pattern

DEMOTED = 4, 8  # visits in a row without anything new: one step down, two steps down
PARKED = 12
OF_HOSTS = 8  # new hosts of a domain: each costs two requests, with its robots.txt
_ENCOURAGED = 16  # URLs aside that are looked at to find members to try
TRIES = 2  # members of a parked pattern that are tried again when nothing else of its host waits
_TRY = 4  # the n-th member while others wait: n = 64, 256, 1024, …
_MOST_PATTERNS = 192  # of a host
_MOST_HOSTS = 64
_NOISE = 0.01
_SEVERAL = 8  # useful visits say what is usual for a pattern
_LATELY = 32  # visits that an average is about
_LOG4 = 1.386
_GAPS = 6  # times the usual distance of two useful visits
_LONGEST_GAP = 24
_LONGEST = 80  # characters of a name in a pattern
_DEEP = 8  # folders in a pattern
_PREFIX = 3  # folders that a family has in common
_MOST_NAMES = 8  # of parameters

_DIGITS = re.compile(r"\d+")
_TOKEN = re.compile(
    r"(?=[^/]*\d)(?:[0-9a-fA-F]{8,}|[0-9A-Za-z_-]{20,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
)


class Names(NamedTuple):
    """The pattern of a URL, and the families that it belongs to."""

    leaf: str
    families: tuple[str, ...]


def names_of(url: str) -> Names:
    """The pattern of a URL in its fetched form."""
    start = url.find("/", 8)
    path, mark, query = url[start:].partition("?")
    *folders, last = path[1:].split("/")
    shapes = [_shape(folder) for folder in folders]
    shapes = _once(shapes)
    end = _shape(last) if mark else _file(last)
    whole = "/" + "/".join((*shapes, end))
    if not mark:
        leaf = whole
        families: tuple[str, ...] = ()
    else:
        parameters = "&".join(_parameters(query))
        leaf = f"{whole}?{parameters}"
        families = (f"{whole}?*",)
    if "{x}" in leaf:
        families += (_around_token(shapes, leaf),)
    elif len(shapes) > _PREFIX or (len(shapes) == _PREFIX and end):
        families += (f"/{'/'.join(shapes[:_PREFIX])}/**{_bare(query) if mark else ''}",)
    return Names(leaf, families)


def _around_token(shapes: list[str], leaf: str) -> str:
    """The family of URLs with a token in the same place, which may be the id of a session."""
    for at, shape in enumerate(shapes):
        if "{x}" in shape:
            return f"/{'/'.join(shapes[: at + 1])}/**"
    name = leaf[: leaf.find("={x}")].rpartition("&")[2].rpartition("?")[2]
    return f"/**?{name}={{x}}" if "={x}" in leaf else f"{leaf}**"


def of_domain(domain: str) -> str:
    """The name under which is kept what was learned of a domain. No host has such a name."""
    return f"*.{domain}"


def host_pattern(host: str, domain: str) -> str:
    """The pattern of a host: how many names it has before its domain."""
    return "*." * (host.removesuffix(domain).count(".")) + domain


def _shape(text: str) -> str:
    """A part of a path, with numbers and tokens replaced."""
    if not text:
        return text
    shaped = _TOKEN.sub("{x}", text[:_LONGEST])
    return _DIGITS.sub("{n}", shaped)


def _file(name: str) -> str:
    """The last part of a path: a number, a token, or any name with its extension."""
    shaped = _shape(name)
    if not shaped or "{" in shaped:
        return shaped
    _, dot, extension = shaped.rpartition(".")
    return f"{{w}}.{extension}" if dot and len(extension) <= 5 else "{w}"


def _once(shapes: list[str]) -> list[str]:
    """A path that repeats its folders is the same at any depth, and so is a very deep one."""
    distinct = list(dict.fromkeys(shapes))
    if len(distinct) < len(shapes):
        return ["…", *sorted(distinct)][:_DEEP]
    return shapes if len(shapes) <= _DEEP else [*shapes[:_DEEP], "…"]


def _parameters(query: str) -> list[str]:
    found = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        shaped = _shape(value)
        found[_shape(name)] = shaped if "{" in shaped and shaped[0] == "{" else "{w}" if value else ""
    return [f"{name}={found[name]}" for name in sorted(found)][:_MOST_NAMES]


def _bare(query: str) -> str:
    return "?" + "&".join(part.partition("=")[0] for part in _parameters(query))


# ------------------------------------------------------------------------------------------------ judging


class Brought(NamedTuple):
    """What a visit has brought."""

    dry: float = 0.0  # the evidence that it was nothing, up to 1; negative if it was rather something
    useful: bool = False
    share: float = 0.0  # of its shingles that were new


_MOST = -6.0  # what a useful visit says against it
NOTHING, SOMETHING = Brought(1.0), Brought(_MOST, useful=True, share=1.0)


class Fate(NamedTuple):
    """What becomes of a URL before it is leased."""

    steps: int  # down, behind others of its level; -1 if it is parked
    by: str = ""  # the pattern that decides


WANTED = Fate(0)


def fate_of(learned: Learned | None, url: str) -> tuple[Fate, Names]:
    """Whether a URL is demoted or parked, and its names."""
    names = names_of(url)
    return WANTED if learned is None else fate(learned, names), names


def fate(learned: Learned, names: Names) -> Fate:
    """Whether a URL with these names is demoted or parked."""
    patterns = learned.patterns
    leaf = patterns.get(names.leaf)
    if leaf is not None and leaf.parked:
        return Fate(-1, names.leaf)
    dry = leaf.dry if leaf is not None else 0.0
    by = names.leaf
    if not _is_proven(leaf):
        for family in names.families:
            of_all = patterns.get(family)
            if of_all is None:
                continue
            if of_all.parked:
                return Fate(-1, family)
            if of_all.dry > dry:
                dry, by = of_all.dry, family
    return WANTED if dry < DEMOTED[0] else Fate(1 if dry < DEMOTED[1] else 2, by)


def margin(learned: Learned, names: Names) -> float:
    """How many visits may be leased ahead: some more than would park it, and more if all of it was useful lately."""
    leaf = learned.patterns.get(names.leaf)
    every = [names.leaf] if _is_proven(leaf) else [names.leaf, *names.families]
    dry = max(
        [pattern.dry for name in every if (pattern := learned.patterns.get(name)) is not None], default=0.0
    )
    return 4 * PARKED - dry + (leaf.useful if leaf is not None and not leaf.dry else 0)


class Noted(NamedTuple):
    """What a visit has brought, and what followed from it."""

    brought: Brought
    changed: bool = False  # some pattern is parked now, or no longer
    freed: bool = False  # some pattern is no longer parked
    more: int = 0  # so many URLs aside are looked at, since a member of a parked pattern was useful


def note_visit(learned: Learned, of_all: Learned, url: str, told: Brought | tuple[int, int]) -> Noted:
    """Count a visit: what it has brought, or of how many shingles of its page how many were new."""
    names = names_of(url)
    if not isinstance(told, Brought):
        told = judge(*told, learned.patterns.get(names.leaf), of_all)
    changed = note(learned, names, told)
    freed = any(not learned.patterns[name].parked for name in changed)
    more = 0
    if told.useful:
        learned.asked, learned.grown, learned.rest = 0.0, 0, False
        more = _encouraged(learned, names)
    return Noted(told, bool(changed), freed, more)


def note(learned: Learned, names: Names, brought: Brought) -> list[str]:
    """Count a visit. Returns the patterns that are parked now, or no longer."""
    patterns = learned.patterns
    leaf = patterns.get(names.leaf)
    changed = []
    for name in (names.leaf,) if _is_proven(leaf) else (names.leaf, *names.families):
        pattern = patterns.get(name)
        if pattern is None:
            _make_room(learned)
            pattern = patterns[name] = Pattern()
        pattern.fetched += 1
        pattern.dry = max(0.0, pattern.dry + brought.dry)
        if brought.useful:
            pattern.useful += 1
            pattern.share += (brought.share - pattern.share) / min(pattern.useful, _LATELY)
        if pattern.parked and brought.useful and pattern.dry < _enough(pattern, name) / 2:
            pattern.parked, pattern.skipped, pattern.tried = False, 0, 0
            changed.append(name)
        elif not pattern.parked and pattern.dry >= _enough(pattern, name):
            pattern.parked = True
            changed.append(name)
    return changed


def _enough(pattern: Pattern, name: str) -> float:
    """How much evidence parks it: more if it was useful once in a while, since there are gaps then."""
    if not name.startswith("/"):
        return OF_HOSTS
    if not pattern.useful or "*" in name:
        return PARKED
    return min(_LONGEST_GAP, max(PARKED, _GAPS * pattern.fetched / pattern.useful))


def _is_proven(leaf: Pattern | None) -> bool:
    """Whether it is judged by itself alone."""
    return leaf is not None and leaf.useful > 0 and leaf.dry < DEMOTED[0]


def _make_room(learned: Learned) -> None:
    """Forget a pattern if there are too many: one that decides nothing, and of which least is known."""
    patterns = learned.patterns
    if len(patterns) >= _MOST_PATTERNS:
        least = min(
            patterns,
            key=lambda name: (patterns[name].parked, patterns[name].held > 0, patterns[name].fetched),
        )
        del patterns[least]


def judge(new: int, met: int, leaf: Pattern | None, of_all: Learned) -> Brought:
    """What a page has brought: `new` of the `met` shingles that the sample of its domain takes in were not there before.

    Less than a third of the usual share of new shingles is not useful: usual in its domain, or for its pattern if that is
    less. How much it says depends on their number: it is the logarithm of the likelihood ratio of a quarter of the usual share to the
    usual share, both as Poisson distributions (a CUSUM test; Page 1954), within a limit.
    """
    share, usual = new / met, of_all.share
    if leaf is not None and leaf.useful >= _SEVERAL:
        usual = min(leaf.share, usual)
    says = max(_MOST, min(1.0, 0.75 * usual * met - new * _LOG4))
    if share <= max(_NOISE, usual / 3):
        return Brought(says)
    of_all.pages += 1
    if of_all.pages > 1:  # all of the first page is new
        of_all.share += (share - of_all.share) / min(of_all.pages - 1, _LATELY)
    return Brought(min(says, 0.0), useful=True, share=share)


def is_tried(pattern: Pattern) -> bool:
    """Whether a member of a parked pattern is tried again, though others wait: ever more rarely."""
    pattern.skipped += 1
    skipped = pattern.skipped
    return skipped >= _TRY**3 and not skipped & (skipped - 1) and skipped.bit_length() % 2 == 1


def _encouraged(learned: Learned, names: Names) -> int:
    """Of how many URLs aside some more are tried, since a member of a parked pattern was useful; 0: it was not parked."""
    found = [learned.patterns.get(name) for name in (names.leaf, *names.families)]
    parked = [pattern for pattern in found if pattern is not None and pattern.parked]
    for pattern in parked:
        pattern.tried = 0
    return _ENCOURAGED if parked else 0


def reason(name: str, pattern: Pattern) -> Reason:
    """Why a URL waits aside."""
    what = f"visits to {name}" if name.startswith("/") else f"new hosts like {name}"
    return Reason(
        reasons.PARKED,
        f"of {pattern.fetched} {what}, {pattern.useful} brought something new, and the last {round(pattern.dry)} nothing",
    )


def is_rest(learned: Learned, waiting: int) -> bool:
    """Whether all that wait aside are to be fetched: trying some has led to no more of them, and they are no more than
    what was useful. So a finite site is fetched whole, for at most twice the price.
    """
    useful = sum(pattern.useful for name, pattern in learned.patterns.items() if "*" not in name)
    return bool(learned.asked) and not learned.grown and waiting <= useful


def remember_host(learned: Learned, host: str) -> None:
    """Something waits aside on a host because of what others of its domain have brought."""
    if len(learned.hosts) < _MOST_HOSTS and host not in learned.hosts:
        learned.hosts.append(host)
