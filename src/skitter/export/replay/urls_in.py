"""URLs of archived pages as URLs of the replay server: /20261118033000/https://example.org/page."""

import re
from typing import Protocol

from skitter.urls import whatwg

TOP = "skitter-replay"  # the name of the frame that shows archived pages
SCRIPT = "/skitter-replay.js"  # what every archived page loads first
_OTHER_WINDOWS = {"_blank", "_top", "_new"}
_PATH = re.compile(r"/(\d{4,14})/(https?:/.*)", re.DOTALL | re.IGNORECASE)
_SLASHES = re.compile(r"(https?):/+", re.IGNORECASE)


def replayed(stamp: str, url: str) -> str:
    """The path at which an absolute URL is replayed."""
    return f"/{stamp}/{url}"


def asked(path: str) -> tuple[str, str] | None:
    """The time and URL that a path asks for. A program on the way may have folded the slashes."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    return found[1].ljust(14, "0"), _SLASHES.sub(lambda scheme: f"{scheme[1].lower()}://", found[2], count=1)


class References(Protocol):
    """What becomes of the references of one document. `base` is what they are relative to, from here on."""

    base: str

    def url(self, reference: str) -> str:
        """Of a reference."""
        ...

    def based(self, reference: str) -> str:
        """Of the document's own base."""
        ...

    def target(self, name: str) -> str:
        """Of the name of a window."""
        ...


class Rewriter:
    """`References` of a replayed document."""

    def __init__(self, stamp: str, base: str) -> None:
        self.stamp = stamp
        self.base = base

    def url(self, reference: str) -> str:
        """Where a reference of the document is replayed; itself if it leads to nothing on the web."""
        if not reference.strip() or reference.lstrip().startswith("#"):
            return reference
        absolute = whatwg(reference, self.base)
        if absolute is None or not absolute.startswith(("http://", "https://")):
            return reference
        return replayed(self.stamp, absolute)

    def based(self, reference: str) -> str:
        """Where the base is replayed."""
        return self.url(reference)

    def target(self, name: str) -> str:
        """Archived pages stay in their frame."""
        return TOP if name.strip().lower() in _OTHER_WINDOWS else name
