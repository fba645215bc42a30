"""What a browser would fetch to show a document: style sheets, scripts, pictures, fonts, media, icons and frames.

Only for crawls that archive whole pages (`archive.assets`). What is collected are hrefs as written, each with its kind:
it decides how the answer is read for what that needs in turn. Pictures that scripts load later are found by the
attributes in which pages usually name them.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
from selectolax.lexbor import LexborNode

from skitter.parse import charset, css, directives, markup
from skitter.parse.kinds import ASSET, FRAME, MANIFEST, MODULE, STYLE
from skitter.parse.markup import SPACE, Attributes
from skitter.parse.sniff import XHTML, Body
from skitter.settings import ParseSettings

_CSS, _SVG, _JSON = "text/css", "image/svg+xml", "application/manifest+json"
_HTML = frozenset(("text/html", XHTML))
_VAGUE = frozenset(("text/plain", "application/octet-stream"))  # browsers take the word of the page then
_SCRIPTS = frozenset(
    ("text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript")
)

_LAZY = ("data-src", "data-lazy-src", "data-original", "data-lazy", "data-original-src", "data-hi-res-src")
_LAZY_SETS = ("data-srcset", "data-lazy-srcset", "data-original-set")
_BACKGROUNDS = ("data-bg", "data-background", "data-background-image", "data-lazy-background")
_ICONS = markup.names(
    "icon apple-touch-icon apple-touch-icon-precomposed apple-touch-startup-image mask-icon fluid-icon"
)
_LOADED = ("stylesheet", "preload")  # in a Link header field
_LONGEST = 16_384  # characters of an href: what is longer is never fetched
_NESTED_DOCUMENTS = 2  # of srcdoc and noscript, one in the other

# Any element may have a style or a background; these have more.
_ELEMENTS = "img source link script video audio track embed object iframe frame input image use feImage style noscript"
_SELECTOR = ",".join((*_ELEMENTS.split(), "[style]", "[background]", *(f"[{name}]" for name in _BACKGROUNDS)))
_BETWEEN = SPACE + ","  # candidates of a srcset; at its end they would be searched through again and again
# HTML Standard, 4.8.4.3.9: candidates are separated by commas, which may also be part of a URL.
_CANDIDATE = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]*[^\t\n\f\r ,])(?:,++|(?:[^,(]++|\([^)]*+\)?+)*+)")
# Static imports of a module, and dynamic ones of a literal. Names are short; what is not a path is found elsewhere.
_IMPORT = re.compile(
    r"""(?<![\w$.])(?:import|export)(?![\w$])[\s\w$*{},]*+\(?+\s*+(?:"([^"\n]{1,2000}+)|'([^'\n]{1,2000}+))?+"""
)
_PATHS = ("./", "../", "/", "http://", "https://")
_INSTRUCTION = re.compile(r"<\?xml-stylesheet\s([^?>]{1,2000})")


class Assets:
    """The assets of a document, being collected."""

    __slots__ = ("hrefs", "icon", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hrefs: dict[str, str] = {}  # in order of appearance, with their kinds
        self.icon = False  # whether the document names one

    def add(self, href: str | None, kind: str = ASSET) -> None:
        """Add an href. The kind that says more counts."""
        if not href or len(href) > _LONGEST:
            return
        href = href.strip(SPACE)
        if not href or href[0] == "#":
            return
        if self.hrefs.get(href, ASSET) == ASSET and (href in self.hrefs or len(self.hrefs) < self.limit):
            self.hrefs[href] = kind

    def add_set(self, srcset: str | None) -> None:
        """Add every candidate of a srcset: which one is shown depends on the screen."""
        for found in _CANDIDATE.findall(srcset.strip(_BETWEEN)) if srcset else ():
            self.add(found)

    def add_css(self, text: str | None) -> None:
        """Add what a style element or attribute refers to."""
        if text and ("(" in text or "@" in text):
            for href, sheet in css.hrefs(text):
                self.add(href, STYLE if sheet else ASSET)

    def add_module(self, text: str) -> None:
        """Add the modules that a script imports by their paths."""
        for double, single in _IMPORT.findall(text):
            if (href := double or single).startswith(_PATHS):
                self.add(href, MODULE)

    def read_tree(self, root: LexborNode) -> None:
        """Collect from the tree of an HTML document."""
        for node in root.css(_SELECTOR):
            self.on((node.tag or "").lower(), node.attributes, node.text)

    def read_tags(self, source: str, nested: int = 0) -> None:
        """Collect from the tags of a document that has no tree."""
        for tag in markup.tags(source):
            if tag.name and not tag.end and (tag.written or tag.content):
                self.on(tag.name, markup.attributes(tag.written), lambda tag=tag: tag.content, nested)  # type: ignore[misc]

    def add_header(self, value: str) -> None:
        """Add what a Link header field asks browsers to load."""
        for target, rel, given in directives.links((value,), _LOADED):
            self.on_link({**given, "rel": " ".join(rel), "href": target})

    def on(self, name: str, attributes: Attributes, content: Callable[[], str], nested: int = 0) -> None:
        """An element. `content` is its text, asked for if it has a meaning."""
        self.add_css(attributes.get("style"))
        self.add(attributes.get("background"))
        for lazy in _BACKGROUNDS:
            self._add_background(attributes.get(lazy))
        if (found := _HANDLERS.get(name)) is not None:
            found(self, attributes)
        if name == "style":
            self.add_css(content())
        elif name == "script" and _type(attributes) == "module":
            self.add_module(content())
        elif name == "noscript" and nested < _NESTED_DOCUMENTS:
            self.read_tags(content(), nested + 1)
        elif name == "iframe" and nested < _NESTED_DOCUMENTS and (inside := attributes.get("srcdoc")):
            self.read_tags(inside, nested + 1)

    def _add_background(self, value: str | None) -> None:
        if value and "(" in value:
            self.add_css(value)
        else:
            self.add(value)

    # -- one kind of element each --------------------------------------------------------------------------------

    def on_picture(self, attributes: Attributes) -> None:
        """<img>, <source>, <video>, <audio>, <track>, <input type=image>."""
        self.add(attributes.get("src"))
        self.add_set(attributes.get("srcset"))
        self.add(attributes.get("poster"))
        self.add(attributes.get("data-poster"))
        for name in _LAZY:
            self.add(attributes.get(name))
        for name in _LAZY_SETS:
            self.add_set(attributes.get(name))

    def on_input(self, attributes: Attributes) -> None:
        """<input>."""
        if _type(attributes) == "image":
            self.on_picture(attributes)

    def on_frame(self, attributes: Attributes) -> None:
        """<iframe>, <frame>, <embed>, <object>: a document of its own, or a picture."""
        for name in ("src", "data", "data-src", "data-lazy-src"):
            self.add(attributes.get(name), FRAME)

    def on_script(self, attributes: Attributes) -> None:
        """<script>, also of a drawing."""
        kind = MODULE if _type(attributes) == "module" else ASSET
        self.add(attributes.get("src"), kind)
        self.on_drawn(attributes)

    def on_drawn(self, attributes: Attributes) -> None:
        """<image>, <use> and <feImage> of SVG."""
        self.add(attributes.get("href"))
        self.add(attributes.get("xlink:href"))

    def on_link(self, attributes: Attributes) -> None:
        """<link>, or a Link header field."""
        rel = (attributes.get("rel") or "").lower().split()
        href = attributes.get("href")
        if "stylesheet" in rel:
            self.add(href, STYLE)
        elif not _ICONS.isdisjoint(rel):
            self.icon = self.icon or "icon" in rel
            self.add(href)
        elif "modulepreload" in rel:
            self.add(href, MODULE)
        elif "manifest" in rel:
            self.add(href, MANIFEST)
        elif "preload" in rel:
            self.add(href, STYLE if (attributes.get("as") or "").lower() == "style" else ASSET)
            self.add_set(attributes.get("imagesrcset"))


def _type(attributes: Attributes) -> str:
    return (attributes.get("type") or "").strip().lower()


_HANDLERS: dict[str, Callable[[Assets, Attributes], None]] = {
    **dict.fromkeys(("img", "source", "video", "audio", "track"), Assets.on_picture),
    **dict.fromkeys(("iframe", "frame", "embed", "object"), Assets.on_frame),
    **dict.fromkeys(("image", "use", "feimage"), Assets.on_drawn),
    "input": Assets.on_input,
    "link": Assets.on_link,
    "script": Assets.on_script,
}


# ------------------------------------------------------------------------------------------------ other documents


def is_read(kind: str, media_type: str) -> bool:
    """Whether an answer of this type, fetched as this kind of asset, is read for what it needs itself."""
    return _reader(kind, media_type) is not None


def read(body: Body, kind: str, settings: ParseSettings) -> dict[str, str]:
    """What an asset needs itself, as hrefs with their kinds, relative to its own URL."""
    reader = _reader(kind, body.media_type)
    assets = Assets(settings.max_links)
    if reader is not None:
        reader(body, assets)
    return assets.hrefs


def _reader(kind: str, media_type: str) -> Callable[[Body, Assets], None] | None:
    if media_type == _CSS or (kind == STYLE and media_type in _VAGUE):
        return _read_sheet
    if media_type == _SVG:
        return _read_drawing
    if media_type == _JSON or (kind == MANIFEST and media_type not in _HTML):
        return _read_manifest
    if kind == MODULE and (media_type in _SCRIPTS or media_type in _VAGUE):
        return _read_module
    return None


def _read_sheet(body: Body, assets: Assets) -> None:
    text, _ = css.decoded(body.content, body.http_charset)
    assets.add_css(text)


def _read_drawing(body: Body, assets: Assets) -> None:
    text = _text(body)
    for written in _INSTRUCTION.findall(text[:_LONGEST]):
        assets.add(markup.attributes(written).get("href"), STYLE)
    assets.read_tags(text)


def _read_module(body: Body, assets: Assets) -> None:
    assets.add_module(_text(body))


def _text(body: Body) -> str:
    encoding = charset.mark(body.content)[0] or charset.usable(body.http_charset) or charset.UTF_8
    return charset.decode(body.content, encoding)


def _read_manifest(body: Body, assets: Assets) -> None:
    """A web app manifest: its icons and screenshots, and the icons of its shortcuts."""
    try:
        manifest = msgspec.json.decode(body.content)
    except (msgspec.DecodeError, RecursionError):
        return
    for image in _images(manifest):
        assets.add(image)


def _images(manifest: object) -> Iterator[str]:
    if isinstance(manifest, dict):
        for name in ("icons", "screenshots"):
            for image in _listed(manifest.get(name)):
                if isinstance(image, dict) and isinstance(image.get("src"), str):
                    yield image["src"]
        for shortcut in _listed(manifest.get("shortcuts")):
            if isinstance(shortcut, dict):
                yield from _images({"icons": shortcut.get("icons")})


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
