"""What changed in a text, as people read it: words that went, words that came, and a few around them.

Before two texts are compared, what changes at every visit is masked: the white space, and in short lines of a text those
dates and counts that are stamps (`parse.main.stamps`). A date or a number in a sentence, or a price, is content, and counts.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from msgspec import Struct

from skitter.parse.main.stamps import MASK, masked_line
from skitter.settings import SettingsError

_MOST = 10_000  # words, or lines, that are compared one by one: the table of them takes 12 MB
_AROUND = 8  # words shown before and after a change
_HUNKS = 200  # of a page


class Piece(Struct, frozen=True, array_like=True):
    """Words that stay (=), went (-) or came (+); an ellipsis stands for more that stay."""

    sign: str
    text: str


Hunk = tuple[Piece, ...]


def require() -> None:
    """Raise SettingsError if the library that compares texts is not installed."""
    if find_spec("rapidfuzz") is None:
        from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

        raise SettingsError(
            f"comparing texts needs a library that is not installed; install it with: {install_line('main')}"
        )


def hunks(old: str, new: str, old_page: str = "", new_page: str = "") -> list[Hunk]:
    """What changed between two texts, in order. What is masked on both sides counts as the same.

    A line that came is no change if it was elsewhere on the old page, nor one that went if it is elsewhere on the new one: then
    only the judgement changed of what is content. Nor is a stamp that came or went as a whole.
    """
    before, after = _lines(old), _lines(new)
    was, now = ({line for line, _ in _lines(page)} for page in (old_page, new_page))
    found: list[Hunk] = []
    for removed, added in _replaced([each[0] for each in before], [each[0] for each in after]):
        gone = _told([before[number] for number in removed], now)
        come = _told([after[number] for number in added], was)
        if gone or come:
            found += _word_hunks(gone, come)
        if len(found) >= _HUNKS:
            break
    return found[:_HUNKS]


def _told(lines: Sequence[tuple[str, str]], elsewhere: set[str]) -> list[str]:
    """The words of those lines that tell something."""
    told = (line for hidden, line in lines if MASK not in hidden and hidden not in elsewhere)
    return [word for line in told for word in line.split()]


def _lines(text: str) -> list[tuple[str, str]]:
    """Each line that is not empty, masked and as it is."""
    folded = (" ".join(each.split()) for each in text.split("\n"))
    return [(masked_line(line), line) for line in folded if line]


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[range, range]]:
    """The numbers of lines that went, and of those that came in their place."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    ends = 0
    while ends < min(len(before), len(after)) - same and before[-1 - ends] == after[-1 - ends]:
        ends += 1
    old, new = before[same : len(before) - ends], after[same : len(after) - ends]
    if max(len(old), len(new)) > _MOST:
        yield range(same, same + len(old)), range(same, same + len(new))
        return
    for sign, a, b, c, d in _opcodes(old, new):
        if sign != "=":
            yield range(same + a, same + b), range(same + c, same + d)


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Stretches that stay (=) and that are replaced (~): what went and what came at one place belong together."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415  of the extra `main`

    pending: list[int] = []
    for code in Indel.opcodes(old, new):
        if code.tag == "equal":
            if pending:
                yield "~", pending[0], pending[1], pending[2], pending[3]
            pending = []
            yield "=", code.src_start, code.src_end, code.dest_start, code.dest_end
        elif pending:
            pending[1], pending[3] = code.src_end, code.dest_end
        else:
            pending = [code.src_start, code.src_end, code.dest_start, code.dest_end]
    if pending:
        yield "~", pending[0], pending[1], pending[2], pending[3]


def _word_hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Changes of words, those near to each other together."""
    if max(len(old), len(new)) > _MOST or not old or not new:
        pieces = (Piece("-", _shown(old)), Piece("+", _shown(new)))
        yield tuple(piece for piece in pieces if piece.text)
        return
    codes = list(_opcodes(old, new))
    pieces_now: list[Piece] = []
    for number, (sign, a, b, c, d) in enumerate(codes):
        if sign != "=":
            pieces_now += [Piece("-", _shown(old[a:b]))] if b > a else []
            pieces_now += [Piece("+", _shown(new[c:d]))] if d > c else []
            continue
        last = number == len(codes) - 1
        if not pieces_now:
            pieces_now.append(Piece("=", _end_of(old[a:b])))
        elif b - a > 2 * _AROUND and not last:
            yield (*pieces_now, Piece("=", _start_of(old[a:b])))
            pieces_now = [Piece("=", _end_of(old[a:b]))]
        else:
            pieces_now.append(Piece("=", _start_of(old[a:b]) if last else " ".join(old[a:b])))
    if any(piece.sign != "=" for piece in pieces_now):
        yield tuple(piece for piece in pieces_now if piece.text)


def _shown(words: Sequence[str]) -> str:
    """All of them, unless they are too many to read."""
    most = 500
    return (
        " ".join(words)
        if len(words) <= most
        else f"{' '.join(words[:most])} … ({len(words) - most} more words)"
    )


def _start_of(words: Sequence[str]) -> str:
    return " ".join(words[:_AROUND]) + (" …" if len(words) > _AROUND else "")


def _end_of(words: Sequence[str]) -> str:
    return ("… " if len(words) > _AROUND else "") + " ".join(words[-_AROUND:])
