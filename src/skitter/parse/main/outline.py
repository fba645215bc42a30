"""The outline of a page: its elements in order, with the text that each block holds by itself.

One walk over the tree, without recursion. What nobody sees (scripts, menus in <nav>, hidden elements) is not in it.
"""

import re

from selectolax.lexbor import LexborNode

from skitter.parse.main.markdown import BLOCKS
from skitter.parse.main.walking import SKIPPED, Attributes, is_hidden
from skitter.parse.markup import names

# Words of classes, ids and roles that mark what surrounds the content of a page. Kept short on purpose: they only
# decide about parts in which no main text was found.
_MARKS = names(
    "ad ads advert advertisement banner breadcrumb breadcrumbs comment comments cookie cookies disqus footer menu "
    "modal nav navbar navigation newsletter outbrain pager pagination popup promo promoted recommended recommendations "
    "related share sharebar sharing signup social sponsor sponsored subscribe subscription taboola toolbar "
    "trending widget"
)
_OWN = names("admonition footnote footnotes note topic")  # … and of what belongs to it, though beside it
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BESIDE = names("aside sidebar")  # menus of the site, mostly; but some books have boxes of that name
_AROUND = names("footer form")
_LONGEST = 500  # characters of classes and ids that are looked at


class Element:
    """An element of the outline. `text` is what it holds outside of the blocks in it."""

    __slots__ = ("beside", "linked", "marked", "node", "parent", "tag", "text")

    def __init__(self, node: LexborNode, tag: str, parent: int) -> None:
        self.node = node
        self.tag = tag
        self.parent = parent  # its number; -1 for the first
        self.marked = False  # it looks like something around the content
        self.beside = False  # … or beside it
        self.text: list[str] = []
        self.linked = 0  # characters of the text that are links


def outline(top: LexborNode) -> list[Element]:
    """All elements that are seen, parents before their children."""
    found: list[Element] = []
    above: list[
        tuple[int, int, bool, bool]
    ] = []  # of open elements: number, its block's, is it in a link, in code
    node: LexborNode | None = top
    while node is not None:
        below = None
        if node.is_text_node:
            if above and (text := node.text_content or "").strip():
                _, block, in_link, _ = above[-1]
                found[block].text.append(text)
                found[block].linked += len(text) if in_link else 0
        elif node.is_element_node and (tag := node.tag or "") not in SKIPPED:
            attributes = node.attributes
            if not is_hidden(attributes):
                parent, block, in_link, in_code = above[-1] if above else (-1, 0, False, False)
                number = len(found)
                found.append(Element(node, tag, parent))
                if tag in BLOCKS and not in_code:  # highlighters call parts of code "comment" and "tag"
                    _mark(found[-1], attributes)
                if (below := node.child) is not None:
                    here = number if tag in BLOCKS else block
                    above.append((number, here, in_link or tag == "a", in_code or tag == "pre"))
        if below is not None:
            node = below
            continue
        while node is not None and node.mem_id != top.mem_id and node.next is None:
            node = node.parent
            above.pop()
        node = None if node is None or node.mem_id == top.mem_id else node.next
    return found


def _mark(element: Element, attributes: Attributes) -> None:
    """What tag, classes, id and role of an element say about its place on the page."""
    words = class_words(attributes)
    if _OWN.isdisjoint(words):
        element.marked = element.tag in _AROUND or not _MARKS.isdisjoint(words)
        element.beside = element.tag in _BESIDE or not _BESIDE.isdisjoint(words)


def class_words(attributes: Attributes) -> list[str]:
    """The words of classes, id and role, in lower case: post-body and postBody are post and body."""
    said = " ".join(filter(None, (attributes.get("class"), attributes.get("id"), attributes.get("role"))))
    if not said:
        return []
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", said[:_LONGEST]))]
