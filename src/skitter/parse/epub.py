"""Books (EPUB 2 and 3): the chapters in reading order, each read like a page of HTML, and what the package says about them."""

import posixpath
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from skitter.model import Document
from skitter.parse import html, sniff
from skitter.parse.container import Container, Text, Unreadable
from skitter.parse.making import known, made, short
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_TOLD = frozenset(
    ("title", "creator", "language", "date", "publisher", "identifier", "description", "subject")
)
_CHAPTERS = frozenset((sniff.XHTML, "text/html", "application/x-dtbook+xml"))
_MOST_ITEMS = 20_000
_WEB = ("http://", "https://")


class _Package(Struct):
    """What the package document of a book says."""

    told: dict[str, str] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)  # chapters, by id
    order: list[str] = field(default_factory=list)  # ids
    cut: str = ""  # what was left out of a chapter, and why


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read a book."""
    try:
        file = Container(body.content, settings.deadline)
    except Unreadable as problem:
        encrypted = {"encrypted": True} if "encrypted" in str(problem) else {"damaged": True}
        return made(body, settings, ignored=str(problem), media=encrypted)
    root = _root(file)
    package = _package(file, root)
    texts, links = _chapters(file, posixpath.dirname(root), package, body, settings)
    told, text = package.told, " ".join(texts)
    details = {
        "format": "epub",
        "chapters": len(package.order),
        "chapters_read": len(texts) if len(texts) < len(package.order) else None,
        "partly": file.problem or package.cut,
        "published": told.get("date", ""),
        "publisher": told.get("publisher", ""),
        "identifier": told.get("identifier", ""),
        "protected": "META-INF/rights.xml" in file.names() or None,  # its chapters cannot be read
    }
    return made(
        body,
        settings,
        title=told.get("title", ""),
        author=told.get("creator", ""),
        description=told.get("description", ""),
        keywords=told.get("subject", ""),
        language=told.get("language", "") or body.language,
        text=text,
        links=links,
        ignored="" if text else file.problem or "the book has no text that can be read",
        media=known(details),
    )


def _root(file: Container) -> str:
    """The place of the package document."""
    found: list[str] = []

    def start(element: str, attributes: dict[str, str]) -> None:
        if element == "rootfile" and not found:
            found.append(attributes.get("full-path", ""))

    file.walk("META-INF/container.xml", start, lambda _name: None, Text(1))
    return found[0] if found else ""


def _package(file: Container, root: str) -> _Package:
    package, text = _Package(), Text(1_000_000)

    def start(element: str, attributes: dict[str, str]) -> None:
        text.take()
        text.on = element in _TOLD
        if element == "item" and attributes.get("media-type") in _CHAPTERS:
            if len(package.items) < _MOST_ITEMS:
                package.items[attributes.get("id", "")] = attributes.get("href", "")
        elif element == "itemref" and len(package.order) < _MOST_ITEMS:
            package.order.append(attributes.get("idref", ""))

    def end(element: str) -> None:
        if element in _TOLD and (value := short(text.take())):
            package.told.setdefault(element, value)
        text.on = False

    file.walk(root, start, end, text)
    package.order = list(dict.fromkeys(each for each in package.order if each in package.items))
    return package


def _chapters(
    file: Container, folder: str, package: _Package, body: Body, settings: ParseSettings
) -> tuple[list[str], dict[str, None]]:
    """The text of each chapter, and their links to the web."""
    texts: list[str] = []
    links: dict[str, None] = {}
    room = settings.max_text
    for name in package.order[: settings.max_pages]:
        place = posixpath.normpath(posixpath.join(folder, unquote(package.items[name])))
        source = file.whole(place, settings.max_input)
        if file.problem or room <= 0:
            break
        if len(source) >= settings.max_input:
            package.cut = "a chapter is longer than parse.max_input"
        page = html.parse(
            replace(body, media_type=sniff.XHTML, content=source, headers={}, http_charset=""),
            replace(settings, content_start="", content_end=""),
        )
        texts.append(page.text[:room])
        room -= len(page.text)
        links |= dict.fromkeys(href for href in page.links if href.lower().startswith(_WEB))
    return texts, links
