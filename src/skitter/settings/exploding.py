r"""Which regular expressions could take for ever: those that can read some text in exponentially many ways. Pure.

`(a+)+$` divides a row of n letters in 2ⁿ ways, and Python's matcher tries them all before it says no. That is so exactly
if, inside a loop, one text leads from a place back to the same place in two ways. So each outermost loop is read as an
automaton over the characters of URLs (Glushkov's: a state for every character of the pattern), and two copies of it walk
together: if they can part and meet again where they parted, the loop explodes. `(/[^/]+)+` cannot: a slash says where
the next round begins. Very large loops are not judged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from re import _constants as op  # type: ignore[attr-defined]  # the parse tree has no public names
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from msgspec import Struct

_ALL = (1 << 128) - 1  # a set of characters is a number: URLs are ASCII
_COPIES = 16  # a repetition is written out up to here; a larger one counts as a loop
_MOST_COPIES = 32  # the same for all repetitions inside one another,
_INSIDE = 6  # where one inside another counts at most so much: (a+){1,3} is slow for no URL that exists
_MOST_STATES = 300
_MOST_STEPS = 500_000
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_LOOPS = (op.MAX_REPEAT, op.MIN_REPEAT)
_CLOSED = (op.ATOMIC_GROUP, op.POSSESSIVE_REPEAT)  # what they have read they never divide anew
_LOOKING = (op.ASSERT, op.ASSERT_NOT)


class _TooLarge(Exception):  # noqa: N818  not an error: it is not judged
    pass


class _Part(Struct):
    """A part of a pattern: the states it may begin and end with, and in how many ways (0, 1, 2 or more) it reads nothing.

    A state that may begin it in two ways stands there twice.
    """

    first: list[int]
    last: list[int]
    empty: int


def explodes(pattern: re.Pattern[str]) -> bool:
    """Whether there are texts for which a match would take exponential time."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    return any(_is_ambiguous(loop, pattern.flags) for loop in _outermost_loops(tree))


