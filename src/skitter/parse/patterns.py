"""URLs written in a text, where nothing marks them as links."""

import re
from collections.abc import Iterable, Iterator

# Up to a blank, or a character that ends a URL in prose or markup. Everything in it is read once.
_URL = re.compile(r"https?://[^\s<>\"'`{}|\\^\[\]“”„«»‘’、。，）】]+", re.IGNORECASE)
_LONGEST = 2_000  # characters
_TRAILING = ".,;:!?…*_~"


def urls_in(text: str) -> Iterator[str]:
    """The URLs in a text, in order, without the punctuation that ends a sentence."""
    if "://" not in text:
        return
    for match in _URL.finditer(text):
        written = match[0]
        if len(written) <= _LONGEST and len(url := _trimmed(written)) > len("https://"):
            yield url


def urls_in_all(texts: Iterable[str], most: int) -> list[str]:
    """The different URLs in many texts, up to a number."""
    found: dict[str, None] = {}
    for text in texts:
        for url in urls_in(text):
            found[url] = None
            if len(found) >= most:
                return list(found)
    return list(found)


def _trimmed(url: str) -> str:
    url = url.rstrip(_TRAILING)
    while url.endswith(")") and url.count("(") < url.count(")"):
        url = url[:-1].rstrip(_TRAILING)
    return url
