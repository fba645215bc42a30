"""Text for search: normalising it, parsing queries, and showing snippets.

The engines' tokenisers split at spaces and punctuation, so text without spaces needs care. Here every Han
character and every Hiragana is a word, as in Unicode's word boundaries (UAX 29) and Lucene's standard
tokeniser; a run of them in a query is a phrase, and is found anywhere. Katakana, Hangul, Thai and others are
found by whole runs.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

TERMS = 64
"""Terms of a query that count: more find nothing better, and engines have limits of their own."""
TERM_LENGTH = 256
"""Characters of a term that count; a phrase may be long, a word is not."""

OPEN, CLOSE = "\x02", "\x03"
"""Around a match in what an engine gives back. `clean` leaves neither in any text, so no page can forge them."""
BREAK = "\u200b"
"""ZERO WIDTH SPACE: a word ends here, and nothing is to be seen. Taken out again before text is shown."""

# Characters that no index needs and some reject: controls other than white space, lone surrogates,
# noncharacters.
_UNFIT = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Hiragana; Han, its extensions, and the compatibility ideographs (Unicode 15, Blocks.txt).
_ALONE = re.compile(
    "[\u3041-\u309f\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_TERM = re.compile(r'"([^"]*)(?:"|\Z)|([^\s"]+)')


class Query(Struct, frozen=True, kw_only=True):
    """A parsed query; `query` makes one from what a person typed."""

    terms: Sequence[str] = ()  # all must be present; a term of several words is a phrase
    domain: str = ""  # only pages of this registrable domain, or of this host
    language: str = ""  # only pages in this language: en includes en-GB
    cut: bool = False  # the query was too long, and its end was cut off


class Hit(Struct, frozen=True, kw_only=True):
    """One result. `marks` are the (start, end) of matches in the snippet, which is plain text."""

    url: str
    title: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    score: float
    domain: str
    fetched_at: float


def shortened(hit: Hit, most: int) -> Hit:
    """A hit with at most so many characters of the page (nosnippet, max-snippet); -1 is any number."""
    if not 0 <= most < len(hit.snippet):
        return hit
    marks = [(start, end) for start, end in hit.marks if end <= most]
    return replace(hit, snippet=hit.snippet[:most], marks=marks)


class Results(Struct, frozen=True):
    """A page of results, best first, and the total number."""

    total: int = 0
    hits: Sequence[Hit] = ()


def clean(text: str) -> str:
    """Text with each non-text character replaced by a space."""
    return _UNFIT.sub(" ", text)


def spaced(text: str) -> str:
    """Text in which each character that is a word by itself is separated."""
    return text if text.isascii() else _ALONE.sub(lambda run: f"{BREAK}{BREAK.join(run[0])}{BREAK}", text)


def entry_id(key: str) -> str:
    """The id of a page in an index: keys are longer than engines allow."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def query(text: str, domain: str = "", language: str = "") -> Query:
    """Parse what a person typed: words, and phrases in double quotes. Everything else is text, too."""
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
    """Tokenisers keep letters and numbers; a term without any would never be found."""
    return any(unicodedata.category(letter)[0] in "LN" for letter in text)


def unmarked(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """From text with `OPEN` and `CLOSE` around matches to plain text on one line and the positions of the matches."""
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
    """Adjacent marks are merged."""
    joined: list[tuple[int, int]] = []
    for start, end in marks:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
