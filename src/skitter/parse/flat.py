"""HTML read from its tags alone, for documents that are not safe to build a tree from (see `html.is_tame`).

Links and titles come out the same; text may break differently where tags are wrongly nested.
"""

import re

from skitter.parse import markup
from skitter.parse.findings import ELEMENTS, INLINE, UNSEEN, Findings, folded, read_links

_SLOPPY = re.compile(r"<[\t\n\f\r ]++a(?=[\t\n\f\r /])", re.IGNORECASE)


def read(source: str, findings: Findings) -> None:
    """Read the document tag by tag."""
    add = findings.pieces.append
    templates = drawings = 0  # current depth in them
    heading: int | None = None
    for tag in markup.tags(source.replace("\0", "")):
        name, change = tag.name, -1 if tag.end else 1
        if tag.text and not templates:
            add(markup.unescape(tag.text))
        if name == "template":
            templates = max(0, templates + change)
        if templates or not name:
            continue
        if name not in INLINE and name not in UNSEEN:
            add(" ")
        if name == "svg":
            drawings = max(0, drawings + change)
        if tag.end:
            if name == "h1" and heading is not None and not findings.heading:
                findings.heading = folded("".join(findings.pieces[heading:]))
            continue
        found = ELEMENTS.get(name)
        if found is not None:
            found(findings, markup.attributes(tag.written))
        if tag.content:
            _look_inside(tag, findings, in_drawing=drawings > 0)
        elif name == "h1" and heading is None:
            heading = len(findings.pieces)


def _look_inside(tag: markup.Tag, findings: Findings, *, in_drawing: bool) -> None:
    if tag.name == "title":
        if findings.title is None and not in_drawing:
            findings.title = folded(markup.unescape(tag.content))
    elif tag.name in ("noscript", "noframes"):
        read_links(tag.content, findings)
    elif tag.name not in UNSEEN:
        findings.pieces.append(tag.content)  # <xmp>


def sloppy_anchors(source: str, findings: Findings) -> None:
    """Anchors that HTML treats as text because of a blank: `< a href = x >`."""
    for tag in markup.tags(_SLOPPY.sub("<a", source)):
        if tag.name == "a" and not tag.end:
            findings.on_anchor(markup.attributes(tag.written))
