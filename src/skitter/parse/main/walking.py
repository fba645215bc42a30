"""The walk over elements, without recursion, that gathers text into paragraphs and paragraphs into parts.

What becomes of an element is decided by those who write (`inline`, `markdown`): at its start they say what is to be done at
its end. Elements that mean nothing of their own (<div>, <span>) pass their content on.
"""

import re
from collections.abc import Callable

from selectolax.lexbor import LexborNode

from skitter.parse.main import marks
from skitter.parse.markup import names

SKIPPED = names(
    "applet area audio base button canvas dialog embed frame frameset head iframe input link map meta nav noembed "
    "noframes noscript object param script select style svg template textarea title video"
)
BLANK = re.compile(r"[ \t\n\r\f]+")
_CONTROLS = dict.fromkeys((*range(9), 11, *range(14, 32), 127))  # they mean nothing in a text
_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

Attributes = dict[str, str | None]
Block = tuple[str, str]  # its kind, and the text: "p", "h", "code", "table", "list", "quote", "rule"


class Part:
    """What is gathered inside an element that becomes a mark of its own."""

    __slots__ = ("blocks", "counter", "items", "line", "links", "rows", "tag")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.line: list[str] = []  # of the paragraph that is being read
        self.blocks: list[Block] = []
        self.items: list[tuple[str, list[Block]]] | None = None  # of a list: markers and contents
        self.counter = 1
        self.rows: list[tuple[bool, list[str]]] | None = (
            None  # of a table: whether all are headings, and cells
        )
        self.links: dict[str, str] | None = None  # of a code block: texts by address


class Ready(str):
    """A piece inside code that is markup already."""

    __slots__ = ()


def is_hidden(attributes: Attributes) -> bool:
    """Whether an element says that it is not shown."""
    if "hidden" in attributes:
        return True
    style = attributes.get("style")
    return style is not None and _NOT_SHOWN.search(style) is not None


class Walker:
    """Walks over elements, and gathers what is in them."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._parts = [Part("")]
        self._leave: list[
            Callable[[], None] | None
        ] = []  # what is to be done at the end of each open element
        self._inside: dict[str, int] = dict.fromkeys(("a", "code", "pre", "emphasis", "nested", "cell"), 0)

    def text(self) -> str:
        """Everything that was written."""
        self._end_line()
        separator = "\n" if self._plain else "\n\n"
        return separator.join(text for _, text in self._parts[0].blocks)

    def write(self, top: LexborNode) -> None:
        """Write an element, and end the paragraph after it."""
        node: LexborNode | None = top
        while node is not None:
            if (below := self._enter(node)) is not None:
                node = below
                continue
            while node is not None and node.mem_id != top.mem_id and node.next is None:
                node = node.parent
                self._end()
            node = None if node is None or node.mem_id == top.mem_id else node.next
        self._end_line()

    # -- the walk --------------------------------------------------------------------------------------------

    def _enter(self, node: LexborNode) -> LexborNode | None:
        """Begin an element, and its first child if it has one; everything else is done with at once."""
        if node.is_text_node:
            self._add_text(node.text_content or "")
            return None
        tag = node.tag or ""
        if not node.is_element_node or tag in SKIPPED:
            return None
        attributes = node.attributes
        if is_hidden(attributes) or (self._plain and _is_caption(tag, attributes)):
            return None
        self._leave.append(self._begin(tag, attributes, node))
        if (child := node.child) is None:
            self._end()
        return child

    def _end(self) -> None:
        if (leave := self._leave.pop()) is not None:
            leave()

    def _begin(self, tag: str, attributes: Attributes, node: LexborNode) -> Callable[[], None] | None:
        """What is to be done at the end of an element."""
        raise NotImplementedError

    def _gather(self, kind: str, leave: Callable[[], None]) -> Callable[[], None]:
        """What follows is gathered apart, until `leave` makes something of it."""
        self._parts.append(Part(kind))
        if kind in self._inside:
            self._inside[kind] += 1
        return leave

    def _gathered(self, kind: str) -> Part:
        self._end_line()
        if kind in self._inside:
            self._inside[kind] -= 1
        return self._parts.pop()

    @property
    def _top(self) -> Part:
        return self._parts[-1]

    # -- text ------------------------------------------------------------------------------------------------

    def _add_text(self, text: str) -> None:
        if not text.isprintable():
            text = text.translate(_CONTROLS)
        if self._inside["pre"]:
            self._top.line.append(text)
            return
        folded = BLANK.sub(" ", text)
        if not self._plain and not self._inside["code"]:
            folded = marks.literal(folded, in_link=self._inside["a"] > 0)
        self._top.line.append(folded)

    def _end_line(self) -> None:
        """The paragraph is over, if there is one."""
        part = self._top
        if not part.line or part.tag in ("pre", "code"):
            return
        written = "".join(part.line)
        part.line = []
        text = _plain_line(written) if self._plain else marks.paragraph(written)
        if text:
            part.blocks.append(("p", text))


def _is_caption(tag: str, attributes: Attributes) -> bool:
    """Whether an element describes a picture, which is not part of a text without pictures."""
    if tag in ("caption", "pre"):
        return False
    return tag == "figcaption" or "caption" in (attributes.get("class") or "").lower()


def _plain_line(written: str) -> str:
    return "\n".join(line for each in written.split("\n") if (line := " ".join(each.split())))
