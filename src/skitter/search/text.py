"""Text as an index of words sees it: what is taken in, what a person asks for, and what is shown of a match.

Tokenisers of the engines split at spaces and punctuation, so text without spaces is a problem of its own. Here every Han
character and every Hiragana is a word, as in Unicode's word boundaries (UAX 29) and Lucene's standard tokeniser; a run of
them in a query is a phrase, and is found wherever it stands. Katakana, Hangul, Thai and others are found by whole runs.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

TERMS = 64
"""Terms of a query that count: more find nothing better, and engines have limits of their own."""
TERM_LENGTH = 256
"""Characters of a term that count; a phrase may be long, a word is not."""

OPEN, CLOSE = "\x02", "\x03"
"""Around a match in what an engine gives back. `clean` leaves neither in any text, so no page can forge them."""
BREAK = "\u200b"
"""ZERO WIDTH SPACE: a word ends here, and nothing is to be seen. Taken out again before text is shown."""

# What no index needs and some trip over: controls other than white space, lone surrogates, noncharacters.
_UNFIT = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Hiragana; Han, its extensions, and the compatibility ideographs (Unicode 15, Blocks.txt).
_ALONE = re.compile(
    "[\u3041-\u309f\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_TERM = re.compile(r'"([^"]*)(?:"|\Z)|([^\s"]+)')


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for. `query` makes one from what a person typed."""

    terms: Sequence[str] = ()  # all must be there; one of several words is a phrase
    domain: str = ""  # only pages of this registrable domain, or of this host
    language: str = ""  # only pages in this language: en is also en-GB
    cut: bool = False  # it was longer than a query may be, and something was left out


class Hit(Struct, frozen=True, kw_only=True):
    """A page that was found. `marks` are the (start, end) of matches in the snippet, which is plain text."""

    url: str
    title: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    score: float
    domain: str
    fetched_at: float


class Results(Struct, frozen=True):
    """Some of the pages that were found, best first, and how many there are in all."""

    total: int = 0
    hits: Sequence[Hit] = ()


def clean(text: str) -> str:
    """Text without what is no text: each such character is a space."""
    return _UNFIT.sub(" ", text)


def spaced(text: str) -> str:
    """Text in which every character that is a word by itself ends one."""
    return text if text.isascii() else _ALONE.sub(lambda run: f"{BREAK}{BREAK.join(run[0])}{BREAK}", text)


def entry_id(key: str) -> str:
    """What a page is called in an index: keys are longer than engines allow."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def query(text: str, domain: str = "", language: str = "") -> Query:
    """What a person typed: words, and phrases in double quotes. Everything else in it is text, too."""
    found = dict.fromkeys(
        term for phrase, word in _TERM.findall(clean(text)) if _has_a_word(term := phrase or word)
    )
    terms = [term[:TERM_LENGTH] for term in list(found)[:TERMS]]
    return Query(
        terms=[term for term in terms if _has_a_word(term)],
        domain=clean(domain).strip().lower(),
        language=clean(language).strip().lower(),
        cut=len(found) > TERMS or any(len(term) > TERM_LENGTH for term in found),
    )


def _has_a_word(text: str) -> bool:
    """Tokenisers keep letters and numbers; what has neither is no word and would be looked for in vain."""
    return any(unicodedata.category(letter)[0] in "LN" for letter in text)


def unmarked(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Text with `OPEN` and `CLOSE` around matches, as plain text on one line and the places of the matches in it."""
    plain: list[str] = []
    marks: list[tuple[int, int]] = []
    length = start = 0
    for piece in re.split(f"([{OPEN}{CLOSE}])", re.sub(r"\s+", " ", marked.replace(BREAK, "")).strip()):
        if piece == OPEN:
            start = length
        elif piece == CLOSE:
            marks.append((start, length))
        else:
            plain.append(piece)
            length += len(piece)
    return "".join(plain), _joined(marks)


def _joined(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Marks that touch are one."""
    joined: list[tuple[int, int]] = []
    for start, end in marks:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
