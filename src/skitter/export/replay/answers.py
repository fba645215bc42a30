"""From an archived answer to what a browser gets: the capture nearest in time, its body found and decoded, its URLs rewritten."""

import asyncio
import re
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from skitter.export.replay import css, html
from skitter.export.replay.captures import Capture, Captures
from skitter.export.replay.urls_in import Rewriter, replayed
from skitter.fetch.response import codings, decode, first, outcome
from skitter.model import Exchange, Failed, Fetched, NotModified, Place, Redirected
from skitter.parse import sniff
from skitter.urls import whatwg

MOST = 256 << 20  # octets of a decoded body; they are in memory
_TRIED = 10  # captures of a URL that are looked at, if the nearest cannot be used
_HEAD_END = re.compile(rb"\n\r?\n")
_HTML = ("text/html", sniff.XHTML)
_KEPT = ("content-language", "content-disposition", "last-modified")
_DOCUMENTS = ("", "document", "iframe", "frame", "embed", "object")


class Listed(Struct, frozen=True, kw_only=True):
    """A page in a list. `marks` are the (start, end) of matches in the snippet."""

    url: str
    stamp: str
    title: str = ""
    snippet: str = ""
    marks: Sequence[tuple[int, int]] = ()


class Held(Protocol):
    """What is replayed: a crawl, or a WACZ."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def captures(self) -> Captures:
        """Its answers."""
        ...

    def message(self, place: Place) -> bytes:
        """The HTTP message at a place. OSError if it is not there."""
        ...

    def spellings(self, url: str) -> list[str]:
        """A URL as it may be in the archive, the likeliest first."""
        ...

    async def why_hidden(self, url: str) -> str:
        """Why a page must not be shown; empty if it may be."""
        ...

    async def title(self, url: str) -> str:
        """The title of a page; empty if it is not known."""
        ...

    async def search(self, words: str, most: int, after: int) -> tuple[int, list[Listed]] | None:
        """How many pages have these words, and some of them; None if there is no index of words."""
        ...


class Replayed(Struct, frozen=True):
    """What a browser gets."""

    capture: Capture
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    media_type: str = ""


async def replay(held: Held, url: str, stamp: str, dest: str) -> Replayed | None:
    """The archived answer to a URL that is nearest in time; None if there is none."""
    for spelling in held.spellings(url):
        for capture in held.captures.nearest(spelling, stamp)[:_TRIED]:
            holder = _holder(held.captures, capture)
            if holder is None:
                continue
            try:
                message = await asyncio.to_thread(held.message, holder.place)
            except OSError:
                continue
            made = await asyncio.to_thread(_made, capture, message, url, dest)
            if made is not None:
                return made
    return None


def _holder(captures: Captures, capture: Capture) -> Capture | None:
    """The capture with the body: that of the same digest, or for a 304 the nearest answer to the same URL."""
    if not capture.is_revisit:
        return capture
    same = captures.with_digest(capture.digest)
    if same is not None:
        return same
    others = captures.nearest(capture.url, capture.stamp)
    return next(
        (one for one in others if not one.is_revisit and one.url == capture.url and one.status == 200), None
    )


def _made(capture: Capture, message: bytes, url: str, dest: str) -> Replayed | None:
    end = _HEAD_END.search(message)
    cut = end.end() if end else len(message)
    answer = outcome(Exchange(capture.url, "", 0.0, 0.0, b"", message[:cut], message[cut:]), MOST)
    if isinstance(answer, Redirected):
        target = whatwg(answer.location, capture.url) or ""
        if not target.startswith(("http://", "https://")) or target == url:
            return None
        return Replayed(capture, answer.status, (("Location", replayed(capture.stamp, target)),))
    if isinstance(answer, (Failed, NotModified)) or not isinstance(answer, Fetched):
        return None
    return _rewritten(capture, answer, dest)


def _rewritten(capture: Capture, answer: Fetched, dest: str) -> Replayed:
    content = answer.content
    if (
        not answer.payload and answer.exchange.body
    ):  # other programs store a body without the chunks that its head names
        content = decode(answer.exchange.body, codings(answer.headers, "content-encoding"), MOST).content
    body = sniff.body(capture.url, answer.headers, content)
    label = first(answer.headers, "content-type")
    if body.media_type in _HTML and (dest in _DOCUMENTS or dest == "empty"):
        whole = dest != "empty"
        references = Rewriter(capture.stamp, capture.url)
        content = html.page(content, body.http_charset, references, script=whole)
        label = f"{body.media_type}; charset=utf-8"
    elif body.media_type == "text/css" or dest == "style":
        content = css.sheet(content, Rewriter(capture.stamp, capture.url))
    kept = tuple((name.title(), value) for name, value in answer.headers if name in _KEPT)
    status = 200 if answer.status == 206 else answer.status
    return Replayed(
        capture,
        status,
        (("Content-Type", label or body.media_type or "application/octet-stream"), *kept),
        content,
        body.media_type,
    )
