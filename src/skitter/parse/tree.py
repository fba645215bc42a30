"""One walk over Lexbor's tree: text, links and what the head says, all in document order.

The walk yields nodes in preorder and says nothing when an element ends. So a block element marks the node behind it:
there the text breaks. An element whose text nobody sees marks its children: they are passed over.
"""

from collections.abc import Iterator

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from skitter.parse import markup
from skitter.parse.findings import BLOCKS, ELEMENTS, UNSEEN, Findings, folded

_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)  # events would copy a selected <option> into <selectedcontent>


def _ids() -> tuple[int, dict[str, int]]:
    names = BLOCKS | UNSEEN | ELEMENTS.keys() | {"head", "svg"}
    blank = LexborHTMLParser("<p>x")
    text = blank.css("p")[0].first_child
    assert text is not None  # noqa: S101  for the type checker
    return text.tag_id, {name: blank.create_node(name).tag_id for name in names}


_TEXT, _ID = _ids()
_BLOCKS = frozenset(_ID[name] for name in BLOCKS)
_FOUND = {_ID[name]: found for name, found in ELEMENTS.items()}
_UNSEEN = frozenset(_ID[name] for name in UNSEEN)
_MARKUP_INSIDE = frozenset((_ID["noscript"], _ID["noframes"]))
_TITLE, _H1, _HEAD, _SVG = (_ID[name] for name in ("title", "h1", "head", "svg"))
_BREAK, _SKIP = 1, 2


def read(source: bytes, findings: Findings) -> None:
    """Walk through a document in UTF-8. Scripting is "on", so that <noscript> is one text and not part of the page."""
    root = LexborHTMLParser(source, options=_OPTIONS, scripting=True).root
    if root is None:
        return
    marks: dict[int, int] = {}
    add = findings.pieces.append
    for node in root.traverse(include_text=True):
        tag = node.tag_id
        if tag == _TEXT:
            mark = marks.get(node.mem_id)
            if mark == _SKIP:
                continue
            if mark == _BREAK:
                add(" ")
            add(node.text_content or "")
            continue
        if tag in _BLOCKS:
            add(" ")
            _mark_end(node, marks)
        elif node.mem_id in marks:
            add(" ")
        found = _FOUND.get(tag)
        if found is not None:
            found(findings, node.attributes)
        if tag in _UNSEEN:
            _pass_over(node, marks, findings)
        elif tag == _H1 and not findings.heading:
            findings.heading = folded(node.text())


def _mark_end(block: LexborNode, marks: dict[int, int]) -> None:
    """Mark the node that follows a block, outside of all inline elements that end together with it."""
    node: LexborNode | None = block
    while node is not None:
        following = node.next
        if following is not None:
            marks.setdefault(following.mem_id, _BREAK)
            return
        node = node.parent
        if node is None or node.tag_id in _BLOCKS:
            return  # that one has marked its own end


def _pass_over(node: LexborNode, marks: dict[int, int], findings: Findings) -> None:
    for child in _children(node):
        marks[child.mem_id] = _SKIP
    if node.tag_id == _TITLE:
        if findings.title is None and not _is_drawn(node):
            findings.title = folded(node.text())
    elif node.tag_id in _MARKUP_INSIDE:
        read_links(node.text(), findings)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def _is_drawn(title: LexborNode) -> bool:
    """Whether a <title> belongs to a picture (SVG), not to the document."""
    parent = title.parent
    while parent is not None and parent.tag_id not in (_SVG, _HEAD):
        parent = parent.parent
    return parent is not None and parent.tag_id == _SVG


def read_links(source: str, findings: Findings) -> None:
    """Links for readers without scripts or frames, which we are."""
    if "href" in source or "HREF" in source:
        for tag in markup.tags(source):
            if tag.name in ("a", "area") and not tag.end:
                findings.on_anchor(markup.attributes(tag.written))
