"""From hrefs to Links: resolved, keyed, checked against the scope, scored.

Navigation repeats on every page of a site, so judgements are memoised by what they depend on: the href as
written, without its fragment, and the part of the base that it is relative to. There is one memo for each
such part, so a known link costs one dictionary look-up (0.25 µs; judging it costs 4). A memoised Link keeps
the parent, depth and hints it was first seen with, which is what the frontier records anyway, since it accepts a URL
once. Parts not used lately are evicted first. Where scores depend on more (in-links are counted, or the user has a
scorer of their own), nothing is memoised.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import reasons, urls
from skitter.dedup.digest import sha1
from skitter.links.assets import Assets, page_of
from skitter.links.listing import Lists
from skitter.links.scope import ROOTED, UNLISTED, Scope
from skitter.links.scoring import UserScorer
from skitter.model import Document, Hints, Link, Purpose, Reason
from skitter.plugins import FoundLink
from skitter.runtime.metrics import LinkMetrics
from skitter.schedule import BY_DEPTH_ALONE, COUNTS_IN_LINKS, FLOWS, by_priority, order, strategy
from skitter.settings import Settings
from skitter.settings.sites import judging_settings, waiting_settings

if TYPE_CHECKING:
    from skitter.schedule.orders import Order

Judged = tuple[Link, Reason | None]
Refused = tuple[Link, Reason]
Rels = Mapping[str, tuple[str, ...]]
# By href. A wanted link is stored without a wrapper: each object saved is a cache miss saved, for each of 40
# links on a page.
Known = dict[str, Link | Refused | None]

_REMEMBERED = 20_000  # judgements; about 12 MB when full
_NEW = Link(url="", key="", host="")  # means not memoised: None is a judgement
_NOFOLLOW = Reason(reasons.NOFOLLOW, "every link to it found so far is rel=nofollow, ugc or sponsored")
_NOFOLLOW_PAGE = Reason(reasons.NOFOLLOW_PAGE, "the page asks not to follow its links")
_ABSOLUTE = ("http://", "https://")
_LONGEST_HREF = 16_384  # characters: longer hrefs are never fetched, and worth neither a record nor memory
_COUNTED = 1_000_000  # URLs whose in-links are counted
_DOUBTED = 100_000  # most links that wait for news about roots; others queue for that


class LinkJudge:
    """Turns hrefs, redirects and seeds into links, each wanted or refused with a reason."""

    def __init__(
        self,
        settings: Settings,
        scope: Scope,
        scorer: UserScorer | None = None,
        ordering: "Order | None" = None,
    ) -> None:
        """`scorer` is the user's own, if `schedule.strategy` names one; `ordering` what it names, if that gives levels."""
        self._settings = settings
        self._scope = scope
        self._strategy = strategy(settings.schedule)
        self._scorer = scorer
        # Links bring nothing themselves: pages that are fetched pass something on to them.
        self._flows = settings.schedule.strategy in FLOWS
        self._order = ordering or order(settings.schedule)
        # What is looked for in the texts of links; most crawls read none.
        self.words = settings.schedule.words if settings.schedule.strategy == "features" else ()
        self._anchors: Mapping[str, str] | None = None  # of the page whose links are judged
        self._by_depth_alone = settings.schedule.strategy in BY_DEPTH_ALONE or self._flows
        self._memo: dict[str, Known] = {}  # by the relevant part of the base
        self._before: dict[str, Known] = {}  # parts not used lately, evicted next
        self._remembered = 0  # judgements made or recalled since the last eviction
        counts = scorer is not None or settings.schedule.strategy in COUNTS_IN_LINKS
        self._in_links: dict[str, int] | None = {} if counts else None
        self.lists = Lists(settings, scope, self._placed)
        self.assets = Assets(settings, scope)
        self.hits = self.misses = 0
        self.dropped = 0  # waiting links that are no longer wanted
        self.returned = 0  # links that earlier settings refused, and that are wanted now
        self._doubted: set[str] = (
            set()
        )  # keys of links that may be in scope through a root not known here yet

    def found(self, page: Link, document: Document) -> tuple[list[Link], list[Refused]]:
        """The links of a page: (wanted, refused)."""
        self._anchors = document.anchors
        wanted, refused = self._judge(document.links, document.base, page, document.rels)
        if not document.directives.follow:
            refused += [(link, _NOFOLLOW_PAGE) for link in wanted]
            wanted = []
        if document.nofollow:
            unwanted, refused_anyway = self._judge(document.nofollow, document.base, page, document.rels)
            refused += [(link, _NOFOLLOW) for link in unwanted]
            refused += refused_anyway
        return wanted, refused

    def redirected(self, link: Link, target: str) -> Judged | None:
        """A redirect's target: a link with one hop less left. None if the target is not a URL we could visit."""
        forms = urls.link(target, link.url, self._settings.urls)
        if forms is None:
            return None
        url, key, host = forms
        hints = link.hints
        if urls.is_asset_key(link.key):
            key, hints = urls.asset_key(url), replace(hints or Hints(), site=page_of(link))
        hop = Link(
            url=url,
            key=key,
            host=host,
            depth=link.depth,
            parent=link.url,
            level=link.level,
            score=0.0 if self._flows else link.score,
            purpose=link.purpose,
            requested=link.requested or link.url,
            hops=link.hops + 1,
            seed=link.seed,
            meta=link.meta,
            hints=hints,
        )
        return hop, self.refusal(hop)

    def seed(self, seed: Link) -> Judged:
        """A seed as a link. Its file may have given a score, or a priority, which moves it among its likes."""
        if not seed.score:
            seed = self._placed(seed)
        return seed, self._scope.seed_refusal(seed.url)

    def _placed(self, link: Link) -> Link:
        """What no page led to, a seed or what a sitemap lists, with its score."""
        if self._order is None:
            score = 1.0 + by_priority(link.hints) if self._flows else self._score_alone(link)
            return replace(link, score=score)
        level, score = self._order.place(link.url, link.host, link.depth, "")
        return replace(link, level=level, score=score + by_priority(link.hints))

    def _score_alone(self, link: Link) -> float:
        """The score of what no page led to."""
        if self._scorer is not None:
            found = FoundLink(
                url=link.url,
                host=link.host,
                depth=link.depth,
                parent=link.parent,
                seed=link.seed,
                hints=link.hints,
            )
            return self._scorer.score(found, link.key)
        return self._strategy(link.url, link.depth, 0.0, 0) + by_priority(link.hints)

    def refusal_now(self, link: Link) -> Reason | None:
        """Why a waiting link, accepted under other settings, is no longer wanted; None if it is."""
        return _outdated(self.refusal(link))

    def judge_again(self, link: Link, refused: Reason | None) -> Reason | None:
        """Why the current settings do not want a link that waits, or that was refused; None when they do."""
        return self.refusal_now(link) if refused is None else self.refusal(link)

    def refusal(self, link: Link) -> Reason | None:
        """Why the current settings do not want a link; None when they do. Terms are wanted wherever an origin has them."""
        if link.purpose is Purpose.TERMS:
            return None
        if link.purpose is Purpose.ASSET and not link.seed:
            return self.assets.refusal(link)
        if link.seed or link.purpose.handling.lists:
            return self._scope.seed_refusal(link.url)
        return self._scope.refusal(link.url, link.depth, link.host, listed=_is_listed(link))

    def unlisted(self, link: Link) -> Reason | None:
        """Why a page is not fetched that no sitemap lists, if only listed ones are wanted: its host named the site."""
        if not self.lists.alone or link.purpose is not Purpose.PAGE or _is_listed(link):
            return None
        return UNLISTED

    @property
    def judged_by(self) -> str:
        """A digest of what decides about links, and when they are followed: settings, and the installed parsers."""
        judging = judging_settings(self._settings) + waiting_settings(self._settings)
        return sha1(judging + self._scope.readers.encode()).decode()

    def page_refusal_now(self, robots_txt: Link) -> Reason | None:
        """`refusal_now` for the page that a robots.txt is fetched for.

        Only seeds and their redirect targets have depth 0.
        """
        page = robots_txt.parent
        if not page:
            return None
        if not robots_txt.depth:
            return _outdated(self._scope.seed_refusal(page))
        return _outdated(self._scope.refusal(page, robots_txt.depth, listed=True))

    def may_have_a_root(self, link: Link, reason: Reason) -> bool:
        """Whether an out-of-scope link may be in scope through a root that others know already.

        Called twice for a link, with time in between to hear of such roots; the second answer is no.
        """
        if reason.code not in ROOTED or link.key in self._doubted:
            self._doubted.discard(link.key)
            return False
        if len(self._doubted) < _DOUBTED:
            self._doubted.add(link.key)
        return True

    def widen(self, root: str) -> bool:
        """Add a root to the scope. Returns whether it was outside; then links refused so far may be wanted now."""
        outside = self._scope.refusal(root, 0) is not None
        self._scope.widen(root)
        if outside:
            self._memo, self._before, self._remembered = {}, {}, 0
        return outside

    def widen_all(self, roots: Iterable[str]) -> None:
        """Add roots found elsewhere to the scope, possibly very many."""
        before = self._scope.width
        for root in roots:
            self._scope.widen(root)
        if self._scope.width > before:
            self._memo, self._before, self._remembered = {}, {}, 0

    def visited(self, link: Link) -> None:
        """The link no longer waits: stop counting its in-links."""
        if self._in_links is not None:
            self._in_links.pop(link.key, None)

    def metrics(self) -> LinkMetrics:
        """The memo in numbers, and how many links changed settings dropped and brought back."""
        return LinkMetrics(
            entries=sum(len(known) for memo in (self._memo, self._before) for known in memo.values()),
            capacity=_REMEMBERED,
            hits=self.hits,
            misses=self.misses,
            dropped=self.dropped,
            returned=self.returned,
            unscored=0 if self._scorer is None else self._scorer.failures,
        )

    # -- the hrefs of a page ---------------------------------------------------------------------------------

    def _judge(
        self, hrefs: Sequence[str], base: str, page: Link, rels: Rels | None
    ) -> tuple[list[Link], list[Refused]]:
        """Each href as a link: (wanted, refused)."""
        everywhere, site, folder = self._known(base, page)
        wanted: list[Link] = []
        refused: list[Refused] = []
        new = 0
        score = self._strategy("", page.depth + 1, 0.0, 0) if self._by_depth_alone else None
        for written in hrefs:
            href = _without_fragment(written) if "#" in written else written
            known = site if href[:1] == "/" else everywhere if href.startswith(_ABSOLUTE) else folder
            judged = known.get(href, _NEW)
            if judged is _NEW:
                new += 1
                rel = rels.get(written) if rels else None
                judged = self._judge_anew(href, base, page, score, None if rel is None else Hints(rel=rel))
                if self._is_worth_remembering(href):
                    known[href] = judged
            if isinstance(judged, Link):
                wanted.append(judged)
            elif judged is not None:
                refused.append(judged)
        self._remembered += new
        self.misses += new
        self.hits += len(hrefs) - new
        return wanted, refused

    def _known(self, base: str, page: Link) -> tuple[Known, Known, Known]:
        """The memos for absolute hrefs, for those beginning with a slash, and for those relative to a directory."""
        if self._remembered + len(self._memo) > _REMEMBERED // 2:
            self._before, self._memo, self._remembered = self._memo, {}, 0
        depth = f"{page.depth + 1} " if self._scope.limits_depth else ""
        site = depth + urls.origin(base)
        path_end = base.find("?")
        folder = depth + base[: base.rfind("/", 0, path_end if path_end >= 0 else len(base)) + 1]
        memo, recall = self._memo, self._recall
        return (
            memo.get(depth) or recall(depth),
            memo.get(site) or recall(site),
            memo.get(folder) or recall(folder),
        )

    def _recall(self, part: str) -> Known:
        """A part not used since the last eviction; if it is large, only its newer half, to save memory."""
        known = self._before.pop(part, {})
        if len(known) > _REMEMBERED // 4:
            known = dict(islice(known.items(), len(known) // 2, None))
        self._remembered += len(known)
        self._memo[part] = known
        return known

    def _is_worth_remembering(self, href: str) -> bool:
        """Not if its score changes with every link, if it is relative to this page alone, or too long."""
        return (
            self._in_links is None and href[:1] > " " and href[0] not in "?#" and len(href) <= _LONGEST_HREF
        )

    def _judge_anew(
        self, href: str, base: str, page: Link, score: float | None, hints: Hints | None
    ) -> Link | Refused | None:
        """`score` is that of every link of the page, if it is the same for all."""
        forms = urls.link(href, base, self._settings.urls) if len(href) <= _LONGEST_HREF else None
        if forms is None:
            return None
        url, key, host = forms
        depth = page.depth + 1
        reason = self._scope.refusal(url, depth, host)
        if score is None and self._order is not None:
            anchor = self._anchors.get(href, "") if self._anchors else ""
            level, score = self._order.place(url, host, depth, anchor)
            link = Link(
                url=url,
                key=key,
                host=host,
                depth=depth,
                parent=page.url,
                level=level,
                score=score,
                hints=hints,
            )
            return (link, reason) if reason else link
        if score is None:  # also of what is refused: other settings may want it
            seen = 0 if reason or self._in_links is None else self._count(key)
            if self._scorer is None:
                score = self._strategy(url, depth, page.score, seen)
            else:
                found = FoundLink(
                    url=url,
                    host=host,
                    depth=depth,
                    parent=page.url,
                    parent_score=page.score,
                    in_links=seen,
                    hints=hints,
                )
                score = self._scorer.score(found, key)
        link = Link(url=url, key=key, host=host, depth=depth, parent=page.url, score=score, hints=hints)
        return (link, reason) if reason else link

    def _count(self, key: str) -> int:
        counts = self._in_links
        if counts is None:
            return 0
        if key in counts or len(counts) < _COUNTED:
            counts[key] = counts.get(key, 0) + 1
        return counts.get(key, 1)


def _outdated(reason: Reason | None) -> Reason | None:
    return reason and Reason(reason.code, f"{reason.detail}; it was accepted under earlier settings")


def _is_listed(link: Link) -> bool:
    """Whether a sitemap or feed lists it."""
    return link.hints is not None and bool(link.hints.source)


def _without_fragment(href: str) -> str:
    """Links to several fragments of one page are one link.

    A blank before the # is part of the path, and would be trimmed at the end.
    """
    cut = href[: href.index("#")]
    return href if cut[-1:] <= " " else cut
