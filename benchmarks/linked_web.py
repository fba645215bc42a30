"""A synthetic web whose PageRank is known: scale-free, of many sites, made by rules that know nothing of any order of crawling.

Links in and out follow power laws with the exponents that Broder and others found in 200 million pages (2000): 2.1 and 2.7.
How much a page is liked has nothing to do with how far it is from anything: it is drawn, and decides how often others link to it
(the static model of Goh and others, 2001). Three of four links stay within their site; half of those that leave it lead to a front
page. Sites have sizes by a power law, and lists: the front page links to them, and every other page is in one of them. Each front page but
the first is linked from a page of a site before it, so that nearly everything can be reached.
"""

import random
from itertools import accumulate
from typing import NamedTuple

import numpy as np

DAMPING = 0.85
IN, OUT = 2.1, 2.7  # exponents
_WITHIN = 0.75  # of the links
_FRONT = 0.5  # of those that leave a site
_LEAST_OUT, _MOST_OUT = 1, 500  # links of a page, before doubles are taken out
_LISTED = 200  # pages in a list, on average
_ROUNDS = 100  # of the power method: 0.85^100 is 1e-7

Ranks = np.ndarray[tuple[int], np.dtype[np.float64]]


class LinkedWeb(NamedTuple):
    """Pages by number: their URLs, where they link to, and the front pages where a crawl begins."""

    urls: list[str]
    links: list[list[int]]
    seeds: list[int]


class _Liked:
    """Things that are chosen by how much they are liked."""

    def __init__(self, things: list[int], dice: random.Random) -> None:
        self._things, self._dice = things, dice
        self._sums = list(accumulate(dice.paretovariate(IN - 1) for _ in things))

    def one(self) -> int:
        return self._dice.choices(self._things, cum_weights=self._sums)[0]


def make(pages: int, hosts: int, *, seeds: int, dice: random.Random) -> LinkedWeb:
    """A web with this many pages."""
    sizes = [dice.paretovariate(1.2) for _ in range(hosts)]
    sites = [*range(hosts), *dice.choices(range(hosts), weights=sizes, k=pages - hosts)]  # of each page
    members: list[list[int]] = [[] for _ in range(hosts)]
    names = []
    for page, site in enumerate(sites):
        names.append(f"http://s{site}.test/{len(members[site]) or ''}")
        members[site].append(page)
    links: list[list[int]] = [[] for _ in sites]
    for site, own in enumerate(members):
        _list_all(own, links, dice)
        if site:
            links[dice.choice(members[dice.randrange(site)])].append(own[0])
    liked = [_Liked(own, dice) for own in members]
    best = _Liked(list(range(hosts)), dice)
    for page, site in enumerate(sites):
        for _ in range(min(int(dice.paretovariate(OUT - 1) * _LEAST_OUT), _MOST_OUT)):
            links[page].append(_target(site, members, liked, best, dice))
    links = [[to for to in dict.fromkeys(targets) if to != page] for page, targets in enumerate(links)]
    return LinkedWeb(names, links, dice.sample([own[0] for own in members], seeds))


def _list_all(own: list[int], links: list[list[int]], dice: random.Random) -> None:
    """The front page of a site links to its lists, and each other page is in one of them."""
    front, rest = own[0], own[1:]
    lists = rest[: -(-len(rest) // _LISTED)]
    links[front] += lists
    for page in rest[len(lists) :]:
        links[dice.choice(lists)].append(page)


def _target(
    site: int, members: list[list[int]], liked: list[_Liked], best: _Liked, dice: random.Random
) -> int:
    if dice.random() < _WITHIN:
        return liked[site].one()
    other = best.one()
    return members[other][0] if dice.random() < _FRONT else liked[other].one()


def pagerank(web: LinkedWeb, start: list[int] | None = None) -> Ranks:
    """The PageRank of each page, for a reader who starts anywhere, or at one of these; where there is no link they start again."""
    pages = len(web.urls)
    source = np.repeat(np.arange(pages), [len(targets) for targets in web.links])
    target = np.array([each for targets in web.links for each in targets], dtype=np.int64)
    out = np.array([len(targets) for targets in web.links], dtype=np.float64)
    begin = np.zeros(pages)
    begin[start if start is not None else slice(None)] = 1.0
    begin /= begin.sum()
    ranks = begin.copy()
    for _ in range(_ROUNDS):
        share = np.divide(ranks, out, out=np.zeros(pages), where=out > 0)
        flow = np.bincount(target, weights=share[source], minlength=pages)
        ranks = DAMPING * (flow + ranks[out == 0].sum() * begin) + (1 - DAMPING) * begin
    return ranks
