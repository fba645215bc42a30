"""What a page says to programs: JSON-LD, OpenGraph and microdata, and the dates in them.

All of it is what the page claims. It is bounded in number, length and depth, whatever the page holds; what does not
fit is left out.
"""

import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from skitter import urls
from skitter.runtime import dates

_SCRIPTS = 20  # of JSON-LD
_LONGEST_SCRIPT = 256 * 1024  # characters
_VALUES = 2_000  # of one page, in all
_LONGEST = 2_000  # characters of a value, and of a name
_DEEPEST = 8
_ITEMS = 50  # of microdata
_OPEN_GRAPH = ("og:", "article:", "book:", "product:", "profile:", "video:", "music:", "twitter:", "fb:")

# In order of trust. Names of <meta> are in lower case.
_PUBLISHED = ("datepublished", "datecreated", "uploaddate")
_MODIFIED = ("datemodified",)
_META_PUBLISHED = (
    "article:published_time", "og:published_time", "datepublished", "citation_publication_date", "dcterms.issued",
    "dcterms.created", "dcterms.date", "dc.date.issued", "dc.date.created", "dc.date", "pubdate", "publishdate",
    "publish-date", "publication_date", "parsely-pub-date", "sailthru.date", "date",
)  # fmt: skip
_META_MODIFIED = (
    "article:modified_time", "og:updated_time", "og:modified_time", "datemodified", "dcterms.modified",
    "dc.date.modified", "last-modified", "lastmod", "revised",
)  # fmt: skip
_ISO = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?\s?([Zz]|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_SLASHED = re.compile(r"(\d{4})/(\d\d)/(\d\d)", re.ASCII)


def structured(tree: LexborHTMLParser, base: str) -> dict[str, Any] | None:
    """Everything that a page says to programs; None for nothing."""
    room = _Room()
    found = {
        "json_ld": list(_json_ld(tree, room)),
        "opengraph": _open_graph(tree, room),
        "microdata": list(_microdata(tree, base, room)),
    }
    said: dict[str, Any] = {name: value for name, value in found.items() if value}
    return said or None


class _Room:
    """How many more values are kept."""

    def __init__(self) -> None:
        self.left = _VALUES

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


# ------------------------------------------------------------------------------------------------ JSON-LD, OpenGraph


def _json_ld(tree: LexborHTMLParser, room: _Room) -> Iterator[Any]:
    for script in tree.css('script[type="application/ld+json" i]')[:_SCRIPTS]:
        text = script.text().strip().removeprefix("<!--").removesuffix("-->").strip()
        if not text or len(text) > _LONGEST_SCRIPT:
            continue
        try:
            said = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):  # cut short, or nested without end
            continue
        for one in said if isinstance(said, list) else [said]:
            kept = _bounded(one, room, _DEEPEST)
            if isinstance(kept, dict) and kept:
                yield kept


def _bounded(value: Any, room: _Room, depth: int) -> Any:  # noqa: ANN401  any JSON
    """A value with so many parts, levels and characters at most; None for what is too much."""
    if not depth or not room.take():
        return None
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, list):
        parts = (_bounded(part, room, depth - 1) for part in value[: max(0, room.left)])
        return [part for part in parts if part is not None]
    if isinstance(value, dict):
        pairs = ((name[:_LONGEST], _bounded(part, room, depth - 1)) for name, part in value.items())
        return {name: part for name, part in pairs if part is not None}
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None  # no record could hold it
    return value


def _open_graph(tree: LexborHTMLParser, room: _Room) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {}
    for name, content in _metas(tree):
        if not name.startswith(_OPEN_GRAPH) or not room.take():
            continue
        before = found.get(name)
        if before is None:
            found[name] = content
        elif isinstance(before, list):
            before.append(content)
        else:
            found[name] = [before, content]
    return found


def _metas(tree: LexborHTMLParser) -> Iterator[tuple[str, str]]:
    """Names, properties and itemprops of <meta> in lower case, with their contents."""
    for node in tree.css("meta[content]")[:_VALUES]:
        attributes = node.attributes
        name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
        content = (attributes.get("content") or "").strip()
        if name and content:
            yield name.strip().lower()[:_LONGEST], content[:_LONGEST]


# ------------------------------------------------------------------------------------------------ microdata


