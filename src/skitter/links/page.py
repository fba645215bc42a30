"""A page as `skitter.crawl()` yields it: the stored record plus the answer it was made from.

The answer is kept as received. Nothing is decoded or parsed until it is used.
"""

from functools import cached_property
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import asdict
from selectolax.lexbor import LexborHTMLParser, LexborNode

from skitter import model, urls
from skitter.fetch import response
from skitter.model import Document, Exchange, Fetched
from skitter.parse import charset, html, parse, parser_of
from skitter.parse.anchors import Anchor, anchors
from skitter.settings import Settings
from skitter.settings.sites import sites_of

_HTML = frozenset(("text/html", "application/xhtml+xml"))


class PageLink(Struct, frozen=True):
    """A link on a page.

    `url` is absolute, in its fetched form. `text` is what the reader sees, `rel` the attribute as written,
    `page` the page with the link.
    """

    url: str
    text: str
    rel: str
    page: "Page"


class Answer(Struct, frozen=True):
    """What a page was made from: the exchange, and the parser settings."""

    exchange: Exchange
    settings: Settings


class Page(model.Page, frozen=True, dict=True):
    """One page of a crawl.

    Its fields are those of the stored record: `url`, `status`, `title`, `text`, `headers`, `content_type`,
    `fetched_at`, `depth`, `duplicate_of` and more. It also has

        page.html               the document as text
        page.body               the body as bytes, without its compression
        page.links              every link on it, with its text: [PageLink(url=..., text=..., rel=...), ...]
        page.main               its main content as text, without menus and footers
        page.markdown           the same as Markdown, with absolute links
        page.css("h1.title")    the elements that match a CSS selector

        for heading in page.css("h2"):
            print(heading.text(), heading.attributes.get("id"))

    A page holds its whole body; to keep many pages, keep only what you need of each.
    """

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url} {self.title!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (asdict(self), self._answer)

    @property
    def _answer(self) -> Answer:
        """Not a field: fields are what the store has."""
        try:
            answer: Answer = vars(self)["answer"]
        except KeyError:
            raise RuntimeError(
                f"this copy of the page {self.url} has its record alone, without the body"
            ) from None
        return answer

    @cached_property
    def body(self) -> bytes:
        """The body, without transfer and content codings."""
        found = response.outcome(self._answer.exchange, self._answer.settings.fetch.max_body)
        return found.content if isinstance(found, Fetched) else b""

    @cached_property
    def html(self) -> str:
        """The document as text, decoded with its own charset. Empty if it is not HTML; use `body` then."""
        if self.content_type not in _HTML:
            return ""
        return charset.decode(self.body, self.charset or charset.UTF_8)

    @cached_property
    def links(self) -> tuple[PageLink, ...]:
        """Every link to another page, in order of appearance, whether the crawl follows it or not."""
        answer = self._answer
        sites = sites_of(answer.settings)
        settings = answer.settings if sites is None else sites.of(self.url)
        parser = parser_of(self.content_type)
        if parser is not None and parser.slow:
            from skitter.parse.apart import read_apart  # noqa: PLC0415  for documents that may crash a program

            document = read_apart(self.url, self.headers, self.body, settings.parse)
        else:
            document = parse(self.url, self.headers, self.body, settings.parse)
        return tuple(links_of(self, document))

    @cached_property
    def main(self) -> str:
        """The main content as text: without menus, footers and advertisements."""
        return self._content.main

    @cached_property
    def markdown(self) -> str:
        """The main content as Markdown: headings, lists, tables, code, absolute links, pictures as references."""
        return self._content.markdown

    @cached_property
    def _content(self) -> model.Content:
        """What the crawl extracted (`parse_main=True`), or else what is extracted now.

        Raises SettingsError, with the pip line, if the library of `parse.extractor` is not installed.
        """
        if self.content is not None:
            return self.content
        from skitter.parse.main import require  # noqa: PLC0415  only programs that ask for it need it

        settings = structs.replace(self._answer.settings.parse, main=True)
        require(settings)
        return parse(self.url, self.headers, self.body, settings).content or model.Content(main=self.text)

    def css(self, selector: str) -> list[LexborNode]:
        """The elements that match a CSS selector, as selectolax nodes: `.text()`, `.attributes`, `.css()`, `.parent`."""
        return self._tree.css(selector)

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        source = self.html[: self._answer.settings.parse.max_input]
        if not html.is_bearable(source):
            raise ValueError(
                f"{self.url} is nested so deeply that its tree could take all memory; its html, text and links are available"
            )
        return LexborHTMLParser(source)


def made(record: model.Page, exchange: Exchange, settings: Settings) -> Page:
    """Combine a stored page with the answer it was made from."""
    return _unpickled(asdict(record), Answer(exchange, settings))


def _unpickled(fields: dict[str, Any], answer: Answer) -> Page:
    page = Page(**fields)
    vars(page)["answer"] = answer
    return page


def links_of(page: Page, document: Document) -> list[PageLink]:
    """The links that the parser found on a page, each once, with text and rel of the first anchor with a text."""
    rules = page._answer.settings.urls  # noqa: SLF001  made for it
    told: dict[str, Anchor] = {}
    for anchor in anchors(page.html):
        href = html.in_encoding(anchor.href, document.charset)
        if forms := urls.link(href, document.base, rules):
            known = told.get(forms[0])
            if known is None or (anchor.text and not known.text):
                told[forms[0]] = anchor
    found = {}
    for href in (*document.links, *document.nofollow):
        if forms := urls.link(href, document.base, rules):
            anchor = told.get(forms[0], _NO_ANCHOR)
            found[forms[0]] = PageLink(forms[0], anchor.text, anchor.rel, page)
    return list(found.values())


_NO_ANCHOR = Anchor("", "", "")  # frames, refreshes and <link> have no text
