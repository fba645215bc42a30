"""Endless parts of a site. Their pages are created on demand."""

import hashlib

from skitter.testing.web.graph import Anchor, Resource, Trap
from skitter.testing.web.site import Site, link

# The number of distinct pages behind the session ids, found by a crawler that ignores those.
SESSION_PAGES = 12


def traps(site: Site) -> None:
    """One trap of each kind, reached from the start page's hub."""

    def token(text: str) -> str:
        return hashlib.sha256(f"{site.web.seed}/{site.name}/{text}".encode()).hexdigest()[:32]

    def calendar(target: str) -> Resource | None:
        """A month, with the months around it, for ever in both directions."""
        year, month = _two_numbers(target.removeprefix("/calendar/"))
        if month not in range(1, 13):
            return None
        at = year * 12 + month - 1
        around = (at - 1, at + 1, at + 12)
        return _page(
            target, [link(site.url(f"/calendar/{then // 12}/{then % 12 + 1:02d}/")) for then in around]
        )

    def deeper(target: str) -> Resource | None:
        """A relative link without its leading slash: each page is one level deeper than the last."""
        if not target.endswith("/"):
            return None
        return _page(target, [link(site.url(f"{target}{part}/"), f"{part}/") for part in ("news", "items")])

    def sessions(target: str) -> Resource | None:
        """A dozen pages, each link to them with a new session id in its query."""
        number = _number(target.removeprefix("/session/").partition("?")[0])
        if number not in range(SESSION_PAGES):
            return None
        onward = [(number + step) % SESSION_PAGES for step in (1, 5)]
        return _page(target, [link(site.url(f"/session/{to}?sid={token(f'{target}{to}')}")) for to in onward])

    def path_sessions(target: str) -> Resource | None:
        """The same with the session id in the path."""
        number = _number(target.rpartition("/")[2])
        if number not in range(SESSION_PAGES):
            return None
        onward = [(number + step) % SESSION_PAGES for step in (1, 5)]
        return _page(
            target, [link(site.url(f"/shop/(S({token(f'{target}{to}')[:24]}))/{to}")) for to in onward]
        )

    def filters(target: str) -> Resource | None:
        """A search whose links each add one more filter."""
        query = target.removeprefix("/filter?")
        count = query.count("=")
        more = [f"/filter?{query}&f{count}={choice}" for choice in ("red", "blue")]
        return _page(target, [link(site.url(to)) for to in more])

    kinds = {
        "calendar": ("/calendar/", calendar, "/calendar/2025/01/"),
        "deeper": ("/deep/", deeper, "/deep/"),
        "session": ("/session/", sessions, "/session/0"),
        "session-path": ("/shop/", path_sessions, f"/shop/(S({token('first')[:24]}))/0"),
        "filter": ("/filter?", filters, "/filter?f0=all"),
    }
    for kind, (prefix, make, _first) in kinds.items():
        site.makers.append((prefix, make))
        site.traps.append(Trap(kind, site.url(prefix), SESSION_PAGES if kind.startswith("session") else 0))
    site.hub("traps", [link(site.url(first)) for _prefix, _make, first in kinds.values()])


def _page(target: str, anchors: list[Anchor]) -> Resource:
    return Resource(target, anchors=tuple(anchors))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _two_numbers(text: str) -> tuple[int, int]:
    first, _, second = text.rstrip("/").partition("/")
    return _number(first), _number(second)
