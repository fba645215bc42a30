"""Plain text, and text formats that can be read as plain text."""

from skitter.model import Document
from skitter.parse import charset, content, directives
from skitter.parse.findings import folded
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read plain text."""
    raw = body.content
    encoding = charset.mark(raw)[0] or charset.usable(body.http_charset) or charset.guess(raw)
    text, ignored = charset.decode(raw, encoding), ""
    if settings.content_start and settings.content_end:
        inside = content.between(text, settings)
        text, ignored = ("\n".join(inside), "") if inside else ("", content.MISSING)
    asked, statements = directives.of_page(body.headers, agent=settings.agent or directives.AGENT)
    document = Document(
        media_type=body.media_type,
        charset=encoding,
        base=body.url,
        language=body.language,
        text=folded(text),
        canonical=directives.canonical("", body.url, body.url, body.headers),
        directives=asked,
        links=directives.hrefs(body.url, body.headers),
        ignored=ignored,
        statements=statements,
    )
    if settings.main and not ignored:
        from skitter.parse import main  # noqa: PLC0415  only where settings ask for it

        return main.of_text(document, text)
    return document
