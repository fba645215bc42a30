"""The text of a stored page, parsed from the archive again.

Page records are stored without their text: the archive holds every answer byte for byte, and parsing it again
gives the same text. Identical payloads are archived once, so the text of an exact duplicate is that of its
twin.
"""

import re

from skitter import urls
from skitter.export.source import Source
from skitter.fetch.response import outcome
from skitter.model import Document, Exchange, Fetched, Page, handling
from skitter.parse import parse, sniff
from skitter.settings import Settings

_HTML = ("text/html", "application/xhtml+xml")
_HEAD_END = re.compile(rb"\n\r?\n")


async def document(page: Page, source: Source) -> Document | None:
    """What the parser finds in a stored page; None if its body is not in the archive.

    Raises OSError if the archive cannot be read where the record should be.
    """
    if not handling(page.purpose).parsed:
        return Document(media_type=page.content_type, charset=page.charset, base=page.url)
    holder = page
    if page.identical:
        key = urls.key(page.duplicate_of, source.settings.urls) or ""
        twin = await source.frontier.page(key, urls.host(page.duplicate_of))
        if twin is None or twin.identical or twin.digest != page.digest:
            return None
        holder = twin
    if holder.archive is None:
        return None
    return from_message(page.url, source.archive.read(holder.archive), source.settings)


def from_message(url: str, message: bytes, settings: Settings) -> Document | None:
    """What the parser finds in an HTTP message as received; None without a usable answer."""
    answer = _answer(url, message, settings)
    return None if answer is None else parse(url, answer.headers, answer.content, settings.parse)


def html_of(url: str, message: bytes, settings: Settings) -> tuple[str, bytes] | None:
    """The media type with its charset, and the decoded content, of an HTML page; None for any other answer."""
    answer = _answer(url, message, settings)
    if answer is None or not 200 <= answer.status < 300:
        return None
    body = sniff.body(url, answer.headers, answer.content[: settings.parse.max_input])
    if body.media_type not in _HTML:
        return None
    charset = f"; charset={body.http_charset}" if body.http_charset else ""
    return f"{body.media_type}{charset}", answer.content


def _answer(url: str, message: bytes, settings: Settings) -> Fetched | None:
    end = _HEAD_END.search(message)
    cut = end.end() if end else len(message)
    exchange = Exchange(url, "", 0.0, 0.0, b"", message[:cut], message[cut:])
    answer = outcome(exchange, settings.fetch.max_body)
    return answer if isinstance(answer, Fetched) else None
