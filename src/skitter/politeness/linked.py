"""Budgets that grow with links from other domains (IRLbot: Lee, Leonard, Wang and Loguinov 2008). Pure.

A registrable domain may have so many pages, and more for every other one that links to it. Which ones do is kept in a bitmap: the hash of
a name sets one bit, and the bits that are left tell how many names there were (linear counting, Whang and others 1990). It takes 256
bytes however many domains link there, is off by 2 % at 1,000 and 4 % at 5,000 of them, never shrinks, and two bitmaps of the
same domain are added up by an or, in any order and as often as one likes: shards tell each other no more than new bits.
A set of names would take 20 KB at 1,000; a HyperLogLog of 256 bytes is off by 6 %.
"""

import math

from msgspec import Struct

from skitter import urls
from skitter.model import Linked
from skitter.settings import BudgetSettings

BITS = 2_048
_NONE = bytes(BITS // 8)


def marked(bits: bytes, domain: str) -> bytes | None:
    """The bitmap with another domain in it; None if its bit is set already."""
    bits = bits or _NONE
    place = urls.fingerprint(domain, 0) % BITS
    byte, bit = place // 8, 1 << place % 8
    if bits[byte] & bit:
        return None
    return bits[:byte] + bytes((bits[byte] | bit,)) + bits[byte + 1 :]


def counted(bits: bytes) -> int:
    """How many domains are in a bitmap, nearly."""
    free = BITS - int.from_bytes(bits, "big").bit_count()
    return round(BITS * math.log(BITS / max(free, 1)))


class LinkedBudget(Struct, frozen=True, gc=False):
    """How many pages a domain may have."""

    first: int
    more: int
    most: int

    def allowed(self, linked: Linked | None) -> int:
        """The pages that a domain may have."""
        domains = 0 if linked is None else counted(linked.bits)
        return max(self.first, min(self.first + self.more * domains, self.most))


def linked_budget(budget: BudgetSettings) -> LinkedBudget | None:
    """The budget of the settings; None if there is none."""
    if budget.linked_first is None:
        return None
    return LinkedBudget(budget.linked_first, budget.linked_more, budget.linked_most)
