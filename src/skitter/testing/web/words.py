"""Meaningless text, the same on every machine.

Words are made from syllables, sentences from words, and a page's text is drawn from a fixed pool of
sentences: drawing sentences costs a tenth of drawing words, and two pages still share so few word triples
that they are not near-duplicates. All randomness comes from `random.Random(text).random()`, the only draw
whose sequence Python promises to keep between versions.
"""

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

T = TypeVar("T")

_ONSETS = (
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "sh",
    "sk",
    "st",
    "t",
    "th",
    "v",
    "w",
)
_NUCLEI = ("a", "ai", "e", "ea", "i", "ie", "o", "oa", "ou", "u")
_CODAS = ("", "", "", "b", "ck", "d", "l", "ll", "m", "n", "nd", "ng", "r", "rn", "s", "st", "t", "x")
_WORDS = 3000
_SENTENCES = 4096
LABELS = 1024


def dice(*parts: object) -> random.Random:
    """A random generator that depends only on its arguments."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311  for repeatable text, not for secrets


def pick(chance: random.Random, of: Sequence[T]) -> T:
    """One of them."""
    return of[int(chance.random() * len(of))]


def below(chance: random.Random, limit: int) -> int:
    """A number from 0 to limit - 1."""
    return int(chance.random() * limit)


@cache
def vocabulary() -> tuple[str, ...]:
    """All words, without repetition."""
    chance = dice("words")
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        syllables = 1 + below(chance, 3)
        words[
            "".join(pick(chance, part) for _ in range(syllables) for part in (_ONSETS, _NUCLEI, _CODAS))
        ] = None
    return tuple(words)


@cache
def sentences() -> tuple[str, ...]:
    """The pool, each of ten words."""
    chance = dice("sentences")
    words = vocabulary()
    return tuple(
        " ".join(pick(chance, words) for _ in range(10)).capitalize() + "." for _ in range(_SENTENCES)
    )


def paragraphs(chance: random.Random, words: int) -> list[str]:
    """About this many words, in paragraphs of five sentences."""
    pool, size, roll = sentences(), _SENTENCES, chance.random
    drawn = [pool[int(roll() * size)] for _ in range(max(1, words // 10))]
    return [" ".join(drawn[i : i + 5]) for i in range(0, len(drawn), 5)]


@cache
def labels() -> tuple[str, ...]:
    """Link texts of two words."""
    chance = dice("labels")
    return tuple(phrase(chance, 2) for _ in range(LABELS))


def phrase(chance: random.Random, words: int) -> str:
    """A few words, for titles and link texts."""
    pool = vocabulary()
    return " ".join(pool[int(chance.random() * _WORDS)] for _ in range(words))
