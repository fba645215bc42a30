"""What stands within a paragraph: emphasis, code, links and pictures; and code blocks, whose links follow them."""

import re
from collections.abc import Callable

from selectolax.lexbor import LexborNode

from skitter import urls
from skitter.parse.main import marks
from skitter.parse.main.walking import BLANK, Attributes, Block, Ready, Walker
from skitter.parse.markup import names

_EMPHASIS = {"em": "*", "i": "*", "strong": "**", "b": "**", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = names("code kbd samp tt")
_FOLLOWED = 200  # links listed after a code block
_ADDRESSES = 8 << 20  # characters of all addresses of a page; beyond, links are only text
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|brush|sourceCode|src)[-:\s]\s*([\w+#.-]{1,30})")
_NO_LANGUAGE = names("default none plain text highlight source python3-doctest")
_PERMALINK = names("¶ # § 🔗 \uf0c1 ⚓ ∞")
_SCHEMES = ("http://", "https://", "mailto:", "tel:", "ftp://")
_LAZY = ("src", "data-src", "data-original", "data-lazy-src")


class Inline(Walker):
    """Writes what stands within a paragraph."""

    def __init__(self, base: str, *, plain: bool) -> None:
        super().__init__(plain=plain)
        self._base = base
        self._room = _ADDRESSES

    def _begin_inline(self, tag: str, attributes: Attributes) -> Callable[[], None] | None:
        """Begin an element within a paragraph."""
        if tag == "a":
            return self._begin_link(attributes)
        if tag in _CODE:
            return self._gather("code", self._end_code)
        if tag in _EMPHASIS and not self._inside["emphasis"] and not self._plain:
            mark = _EMPHASIS[tag]
            return self._gather("emphasis", lambda: self._end_emphasis(mark))
        if tag == "br":
            self._top.line.append("\n")
        elif tag == "img":
            self._picture(attributes)
        elif tag == "q":
            self._top.line.append('"')
            return lambda: self._top.line.append('"')
        return None

    def _end_emphasis(self, mark: str) -> None:
        part = self._parts.pop()
        self._inside["emphasis"] -= 1
        if part.blocks:  # blocks inside emphasis: they count more
            self._parts.append(part)
            self._end_line()
            self._parts.pop()
            self._end_line()
            self._top.blocks += part.blocks
        else:
            self._top.line.append(marks.around(mark, "".join(part.line)))

    # -- links and pictures ----------------------------------------------------------------------------------

    def _begin_link(self, attributes: Attributes) -> Callable[[], None] | None:
        url = self._address(attributes.get("href"))
        if self._plain or not url or self._inside["a"]:
            return self._begin_label() if attributes.get("href", "") else None
        label = attributes.get("aria-label") or attributes.get("title") or ""
        own = (attributes.get("href") or "").lstrip().startswith("#")
        return self._gather("a", lambda: self._end_link(url, label, own=own))

    def _begin_label(self) -> Callable[[], None]:
        """A link that is written as its text alone: still without the signs that stand for a link to a heading."""
        return self._gather("label", self._end_label)

    def _end_label(self) -> None:
        part = self._parts.pop()
        text = "".join(part.line)
        if text.strip() in _PERMALINK:
            return
        if part.blocks:
            self._end_line()
            self._top.blocks += part.blocks
        self._top.line.append(text)

    def _end_link(self, url: str, label: str, *, own: bool) -> None:
        part = self._parts.pop()
        self._inside["a"] -= 1
        text = "".join(part.line)
        if not part.blocks:
            text = text.replace("\n", " ")
            if own and text.strip().replace("\\", "") in _PERMALINK:
                return  # the sign beside a heading that leads to the heading itself
            if not text.strip():
                text = marks.literal(BLANK.sub(" ", label), in_link=True)
            self._top.line.append(self._linked(text, url) if text.strip() else (part.line and " ") or "")
            return
        self._parts.append(part)
        self._end_line()
        self._parts.pop()
        self._end_line()
        self._top.blocks += self._with_link(part.blocks, url)

    def _with_link(self, blocks: list[Block], url: str) -> list[Block]:
        """A link around whole blocks: the first heading or paragraph is its text."""
        for number, (kind, text) in enumerate(blocks):
            if kind in ("p", "h"):
                marker, space, rest = text.partition(" ") if kind == "h" else ("", "", text)
                linked = (kind, f"{marker}{space}{self._linked(marks.one_line(rest), url)}")
                return [*blocks[:number], linked, *blocks[number + 1 :]]
        return [*blocks, ("p", self._linked(marks.literal(url, in_link=True), url))]

    def _linked(self, text: str, url: str) -> str:
        self._room -= len(url)
        return marks.link(text, url) if self._room >= 0 else text

    def _address(self, href: str | None) -> str:
        """An absolute address; empty for none that a reader could follow."""
        if not href or self._plain or self._room < 0:
            return ""
        url = urls.whatwg(href.strip(), self._base)
        return url if url and url.startswith(_SCHEMES) else ""

    def _picture(self, attributes: Attributes) -> None:
        if self._plain:
            return
        sources = (self._address(attributes.get(name)) for name in _LAZY)
        if url := next((url for url in sources if url.startswith("http")), ""):
            self._room -= len(url)
            self._top.line.append(Ready(marks.image(attributes.get("alt") or "", url)))
        elif self._inside["a"]:  # a picture inside the page's own text: the link is called what it shows
            self._add_text(attributes.get("alt") or "")

    # -- code ------------------------------------------------------------------------------------------------

    def _begin_in_code(self, tag: str, attributes: Attributes) -> Callable[[], None] | None:
        """Inside code only line ends and links mean something."""
        if tag == "br":
            self._top.line.append("\n")
        elif tag == "a" and not self._inside["a"] and (url := self._address(attributes.get("href"))):
            return self._gather("a", lambda: self._end_link_in_code(url))
        return None

    def _end_link_in_code(self, url: str) -> None:
        text = "".join(self._parts.pop().line)
        self._inside["a"] -= 1
        if self._top.links is not None:
            self._top.line.append(text)
            if text.strip() and len(self._top.links) < _FOLLOWED:
                self._top.links.setdefault(url, " ".join(text.split()))
        elif text.strip():
            self._top.line.append(Ready(self._linked(marks.code(text), url)))

    def _end_code(self) -> None:
        part = self._parts.pop()
        self._inside["code"] -= 1
        if self._plain:
            self._top.line += part.line
            return
        raw: list[str] = []
        for piece in (*part.line, Ready("")):
            if not isinstance(piece, Ready):
                raw.append(piece)
                continue
            self._top.line += [marks.code("".join(raw)), str(piece)]
            raw = []

    def _end_pre(self, language: str) -> None:
        part = self._parts.pop()
        self._inside["pre"] -= 1
        text = "".join(part.line).replace("\r\n", "\n")
        if not text.strip():
            return
        if self._plain:
            self._top.blocks.append(("code", text.strip("\n")))
            return
        if self._inside["cell"]:
            spans = [marks.code(line) for line in text.split("\n") if line.strip()]
            self._top.blocks.append(("p", "\n".join(spans)))
        else:
            self._top.blocks.append(("code", marks.fenced(text, language)))
        if part.links:
            listed = ", ".join(self._linked(marks.code(text), url) for url, text in part.links.items())
            self._top.blocks.append(("p", f"Links in it: {listed}"))


def language(pre: LexborNode, attributes: Attributes) -> str:
    """The language of a code block, as highlighters write it: on itself, the <code> in it, or the boxes around it."""
    near = [attributes]
    if (child := pre.child) is not None and child.is_element_node:
        near.append(child.attributes)
    around = pre.parent
    for _ in range(2):
        if around is not None and around.is_element_node:
            near.append(around.attributes)
            around = around.parent
    for each in near:
        said = each.get("data-lang") or each.get("data-language") or ""
        found = _LANGUAGE.search(each.get("class") or "")
        language = said if re.fullmatch(r"[\w+#.-]{1,30}", said) else found[1] if found else ""
        if language and language.lower() not in _NO_LANGUAGE:
            return language.lower()
    return ""
