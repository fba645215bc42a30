"""Which pages an export or an index leaves out, and why: uses that somebody says no to, and copies not to be shown.

What a page and its robots.txt say is in its record. What the files of its origin say (tdmrep.json, RSL licences) is joined
here, when a page is read: so it does not matter which of them was fetched first.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from skitter import urls
from skitter.export.source import Source
from skitter.export.writing import Listener
from skitter.model import Page, Purpose, Statement
from skitter.robots import terms, usage
from skitter.robots.saying import PathStatements

_AT_HAND = 1_000  # files; pages come host by host, more or less
_NAMING = (usage.LICENSE_ROBOTS, usage.LICENSE_PAGE, usage.LICENSE_HEADER)

_Read = tuple[PathStatements, float]


class Uses:
    """What is said about the uses of the pages of a crawl."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._respected = source.settings.export.respect_ai
        self._files: dict[tuple[str, str], _Read | None] = {}  # by URL, and the origin that is asked about

    async def joined(self, page: Page) -> Page:
        """The page with everything that is said about it."""
        own = urls.origin(page.url)
        if not own or page.purpose is Purpose.TERMS:
            return page
        said = await self._said(own + terms.WELL_KNOWN, page.url, terms.tdm_file)
        for one in page.statements:
            if one.source in _NAMING and (url := urls.resolve(one.raw, page.url)):
                said += await self._said(url, page.url, partial(terms.licence, url=url, own=own))
        return replace(page, statements=(*page.statements, *said)) if said else page

    def objection(self, page: Page) -> str:
        """Why a joined page is left out; empty if it is not."""
        return usage.objection(page.statements, self._respected)

    def may_be_shown(self, page: Page) -> bool:
        """Whether a copy of the page may be shown (noarchive), or the user wants it anyway."""
        return page.robots.archive or self._source.settings.export.noarchive

    async def why_hidden(self, page: Page) -> str:
        """Why no copy of a joined page is shown, as a verb for "they"; empty if it is.

        The archive has an identical body once, in the record of the page that is repeated.
        """
        if why := self._own_reason(page):
            return why
        if page.identical and (key := urls.key(page.duplicate_of, self._source.settings.urls)):
            first = await self._source.frontier.page(key, urls.host(page.duplicate_of))
            why = "" if first is None else self._own_reason(await self.joined(first))
        return f"repeat pages that {why}" if why else ""

    def _own_reason(self, page: Page) -> str:
        if self.objection(page):
            return f"say no to {', '.join(self._respected)} (export.respect_ai)"
        return "" if self.may_be_shown(page) else "ask for noarchive (export.noarchive)"

    async def _said(self, url: str, about: str, read: Callable[[bytes], PathStatements]) -> list[Statement]:
        file = url, urls.origin(about)
        if file not in self._files:
            if len(self._files) >= _AT_HAND:
                self._files.clear()
            self._files[file] = await self._read(url, read)
        found = self._files[file]
        return [] if found is None else terms.statements(found[0], about, found[1])

    async def _read(self, url: str, read: Callable[[bytes], PathStatements]) -> _Read | None:
        """A file of terms, if it was fetched as such. One that is lost from the archive says nothing."""
        key = urls.key(url, self._source.settings.urls)
        page = None if key is None else await self._source.frontier.page(key, urls.host(url))
        if page is None or page.purpose is not Purpose.TERMS or page.status != 200 or page.archive is None:
            return None
        from skitter.export import reread  # noqa: PLC0415  parsers are slow to import, and few origins have terms

        try:
            body = reread.content(page, self._source)
        except OSError:
            return None
        return None if body is None else (read(body), page.fetched_at)


class Hidden:
    """The URLs of pages whose answers are not to be shown: an index or a package of the archive is for replaying it."""

    def __init__(self) -> None:
        self._hashes = set[int]()

    async def others(self, source: Source, told: Listener) -> AsyncIterator[Page]:
        """Read all pages of a crawl, remember those that are hidden, and pass the others on."""
        uses = Uses(source)
        async for stored in source.frontier.pages():
            page = await uses.joined(stored)
            if why := await uses.why_hidden(page):
                self._hashes.add(_hashed(page.url))
                told.left_out(f"they {why}")
            else:
                yield page

    def __contains__(self, url: str) -> bool:
        return bool(self._hashes) and _hashed(url) in self._hashes


def _hashed(url: str) -> int:
    """Equal for a URL of a page and of its record, where more characters are percent-encoded."""
    return xxh3_64_intdigest(unquote_to_bytes(url.encode("utf-8", "surrogatepass")))


async def wanted(source: Source, told: Listener) -> AsyncIterator[Page]:
    """The pages of a crawl with all that is said about their uses, without those that say no to one in the settings."""
    uses, omitted = Uses(source), ", ".join(source.settings.export.respect_ai)
    async for stored in source.frontier.pages():
        page = await uses.joined(stored)
        if uses.objection(page):
            told.left_out(f"they say no to {omitted} (export.respect_ai)")
        else:
            yield page
