"""Which element of a page holds its main content, and which parts of it do not belong.

Two ways to know where the main text is: `by_prose` looks for blocks of running text and takes the element that holds
most of them; `by_text` is told the main text, by a better judge, and takes the element that holds it. Either way what
is written is the element itself, so that its tables, code and links stay; only parts without main text that are marked as
something else (see `outline`) are removed.
"""

import re
from collections.abc import Sequence

from selectolax.lexbor import LexborNode

from skitter.parse.main.outline import Element, class_words
from skitter.parse.markup import names

# Blocks that are no running text, however long.
_NO_PROSE = names("caption dt figcaption h1 h2 h3 h4 h5 h6 label legend option summary th")
_SHORTEST = 25  # characters of a block of running text
_MOST_LINKED = 0.4  # of its characters
_FEW_LINKED = 0.15  # of the characters of a box that tells something
_LEVELS = 5  # above a block, whose elements get points for it
_DECAY = 0.5  # from level to level
_HALF = 0.3  # of all running text: what holds as much is not around the content, whatever its marks say
_MORE = 1.5  # times as much running text must an element around the best one hold to replace it
_COMMAS = re.compile(r"[,、，]")  # a sign of sentences in any language that has them
_SHARE = 0.8  # of the main text that the element must hold
_GRAM = 4  # words compared at a time
_ALIKE = 0.6  # of the word groups of a block that are in the main text
_WORD = re.compile(r"\w+")
_TOO_SMALL = names("p table tbody tr ul ol li dl dd blockquote pre td")  # to be all of a page's content


class Choice:
    """An element, by its number; of every element the weight of main text in it, and whether it looks like another part."""

    __slots__ = ("kept", "marked", "top")

    def __init__(self, top: int, kept: Sequence[int], marked: Sequence[bool]) -> None:
        self.top = top
        self.kept = kept
        self.marked = marked


def by_prose(elements: Sequence[Element]) -> Choice | None:
    """The element with most blocks of running text near to it; None if there is no such block."""
    prose = [_prose(element) for element in elements]
    below = _summed([len(text) for text in prose], elements)
    if not below[0]:
        return None
    marked = _marked(elements)
    apart = [False] * len(elements)
    points = [0.0] * len(elements)
    for number, (element, text) in enumerate(zip(elements, prose, strict=True)):
        around = element.parent >= 0 and apart[element.parent]
        apart[number] = around or (marked[number] and below[number] < _HALF * below[0])
        if text and not apart[number]:
            _award(
                points, elements, element.parent, 1 + min(3.0, len(text) / 100) + len(_COMMAS.findall(text))
            )
    kept = _summed([0 if apart[n] else len(text) for n, text in enumerate(prose)], elements)
    top = max(range(len(elements)), key=points.__getitem__)
    above = elements[top].parent
    while above > 0 and elements[above].tag != "body":
        if kept[above] >= _MORE * kept[top]:
            top = above
        above = elements[above].parent
    return Choice(_whole(elements, top), kept, marked)


def _marked(elements: Sequence[Element]) -> list[bool]:
    """Which elements look like something around the content. What is beside it is, if it consists of links."""
    marked = [element.marked for element in elements]
    if any(element.beside for element in elements):
        lengths = _summed([sum(map(len, element.text)) for element in elements], elements)
        linked = _summed([element.linked for element in elements], elements)
        for number, element in enumerate(elements):
            if element.beside and linked[number] >= _FEW_LINKED * lengths[number]:
                marked[number] = True
    return marked


def _prose(element: Element) -> str:
    """The text of a block, if it is running text."""
    if not element.text or element.tag in _NO_PROSE:
        return ""
    text = "".join(element.text).strip()
    return text if len(text) >= _SHORTEST and element.linked <= _MOST_LINKED * len(text) else ""


def _award(points: list[float], elements: Sequence[Element], number: int, worth: float) -> None:
    for _ in range(_LEVELS):
        if number < 0:
            return
        points[number] += worth
        worth *= _DECAY
        number = elements[number].parent


def by_text(elements: Sequence[Element], main: str) -> Choice | None:
    """The smallest element that holds most of a text; None if the text is not there."""
    wanted = _grams(_WORD.findall(main))
    own = [0] * len(elements)
    for number, element in enumerate(elements):
        words = _WORD.findall("".join(element.text)) if element.text else ()
        if len(words) >= _GRAM:
            grams = _grams(words)
            own[number] = len(words) if len(grams & wanted) >= _ALIKE * len(grams) else 0
    kept = _summed(own, elements)
    if not kept[0]:
        return None
    top = 0
    for number in range(1, len(elements)):
        inside = elements[number].parent == top and elements[number].tag not in _TOO_SMALL
        if inside and kept[number] >= _SHARE * kept[0]:
            top = number
    return Choice(_whole(elements, top), kept, _marked(elements))


def whole(elements: Sequence[Element]) -> Choice:
    """The whole page, with everything around its content."""
    return Choice(0, [1] * len(elements), [False] * len(elements))


def everything(elements: Sequence[Element]) -> Choice:
    """The whole page, as far as it is not marked as something else: there is no main text to go by."""
    return Choice(0, [0] * len(elements), _marked(elements))


def _whole(elements: Sequence[Element], top: int) -> int:
    """The element around, where the chosen one is a piece of something: a row, a list, or one of several sections."""
    number = top
    while elements[number].parent > 0:
        above = elements[number].parent
        if elements[top].tag in _TOO_SMALL or (
            _is_section(elements[number].node) and _sections(elements, above) > 1
        ):
            top = above
        number = above
    return top


def _is_section(node: LexborNode) -> bool:
    if node.tag == "section":
        return True
    return node.tag == "div" and any(
        word.startswith(("sect", "refsect", "chapter")) for word in class_words(node.attributes)
    )


def _sections(elements: Sequence[Element], above: int) -> int:
    """How many sections an element consists of."""
    child, count = elements[above].node.child, 0
    while child is not None:
        count += child.is_element_node and _is_section(child)
        child = child.next
    return count


def _grams(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + _GRAM]) for start in range(max(1, len(words) - _GRAM + 1))}


def _summed(own: Sequence[int], elements: Sequence[Element]) -> list[int]:
    """The same with everything inside each element."""
    sums = list(own)
    for number in range(len(elements) - 1, 0, -1):
        sums[elements[number].parent] += sums[number]
    return sums


def cleared(elements: Sequence[Element], choice: Choice) -> LexborNode:
    """The chosen element, from which the parts are removed that do not belong to the content."""
    inside = [False] * len(elements)
    inside[choice.top] = True
    for number in range(choice.top + 1, len(elements)):
        element = elements[number]
        if inside[element.parent]:
            if choice.marked[number] and not choice.kept[number] and element.node.css_first("pre") is None:
                element.node.decompose()
            else:
                inside[number] = True
    return elements[choice.top].node
