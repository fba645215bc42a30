"""Elements of a page as Markdown, or as plain text: one walk over the tree, without recursion.

Everything that is content becomes some mark: headings, paragraphs, lists, tables, code with its language, quotations,
links and pictures with absolute addresses. Elements that mean nothing of their own (<div>, <span>) pass their content
on. The time is linear in the size of the tree: whatever would copy text once per level is only done for a few levels.

A link inside a code block has no place there: such links follow the block. A table is one if its cells hold text;
tables that hold other tables, or code without a heading row, only lay out what is in them.
"""

from collections.abc import Callable, Iterable

from selectolax.lexbor import LexborNode

from skitter.parse.main import marks
from skitter.parse.main.inline import Inline, language
from skitter.parse.main.walking import Attributes, Block
from skitter.parse.markup import names

BLOCKS = names(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu ol optgroup option p pre search section summary table "
    "tbody td tfoot th thead tr ul"
)
_LISTS = names("ul ol menu dl")
_NESTED = 16  # levels of lists and quotations that are shown as such
_WIDEST = 50  # columns that one cell may span


def markdown(nodes: Iterable[LexborNode], base: str) -> str:
    """The content of these elements as Markdown. Addresses are resolved against `base`."""
    writer = _Writer(base, plain=False)
    for node in nodes:
        writer.write(node)
    return writer.text()


def plain(nodes: Iterable[LexborNode]) -> str:
    """The content of these elements as text: a line for each paragraph, item and row."""
    writer = _Writer("", plain=True)
    for node in nodes:
        writer.write(node)
    return writer.text()


