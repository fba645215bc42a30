"""Main content for people and language models: a tree of Markdown files, or pieces for retrieval as JSON lines.

Both are made from the archive, and leave out what says no to a use that the settings respect. Files begin with front
matter (YAML), in which every text is a quoted string: a title cannot add a line, nor anything else.
"""

import json
import re
from collections.abc import AsyncIterator
from typing import IO, Any

import msgspec

from skitter import urls
from skitter.export import names
from skitter.export.chunks import chunks
from skitter.export.source import Source
from skitter.export.uses import wanted
from skitter.export.writing import Destination, Format, Lines, Listener, remaining
from skitter.model import Content, Page
from skitter.reporting.format import escaped, moment
from skitter.robots import usage

_LICENCES = (usage.LICENSE_ROBOTS, usage.LICENSE_PAGE, usage.LICENSE_HEADER)
_SURROGATES = re.compile("[\ud800-\udfff]")
# What YAML 1.2 wants to see escaped in a quoted string (5.1), and what a reader would not see.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff0-\ufffb\ufffe\uffff]"
)


async def _tree(source: Source, into: Destination, told: Listener) -> None:
    """A file for each page, named after its URL."""
    told.expect((await source.frontier.counts()).pages, "page")
    async for page, content, language in _contents(source, into, told):
        head = front_matter(facts(page, content, language))
        heading = "" if content.markdown.startswith("#") or not page.title else f"# {_title(page.title)}\n\n"
        into.starts(page.key)
        into.whole()
        with await _opened(page, source, into) as file:
            file.write(_octets(f"{head}\n{heading}{content.markdown}\n"))
        told.done()


async def _opened(page: Page, source: Source, into: Destination) -> IO[bytes]:
    async def stored(url: str) -> Page | None:
        key = urls.key(url, source.settings.urls)
        return None if key is None else await source.frontier.page(key, urls.host(url))

    name = await names.of_page(page, stored, "text/markdown")
    try:
        return into.open(name)
    except FileExistsError:  # the same page under two keys, as by settings that changed
        return into.open(names.apart(name, page.key))


async def _pieces(source: Source, into: Destination, told: Listener) -> None:
    """A line for each piece of a page."""
    told.expect((await source.frontier.counts()).pages, "page")
    encode = msgspec.json.Encoder().encode
    lines = Lines(into, "chunks", ".jsonl")
    most = source.settings.export.chunk_size
    async for page, content, language in _contents(source, into, told, repeats=False):
        said = facts(page, content, language)
        for number, chunk in enumerate(chunks(page.url, content.markdown, most)):
            record = {
                "id": chunk.id,
                "url": page.url,
                "number": number,
                "headings": chunk.headings,
                "text": chunk.text,
                **{name: value for name, value in said.items() if name != "url"},
            }
            await lines.write(escaped(encode(record).decode()) + "\n", page.key)
        told.done()


async def _contents(
    source: Source, into: Destination, told: Listener, *, repeats: bool = True
) -> AsyncIterator[tuple[Page, Content, str]]:
    """The pages that have main content and are not written yet, with it and their language."""
    from skitter.export.contents import Contents, has_content  # noqa: PLC0415  parsers are slow to import

    async def pages() -> AsyncIterator[Page]:
        async for page in remaining(wanted(source, told), into, told):
            if not has_content(page):
                continue
            if page.identical and not repeats:
                told.left_out("they repeat another page")
                continue
            yield page

    async with Contents(source.settings) as contents:
        async for found in contents.in_order(pages(), source):
            if found.problem:
                told.remark(found.problem)
            elif found.content.markdown:
                yield found.page, found.content, found.language
            else:
                told.left_out("they have no text")


# ------------------------------------------------------------------------------------------------ front matter


def facts(page: Page, content: Content, language: str) -> dict[str, Any]:
    """What is known about a page, without what is not; `ai_use` says y or n by use, and nothing for unknown."""
    found: dict[str, Any] = {
        "url": page.url,
        "title": page.title,
        "author": page.author,
        "description": page.description,
        "language": language,
        "published": content.published,
        "modified": content.modified,
        "fetched": moment(page.fetched_at),
        "licence": licences(page, content),
        "ai_use": {use: said for use, (said, _) in usage.verdicts(page.statements).items()},
    }
    return {name: value for name, value in found.items() if value or name == "ai_use"}


def licences(page: Page, content: Content) -> list[str]:
    """The addresses of licences that the page names."""
    named = [one.raw for one in page.statements if one.source in _LICENCES]
    for item in (content.structured or {}).get("json_ld", ()):
        said = item.get("license")
        named += [said] if isinstance(said, str) else []
    return list(dict.fromkeys(urls.resolve(each, page.url) or each for each in named))


def front_matter(said: dict[str, Any]) -> str:
    """The head of a file, between lines of dashes."""
    lines = []
    for name, value in said.items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{_quoted(key)}: {_quoted(each)}" for key, each in value.items())
            lines.append(f"{name}: {{{pairs}}}")
        elif isinstance(value, list):
            lines.append(f"{name}: [{', '.join(map(_quoted, value))}]")
        else:
            lines.append(f"{name}: {_quoted(value)}")
    return "\n".join(["---", *lines, "---", ""])


def _quoted(text: str) -> str:
    """A string as YAML and JSON have it; nothing in it is invisible."""
    text = json.dumps(_SURROGATES.sub("\ufffd", text), ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _title(text: str) -> str:
    from skitter.parse.main import marks  # noqa: PLC0415  see above

    return marks.literal(" ".join(text.split()))


def _octets(text: str) -> bytes:
    return _SURROGATES.sub("\ufffd", text).encode()


MARKDOWN = Format(
    name="markdown",
    about="the main content of each page as a Markdown file with front matter, in folders named after hosts and paths",
    write=_tree,
    streams=False,
    lines=False,
    tree=True,
    resumes=True,
)
CHUNKS = Format(
    name="chunks",
    about="the main content in pieces for retrieval, cut at headings, as JSON lines with ids that stay the same",
    write=_pieces,
    resumes=True,
)
