"""Sitemaps and feeds, read as a stream: bytes in, entries out, with memory that does not grow with the file.

A sitemap is XML (sitemaps.org) or a text file with one URL per line; a feed is RSS 0.9 to 2.0, RSS 1.0 (RDF) or Atom.
What it is, the first bytes and the root element say, not its name or media type. Names are compared without their
namespace, since many files have a wrong one or none. Damaged files give the entries before the damage.

Nothing in a file is expanded or fetched: a declaration of an entity ends the reading, an external DTD or XInclude is
ignored. What could grow without end (text, nesting, one tag, the number of entries) has a limit here; the size of the
whole is limited by whoever feeds it.
"""

from xml.parsers import expat

from msgspec import Struct

from skitter.runtime import dates

MAX_ENTRIES = 50_000  # sitemaps.org: of one file
_LONGEST = 16_384  # characters of a URL; as in `links`
_DEEPEST = 100  # nested elements; a feed with XHTML in it has 20
_MOST_BESIDE = 1_000  # images, videos, or languages of one entry (Google: images of a page)
_LONGEST_TAG = 2**20  # bytes that expat holds until a tag is complete
_ROOTS = {"urlset": "sitemap", "sitemapindex": "index", "rss": "feed", "feed": "feed", "RDF": "feed"}
_ENTRIES = frozenset(("url", "sitemap", "item", "entry"))
_FREQUENCIES = frozenset(("always", "hourly", "daily", "weekly", "monthly", "yearly", "never"))
_BLANK = b" \t\r\n\v\f"
_MARK = b"\xef\xbb\xbf"

# Elements whose text is read, by (parent, name).
_TEXTS = {
    ("url", "loc"): "loc",
    ("url", "lastmod"): "date",
    ("url", "changefreq"): "changefreq",
    ("url", "priority"): "priority",
    ("sitemap", "loc"): "loc",
    ("sitemap", "lastmod"): "date",
    ("news", "publication_date"): "published",
    ("image", "loc"): "image",
    ("video", "content_loc"): "video",
    ("video", "player_loc"): "video",
    ("item", "link"): "loc",
    ("item", "guid"): "guid",
    ("item", "pubDate"): "date",
    ("item", "date"): "date",  # dc:date of RSS 1.0
    ("entry", "updated"): "date",
    ("entry", "modified"): "date",  # Atom 0.3
    ("entry", "published"): "published",
}


class Entry(Struct, frozen=True, gc=False):
    """One line of a sitemap or feed."""

    url: str
    lastmod: float | None = None
    changefreq: str = ""
    priority: float | None = None
    is_list: bool = False  # another sitemap, named by an index
    alternates: tuple[str, ...] = ()  # the same page in other languages (hreflang)
    images: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    is_news: bool = False


class SitemapReader:
    """Reads one file. `feed` it in pieces, then `close` it; both return the entries completed by then."""

    def __init__(self) -> None:
        self.kind = ""  # sitemap, index, feed or text, once that is known
        self.problem = ""  # why reading ended before the end of the file
        self.count = 0  # entries so far
        self.done = False  # nothing more is read
        self._begun = b""  # the first bytes, until it is known what they are
        self._xml: _Xml | None = None
        self._line = b""  # of a text: the last one, if it is not complete
        self._skipping = False  # inside an overlong line

    def feed(self, piece: bytes) -> list[Entry]:
        """Read a piece. One of 64 KiB takes 2 ms."""
        if self.done:
            return []
        if not self.kind and self._xml is None:
            self._begun = (self._begun + piece).removeprefix(_MARK).lstrip(_BLANK)
            if len(self._begun) < len(_MARK):
                return []
            piece, self._begun = self._begun, b""
            if piece.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):
                self._xml = _Xml()
            else:
                self.kind = "text"
        return self._counted(self._lines(piece) if self._xml is None else self._fed(self._xml, piece))

    def close(self) -> list[Entry]:
        """The file ends here."""
        if self.done:
            return []
        if self._xml is not None:
            entries = self._fed(self._xml, b"", last=True)
        else:
            entries = self._lines((self._begun or b"") + b"\n")
        entries = self._counted(entries)
        self.done = True
        return entries

    def stop(self, problem: str) -> None:
        """Nothing more is read."""
        self.problem = self.problem or problem
        self.done = True

    def _counted(self, entries: list[Entry]) -> list[Entry]:
        room = MAX_ENTRIES - self.count
        if len(entries) > room:
            entries = entries[:room]
            self.stop(f"only its first {MAX_ENTRIES:,} entries are read")
        self.count += len(entries)
        return entries

    def _fed(self, xml: "_Xml", piece: bytes, *, last: bool = False) -> list[Entry]:
        problem = xml.feed(piece, last=last)
        self.kind = xml.kind
        if problem:
            self.stop(problem)
        return xml.taken()

    def _lines(self, piece: bytes) -> list[Entry]:
        lines = (self._line + piece).replace(b"\r", b"\n").split(b"\n")
        self._line = lines.pop()
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        if len(self._line) > _LONGEST:
            self._line, self._skipping = b"", True
        entries = []
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            if text[:4].lower() == "http" and len(text) <= _LONGEST:
                entries.append(Entry(text))
        return entries


