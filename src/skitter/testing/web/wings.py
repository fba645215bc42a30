"""The wings by name, and how they are assigned to the hosts."""

from collections.abc import Callable

from skitter.testing.web.answers import conditional, directives, later, poison, statuses
from skitter.testing.web.content import charsets, codings, duplicates
from skitter.testing.web.faults import bombs, broken, endless, lying, slow
from skitter.testing.web.features import Features
from skitter.testing.web.links import link_forms, spellings, unfollowed
from skitter.testing.web.moves import redirect_faults, redirects
from skitter.testing.web.numbered import numbered
from skitter.testing.web.site import Site
from skitter.testing.web.traps import traps

WINGS: dict[str, Callable[[Site], None]] = {
    "link_forms": link_forms,
    "spellings": spellings,
    "unfollowed": unfollowed,
    "redirects": redirects,
    "redirect_faults": redirect_faults,
    "statuses": statuses,
    "later": later,
    "directives": directives,
    "duplicates": duplicates,
    "charsets": charsets,
    "codings": codings,
    "conditional": conditional,
    "numbered": numbered,
    "slow": slow,
    "broken": broken,
    "lying": lying,
    "endless": endless,
    "bombs": bombs,
    "traps": traps,
    "poison": poison,
}


def dealt(features: Features, open_hosts: list[int]) -> dict[int, list[str]]:
    """Which hosts get which wings: in turn, over the hosts that robots.txt does not close."""
    names = [name for name in WINGS if getattr(features, name)]
    hands: dict[int, list[str]] = {}
    for turn, name in enumerate(names):
        hands.setdefault(open_hosts[turn % len(open_hosts)], []).append(name)
    return hands
