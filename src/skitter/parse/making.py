"""A Document from what a parser found and what the header fields say, for bodies that are not HTML."""

from collections.abc import Iterable
from typing import Any

from skitter.model import Document
from skitter.parse import directives
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_LONGEST_TITLE = 300  # characters of a title, an author or the like


def made(body: Body, settings: ParseSettings, *, links: Iterable[str] = (), **found: Any) -> Document:  # noqa: ANN401
    """The document. What the body itself says goes before the header fields; their links come last."""
    asked, statements = directives.of_page(body.headers, agent=settings.agent or directives.AGENT)
    by_header = (*directives.following(body.headers), *directives.hrefs(body.url, body.headers))
    hrefs = list(dict.fromkeys((*links, *by_header)))
    given = {name: value for name, value in found.items() if value}
    return Document(
        media_type=body.media_type,
        base=body.url,
        canonical=directives.canonical("", body.url, body.url, body.headers),
        directives=asked,
        statements=statements,
        links=hrefs[: settings.max_links] or (),
        **{"charset": body.http_charset, "language": body.language} | given,
    )


def short(text: str) -> str:
    """A field of one line, as long as people write them; what no text may contain is left out."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:2000]).split())
    return words[:_LONGEST_TITLE]


def known(details: dict[str, Any]) -> dict[str, Any] | None:
    """The details that have a value; None if there are none."""
    return {name: value for name, value in details.items() if value not in (None, "", [], {})} or None
