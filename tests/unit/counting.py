"""What a page's elements hold, and what its Markdown holds, counted by libraries that Skitter does not use for it.

lxml reads the elements and markdown-it the Markdown, so that a mistake of ours is not made twice.
"""

import html
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import unquote

from lxml import html as lxml_html
from markdown_it import MarkdownIt
from markdown_it.token import Token

from skitter import urls

_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_SIGNS = {"¶", "#", "§", "🔗", "\uf0c1", "⚓", "∞"}
_UNSEEN = "self::script or self::style or self::template or self::nav or self::noscript or self::button or self::select or self::svg"
_HIDDEN = "@hidden or contains(translate(@style, ' ', ''), 'display:none')"


@dataclass
class Counted:
    """Links by address, code blocks by their text without blanks, and the number of data tables."""

    in_code: set[str] = field(default_factory=set)  # links inside code blocks: each address once
    links: Counter[str] = field(default_factory=Counter)
    code: Counter[str] = field(default_factory=Counter)
    tables: int = 0
    spans: list[str] = field(
        default_factory=list
    )  # code within lines, in order: blocks inside cells are lines of it


def in_elements(source: str, base: str) -> Counted:
    """What a reader sees in an element."""
    top = lxml_html.fromstring(source)
    for unseen in top.xpath(f".//*[{_UNSEEN} or {_HIDDEN}]"):
        unseen.drop_tree()
    found = Counted()
    for anchor in top.iter("a"):
        url = urls.whatwg((anchor.get("href") or "").strip(), base) if anchor.get("href") else None
        label = anchor.text_content().strip() or anchor.get("aria-label") or anchor.get("title")
        if not url or not url.startswith(("http", "mailto:", "tel:", "ftp:")):
            continue
        if anchor.text_content().strip() in _SIGNS and anchor.get("href", "").startswith("#"):
            continue  # the sign beside a heading that leads to the heading itself
        if label or anchor.xpath(".//img[@src]"):
            if anchor.xpath("ancestor::pre"):
                found.in_code.add(_plain(url))
            else:
                found.links[_plain(url)] += 1
    for pre in top.iter("pre"):
        for line_end in pre.iter("br"):
            line_end.tail = "\n" + (line_end.tail or "")
        if text := "".join(pre.text_content().split()):
            found.code[text] += 1
    for table in top.iter("table"):
        layout = table.xpath(".//table") or (table.xpath(".//pre") and not table.xpath(".//th"))
        if not layout and table.get("role") not in ("presentation", "none") and table.text_content().strip():
            found.tables += 1
    return found


def in_markdown(text: str) -> Counted:
    """What a reader of the Markdown sees."""
    found = Counted()
    for token in _READER.parse(text):
        if token.type == "table_open":
            found.tables += 1
        elif token.type in ("fence", "code_block"):
            found.code["".join(token.content.split())] += 1
        for inner in token.children or ():
            _count(inner, found)
    return found


def _count(token: Token, found: Counted) -> None:
    if token.type == "link_open":
        found.links[_plain(html.unescape(str(token.attrs["href"])))] += 1
    elif token.type == "code_inline":
        found.code["".join(token.content.split())] += 1
        found.spans.append("".join(token.content.split()))


def _plain(url: str) -> str:
    """An address however its characters are encoded."""
    return unquote(url)


def lost(elements: Counted, markdown: Counted) -> list[str]:
    """What is in the elements and not in the Markdown."""
    missing = [f"link {url}" for url in elements.links - markdown.links]
    missing += [f"link in code {url}" for url in elements.in_code if url not in markdown.links]
    spans = "".join(markdown.spans)
    missing += [
        f"code {text[:60]!r}" for text in elements.code if text not in markdown.code and text not in spans
    ]
    if markdown.tables < elements.tables:
        missing.append(f"{elements.tables - markdown.tables} of {elements.tables} tables")
    return missing
