"""From what a page says to Links: resolved, known by their key, judged by the scope, scored.

Navigation repeats on every page of a site, so judgements are remembered by what they depend on: the href as written and
the part of the base that it is relative to. A remembered Link keeps the parent and depth it was first seen with, which is
what the frontier records anyway, since it accepts a URL once.
"""

from collections import OrderedDict

from msgspec.structs import replace

from skitter import urls
from skitter.model import Document, Link, Reason
from skitter.schedule import COUNTS_IN_LINKS, strategy
from skitter.scope import Scope
from skitter.settings import Settings

Judged = tuple[Link, Reason | None]

_REMEMBERED = 20_000  # judgements; about 12 MB when full
_LONGEST_HREF = (
    16_384  # characters: nobody fetches what is longer, and it is worth neither a record nor memory
)
_COUNTED = 1_000_000  # URLs whose in-links are counted


class LinkJudge:
    """Turns hrefs, redirects and seeds into links, each wanted or refused with a reason."""

    def __init__(self, settings: Settings, scope: Scope) -> None:
        self._settings = settings
        self._scope = scope
        self._strategy = strategy(settings.schedule)
        self._memo: OrderedDict[tuple[str, str, int], Judged | None] = OrderedDict()
        self._in_links: dict[str, int] | None = {} if settings.schedule.strategy in COUNTS_IN_LINKS else None
        self.hits = self.misses = 0

    def found(self, page: Link, document: Document) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        """The links of a page: (wanted, refused)."""
        wanted: list[Link] = []
        refused: list[tuple[Link, Reason]] = []
        follow = document.directives.follow
        for href in document.links:
            judged = self._judge(href, document.base, page)
            if judged is None:
                continue
            link, reason = judged
            if not follow:
                reason = reason or Reason("nofollow.page", "the page asks not to follow its links")
            if reason is None:
                wanted.append(link)
            else:
                refused.append((link, reason))
        for href in document.nofollow:
            if judged := self._judge(href, document.base, page):
                link, reason = judged
                refused.append(
                    (link, reason or Reason("nofollow", "every link to it found so far is rel=nofollow"))
                )
        return wanted, refused

    def redirected(self, link: Link, target: str) -> Judged | None:
        """Where a redirect leads: a link with one hop less to go. None when the target is no URL we could visit."""
        forms = urls.link(target, link.url, self._settings.urls)
        if forms is None:
            return None
        url, key = forms
        hop = Link(
            url=url,
            key=key,
            host=urls.host(url),
            depth=link.depth,
            parent=link.url,
            level=link.level,
            score=link.score,
            requested=link.requested or link.url,
            hops=link.hops + 1,
            seed=link.seed,
            meta=link.meta,
        )
        reason = self._scope.seed_refusal(url) if link.seed else self._scope.refusal(url, link.depth)
        return hop, reason

    def seed(self, seed: Link) -> Judged:
        """What a person asked for. Its file may have scored it already."""
        if not seed.score:
            _, score = self._strategy(seed, 0.0, 0)
            seed = replace(seed, score=score)
        return seed, self._scope.seed_refusal(seed.url)

    def widen(self, root: str) -> bool:
        """Take a root into the scope. Says whether it lay outside; then what was refused so far may be wanted now."""
        outside = self._scope.refusal(root, 0) is not None
        self._scope.widen(root)
        if outside:
            self._memo.clear()
        return outside

    def visited(self, link: Link) -> None:
        """It waits no longer: its in-links need not be counted any more."""
        if self._in_links is not None:
            self._in_links.pop(link.key, None)

    def statistics(self) -> dict[str, float]:
        """The memo in numbers."""
        return {"entries": len(self._memo), "capacity": _REMEMBERED, "hits": self.hits, "misses": self.misses}

    # -- one href --------------------------------------------------------------------------------------------

    def _judge(self, href: str, base: str, page: Link) -> Judged | None:
        if len(href) > _LONGEST_HREF:
            return None
        if self._in_links is not None:
            return self._judge_anew(href, base, page)  # the score changes with every link
        depth = page.depth + 1 if self._settings.scope.max_depth is not None else 0
        remembered = (_relevant_base(href, base), href, depth)
        memo = self._memo
        try:
            judged = memo[remembered]
        except KeyError:
            self.misses += 1
            judged = memo[remembered] = self._judge_anew(href, base, page)
            if len(memo) > _REMEMBERED:
                memo.popitem(last=False)
        else:
            self.hits += 1
            memo.move_to_end(remembered)
        return judged

    def _judge_anew(self, href: str, base: str, page: Link) -> Judged | None:
        forms = urls.link(href, base, self._settings.urls)
        if forms is None:
            return None
        url, key = forms
        link = Link(url=url, key=key, host=urls.host(url), depth=page.depth + 1, parent=page.url)
        if reason := self._scope.refusal(url, link.depth):
            return link, reason
        level, score = self._strategy(link, page.score, self._count(key))
        return replace(link, level=level, score=score), None

    def _count(self, key: str) -> int:
        counts = self._in_links
        if counts is None:
            return 0
        if key in counts or len(counts) < _COUNTED:
            counts[key] = counts.get(key, 0) + 1
        return counts.get(key, 1)


def _relevant_base(href: str, base: str) -> str:
    """The part of the base URL that decides what an href means."""
    if href.startswith(("http://", "https://")):
        return ""
    if href.startswith("/"):
        return urls.origin(base)
    if not href or href[0] in "?#" or href[0] <= " ":  # white space in front is no part of it
        return base
    path_end = base.find("?")
    return base[: base.rfind("/", 0, path_end if path_end >= 0 else len(base)) + 1]
