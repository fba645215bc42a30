"""Bodies become Documents here (first thin version; the depth follows)."""

from collections.abc import Sequence

from selectolax.lexbor import LexborHTMLParser

from skitter.model import Directives, Document
from skitter.settings import ParseSettings


def parse(url: str, headers: Sequence[tuple[str, str]], content: bytes, settings: ParseSettings) -> Document:
    """Read a body as what it is."""
    content_type = next((value for name, value in headers if name == "content-type"), "text/html")
    media_type = content_type.split(";")[0].strip().lower()
    if media_type not in ("text/html", "application/xhtml+xml"):
        return Document(media_type=media_type, charset="utf-8", base=url)
    tree = LexborHTMLParser(content[: settings.max_input], scripting=True)
    hrefs = [node.attrs.sget("href").strip() for node in tree.css("a[href]")]
    title = tree.css_first("title")
    body = tree.body
    return Document(
        media_type=media_type,
        charset="utf-8",
        base=url,
        title=" ".join(title.text().split()) if title else "",
        text=" ".join(body.text(separator=" ").split()) if body else "",
        directives=Directives(),
        links=list(dict.fromkeys(href for href in hrefs if href and not href.startswith("#")))[: settings.max_links],
    )
