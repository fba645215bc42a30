"""Reads Lexbor's tree: one walk over the elements for links and the head, then the text at once.

Lexbor puts a blank between any two text nodes. So that words are not split in the middle, inline elements are
first replaced by their content, and invisible elements are removed with theirs. This does in C what a walk
over all text nodes would do four times slower in Python.
"""

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from skitter.parse.findings import ELEMENTS, INLINE, UNSEEN, Findings, folded, read_links

# With events, a selected <option> would be copied into <selectedcontent>, as often as the page likes.
_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)

_BLANK = LexborHTMLParser("<body><!-- -->")
_ID = {
    name: _BLANK.create_node(name).tag_id
    for name in INLINE | UNSEEN | ELEMENTS.keys() | {"h1", "head", "svg"}
}
_COMMENTS = {node.tag_id for node in _BLANK.css("body")[0].traverse() if node.is_comment_node}
_FOUND = {_ID[name]: found for name, found in ELEMENTS.items()}
_INLINE = frozenset(_ID[name] for name in INLINE)
_UNSEEN = frozenset(_ID[name] for name in UNSEEN) | _COMMENTS
_ANCHOR, _TITLE, _H1, _HEAD, _SVG = (_ID[name] for name in ("a", "title", "h1", "head", "svg"))
_OF_INTEREST = _FOUND.keys() | _INLINE | _UNSEEN | {_H1}
_PICTURE_DEPTH = 64  # no document has its title that deep
_MARKUP_INSIDE = frozenset((_ID["noscript"], _ID["noframes"]))


def read(source: bytes, findings: Findings) -> None:
    """Read a UTF-8 document. Scripting is "on", so that <noscript> holds one text, which is not part of the page."""
    root = LexborHTMLParser(source, options=_OPTIONS, scripting=True).root
    if root is None:
        return
    inline: list[LexborNode] = []
    unseen: list[LexborNode] = []
    heading: LexborNode | None = None
    on_anchor, anchor, add_inline = findings.on_anchor, _ANCHOR, inline.append
    for node in root.traverse():
        tag = node.tag_id
        if tag == anchor:
            on_anchor(node.attributes)
            add_inline(node)
        elif tag not in _OF_INTEREST:
            continue
        elif tag in _INLINE:
            add_inline(node)
        elif tag == _H1:
            heading = heading or node
        else:
            if tag in _FOUND:
                _FOUND[tag](findings, node.attributes)
            if tag in _UNSEEN:
                unseen.append(node)
                _look_inside(node, tag, findings)
    for node in inline:
        node.unwrap(delete_empty=True)
    for node in unseen:
        node.decompose()
    root.merge_text_nodes()
    findings.pieces.append(root.text(separator=" ", skip_empty=True))
    if heading is not None:
        findings.heading = folded(heading.text(separator=" "))


def _look_inside(node: LexborNode, tag: int, findings: Findings) -> None:
    """Elements that are not part of the text may still matter."""
    if tag == _TITLE:
        if findings.title is None and not _is_drawn(node):
            findings.title = folded(node.text())
    elif tag in _MARKUP_INSIDE:
        read_links(node.text(), findings)


def _is_drawn(title: LexborNode) -> bool:
    """Whether a <title> belongs to an SVG image instead of the document."""
    parent = title.parent
    for _ in range(_PICTURE_DEPTH):
        if parent is None or parent.tag_id == _HEAD:
            return False
        if parent.tag_id == _SVG:
            break
        parent = parent.parent
    return True