class _Xml:
    """The XML formats, with expat."""

    def __init__(self) -> None:
        self.kind = ""
        self._entries: list[Entry] = []
        self._stack: list[str] = []
        self._texts: dict[str, str] = {}  # of the current entry
        self._links: dict[str, list[str]] = {}
        self._reading = ""  # which text
        self._pieces: list[str] = []
        self._length = 0
        self._fed = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        # Names of entities that are declared nowhere (&nbsp; in a feed) are skipped instead of ending the file.
        parser.UseForeignDTD(True)  # noqa: FBT003
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity

    def feed(self, piece: bytes, *, last: bool) -> str:
        """Read a piece; returns what is wrong, if anything is."""
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            if not self.kind:
                return f"it is no sitemap or feed: {error}"
            return f"the XML is damaged: {error}"
        except _Stop as stop:
            return str(stop)
        except (ValueError, LookupError) as error:  # an encoding that Python does not know
            return f"the XML cannot be read: {error}"
        self._fed += len(piece)
        if self._fed - max(self._parser.CurrentByteIndex, 0) > _LONGEST_TAG:
            return "a tag is longer than any can be"
        return ""

    def taken(self) -> list[Entry]:
        """The entries since the last call."""
        entries, self._entries = self._entries, []
        return entries

    def _entity(self, *_declaration: object) -> None:
        raise _Stop("it declares entities, which no sitemap needs")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        stack = self._stack
        name = name.rpartition(":")[2]
        if not stack:
            self.kind = _ROOTS.get(name, "")
            if not self.kind:
                raise _Stop(f"it is no sitemap or feed: its root element is {name[:50]!r}")
        stack.append(name)
        if name in _ENTRIES:
            self._texts, self._links = {}, {}
            self._listen(name if name == "sitemap" else "")
            if name == "item" and (about := attributes.get("rdf:about", "")[: _LONGEST + 1]):
                self._texts["about"] = about
        elif len(stack) > 1 and (text := _TEXTS.get((stack[-2], name))):
            self._listen(text)
        elif name == "link" and len(stack) > 1 and stack[-2] in ("entry", "url", "item"):
            self._link(stack[-2], attributes)
        elif name == "news":
            self._texts["news"] = "yes"
        elif len(stack) > _DEEPEST:
            raise _Stop("its elements are nested deeper than any sitemap needs")
        if name == "link" and stack[-2:] == ["entry", "link"]:
            self._listen("")

    def _link(self, parent: str, attributes: dict[str, str]) -> None:
        """An Atom link, or the same page in another language."""
        href = attributes.get("href", "")
        rel = attributes.get("rel", "alternate")
        if rel != "alternate":
            return
        if parent == "entry":
            self._beside("loc", href)
        elif "hreflang" in attributes:
            self._beside("alternate", href)

    def _beside(self, kind: str, href: str) -> None:
        links = self._links.setdefault(kind, [])
        if href and len(href) <= _LONGEST and len(links) < _MOST_BESIDE:
            links.append(href)

    def _listen(self, text: str) -> None:
        self._reading, self._length = text, 0
        self._pieces.clear()

    def _text(self, text: str) -> None:
        if self._reading and self._length <= _LONGEST:
            self._pieces.append(text)
            self._length += len(text)

    def _end(self, _name: str) -> None:
        name = self._stack.pop()
        if self._reading:
            text = "".join(self._pieces).strip()
            if text and self._length <= _LONGEST:
                if self._reading in ("image", "video"):
                    self._beside(self._reading, text)
                else:
                    self._texts.setdefault(self._reading, text)
            self._listen("")
        if name in _ENTRIES:
            self._finish(name)

    def _finish(self, name: str) -> None:
        texts, links = self._texts, self._links
        found = links.get("loc") or [
            texts.get("loc") or texts.get("sitemap") or _web(texts.get("guid")) or texts.get("about", "")
        ]
        date = texts.get("date") or texts.get("published")
        entry = Entry(
            url=found[0],
            lastmod=None if date is None else dates.loose(date),
            changefreq=_frequency(texts.get("changefreq")),
            priority=_priority(texts.get("priority")),
            is_list=name == "sitemap",
            alternates=(*found[1:], *links.get("alternate", ())),
            images=tuple(links.get("image", ())),
            videos=tuple(links.get("video", ())),
            is_news="news" in texts,
        )
        if entry.url and len(entry.url) <= _LONGEST:
            self._entries.append(entry)
        self._texts, self._links = {}, {}


class _Stop(Exception):  # noqa: N818  raised through expat, to end the reading
    """Why nothing more is read."""


def _web(guid: str | None) -> str:
    """A guid that is a URL; others are names."""
    return guid if guid and guid[:4].lower() == "http" else ""


def _frequency(text: str | None) -> str:
    word = "" if text is None else text.lower()
    return word if word in _FREQUENCIES else ""


def _priority(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value <= 1 else None