class _Writer(Inline):
    """Writes blocks."""

    def _begin(self, tag: str, attributes: Attributes, node: LexborNode) -> Callable[[], None] | None:
        if self._inside["pre"] or (self._inside["code"] and tag != "img"):
            return self._begin_in_code(tag, attributes)
        if tag in BLOCKS:
            return self._begin_block(tag, attributes, node)
        return self._begin_inline(tag, attributes)

    def _begin_block(  # noqa: PLR0911  a table of elements
        self, tag: str, attributes: Attributes, node: LexborNode
    ) -> Callable[[], None] | None:
        if tag == "pre":
            self._end_line()
            spoken = language(node, attributes)
            made = self._gather("pre", lambda: self._end_pre(spoken))
            self._top.links = {}
            return made
        if tag in ("tr", "td", "th") and self._top.rows is not None:
            return self._begin_row_or_cell(tag, attributes)
        self._end_line()
        if tag[0] == "h" and tag[1:].isdigit():
            return self._gather("heading", lambda: self._end_heading(int(tag[1])))
        if tag == "hr":
            if not self._plain:
                self._top.blocks.append(("rule", "---"))
            return None
        if tag == "table":
            return self._begin_table(node)
        if tag in ("dt", "summary", "caption"):
            return self._gather(tag, self._end_term)
        if tag not in _LISTS and tag not in ("li", "dd", "blockquote"):
            return self._end_line
        if self._inside["nested"] >= 2 * _NESTED:
            return self._end_line
        if tag in _LISTS:
            made = self._gather("nested", self._end_list)
            self._top.items, self._top.tag, self._top.counter = [], tag, _number(attributes.get("start"), 1)
            return made
        if tag == "blockquote":
            return self._gather("nested", self._end_quote)
        return self._gather(tag, self._end_item)

    def _end_heading(self, level: int) -> None:
        blocks = self._gathered("heading").blocks
        text = marks.one_line(" ".join(text for _, text in blocks))
        if text:
            self._top.blocks.append(("h", text if self._plain else f"{'#' * level} {text}"))

    def _end_term(self) -> None:
        part = self._gathered("")
        text = marks.one_line(" ".join(text for _, text in part.blocks))
        if not text:
            return
        if part.tag == "dt" and self._top.items is not None:
            self._top.items.append(("-", [("p", text)]))
        else:
            self._top.blocks.append(("p", text))

    # -- lists, quotations and tables ------------------------------------------------------------------------

    def _end_item(self) -> None:
        part = self._gathered("")
        if not part.blocks:
            return
        items = self._top.items
        if items is None:
            marker = "-" if part.tag == "li" else ""
            self._top.blocks += [("list", self._item(marker, part.blocks))] if marker else part.blocks
        elif part.tag == "dd" and items:
            items[-1][1].extend(part.blocks)
        else:
            marker = f"{self._top.counter}." if self._top.tag == "ol" else "-"
            self._top.counter += 1
            items.append((marker, part.blocks))

    def _item(self, marker: str, blocks: list[Block]) -> str:
        if self._plain:
            return "\n".join(text for _, text in blocks)
        return marks.item(marker, [text for _, text in blocks], loose=_is_loose(blocks))

    def _end_list(self) -> None:
        part = self._gathered("nested")
        items = part.items or []
        if not items:
            self._top.blocks += part.blocks
            return
        separator = "\n\n" if not self._plain and any(_is_loose(blocks) for _, blocks in items) else "\n"
        made = ("list", separator.join(self._item(marker, blocks) for marker, blocks in items))
        outer = self._top.items
        if outer:  # a list directly inside a list belongs to the item before it
            outer[-1][1].extend((*part.blocks, made))
        else:
            self._top.blocks += [*part.blocks, made]

    def _end_quote(self) -> None:
        blocks = self._gathered("nested").blocks
        if blocks and self._plain:
            self._top.blocks += blocks
        elif blocks:
            self._top.blocks.append(("quote", marks.quoted("\n\n".join(text for _, text in blocks))))

    def _begin_table(self, node: LexborNode) -> Callable[[], None]:
        if self._inside["cell"] or _is_layout(node):
            return self._end_line
        made = self._gather("table", self._end_table)
        self._top.rows = []
        return made

    def _begin_row_or_cell(self, tag: str, attributes: Attributes) -> Callable[[], None] | None:
        rows = self._top.rows
        if rows is not None and (tag == "tr" or not rows):
            rows.append((True, []))
        if tag == "tr":
            return None
        span = min(_number(attributes.get("colspan"), 1), _WIDEST)
        return self._gather("cell", lambda: self._end_cell(span, heading=tag == "th"))

    def _end_cell(self, span: int, *, heading: bool) -> None:
        part = self._gathered("cell")
        rows = self._top.rows
        text = "\n".join(text for _, text in part.blocks)
        if rows:
            headings, cells = rows[-1]
            rows[-1] = (headings and heading, cells)
            cells.append(text if self._plain else marks.in_cell(text))
            cells.extend([""] * (span - 1))

    def _end_table(self) -> None:
        part = self._gathered("")
        rows = [(headings, cells) for headings, cells in part.rows or () if any(cells)]
        self._top.blocks += part.blocks  # the caption
        if not rows:
            return
        if self._plain:
            lines = ("\t".join(" ".join(cell.split()) for cell in cells) for _, cells in rows)
            self._top.blocks.append(("table", "\n".join(lines)))
        else:
            self._top.blocks.append(("table", marks.table([cells for _, cells in rows], headed=rows[0][0])))


def _is_loose(blocks: list[Block]) -> bool:
    """Whether the blocks of an item need blank lines between them."""
    kinds = [kind for kind, _ in blocks]
    return len(kinds) > 1 and any(kind != "list" for kind in kinds[1:])


def _is_layout(table: LexborNode) -> bool:
    if table.attributes.get("role") in ("presentation", "none") or table.css_first("table table") is not None:
        return True
    return table.css_first("pre") is not None and table.css_first("th") is None


def _number(text: str | None, otherwise: int) -> int:
    found = (text or "").strip()
    return int(found) if found.isdecimal() and found.isascii() and len(found) < 9 else otherwise
