"""Public suffixes: names under which anybody can register (https://publicsuffix.org/list/), including the
private section.

The list comes from the package `publicsuffixlist`; it is read here because every process of a crawl reads it
on start, and this takes a third of the 45 ms that the package needs.
"""

import re
from functools import lru_cache
from pathlib import Path

import ada_url
import publicsuffixlist
from msgspec import Struct

_RULE = re.compile(r"\n([^\s/]\S*)")  # one per line, up to the first white space; the first line is a comment


class Suffixes(Struct, frozen=True):
    """The rules of the list, by kind."""

    plain: frozenset[str]  # co.uk, and ck for *.ck
    wild: frozenset[str]  # ck for *.ck: any label before it is a suffix, too
    exceptions: frozenset[str]  # www.ck for !www.ck: except this one

    def registrable(self, name: str) -> str | None:
        """A public suffix and the label before it; None for a suffix itself, and for names with an empty label."""
        if name.startswith(".") or name.endswith(".") or ".." in name:
            return None
        before, at = None, 0  # the name from one label earlier, and where the current name begins
        while True:
            rest = name[at:]
            after = name.find(".", at) + 1
            if rest in self.exceptions:
                return rest
            # The longest suffix with a rule; without one, the last label.
            if not after or rest in self.plain or name[after:] in self.wild:
                return before
            before, at = rest, after


@lru_cache(maxsize=1)
def suffixes() -> Suffixes:
    """The installed list."""
    rules = set(_RULE.findall(Path(publicsuffixlist.PSLFILE).read_text(encoding="utf-8").lower()))
    # Hosts are in their ASCII form.
    for rule in [rule for rule in rules if not rule.isascii()]:
        mark = rule[: rule.startswith("!") or 2 * rule.startswith("*.")]
        rules.add(mark + ada_url.idna_to_ascii(rule[len(mark) :]).decode())
    wild = frozenset(rule[2:] for rule in rules if rule.startswith("*."))
    exceptions = frozenset(rule[1:] for rule in rules if rule.startswith("!"))
    return Suffixes(frozenset(rules) | wild, wild, exceptions)
