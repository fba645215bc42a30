"""What is found in an HTML document: the handler of each element, and the walk over the tree that calls them.

Documents are read by `read_tree`. The few that are unsafe to build a tree of are read by `flat`, which calls the same
handlers.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from skitter.model import Statement
from skitter.parse import directives, markup
from skitter.parse.markup import SPACE, Attributes
from skitter.parse.refresh import refresh
from skitter.robots import usage

if TYPE_CHECKING:
    from skitter.parse.assets import Assets

# Inline elements (the style sheet of HTML Standard, 15.3). All others separate their text from its
# neighbours, including unknown ones.
INLINE = markup.names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp small "
    "span strike strong sub sup time tt u var"
)
# Elements whose text is not visible to a reader.
UNSEEN = markup.names("iframe noembed noframes noscript script style template textarea title wbr")

_BLANKS = tuple(chr(code) for code in range(128) if chr(code).isspace() and chr(code) != " ")
_DROPPED = str.maketrans("", "", "\t\n\r")  # WHATWG URL 4.4: the parser removes them anyway
_NOT_WEB = re.compile(r"(?!https?:)[a-z][a-z0-9+.\-]*+:", re.IGNORECASE | re.ASCII)
_WEB = ("http://", "https://")
_LINK_KINDS = frozenset(("next", "alternate"))
# The words of rel that say what a link leads to (HTML Standard 4.6.7, and the microformats that pages use), or who
# wrote it. All others are about how a browser opens it; a page cannot make up more of them.
_TELLING = markup.names(
    "alternate author bookmark canonical category help license me next prev previous search sponsored tag ugc"
)
_UNFOLLOWED = markup.names("nofollow sponsored ugc")  # hints not to follow a link
_MOST = 100  # statements of a page, and languages
_LONGEST_ALTERNATE = 2_000  # characters of its URL
_LONGEST_LANGUAGE = 35  # characters: RFC 5646 4.4.1
_TOLD = frozenset(("author", "description", "keywords"))  # meta names that become fields of the document


class Findings:
    """A document being built."""

    __slots__ = (
        "agent",
        "alternates",
        "assets",
        "author",
        "base",
        "canonical",
        "description",
        "heading",
        "keywords",
        "language",
        "licences",
        "limit",
        "meta_language",
        "pieces",
        "rels",
        "rules",
        "statements",
        "title",
        "unchecked",
        "written",
    )

    def __init__(self, limit: int, agent: str = directives.AGENT) -> None:
        self.limit = limit
        self.agent = agent  # the robot that meta elements may name
        self.written: dict[str, bool] = {}  # hrefs in order of appearance, and whether they may be followed
        self.rels: dict[str, tuple[str, ...]] = {}  # by href as written: what the rel of some of them says
        self.unchecked = limit  # how many may be collected before they are checked for being links
        self.pieces: list[str] = []  # pieces of the text
        self.title: str | None = None
        self.heading = ""
        self.base: str | None = None
        self.canonical = self.description = self.keywords = self.author = ""
        self.language = self.meta_language = ""
        self.rules: list[str] = []
        self.statements: list[Statement] = []
        self.licences: tuple[str, ...] = ()
        self.alternates: dict[str, str] | None = None  # by language: hrefs as written
        self.assets: Assets | None = None  # what is needed to show it, if that is wanted

    def text(self) -> str:
        """The visible text, white space folded."""
        return folded("".join(self.pieces))

    def link(self, href: str | None, *, follow: bool = True) -> None:
        """Add a possible link: `hrefs` checks all of them together, unless there are too many to keep."""
        if not href:
            return
        if len(self.written) >= self.unchecked:
            if self.unchecked:
                self.written, self.unchecked = self.hrefs(), 0
            href = tidy(href)
            if not href or (href not in self.written and len(self.written) >= self.limit):
                return
        self.written[href] = follow or self.written.get(href, False)

    def told(self, href: str, words: Sequence[str]) -> None:
        """Remember what the rel of the first link to an href says."""
        if href not in self.rels and len(self.rels) < self.limit:
            self.rels[href] = tuple(dict.fromkeys(word for word in words if word in _TELLING))

    def hrefs(self) -> dict[str, bool]:
        """The links in order of appearance, and whether they may be followed.

        Few pages have hrefs that need cleaning. One check of all of them in one string costs 2 µs, 40 checks
        cost 20.
        """
        written, together = self.written, " ".join(self.written)
        if not together.isprintable() or together.count(" ") >= len(written):
            tidied: dict[str, bool] = {}
            for href, follow in written.items():
                if clean := tidy(href):
                    tidied[clean] = follow or tidied.get(clean, False)
            return tidied
        gone = {
            href for href in written if ":" in href and not href.startswith(_WEB) and _NOT_WEB.match(href)
        }
        if "#" in together:
            gone |= {href for href in written if href[0] == "#"}
        if gone:
            return {href: follow for href, follow in written.items() if href not in gone}
        return written

    def on_anchor(self, attributes: Attributes) -> None:
        """<a>, <area>."""
        href = attributes.get("href")
        if href and "rel" not in attributes and len(self.written) < self.unchecked:
            self.written[href] = True  # as `link` would do it, in half the time
        else:
            rel = attributes.get("rel")
            words = rel.lower().split() if rel else ()
            self.link(href, follow=_UNFOLLOWED.isdisjoint(words))
            if href and words and not _TELLING.isdisjoint(words):
                self.told(href, words)

    def on_frame(self, attributes: Attributes) -> None:
        """<iframe>, <frame>."""
        self.link(attributes.get("src"))

    def on_link(self, attributes: Attributes) -> None:
        """<link>: other pages by rel=next and rel=alternate, and the canonical URL."""
        rel = attributes.get("rel")
        if not rel:
            return
        kinds = rel.lower().split()
        if "canonical" in kinds and not self.canonical:
            self.canonical = (attributes.get("href") or "").strip(SPACE).translate(_DROPPED)
        if "license" in kinds and (href := attributes.get("href")) and len(self.statements) < _MOST:
            self.statements.append(usage.statement(usage.LICENSE_PAGE, href.strip(SPACE), {}))
            if (attributes.get("type") or "").strip().lower() == usage.RSL_TYPE:
                self.licences = (*self.licences[: usage.MOST_LICENSES - 1], href.strip(SPACE))
        if not _LINK_KINDS.isdisjoint(kinds) and "stylesheet" not in kinds:
            href = attributes.get("href")
            self.link(href, follow=_UNFOLLOWED.isdisjoint(kinds))
            if href:
                self.told(href, kinds)
                if "hreflang" in attributes and "alternate" in kinds:
                    self.alternate(attributes["hreflang"] or "", href)

    def alternate(self, language: str, href: str) -> None:
        """The page in another language; the first of each counts."""
        if self.alternates is None:
            self.alternates = {}
        language = language.strip(SPACE).lower()
        fits = len(language) <= _LONGEST_LANGUAGE and len(href) <= _LONGEST_ALTERNATE
        if language and fits and len(self.alternates) < _MOST:
            self.alternates.setdefault(language, href.strip(SPACE))

    def on_base(self, attributes: Attributes) -> None:
        """<base>: the first with an href counts (HTML Standard, 4.2.3)."""
        if self.base is None and "href" in attributes:
            self.base = attributes["href"] or ""

    def on_html(self, attributes: Attributes) -> None:
        """<html>."""
        self.language = self.language or (attributes.get("lang") or attributes.get("xml:lang") or "").strip()

    def on_meta(self, attributes: Attributes) -> None:
        """<meta>: by its name, or by the header field it replaces."""
        content = attributes.get("content")
        if not content:
            return
        name = (attributes.get("name") or "").strip().lower()
        if name in _TOLD:
            setattr(self, name, getattr(self, name) or folded(content))
        elif name in ("robots", self.agent):
            self.rules += directives.meta_rules(content)
        elif name.startswith("tdm-"):
            said = directives.of_meta(name, content)
            if said is not None and len(self.statements) < _MOST:
                self.statements.append(said)
        if pragma := attributes.get("http-equiv"):
            self._on_pragma(pragma.lower(), content)

    def _on_pragma(self, name: str, content: str) -> None:
        if name == "refresh":
            self.refresh(content)
        elif name == "content-language" and not self.meta_language and "," not in content:
            # HTML Standard, 4.2.5.3: a list of languages does not apply to this document.
            self.meta_language = (content.split() or [""])[0]

    def refresh(self, content: str) -> None:
        """A refresh: where the page redirects its reader."""
        found = refresh(content)
        self.link(found[1] if found else None)


def tidy(href: str) -> str:
    """An href without what the URL parser drops anyway; empty if it cannot lead to another page."""
    href = href.strip(SPACE)
    if not href.isprintable():
        href = href.translate(_DROPPED)
    return "" if href.startswith("#") or _NOT_WEB.match(href) else href


def folded(text: str) -> str:
    """Text on one line.

    White space is rare and short in this input: in plain ASCII, searching for each kind is cheaper than
    creating a string for every word (8 against 30 µs for 7 KB). Unicode has too many kinds for that.
    """
    if not text.isascii():
        return " ".join(text.split())
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    while (
        text.rfind("  ") >= 0
    ):  # from the end: 2.5 µs, where `in` takes 6 because every blank may be the first of two
        text = text.replace("  ", " ")
    return text.strip(" ")


def read_links(source: str, findings: Findings) -> None:
    """Links for readers without scripts or frames, like us."""
    if "href" in source.lower():
        for tag in markup.tags(source):
            if tag.name in ("a", "area") and not tag.end:
                findings.on_anchor(markup.attributes(tag.written))


Found = Callable[[Findings, Attributes], None]
ELEMENTS: dict[str, Found] = {
    "a": Findings.on_anchor,
    "area": Findings.on_anchor,
    "base": Findings.on_base,
    "frame": Findings.on_frame,
    "html": Findings.on_html,
    "iframe": Findings.on_frame,
    "link": Findings.on_link,
    "meta": Findings.on_meta,
}


# ------------------------------------------------------------------------------------------------ the tree
#
# Lexbor puts a blank between any two text nodes. So that words are not split in the middle, inline elements are
# first replaced by their content, and invisible elements are removed with theirs. This does in C what a walk
# over all text nodes would do four times slower in Python.

# With events, a selected <option> would be copied into <selectedcontent>, as often as the page likes.
_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)

_BLANK = LexborHTMLParser("<body><!-- -->")
_ID = {
    name: _BLANK.create_node(name).tag_id
    for name in INLINE | UNSEEN | ELEMENTS.keys() | {"h1", "head", "svg"}
}
_COMMENTS = {node.tag_id for node in _BLANK.css("body")[0].traverse() if node.is_comment_node}
_FOUND = {_ID[name]: found for name, found in ELEMENTS.items()}
_INLINE = frozenset(_ID[name] for name in INLINE)
_UNSEEN = frozenset(_ID[name] for name in UNSEEN) | _COMMENTS
_ANCHOR, _TITLE, _H1, _HEAD, _SVG = (_ID[name] for name in ("a", "title", "h1", "head", "svg"))
_OF_INTEREST = _FOUND.keys() | _INLINE | _UNSEEN | {_H1}
_PICTURE_DEPTH = 64  # no document has its title that deep
_MARKUP_INSIDE = frozenset((_ID["noscript"], _ID["noframes"]))


def read_tree(source: bytes, findings: Findings) -> None:
    """Read a UTF-8 document: one walk over the elements of Lexbor's tree for links and the head, then the text at once.

    Scripting is "on", so that <noscript> holds one text, which is not part of the page.
    """
    root = LexborHTMLParser(source, options=_OPTIONS, scripting=True).root
    if root is None:
        return
    if findings.assets is not None:
        findings.assets.read_tree(root)
    inline: list[LexborNode] = []
    unseen: list[LexborNode] = []
    heading: LexborNode | None = None
    on_anchor, anchor, add_inline = findings.on_anchor, _ANCHOR, inline.append
    for node in root.traverse():
        tag = node.tag_id
        if tag == anchor:
            on_anchor(node.attributes)
            add_inline(node)
        elif tag not in _OF_INTEREST:
            continue
        elif tag in _INLINE:
            add_inline(node)
        elif tag == _H1:
            heading = heading or node
        else:
            if tag in _FOUND:
                _FOUND[tag](findings, node.attributes)
            if tag in _UNSEEN:
                unseen.append(node)
                _look_inside(node, tag, findings)
    findings.pieces.append(_visible_text(root, inline, unseen))
    if heading is not None:
        findings.heading = folded(heading.text(separator=" "))


def _visible_text(root: LexborNode, inline: list[LexborNode], unseen: list[LexborNode]) -> str:
    for node in inline:
        node.unwrap(delete_empty=True)
    for node in unseen:
        node.decompose()
    root.merge_text_nodes()
    return root.text(separator=" ", skip_empty=True)


def _look_inside(node: LexborNode, tag: int, findings: Findings) -> None:
    """Elements that are not part of the text may still matter."""
    if tag == _TITLE:
        if findings.title is None and not _is_drawn(node):
            findings.title = folded(node.text())
    elif tag in _MARKUP_INSIDE:
        read_links(node.text(), findings)


def _is_drawn(title: LexborNode) -> bool:
    """Whether a <title> belongs to an SVG image instead of the document."""
    parent = title.parent
    for _ in range(_PICTURE_DEPTH):
        if parent is None or parent.tag_id == _HEAD:
            return False
        if parent.tag_id == _SVG:
            break
        parent = parent.parent
    return True
