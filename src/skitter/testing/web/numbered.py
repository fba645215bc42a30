"""An old-fashioned site: pages named by numbers, content between comment markers, sloppy anchors.

Content is between `<!-- CONTENT -->` and `<!-- /CONTENT -->`; some pages have none. Some pages are only
reached by anchors like `< a href = 45.html >`, which HTML parsers ignore: they count only for a crawler
configured to look for them. Links lead to numbers that do not exist and to other hosts.
"""

from skitter.testing.web.graph import Anchor, Resource
from skitter.testing.web.site import Site, link
from skitter.testing.web.words import below, dice

MARKERS = ("<!-- CONTENT -->", "<!-- /CONTENT -->")


def numbered(site: Site) -> None:
    """As many numbered pages as the host has ordinary ones, and a hub that leads to the first of them."""
    count = max(10, site.web.pages_per_host)
    for number in range(1, count + 1):
        site.add(_page(site, number, count))
    site.hub("n", [link(site.url("/n/1.html"), "1.html")])


def _page(site: Site, number: int, count: int) -> Resource:
    chance = dice(site.web.seed, site.name, "numbered", number)
    anchors = [_anchor(site, to) for to in _onward(number, count)]
    anchors += [_anchor(site, 1 + below(chance, count)) for _ in range(3)]
    if number % 7 == 0:
        anchors.append(_anchor(site, count + number))  # there is no such page
    if number % 4 == 0:
        anchors.append(link(site.url("/", site.neighbour())))
    around = MARKERS if number % 6 else ("", "")
    return Resource(f"/n/{number}.html", anchors=tuple(anchors), around=around, title=f"Number {number}")


def _onward(number: int, count: int) -> list[int]:
    """The next page, and the one after it, so that a page reached only by sloppy anchors cuts nothing off."""
    return [to for to in (number + 1, number + 2) if to <= count]


def _anchor(site: Site, to: int) -> Anchor:
    """A link to a numbered page; every fifth page is only linked by sloppy anchors."""
    url = site.url(f"/n/{to}.html")
    if to % 5 == 0:
        return Anchor(url, f"< a href = {to}.html >number {to}< / a >", sloppy=True)
    return link(url, f"{to}.html", f"number {to}")
