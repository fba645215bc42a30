"""A crawl as files to browse from a disk: every page and asset under its name, with links that lead from file to file.

A reference to something that is stored becomes a relative path; one to anything else becomes an absolute URL, which leads to the live
web. Redirects have no file: references to them lead to where they ended. Scripts stay as they are; what they ask for on
their own is not found on a disk. For that there is `skitter replay`.
"""

from collections.abc import Mapping
from html import escape
from posixpath import dirname, relpath
from urllib.parse import quote, urldefrag

from skitter import reasons, urls
from skitter.export.source import Source
from skitter.export.uses import Hidden, Uses
from skitter.export.writing import Destination, Format, Listener, remaining
from skitter.model import Page, Purpose
from skitter.reporting.format import counted, printable
from skitter.settings import Settings

_HTML = ("text/html", "application/xhtml+xml")
_KINDS = (Purpose.PAGE, Purpose.ASSET)
_HOPS = 10  # redirects followed
_AT_HAND = 50_000  # names of what references lead to; pages of a site share most of them
_CONTENTS = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}</title><style>body{{font:16px/1.6 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}}</style>
<h1>{name}</h1><p>{files}. It begins here:</p><ul>
{starts}
</ul></html>
"""


async def _files(source: Source, into: Destination, told: Listener) -> None:
    """One file for each page and asset, and a first page that leads to the seeds."""
    counts = await source.frontier.counts()
    told.expect(counts.pages + counts.others.get(Purpose.ASSET, 0), "file")
    mirror = _Mirror(source)
    async for page in remaining(Hidden().others(source, told), into, told):
        if not 200 <= page.status < 300 or page.purpose not in _KINDS or await mirror.is_second(page):
            continue
        content = await _content(page, source, mirror, told)
        if content is None:
            continue
        into.starts(page.key)
        into.whole()
        try:
            with into.open(await mirror.name(page)) as file:
                file.write(content)
        except FileExistsError:  # where case does not count, or the crawl has gone on meanwhile
            told.remark(f"{page.url}: another page has its file name")
            continue
        told.done()
    await _first_page(source, into, mirror)


async def _content(page: Page, source: Source, mirror: "_Mirror", told: Listener) -> bytes | None:
    """The body, with references that hold on a disk."""
    from skitter.export import reread  # noqa: PLC0415  parsers are slow to import

    try:
        answer = await reread.answer(page, source)
    except OSError as problem:
        told.remark(f"{page.url}: its body cannot be read: {problem}")
        return None
    if answer is None:
        told.remark(f"{page.url}: its body is not in the archive")
        return None
    return await mirror.rewritten(page, answer.content)


async def _first_page(source: Source, into: Destination, mirror: "_Mirror") -> None:
    starts, number = [], into.files
    for root in await source.roots():
        name = await mirror.lead(root)
        if name is not None:
            starts.append(f'<li><a href="{escape(quote(name))}">{escape(printable(root))}</a>')
    with into.open("index.html") as file:
        made = _CONTENTS.format(
            name=escape(printable(source.name)), files=counted(number, "file"), starts="\n".join(starts)
        )
        file.write(made.encode("utf-8", "backslashreplace"))


class _Mirror:
    """What is stored, and in which file."""

    def __init__(self, source: Source) -> None:
        self._frontier = source.frontier
        self._settings: Settings = source.settings
        self._uses = Uses(source)
        self._known: dict[str, str | None] = {}  # file by absolute URL

    async def name(self, page: Page) -> str:
        """The file of a page or asset."""
        from skitter.export import names  # noqa: PLC0415  --help does not need it

        return await names.of_page(page, self._stored, page.content_type)

    async def is_second(self, page: Page) -> bool:
        """Whether this is an asset that was fetched as a page too."""
        if page.purpose is not Purpose.ASSET:
            return False
        first = await self._stored(page.url)
        return first is not None and first.key != page.key

    async def lead(self, url: str) -> str | None:
        """The file that a URL leads to, perhaps over redirects; None if there is none."""
        if url not in self._known:
            if len(self._known) >= _AT_HAND:
                self._known.clear()
            found = await self._led(url)
            self._known[url] = None if found is None else await self.name(found)
        return self._known[url]

    async def _led(self, url: str) -> Page | None:
        for _ in range(_HOPS):
            page = await self._stored(url)
            if page is not None:
                return page if await self._is_shown(page) else None
            key = urls.key(url, self._settings.urls)
            record = None if key is None else await self._frontier.url(key, urls.host(url))
            if record is None or record.reason is None or record.reason.code != reasons.REDIRECT:
                return None
            url = record.reason.detail.rpartition(") to ")[2]
        return None

    async def _is_shown(self, page: Page) -> bool:
        if not 200 <= page.status < 300 or page.purpose not in _KINDS:
            return False
        return not await self._uses.why_hidden(await self._uses.joined(page))

    async def _stored(self, url: str) -> Page | None:
        """What is stored for a URL: as a page, or else as an asset."""
        host = urls.host(url)
        for key in (urls.key(url, self._settings.urls), urls.asset_key(url)):
            if key is not None and (page := await self._frontier.page(key, host)) is not None:
                return page
        return None

    async def rewritten(self, page: Page, content: bytes) -> bytes:
        """In two passes: the first finds what is referred to, so that the second knows where that is."""
        from skitter.export.replay import css, html  # noqa: PLC0415  parsers are slow to import

        def made(references: _Seen | _Local) -> bytes:
            if page.content_type in _HTML:
                return html.page(content, page.charset, references, script=False)
            return css.sheet(content, references)

        if page.content_type not in (*_HTML, "text/css"):
            return content
        seen = _Seen(page.url)
        made(seen)
        files = {url: name for url in seen.found if (name := await self.lead(url)) is not None}
        return made(_Local(page.url, dirname(await self.name(page)), files))


class _Seen:
    """`References` that are only looked at."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.found = set[str]()

    def url(self, reference: str) -> str:
        """Remember it."""
        if (absolute := _absolute(reference, self.base)) is not None:
            self.found.add(absolute[0])
        return reference

    def based(self, reference: str) -> str:
        """It is no reference."""
        return reference

    def target(self, name: str) -> str:
        """As it is."""
        return name


class _Local(_Seen):
    """`References` between files."""

    def __init__(self, base: str, folder: str, files: Mapping[str, str]) -> None:
        super().__init__(base)
        self._folder = folder
        self._files = files

    def url(self, reference: str) -> str:
        """The way to the file, or the URL on the live web."""
        absolute = _absolute(reference, self.base)
        if absolute is None:
            return reference
        url, fragment = absolute
        file = self._files.get(url)
        where = url if file is None else quote(relpath(file, self._folder))
        return f"{where}#{fragment}" if fragment else where

    def based(self, _reference: str) -> str:
        """Files are relative to themselves."""
        return ""


def _absolute(reference: str, base: str) -> tuple[str, str] | None:
    """URL and fragment; None if it leads to nothing else on the web."""
    if not reference.strip() or reference.lstrip().startswith("#"):
        return None
    absolute = urls.whatwg(reference, base)
    if absolute is None or not absolute.startswith(("http://", "https://")):
        return None
    url, fragment = urldefrag(absolute)
    return url, fragment


FILES = Format(
    name="files",
    about="pages and assets as files to browse from a disk, with links from one to the other",
    write=_files,
    streams=False,
    lines=False,
    tree=True,
    resumes=True,
)
