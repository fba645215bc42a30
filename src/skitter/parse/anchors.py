"""What the links of an HTML document say: the text of each anchor, and its rel.

A crawl has no use for either, so they are not read with the rest; this is for programs that ask. Read from the tags, in
time linear in the document, whatever the document.
"""

from collections.abc import Iterator

from msgspec import Struct

from skitter.parse import markup
from skitter.parse.findings import INLINE, folded

_LONGEST_TEXT = (
    1000  # characters of an anchor's text that are kept: an <a> that is never closed has the rest of the page
)


class Anchor(Struct, frozen=True, gc=False):
    """An <a> or <area> with an href."""

    href: str
    text: str
    rel: str


def anchors(source: str) -> Iterator[Anchor]:
    """The anchors in order of appearance. An anchor ends with its end tag, or where the next one begins."""
    href = rel = ""
    pieces: list[str] = []
    room = 0
    for tag in markup.tags(source):
        if href and room > 0:
            pieces.append(tag.text[:room])
            if tag.name not in INLINE:
                pieces.append(" ")
            room -= len(tag.text)
        if tag.name not in ("a", "area") and tag.name:
            continue
        if href:
            yield Anchor(href, folded(markup.unescape("".join(pieces))), rel)
            href = ""
        if tag.name and not tag.end:
            attributes = markup.attributes(tag.written)
            href, rel = attributes.get("href") or "", folded(attributes.get("rel") or "")
            pieces, room = [], _LONGEST_TEXT
            if (
                tag.name == "area" and href
            ):  # it has no content, but a text for those who do not see the picture
                yield Anchor(href, folded(attributes.get("alt") or ""), rel)
                href = ""
