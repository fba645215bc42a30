"""From what a page says to Links: resolved, known by their key, judged by the scope, scored.

Navigation repeats on every page of a site, so judgements are remembered by what they depend on: the href as written,
without its fragment, and the part of the base that it is relative to. There is one memory for each such part, so that a
link that is known costs one look into a dictionary (0.15 µs; judging it costs 5). A remembered Link keeps the parent and
depth it was first seen with, which is what the frontier records anyway, since it accepts a URL once.
"""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from skitter import urls
from skitter.model import Document, Link, Reason
from skitter.schedule import COUNTS_IN_LINKS, strategy
from skitter.scope import Scope
from skitter.settings import Settings

Judged = tuple[Link, Reason | None]
Known = dict[str, Judged | None]  # by href

_REMEMBERED = 20_000  # judgements; about 12 MB when full
_NEW: Judged = (Link(url="", key="", host=""), None)  # stands for none: None is a judgement
_NOFOLLOW = Reason("nofollow", "every link to it found so far is rel=nofollow")
_NOFOLLOW_PAGE = Reason("nofollow.page", "the page asks not to follow its links")
_ABSOLUTE = ("http://", "https://")
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
        self._memo: dict[str, Known] = {}  # by the part of the base that matters
        self._remembered = 0  # judgements in all of them
        self._in_links: dict[str, int] | None = {} if settings.schedule.strategy in COUNTS_IN_LINKS else None
        self.hits = self.misses = 0

    def found(self, page: Link, document: Document) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        """The links of a page: (wanted, refused)."""
        wanted: list[Link] = []
        refused: list[tuple[Link, Reason]] = []
        follow = document.directives.follow
        for link, reason in self._judge(document.links, document.base, page):
            if reason is None and follow:
                wanted.append(link)
            else:
                refused.append((link, reason or _NOFOLLOW_PAGE))
        for link, reason in self._judge(document.nofollow, document.base, page) if document.nofollow else ():
            refused.append((link, reason or _NOFOLLOW))
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
            self._remembered = 0
        return outside

    def visited(self, link: Link) -> None:
        """It waits no longer: its in-links need not be counted any more."""
        if self._in_links is not None:
            self._in_links.pop(link.key, None)

    def statistics(self) -> dict[str, float]:
        """The memo in numbers."""
        return {
            "entries": self._remembered,
            "capacity": _REMEMBERED,
            "hits": self.hits,
            "misses": self.misses,
        }

    # -- the hrefs of a page ---------------------------------------------------------------------------------

    def _judge(self, hrefs: Sequence[str], base: str, page: Link) -> list[Judged]:
        """Every href that is a link, in order."""
        everywhere, site, folder = self._known(base, page)
        judgements: list[Judged] = []
        new = 0
        for written in hrefs:
            href = _without_fragment(written) if "#" in written else written
            known = site if href[:1] == "/" else everywhere if href.startswith(_ABSOLUTE) else folder
            judged = known.get(href, _NEW)
            if judged is _NEW:
                new += 1
                judged = self._judge_anew(href, base, page)
                if self._is_worth_remembering(href):
                    known[href] = judged
                    self._remembered += 1
            if judged is not None:
                judgements.append(judged)
        self.misses += new
        self.hits += len(hrefs) - new
        return judgements

    def _known(self, base: str, page: Link) -> tuple[Known, Known, Known]:
        """What is known of absolute hrefs, of those that begin with a slash, and of those relative to a directory."""
        memo = self._memo
        if self._remembered + len(memo) > _REMEMBERED:
            self._forget()
        depth = "" if self._settings.scope.max_depth is None else f"{page.depth + 1} "
        site = depth + urls.origin(base)
        path_end = base.find("?")
        folder = depth + base[: base.rfind("/", 0, path_end if path_end >= 0 else len(base)) + 1]
        return memo.setdefault(depth, {}), memo.setdefault(site, {}), memo.setdefault(folder, {})

    def _is_worth_remembering(self, href: str) -> bool:
        """Not if its score changes with every link, if it is relative to this one page, or too long."""
        return (
            self._in_links is None and href[:1] > " " and href[0] not in "?#" and len(href) <= _LONGEST_HREF
        )

    def _forget(self) -> None:
        """Forget the older half of every part. What is in use is judged once more and is then among the newest."""
        for part, known in list(self._memo.items()):
            kept = dict(islice(known.items(), (len(known) + 1) // 2, None))
            if kept:
                self._memo[part] = kept
            else:
                del self._memo[part]
        self._remembered = sum(map(len, self._memo.values()))

    def _judge_anew(self, href: str, base: str, page: Link) -> Judged | None:
        forms = urls.link(href, base, self._settings.urls) if len(href) <= _LONGEST_HREF else None
        if forms is None:
            return None
        url, key = forms
        host, depth = urls.host(url), page.depth + 1
        link = Link(url=url, key=key, host=host, depth=depth, parent=page.url)
        if reason := self._scope.refusal(url, depth):
            return link, reason
        level, score = self._strategy(link, page.score, self._count(key))
        # Made anew, not by `replace`, which takes three times as long.
        return Link(url=url, key=key, host=host, depth=depth, parent=page.url, level=level, score=score), None

    def _count(self, key: str) -> int:
        counts = self._in_links
        if counts is None:
            return 0
        if key in counts or len(counts) < _COUNTED:
            counts[key] = counts.get(key, 0) + 1
        return counts.get(key, 1)


def _without_fragment(href: str) -> str:
    """Links to many places of one page are one link. A blank before the # is part of the path, and would be at the end."""
    cut = href[: href.index("#")]
    return href if cut[-1:] <= " " else cut
