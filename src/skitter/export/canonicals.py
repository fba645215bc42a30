"""Is a page the same as the one it names as canonical? Decided when pages are read, from what was fetched.

A page says where its canonical form is, and may be wrong or lie. It is merged into that page if that one was fetched and
is identical or nearly so; otherwise both stay, with the reason. The record of neither changes.
"""

from msgspec import Struct

from skitter import urls
from skitter.dedup.twins import distance
from skitter.export.source import Source
from skitter.model import Page

_LONGEST_CHAIN = 10  # pages that each name the next one


class Canonical(Struct, frozen=True):
    """What became of a page that names another one."""

    url: str  # the page at the end of the chain
    merged: bool
    why: str


async def canonical(page: Page, source: Source) -> Canonical | None:
    """What the canonical URL of a page means; None if it names none, or itself."""
    rules, met, here = source.settings.urls, {page.key}, page
    for _ in range(_LONGEST_CHAIN):
        named = here.canonical
        key = urls.key(named, rules) if named else here.key
        if key is None:
            return _stays(named, f"{named!r} is not a URL that can be fetched")
        if key == here.key:
            return None if here is page else _compared(page, here, source)
        if key in met:
            return _stays(named, f"{here.url} names {named}: a circle")
        met.add(key)
        found = await source.frontier.page(key, urls.host(named))
        if found is None:
            return _stays(named, f"{named} {await _missing(key, named, source)}")
        if not 200 <= found.status < 300:
            return _stays(named, f"{named} was answered with status {found.status}")
        here = found
    return _stays(here.url, f"more than {_LONGEST_CHAIN} pages name one another")


def _stays(url: str, why: str) -> Canonical:
    return Canonical(url, merged=False, why=why)


async def _missing(key: str, url: str, source: Source) -> str:
    record = await source.frontier.url(key, urls.host(url))
    if record is None:
        return "was never found"
    because = "" if record.reason is None else f": {record.reason.detail or record.reason.code}"
    return f"has no page ({record.state.value}{because})"


def _compared(page: Page, target: Page, source: Source) -> Canonical:
    if page.digest and page.digest == target.digest:
        return Canonical(target.url, merged=True, why=f"it is identical to {target.url}")
    if page.simhash is None or target.simhash is None:
        return _stays(target.url, f"it is not identical to {target.url}, and too short to be compared")
    bits = distance(page.simhash, target.simhash)
    if bits <= source.settings.dedup.distance:
        return Canonical(target.url, merged=True, why=f"it is nearly the same as {target.url}")
    return _stays(target.url, f"it differs from {target.url} (by {bits} of 64 bits of the SimHash)")
