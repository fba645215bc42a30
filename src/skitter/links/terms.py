"""Links to the files that say how the pages of an origin may be used: its tdmrep.json, and RSL licences.

One more request for each origin, so they are fetched only if somebody asks for what they say (`robots.terms`).
"""

from collections.abc import Sequence

from skitter import urls
from skitter.links.scope import Scope
from skitter.model import Level, Link, Purpose
from skitter.robots.terms import WELL_KNOWN
from skitter.settings import Settings


def are_wanted(settings: Settings) -> bool:
    """Whether terms are fetched."""
    asked = settings.robots.terms
    return asked == "always" or (asked == "auto" and bool(settings.export.respect_ai))


def of_origin(
    origin: str, licences: Sequence[str], settings: Settings, scope: Scope, depth: int
) -> list[Link]:
    """The terms of an origin whose robots.txt was read."""
    named = of_page(f"{origin}/robots.txt", licences, settings, scope, depth)
    first = _link(origin + WELL_KNOWN, f"{origin}/robots.txt", settings, depth)
    return [first, *named] if first else named


def of_page(page: str, hrefs: Sequence[str], settings: Settings, scope: Scope, depth: int) -> list[Link]:
    """The licences that a page or a robots.txt names, of its own domain or in the scope: others stay unread."""
    own = urls.registrable_domain(urls.host(page))
    found = []
    for href in hrefs:
        url = urls.resolve(href, page)
        if url is None:
            continue
        near = urls.registrable_domain(urls.host(url)) == own or scope.refusal(url, depth) is None
        if near and (link := _link(url, page, settings, depth)):
            found.append(link)
    return found


def _link(url: str, parent: str, settings: Settings, depth: int) -> Link | None:
    forms = urls.link(url, parent, settings.urls)
    if forms is None:
        return None
    url, key, host = forms
    return Link(
        url=url, key=key, host=host, depth=depth, parent=parent, level=Level.HIGH, purpose=Purpose.TERMS
    )
