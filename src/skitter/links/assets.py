"""What pages need to be shown, as links: which are wanted, and under which key.

The scope of pages does not hold for assets: those of a wanted page are wanted from wherever `archive.assets` says, unless
`scope.exclude` names them. robots.txt, politeness, budgets and the address guard hold for them as for every visit.

A page and an asset never share a record, even if they have the same URL: an asset's key has a prefix. Otherwise a page
that names another one as an image would decide that it is not crawled as a page. What is behind the prefix is the fetched
URL itself, since a browser that shows the page later asks for exactly that.
"""

from collections.abc import Collection

from skitter import reasons, urls
from skitter.links.scope import Scope
from skitter.model import ASSET_SCORE, Document, Hints, Level, Link, Purpose, Reason
from skitter.parse.kinds import ASSET, FRAME
from skitter.settings import Settings
from skitter.settings.sites import sites_of, wants_assets

Refused = tuple[Link, Reason]

_MOST_NESTED = 8  # assets that lead to another: a frame, its style sheet, what that imports …
_LONGEST = 16_384  # characters of a URL
_REMEMBERED = 20_000  # judgements; then all are forgotten
_OFF = Reason(reasons.SCOPE_ASSETS, "what pages need to be shown is not wanted (archive.assets = off)")


class Assets:
    """Judges the assets of pages."""

    def __init__(self, settings: Settings, scope: Scope) -> None:
        self._settings, self._scope = settings, scope
        self._which = settings.archive.assets
        sites = sites_of(settings)
        self._sites = sites if sites is not None and sites.sets("archive.assets") else None
        self._frames_twice = settings.crawl.max_pages is not None
        self.wanted = wants_assets(settings)  # of some pages, at least
        # Style sheets and pictures repeat on every page of a site.
        self._known: dict[tuple[str, str, str], Link | Refused | None] = {}

    def reads(self, link: Link) -> bool:
        """Whether an answer is read for what it needs itself."""
        return self.wanted and link.purpose is Purpose.ASSET

    def of_page(self, page: str) -> str:
        """Which assets of a page are wanted: off, same-host or all."""
        return self._which if self._sites is None else self._sites.of(page).archive.assets

    def found(
        self, holder: Link, document: Document, followed: Collection[Link] = ()
    ) -> tuple[list[Link], list[Refused]]:
        """What a page or an asset needs: (wanted, refused). `followed` are the links that are fetched as pages."""
        page = page_of(holder) if holder.purpose is Purpose.ASSET else holder.url
        if self.of_page(page) == "off":
            return [], []
        kinds = document.asset_kinds or {}
        as_pages = set()
        if kinds and not self._frames_twice and FRAME in kinds.values():
            as_pages = {link.url for link in followed}
        wanted: dict[str, Link] = {}
        refused: dict[str, Refused] = {}
        for href in document.assets:
            judged = self._judged(href, kinds.get(href, ASSET), document.base, holder, page)
            if isinstance(judged, Link):
                if judged.url not in as_pages:
                    wanted[judged.key] = judged
            elif judged is not None:
                refused[judged[0].key] = judged
        return list(wanted.values()), list(refused.values())

    def add(self, holder: Link, document: Document, followed: list[Link], refused: list[Refused]) -> None:
        """Add what a page or an asset needs to its links."""
        needed, unneeded = self.found(holder, document, followed)
        followed += needed
        refused += unneeded

    def _judged(self, href: str, kind: str, base: str, holder: Link, page: str) -> Link | Refused | None:
        part = "" if self._sites is not None or holder.purpose is Purpose.ASSET else _part(href, base)
        if not part:
            return self._judge(href, kind, base, holder, page)
        known = (holder.host, part, href)
        judged = self._known.get(known, holder)
        if judged is holder:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            judged = self._known[known] = self._judge(href, kind, base, holder, page)
        return judged

    def _judge(self, href: str, kind: str, base: str, holder: Link, page: str) -> Link | Refused | None:
        forms = urls.link(href, base, self._settings.urls)
        if forms is None or len(forms[0]) > _LONGEST:
            return None
        url, _, host = forms
        nested = 0
        if holder.purpose is Purpose.ASSET:
            nested = 1 + (holder.hints.nested if holder.hints is not None else 0)
        link = Link(
            url=url,
            key=urls.asset_key(url),
            host=host,
            depth=holder.depth,
            parent=holder.url,
            level=Level.BACKGROUND,
            score=ASSET_SCORE,
            purpose=Purpose.ASSET,
            hints=Hints(source=kind, site="" if page == holder.url else page, nested=nested),
        )
        reason = self.refusal(link)
        return link if reason is None else (link, reason)

    def refusal(self, link: Link) -> Reason | None:
        """Why an asset is not wanted; None if it is."""
        page = page_of(link)
        which = self.of_page(page)
        if which == "off":
            return _OFF
        if which == "same-host" and link.host != urls.host(page):
            return Reason(
                reasons.SCOPE_ASSETS,
                f"{link.host} is not the host of the page that needs it (archive.assets = same-host)",
            )
        if link.hints is not None and link.hints.nested > _MOST_NESTED:
            return Reason(reasons.TRAP_NESTED, f"{link.hints.nested} other assets led to it")
        return self._scope.asset_refusal(link.url)


def page_of(asset: Link) -> str:
    """The page that needs an asset, directly or for another asset."""
    return (asset.hints.site if asset.hints is not None else "") or asset.parent


def kind_of(asset: Link) -> str:
    """What a page needs it for."""
    return (asset.hints.source if asset.hints is not None else "") or ASSET


def _part(href: str, base: str) -> str:
    """The part of the base that an href depends on."""
    if href[:1] == "/" or "://" in href[:8]:
        return urls.origin(base)
    path_end = base.find("?")
    return base[: base.rfind("/", 0, path_end if path_end >= 0 else len(base)) + 1]
