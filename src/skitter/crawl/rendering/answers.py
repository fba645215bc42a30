"""What rendered pages were given before, so that nothing is asked for twice. Bounded in bytes."""

from collections import OrderedDict
from collections.abc import Sequence

from skitter.fetch.browser.page import Given

_MOST_BYTES = 64 * 2**20
_LARGEST = 8 * 2**20
_EACH = 1024  # what an entry takes besides its content


class Answers:
    """The answers to GET requests of rendered pages, those used last."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._kept: OrderedDict[str, Given] = OrderedDict()
        self._most = most
        self._size = 0

    def get(self, url: str) -> Given | None:
        """The answer to a URL, if it is kept."""
        found = self._kept.get(url)
        if found is not None:
            self._kept.move_to_end(url)
        return found

    def keep(self, url: str, given: Given) -> None:
        """Keep an answer, unless its server forbids that or it is no lasting answer."""
        if given.status == 429 or given.status >= 500 or len(given.content) > _LARGEST:
            return
        if url in self._kept or _no_store(given.headers):
            return
        self._kept[url] = given
        self._size += len(given.content) + _EACH
        while self._size > self._most:
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.content) + _EACH

    def __len__(self) -> int:
        return len(self._kept)


def _no_store(headers: Sequence[tuple[str, str]]) -> bool:
    return any(name == "cache-control" and "no-store" in value.lower() for name, value in headers)
