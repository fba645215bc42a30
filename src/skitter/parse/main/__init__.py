"""Main content: what a page is about, without menus, footers and advertisements, as text and as Markdown.

`outline` lists the elements of a page, `choosing` finds the one that holds the content, `markdown` writes it, with the
marks of `marks`; `structured` has what the page says to programs, and its dates; `language` what it is written in.

There are two judges of where the content is (`parse.extractor`). "fast" is our own and needs no library; "trafilatura"
asks the library of that name, which is part of the extra `main`. Either way the content is written from the page's own
elements, so that tables, code and links stay.
"""

import logging
import re
from importlib.util import find_spec

from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser

from skitter.model import Content, Document
from skitter.parse.main import choosing, language, markdown, marks, outline, structured
from skitter.settings import ParseSettings, SettingsError

FAST, TRAFILATURA = "fast", "trafilatura"
WHOLE = "whole"  # no judge: the whole page, for who compares pages; no setting of users
_QUIET, _NO_HANDLER = logging.getLogger("trafilatura"), logging.NullHandler()
_BLANK_LINES = re.compile(r"\n{2,}")


def require(settings: ParseSettings) -> None:
    """Raise SettingsError if the library of the extractor is not installed."""
    if settings.extractor == TRAFILATURA and find_spec("trafilatura") is None:
        from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

        raise SettingsError(
            f'parse.extractor is "{TRAFILATURA}", but its library is not installed; install it with: '
            f'{install_line("main")}; or take parse.extractor = "{FAST}" (export and show: --extractor {FAST}), which needs no library'
        )


def of_html(document: Document, source: bytes, settings: ParseSettings, *, tame: bool) -> Document:
    """An HTML document with its main content, and its language if it declared none.

    `source` is its HTML in UTF-8. If its tree is not safe to build, all of its text is its content.
    """
    if not tame:
        return _finished(document, Content(main=document.text, markdown=as_text(document.text)))
    tree = LexborHTMLParser(source)
    said = structured.structured(tree, document.base)
    published, modified = structured.published_and_modified(tree, said)
    content = Content(published=published, modified=modified, structured=said)
    body = tree.body
    elements = outline.outline(body) if body is not None else []
    if elements:
        choice = _choice(elements, source, document.base, settings)
        top = choosing.cleared(elements, choice)
        content = replace(
            content, main=markdown.plain([top]), markdown=markdown.markdown([top], document.base)
        )
    return _finished(document, content)


def of_text(document: Document, text: str) -> Document:
    """The same for plain text, or for Markdown, which stays as it is: all of it is content."""
    main = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    if document.media_type == "text/markdown":
        return _finished(document, Content(main=main, markdown=main))
    return _finished(document, Content(main=main, markdown=as_text(main)))


def as_text(text: str) -> str:
    """Markdown that shows a plain text."""
    paragraphs = (marks.paragraph(marks.literal(part)) for part in _BLANK_LINES.split(text))
    return "\n\n".join(filter(None, paragraphs))


def _finished(document: Document, content: Content) -> Document:
    """The document with this content, and the language of it if none is declared."""
    spoken = document.language or language.detected(content.main or document.text)
    return replace(document, content=content, language=spoken)


def _choice(
    elements: list[outline.Element], source: bytes, url: str, settings: ParseSettings
) -> choosing.Choice:
    if settings.extractor == WHOLE:
        return choosing.whole(elements)
    choice = None
    if settings.extractor == TRAFILATURA:
        choice = choosing.by_text(elements, _by_trafilatura(source, url))
    return choice or choosing.by_prose(elements) or choosing.everything(elements)


def _by_trafilatura(source: bytes, url: str) -> str:
    """The main text, as trafilatura sees it; empty if it sees none."""
    import trafilatura  # noqa: PLC0415  of the extra `main`; 0.2 s

    _QUIET.addHandler(_NO_HANDLER)  # what it has to say about a page is not for a terminal
    text = source.decode("utf-8", "replace")
    found = trafilatura.extract(text, url=url, fast=True, include_comments=False, favor_precision=True)
    return found or ""
