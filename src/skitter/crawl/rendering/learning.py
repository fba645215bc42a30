"""Which pages need a browser: learnt from a few of them for each pattern of URLs. Pure.

A pattern is a host, a path with its variable parts left out, and whether the HTML is a shell: hardly any text and links.
The first pages of a pattern are rendered and compared with their HTML. If most of them gained text or links, all pages of
the pattern are rendered from then on; if not, none is, but for a sample now and then, because sites change.
`remembering` keeps what was learnt over a restart.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from skitter import urls
from skitter.model import Document

SAMPLES = 3  # pages of a pattern that are rendered before it is judged
_AGAIN = 100  # one of so many pages of a pattern that needs no browser is looked at again
MOST = 10_000  # patterns remembered; then the one that was used longest ago is forgotten
_SHELL_WORDS, _SHELL_LINKS = 50, 3
_MORE_WORDS, _MORE_SHARE = 20, 0.2  # a gain in text: so many words, and this share of what was there
_MORE_LINKS_SHARE = 0.1
_SCRIPT = re.compile(rb"<script[\s>/]", re.IGNORECASE)
_VARIABLE = re.compile(r"[0-9]|%|.{25,}|(?:[^-]*-){3}")
_LONGEST = 12  # segments of a path that make a pattern


class Pattern(NamedTuple):
    """Pages that are probably made alike."""

    host: str
    path: str
    shell: bool


class Amount(NamedTuple):
    """How much there is to read and to follow."""

    words: int
    links: frozenset[str]


class _Learnt(Struct):
    rendered: int = 0
    gained: int = 0
    seen: int = 0


def has_scripts(html: bytes) -> bool:
    """Whether rendering can change anything."""
    return _SCRIPT.search(html) is not None


def amount(document: Document) -> Amount:
    """How much a document has."""
    return Amount(len(document.text.split()), frozenset(document.links))


def gains(html: Amount, rendered: Amount) -> bool:
    """Whether a page has notably more text or links once its scripts have run."""
    words = rendered.words - html.words
    links = len(rendered.links - html.links)
    more_text = words >= _MORE_WORDS and words >= _MORE_SHARE * html.words
    return more_text or (links > 0 and links >= _MORE_LINKS_SHARE * len(html.links))


def pattern_of(url: str, html: Amount) -> Pattern:
    """The pattern that a page belongs to."""
    path, _, query = url[url.find("/", 8) :].partition("?")
    parts = ["*" if _VARIABLE.search(part) else part for part in path.split("/")[1:]]
    names = sorted({pair.partition("=")[0] for pair in query.split("&") if pair})
    name = "/".join(parts[:_LONGEST]) + ("?" + "&".join(names[:_LONGEST]) if names else "")
    shell = html.words < _SHELL_WORDS and len(html.links) < _SHELL_LINKS
    return Pattern(urls.host(url), name, shell)


class Learning:
    """What was learnt so far."""

    def __init__(self, most: int = MOST) -> None:
        self._patterns: OrderedDict[Pattern, _Learnt] = OrderedDict()
        self._most = most

    def wants(self, pattern: Pattern) -> bool:
        """Whether the next page of a pattern is rendered."""
        learnt = self._of(pattern)
        learnt.seen += 1
        if learnt.rendered < SAMPLES or 2 * learnt.gained >= learnt.rendered:
            return True
        return learnt.seen % _AGAIN == 0

    def learn(self, pattern: Pattern, rendered: int, gained: int) -> None:
        """So many pages of a pattern were rendered, and so many of them gained something."""
        learnt = self._of(pattern)
        learnt.rendered += rendered
        learnt.gained += gained

    def learnt(self) -> Iterator[tuple[Pattern, int, int]]:
        """For each pattern, how many of its pages were rendered and how many gained something; the one used last is last."""
        for pattern, learnt in self._patterns.items():
            if learnt.rendered:
                yield pattern, learnt.rendered, learnt.gained

    def __len__(self) -> int:
        return len(self._patterns)

    def _of(self, pattern: Pattern) -> _Learnt:
        learnt = self._patterns.get(pattern)
        if learnt is None:
            learnt = self._patterns[pattern] = _Learnt()
            if len(self._patterns) > self._most:
                self._patterns.popitem(last=False)
        else:
            self._patterns.move_to_end(pattern)
        return learnt