def _microdata(tree: LexborHTMLParser, base: str, room: _Room) -> Iterator[dict[str, Any]]:
    """Items that are no property of another one."""
    for node in tree.css("[itemscope]:not([itemprop])")[:_ITEMS]:
        item = _item(node, base, room, _DEEPEST)
        if item["properties"]:
            yield item


def _item(top: LexborNode, base: str, room: _Room, depth: int) -> dict[str, Any]:
    """HTML Standard 5.2: an item's type and properties, without those of the items in it."""
    item: dict[str, Any] = {"type": (top.attributes.get("itemtype") or "")[:_LONGEST], "properties": {}}
    node = top.child
    while node is not None and room.left > 0:
        below = node.child
        if node.is_element_node:
            attributes = node.attributes
            inner = "itemscope" in attributes
            if name := (attributes.get("itemprop") or "").strip()[:_LONGEST]:
                nested = inner and depth > 1
                value = _item(node, base, room, depth - 1) if nested else _value(node, attributes, base)
                if room.take() and value:
                    item["properties"].setdefault(name, []).append(value)
            if inner:
                below = None
        if below is None:
            while node.next is None and node.parent is not None and node.parent.mem_id != top.mem_id:
                node = node.parent
            below = node.next
        node = below
    return item


def _value(node: LexborNode, attributes: Mapping[str, str | None], base: str) -> str:
    if (content := attributes.get("content")) is not None:
        return content.strip()[:_LONGEST]
    if (moment := attributes.get("datetime")) is not None:
        return moment.strip()[:_LONGEST]
    href = attributes.get("href") or attributes.get("src")
    if href:
        return (urls.resolve(href, base) or href)[:_LONGEST]
    return " ".join(node.text()[: 4 * _LONGEST].split())[:_LONGEST]


# ------------------------------------------------------------------------------------------------ dates


def published_and_modified(tree: LexborHTMLParser, said: Mapping[str, Any] | None) -> tuple[str, str]:
    """When the page says that it was published, and last modified; empty for unknown.

    Nothing is guessed from its text: a date in a text may be about anything.
    """
    items = [*(said or {}).get("json_ld", ()), *(said or {}).get("microdata", ())]
    metas: dict[str, str] = {}
    for name, content in _metas(tree):
        metas.setdefault(name, content)
    published = _first(_dated(items, _PUBLISHED)) or _first(metas.get(name, "") for name in _META_PUBLISHED)
    modified = _first(_dated(items, _MODIFIED)) or _first(metas.get(name, "") for name in _META_MODIFIED)
    return published or _first(_times(tree)), modified


def _first(written: Iterator[str]) -> str:
    return next((date for text in written if (date := iso_date(text))), "")


def _dated(values: list[Any], names: tuple[str, ...]) -> Iterator[str]:
    """The values of these properties, nearest to the top first."""
    level = values
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                for name, part in value.items():
                    texts = part if isinstance(part, list) else [part]
                    if name.lower() in names:
                        yield from (text for text in texts if isinstance(text, str))
                    below += (each for each in texts if isinstance(each, dict))
        level = below


def _times(tree: LexborHTMLParser) -> Iterator[str]:
    """<time> elements that say that they are about the page: marked as such, or the only one of its article."""
    for node in tree.css("time[pubdate], time[itemprop=datePublished], time.published, time.entry-date")[:5]:
        yield node.attributes.get("datetime") or ""
    for article in tree.css("article")[:2]:
        found = article.css("time[datetime]")
        if len(found) == 1:
            yield found[0].attributes.get("datetime") or ""


def iso_date(written: str) -> str:
    """A date as ISO 8601, as precise as it is written; empty for what is none."""
    text = written.strip()[:100]
    if found := _ISO.fullmatch(text):
        year, month, day, time, zone = found.groups()
        made = "-".join(filter(None, (year, month, day)))
        if time:
            zone = "Z" if zone in ("Z", "z") else f"{zone[:3]}:{zone[-2:]}" if zone else ""
            made = f"{made}T{time}{zone}"
        return made if dates.w3c(made) is not None and int(year) > 0 else ""
    if found := _SLASHED.match(text):
        return iso_date("-".join(found.groups()))
    if not text[:1].isalpha() and not text[:2].strip().isdigit():
        return ""
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
