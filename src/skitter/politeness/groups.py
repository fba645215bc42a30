"""Budgets of groups: their hosts may be in any shard, so all who spend one have to know what the others have spent.

Every shard has an account for each group: what its hosts have used, which is durable with every settlement (in a row among
its hosts, like that of a domain), and how many of its visits are in flight. A visit is counted before it is judged, so that
two that ask at the same time cannot both take the last page; who may not make it takes that back at once, or the others
would wait for it. While the others cannot be asked, a shard spends no more than the share that it has set aside before (`shares`).
"""

from collections.abc import Mapping, Sequence
from math import inf

from skitter import reasons
from skitter.model import Reason, Settlement, Spent, Visit
from skitter.politeness.budgets import DAY, Limits, Subject, group_tally, judged, one_more
from skitter.politeness.shares import Held, Share, is_set_aside, together
from skitter.ports import Account, Accounts, Frontier
from skitter.settings.sites import Sites

_AGAIN = 1.0  # seconds until the others are asked again
_TELL_ALL = 60.0  # seconds
_LOOK = 5.0  # seconds between two looks at a share that nobody spends: it may keep others from the last page


class GroupBudgets:
    """The budgets of groups, for one shard."""

    def __init__(self, limits: Mapping[str, Limits], sites: Sites, accounts: Accounts, shard: int) -> None:
        self._limits = limits
        self._sites = sites
        self._accounts = accounts
        self._shard = shard
        self._own: dict[str, Account] = {name: Account() for name in limits}
        self._claimed: dict[int, list[str]] = {}  # by visit
        self._told_all = inf  # when; it was not opened yet
        self._looked = 0.0
        self._untold: set[str] = set()  # groups whose others do not know our account as it is
        self._held: dict[str, Held] = {}  # shares, of the groups that were spent from
        self._now = 0.0  # when a visit was claimed last, by the clock on the wall

    async def open(self, frontier: Frontier, now: float) -> None:
        """Tell the others what this shard has used."""
        for name in self._limits:
            known = await frontier.host(group_tally(name))
            if known is not None:
                used = known.usage
                day, requests, seconds = (
                    (0, 0, 0.0) if used is None else (used.day, used.requests, used.seconds)
                )
                self._own[name] = Account(known.pages, known.bytes, seconds, day, requests)
            await self._exchange(name)
        self._told_all = now

    async def tell(self, now: float) -> None:
        """Tell the others what could not be told before, and now and then everything: what they know may get lost."""
        if now >= self._told_all + _TELL_ALL:
            self._untold.update(self._limits)
            self._told_all = now
        elif now >= self._looked + _LOOK:
            self._looked = now
            self._untold.update(name for name, held in self._held.items() if any(held.told))
        for name in list(self._untold):
            await self._exchange(name)

    async def claim(self, visit: Visit, now: float) -> Spent | None:
        """Count a visit as in flight; or say why it may not be made, or not now."""
        names = [group.name for group in self._sites.groups(visit.link.host) if group.name in self._limits]
        drawn: list[str] = []  # whose shares it was taken from
        self._now = max(self._now, now)
        for done, name in enumerate(names):
            told = await self._claim(name, visit, now, drawn)
            if told is not None:
                for other in names[: done + 1]:
                    self._count(other, out=-1)
                    if other in drawn:
                        self._held[other].give_back()
                    await self._exchange(other)
                return told
        if names:
            self._claimed[id(visit)] = names
        return None

    async def _claim(self, name: str, visit: Visit, now: float, drawn: list[str]) -> Spent | None:
        limits, held = self._limits[name], self._share(name)
        self._count(name, out=1)
        if held is not None and held.take(Share(visits=1)):
            drawn.append(name)
        others = await self._exchange(name)
        if others is None:
            if held is not None and held.covers(limits, drawn=name in drawn):
                return None
            return _unknown(name, now)
        page = visit.link.purpose.handling.counts and not visit.recrawl
        all_accounts = [self._own[name], *others]
        out = sum(each.out for each in all_accounts) + sum(each.share for each in others) - 1
        used = together(all_accounts, now)
        told = judged(_subject(name), limits, used, out, now, page=page)
        if (
            told is None
            and is_set_aside(limits, used, others)
            and not (held and held.covers(limits, drawn=True))
        ):
            detail = f"others have set aside the rest of the budget of [group.{name}]"
            return Spent(Reason(reasons.BUDGET_WAIT, detail), now + _AGAIN)
        return told

    def _share(self, name: str) -> Held | None:
        """The share of a group that is spent from; None if nobody needs one."""
        return self._held.setdefault(name, Held()) if self._accounts.may_be_away else None

    async def _exchange(self, name: str) -> Sequence[Account] | None:
        own, held = self._own[name], self._held.get(name)
        turn = 0 if held is None else held.turn
        if held is not None:
            share = held.told
            own = own._replace(share=share.visits, share_bytes=share.bytes, share_seconds=share.seconds)
        others = await self._accounts.exchange(name, self._shard, own)
        if others is None:
            self._untold.add(name)
            return None
        self._untold.discard(name)
        if held is not None and held.weigh(self._limits[name], [own, *others], turn, self._now):
            self._untold.add(name)
        return others

    async def settled(self, settlements: Sequence[Settlement]) -> None:
        """These visits have ended, and what they used is durable."""
        changed: dict[str, None] = {}
        for settlement in settlements:
            names = self._claimed.pop(id(settlement.visit), ())
            for name in names:
                changed[name] = None
                self._count(name, settlement, out=-1)
        for name in changed:
            await self._exchange(name)

    def _count(self, name: str, settlement: Settlement | None = None, *, out: int) -> None:
        own = self._own[name]
        pages, received, seconds, day, requests = own.pages, own.bytes, own.seconds, own.day, own.requests
        if settlement is not None and settlement.exchange is not None:
            exchange, page = settlement.exchange, settlement.page
            taken = max(0.0, exchange.ended - exchange.started)
            received += exchange.received
            seconds += taken
            if name in self._held:
                self._held[name].take(Share(bytes=exchange.received, seconds=taken))
            day, requests = one_more(day, requests, int(exchange.started // DAY))
            if page is not None and 200 <= page.status < 300 and page.purpose.handling.counts:
                pages += not settlement.visit.recrawl
        self._own[name] = Account(pages, received, seconds, day, requests, own.out + out)


def _subject(name: str) -> Subject:
    return Subject(
        lambda detail: Reason(reasons.BUDGET_GROUP, detail),
        "the hosts of its group together",
        f"[group.{name}] ",
    )


def _unknown(name: str, now: float) -> Spent:
    detail = f"what others have used of the budget of [group.{name}] cannot be asked now, and the share that was set aside is used up"
    return Spent(Reason(reasons.BUDGET_WAIT, detail), now + _AGAIN)
