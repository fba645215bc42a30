"""What pages say in place of their pictures: alt texts, by the URL of the picture.

A crawl does not need them, so they are not read with the rest; this is for exports and people who ask. Read from the tags, in
time linear in the document.
"""

from collections.abc import Iterator

from skitter import urls
from skitter.parse import markup
from skitter.parse.assets import Assets
from skitter.parse.findings import folded
from skitter.parse.markup import Attributes

LONGEST = 200  # characters of a text
_MOST = 10_000  # pictures of a page, and candidates of a picture


def alts(source: str, url: str) -> Iterator[tuple[str, str]]:
    """URL and text of each picture on an HTML page that has one, in order of appearance; a picture may come more than once.

    A link around a picture leads to something that the text speaks of too: often the same picture, only larger.
    """
    base, anchor = url, ""
    choices: list[str] = []  # of the <picture> we are in
    for tag in markup.tags(source):
        name = tag.name
        if name == "a":
            anchor = "" if tag.end else markup.attributes(tag.written).get("href") or ""
        elif name == "picture":
            choices = []
        elif name in ("source", "img", "input", "area", "base") and not tag.end:
            attributes = markup.attributes(tag.written)
            if name == "base":
                base = urls.whatwg(attributes.get("href") or "", url) or base
            elif name == "source":
                choices += _hrefs(attributes) if len(choices) < _MOST else ()
            elif text := folded(attributes.get("alt") or "")[:LONGEST].strip():
                hrefs = [attributes.get("href") or ""] if name == "area" else [*choices, *_hrefs(attributes)]
                for href in dict.fromkeys(filter(None, [*hrefs, anchor])):
                    if found := urls.whatwg(href, base):
                        yield found.partition("#")[0], text


def _hrefs(attributes: Attributes) -> list[str]:
    """Every address of a picture: which one is shown depends on the screen."""
    assets = Assets(_MOST)
    assets.on_picture(attributes)
    return list(assets.hrefs)
