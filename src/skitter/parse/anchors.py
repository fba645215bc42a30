"""Texts and rels of the links in an HTML document.

Most crawls need neither, so they are not read with the rest; this is for programs that ask, and for the strategy
`features` if it looks for words. Read from the tags, in time linear in the document.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from skitter.parse import markup
from skitter.parse.findings import INLINE, folded, tidy

_LONGEST_TEXT = 1000  # characters kept of an anchor's text: an unclosed <a> contains the rest of the page


class Anchor(Struct, frozen=True, gc=False):
    """An <a> or <area> with an href."""

    href: str
    text: str
    rel: str


def anchors(source: str) -> Iterator[Anchor]:
    """The anchors in order of appearance. An anchor ends at its end tag, or where the next one begins."""
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
            if tag.name == "area" and href:  # it has no content, but an alternative text
                yield Anchor(href, folded(attributes.get("alt") or ""), rel)
                href = ""


def telling(body: bytes, charset: str, words: Sequence[str]) -> dict[str, str] | None:
    """The texts of those links that have one of these words in them, by href without its fragment."""
    looked_for = [word.lower() for word in words]
    try:
        source = body.decode(charset, "replace")
    except LookupError:
        return None
    found = {
        tidy(anchor.href).partition("#")[0]: anchor.text
        for anchor in anchors(source)
        if any(word in anchor.text.lower() for word in looked_for)
    }
    return found or None