def _outermost_loops(tree: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for code, value in tree:
        if code in _LOOPS and _is_loop(value[1], value[2]):
            yield code, value
        else:
            for part in _inside(code, value):
                yield from _outermost_loops(part)


def _is_loop(most: int, tree: Iterable[tuple[Any, Any]]) -> bool:
    """Whether a repetition is so large, with those inside it, that it counts as one without end."""
    return most > _COPIES or (most > 1 and most * _copies(tree) > _MOST_COPIES)


def _copies(tree: Iterable[tuple[Any, Any]]) -> int:
    """How often the innermost part of a tree would be written out, at most."""
    found = 1
    for code, value in tree:
        times = min(value[1], _INSIDE) if code in _LOOPS else 1
        found = max([found, *(times * _copies(part) for part in _inside(code, value))])
    return int(found)


def _inside(code: Any, value: Any) -> list[Any]:  # noqa: ANN401  the tree has no types
    """The parts that an element consists of."""
    if code in (*_LOOPS, op.POSSESSIVE_REPEAT, op.SUBPATTERN, op.ATOMIC_GROUP, *_LOOKING):
        return [value if code is op.ATOMIC_GROUP else value[-1]]
    if code is op.BRANCH:
        return list(value[1])
    if code is op.GROUPREF_EXISTS:
        return [part for part in value[1:] if part is not None]
    return []


class _Automaton:
    """States with the characters that lead to them, and how many ways lead from one to another."""

    def __init__(self, flags: int) -> None:
        self.reads: list[int] = []
        self.ways: Counter[tuple[int, int]] = Counter()
        self._flags = flags

    def sequence(self, tree: Iterable[tuple[Any, Any]]) -> _Part:
        whole = _Part([], [], 1)
        for code, value in tree:
            whole = self._joined(whole, self.element(code, value))
        return whole

    def _joined(self, one: _Part, two: _Part) -> _Part:
        self._connect(one.last, two.first)
        return _Part(
            one.first + two.first * one.empty, two.last + one.last * two.empty, min(2, one.empty * two.empty)
        )

    def _connect(self, last: list[int], first: list[int]) -> None:
        if len(last) * len(first) > _MOST_STEPS:
            raise _TooLarge
        self.ways.update((before, after) for before in last for after in first)

    def element(self, code: Any, value: Any) -> _Part:  # noqa: ANN401
        if code in _LOOPS:
            return self._repeated(*value)
        if code in _CLOSED:
            return self._state(
                _characters_in(value[2] if code is op.POSSESSIVE_REPEAT else value, self._flags)
            )
        if code is op.BRANCH or code is op.GROUPREF_EXISTS:
            parts = [self.sequence(part) for part in _inside(code, value)]
            parts += [_Part([], [], 1)] if code is op.GROUPREF_EXISTS else []
            return _Part(
                [state for part in parts for state in part.first],
                [state for part in parts for state in part.last],
                min(2, sum(part.empty for part in parts)),
            )
        if code is op.SUBPATTERN:
            return self.sequence(value[3])
        characters = _characters(code, value, self._flags)
        return _Part([], [], 1) if characters is None else self._state(characters)

    def _state(self, characters: int) -> _Part:
        if len(self.reads) >= _MOST_STATES:
            raise _TooLarge
        self.reads.append(characters)
        state = len(self.reads) - 1
        return _Part([state], [state], 0)

    def _repeated(self, least: int, most: int, tree: Any) -> _Part:  # noqa: ANN401
        if _is_loop(most, tree):
            part = self.sequence(tree)
            self._connect(part.last, part.first)
            return _Part(part.first, part.last, min(2, part.empty + (not least)))
        whole, ends = _Part([], [], 1), []
        for number in range(
            most
        ):  # each copy follows the one before it: of those that may be missing, the last are
            whole = self._joined(whole, self.sequence(tree))
            ends += whole.last if number + 1 >= least else []
        return _Part(whole.first, ends, 1 if whole.empty or not least else 0)


def _is_ambiguous(loop: tuple[Any, Any], flags: int) -> bool:
    made = _Automaton(flags)
    try:
        made.element(*loop)
        return _parts_and_meets(made)
    except _TooLarge:
        return False


def _parts_and_meets(made: _Automaton) -> bool:
    """Whether two copies that stand in one state can read the same text, part, and meet there again."""
    after: dict[int, list[int]] = {}
    for (before, state), ways in made.ways.items():
        after.setdefault(before, []).extend([state] * min(ways, 2))
    steps = 0
    for start in range(len(made.reads)):
        # Every state is reached from every other: the loop leads back. So it is enough to meet anywhere, having parted.
        todo = [(start, start, False)]
        known = set(todo)
        while todo:
            one, two, parted = todo.pop()
            if parted and one == two:
                return True
            for i, left in enumerate(after.get(one, ())):
                for j, right in enumerate(after.get(two, ())):
                    if not made.reads[left] & made.reads[right]:
                        continue
                    steps += 1
                    apart = parted or left != right or (one == two and i != j)
                    pair = (left, right, apart)
                    if pair not in known:
                        known.add(pair)
                        todo.append(pair)
            if steps > _MOST_STEPS:
                raise _TooLarge
    return False


# ------------------------------------------------------------------------------------------------ characters


def _characters(code: Any, value: Any, flags: int) -> int | None:  # noqa: ANN401
    """What one element reads; None if it reads nothing, as ^ does."""
    if code is op.LITERAL:
        return _of(value, flags)
    if code is op.NOT_LITERAL:
        return _ALL & ~_of(value, flags)
    if code is op.ANY:
        return _ALL
    if code is op.IN:
        found = 0
        for kind, inner in value:
            if kind is op.RANGE:
                for number in range(inner[0], min(inner[1], 127) + 1):
                    found |= _of(number, flags)
            elif kind is op.CATEGORY:
                found |= _category(_CATEGORIES[inner])
            elif kind is op.LITERAL:
                found |= _of(inner, flags)
        return _ALL & ~found if value[0][0] is op.NEGATE else found
    return None


@lru_cache
def _category(written: str) -> int:
    return sum(1 << number for number in range(128) if re.match(written, chr(number)))


def _of(number: int, flags: int) -> int:
    letters = (
        {chr(number), chr(number).lower(), chr(number).upper()} if flags & re.IGNORECASE else {chr(number)}
    )
    return sum(1 << ord(letter) for letter in letters if len(letter) == 1 and ord(letter) < 128)


def _characters_in(tree: Iterable[tuple[Any, Any]], flags: int) -> int:
    """All that the elements of a part read."""
    found = 0
    for code, value in tree:
        found |= _characters(code, value, flags) or 0
        for part in _inside(code, value):
            found |= _characters_in(part, flags)
    return found
