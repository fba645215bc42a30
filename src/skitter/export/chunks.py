"""Markdown in pieces for retrieval: cut at headings, neither too long nor needlessly short, with ids that stay.

A piece begins at a heading or at a block, and knows the headings above it. Code blocks and tables that are too long are
cut between lines, and each part is whole again: it has its own fences, or the table's head. The same piece of the same page has
the same id in every export.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from xxhash import xxh3_128_hexdigest

_HEADING = re.compile(r"(#{1,6}) (.*)")
_FENCE = re.compile(r"(`{3,})(.*)")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")  # as Markdown writes what it would otherwise take for a mark


class Chunk(Struct, frozen=True):
    """A piece of a page."""

    id: str
    headings: tuple[str, ...]  # from the outermost to its own, for people: "1. Start", not "1\\. Start"
    text: str


def chunks(url: str, markdown: str, most: int) -> Iterator[Chunk]:
    """The pieces of a page, in order, of at most so many characters."""
    seen: dict[str, int] = {}
    for headings, text in _merged(_sections(markdown), most):
        said = "\0".join((url, *headings, text))
        made = xxh3_128_hexdigest(said.encode("utf-8", "surrogatepass"))
        seen[made] = seen.get(made, 0) + 1
        above = tuple(_ESCAPED.sub(r"\1", heading) for heading in headings)
        yield Chunk(made if seen[made] == 1 else f"{made}-{seen[made]}", above, text)


_Section = tuple[tuple[str, ...], list[str]]


def _sections(markdown: str) -> Iterator[_Section]:
    """The blocks under each heading, which is the first of them."""
    above: list[tuple[int, str]] = []
    blocks: list[str] = []
    for block in _blocks(markdown):
        if heading := _HEADING.fullmatch(block):
            if blocks:
                yield tuple(text for _, text in above), blocks
            level = len(heading[1])
            above = [(deep, text) for deep, text in above if deep < level]
            above.append((level, heading[2][:200]))
            blocks = []
        blocks.append(block)
    if blocks:
        yield tuple(text for _, text in above), blocks


def _blocks(markdown: str) -> Iterator[str]:
    """Blocks as they are written: separated by blank lines that are neither in code nor before an indented line."""
    block: list[str] = []
    fence = ""
    lines = markdown.split("\n")
    for number, line in enumerate(lines):
        if fence:
            block.append(line)
            fence = "" if line == fence else fence
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if not line and not following.startswith(" "):
            if block:
                yield "\n".join(block)
            block = []
            continue
        if opened := _FENCE.match(line):
            fence = opened[1]
        block.append(line)
    if block:
        yield "\n".join(block)


def _merged(sections: Iterator[_Section], most: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Blocks put together while they fit. Short sections join what is before them, if they belong under it."""
    headings: tuple[str, ...] = ()
    text = ""
    for here, blocks in sections:
        whole = "\n\n".join(blocks)
        under = bool(headings) and here[: len(headings)] == headings
        if text and under and len(text) + 2 + len(whole) <= most:
            text = f"{text}\n\n{whole}"
            continue
        if text:
            yield headings, text
        headings, text = here, ""
        for piece in _fitting(blocks, most):
            if text:
                yield headings, text
            text = piece
    if text:
        yield headings, text


def _fitting(blocks: Sequence[str], most: int) -> Iterator[str]:
    text = ""
    for block in blocks:
        for piece in [block] if len(block) <= most else _cut(block, most):
            if text and len(text) + 2 + len(piece) > most:
                yield text
                text = ""
            text = f"{text}\n\n{piece}" if text else piece
    if text:
        yield text


def _cut(block: str, most: int) -> Iterator[str]:
    """A block that is too long, in parts that are blocks of the same kind."""
    lines = block.split("\n")
    head, tail = "", ""
    if opened := _FENCE.match(lines[0]):
        head, tail = f"{lines[0]}\n", f"\n{opened[1]}"
        lines = lines[1:-1] if lines[-1] == opened[1] else lines[1:]
    elif len(lines) > 2 and lines[0].startswith("|") and lines[1].startswith("| ---"):
        head, lines = f"{lines[0]}\n{lines[1]}\n", lines[2:]
    if len(head) + len(tail) > most // 2:  # a head of its own would leave no room
        head, tail, lines = "", "", block.split("\n")
    room = most - len(head) - len(tail)
    part: list[str] = []
    size = 0
    for line in chain.from_iterable(_shortened(each, room) for each in lines):
        if part and size + 1 + len(line) > room:
            yield f"{head}{chr(10).join(part)}{tail}"
            part, size = [], 0
        size += len(line) + (1 if part else 0)
        part.append(line)
    if part:
        yield f"{head}{chr(10).join(part)}{tail}"


def _shortened(line: str, room: int) -> Iterator[str]:
    """A line that is too long, cut between words where there are any."""
    while len(line) > room:
        end = line.rfind(" ", room // 2, room)
        end = end if end > 0 else room
        yield line[:end].rstrip()
        line = line[end:].lstrip()
    yield line
