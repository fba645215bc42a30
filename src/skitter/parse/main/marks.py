"""The marks of Markdown (CommonMark, with the tables of GitHub): text that stays text, code, links, tables, lists.

Pure functions from text to text. Whatever a page writes is shown as written: it cannot add markup of its own, neither
Markdown nor HTML.
"""

import re
from collections.abc import Sequence

# What would mean something else. An underscore within a word does not, nor do brackets that no link follows.
_SPECIAL = re.compile(
    r"[\\`*]|(?<![^\W_])_|_(?![^\W_])|<(?=[a-zA-Z/!?])|&(?=#?\w{1,32};)|~(?=~)|\](?=[(\[:]|\Z)|!(?=\[|\Z)"
)
_BRACKETS = re.compile(r"(?<!\\)[\[\]]")
# What begins a heading, quote, list item, rule or fence at the start of a line.
_START = re.compile(
    r"(?m)^( {0,3})(?:(\d{1,9})([.)])(?=\s|$)|(#{1,6}(?=\s|$)|[+-](?=\s|$)|>|[=-]+\s*$|~{3}|\|))"
)
_TICKS = re.compile(r"`+")
_SPACES = re.compile(r" {2,}")
_IN_URL = str.maketrans({"<": "%3C", ">": "%3E", "\\": "%5C", "\n": "%0A", "\r": "%0D", "\t": "%09"})
_MOST_CELLS = 100_000


def literal(text: str, *, in_link: bool = False) -> str:
    """Text that is shown as it is."""
    text = _SPECIAL.sub(r"\\\g<0>", text)
    return _BRACKETS.sub(r"\\\g<0>", text) if in_link else text


def paragraph(line: str) -> str:
    """A paragraph of ready markup, whose lines are hard breaks; nothing in it begins another kind of block."""
    lines = [_SPACES.sub(" ", each).strip() for each in line.strip().split("\n")]
    joined = "\n".join(lines).strip("\n")
    if not joined:
        return ""
    return _START.sub(_escaped_start, joined).replace("\n", "\\\n")


def _escaped_start(found: re.Match[str]) -> str:
    indent, number, mark, other = found.groups()
    return f"{indent}{number}\\{mark}" if number else f"{indent}\\{other}"


def one_line(text: str) -> str:
    """Ready markup of several lines on one."""
    return _SPACES.sub(" ", text.replace("\\\n", " ").replace("\n", " ")).strip()


def around(mark: str, text: str) -> str:
    """Emphasis: blanks stay outside, and none is put around nothing."""
    inner = text.strip()
    if not inner or "\n" in inner:
        return text
    start = text[: len(text) - len(text.lstrip())]
    return f"{start}{mark}{inner}{mark}{text[len(text.rstrip()) :]}"


def code(text: str) -> str:
    """A code span, with more backticks around it than in it."""
    folded = " ".join(text.split())
    if not folded:
        return " " if text else ""
    fence = "`" * (_longest(folded) + 1)
    pad = " " if "`" in (folded[0], folded[-1]) else ""
    before, after = (" " if text[0].isspace() else ""), (" " if text[-1].isspace() else "")
    return f"{before}{fence}{pad}{folded}{pad}{fence}{after}"


def fenced(text: str, language: str) -> str:
    """A code block."""
    text = text.strip("\n")
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


def link(text: str, url: str) -> str:
    """A link; blanks stay outside."""
    inner = text.strip()
    before, after = (" " if text[:1].isspace() else ""), (" " if text[-1:].isspace() else "")
    return f"{before}[{inner}]({_address(url)}){after}"


def image(alt: str, url: str) -> str:
    """A picture, by reference."""
    return f"![{literal(' '.join(alt.split()), in_link=True)}]({_address(url)})"


def _address(url: str) -> str:
    url = url.translate(_IN_URL)
    return f"<{url}>" if any(each in url for each in " ()") else url


def quoted(text: str) -> str:
    """A quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def item(marker: str, blocks: Sequence[str], *, loose: bool) -> str:
    """An item of a list: its blocks are indented as far as its text."""
    text = ("\n\n" if loose else "\n").join(blocks)
    indent = " " * (len(marker) + 1)
    first, *others = text.split("\n")
    return "\n".join([f"{marker} {first}".rstrip(), *(f"{indent}{line}" if line else "" for line in others)])


def in_cell(text: str) -> str:
    """Blocks of a cell, which is one line."""
    return (
        text.replace("\\\n", "<br>").replace("\n\n", "<br>").replace("\n", "<br>").replace("|", "\\|").strip()
    )


def table(rows: Sequence[Sequence[str]], *, headed: bool) -> str:
    """A table; without a heading its first row is empty, because there must be one."""
    width = max(map(len, rows))
    rows = rows[: max(2, _MOST_CELLS // width)]
    filled = [[*row, *[""] * (width - len(row))] for row in rows]
    if not headed:
        filled.insert(0, [""] * width)
    lines = [f"| {' | '.join(row)} |" for row in filled]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])
