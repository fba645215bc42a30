"""XML of any kind, feeds included: its text, and as links the URLs in it and what `href` attributes lead to."""

import re

from skitter.model import Document
from skitter.parse.container import Text
from skitter.parse.elements import cut, read
from skitter.parse.findings import folded
from skitter.parse.making import known, made, short
from skitter.parse.patterns import urls_in, urls_in_all
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_NAMESPACE = re.compile(r"xmlns|xsi:schemaLocation|(?:\w+:)?schemaLocation")
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*+:", re.IGNORECASE)
_HREFS = frozenset(("href", "xlink:href"))


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read XML."""
    text = Text(settings.max_text)
    text.on = True
    reading = _Reading(text, settings.max_links)
    problem = read(cut(body.content), reading.start, reading.end, text.add)
    said = text.take()
    links = dict.fromkeys((*reading.links, *urls_in_all([said], settings.max_links)))
    return made(
        body,
        settings,
        title=reading.title,
        text=folded(said),
        links=links,
        ignored="" if said.strip() else problem,
        media=known({"format": "xml", "root": reading.root, "partly": problem}),
    )


class _Reading:
    """What is found besides the text."""

    def __init__(self, text: Text, most: int) -> None:
        self._text, self._most = text, most
        self.root = self.title = ""
        self.links: dict[str, None] = {}
        self._begin = 0  # of the title, in pieces of the text

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or short(name)
        self._text.put(" ")
        if name == "title" and not self.title:
            self._begin = self._text.mark()
        elif name == "include":  # XInclude is no link: what it names would be a part of this document
            return
        for attribute, value in attributes.items():
            if len(self.links) >= self._most or _NAMESPACE.match(attribute):
                continue
            if attribute in _HREFS and value and not _SCHEME.match(value):
                self.links[value] = None
            else:
                self.links |= dict.fromkeys(urls_in(value))

    def end(self, name: str) -> None:
        if name == "title" and not self.title:
            self.title = short(self._text.since(self._begin))
        self._text.put(" ")
