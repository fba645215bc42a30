"""Office documents: Word, Excel and PowerPoint (OOXML, ECMA-376), and OpenDocument (ISO 26300). All are XML in a zip file.

Text, title, author, dates and links, read as a stream, so that memory does not grow with the document. What the settings or
`container` do not allow to be read is left out, and `media` says so (`partly`). Formulas, macros and embedded objects are
not looked at.
"""

import re
from collections.abc import Callable

from skitter.model import Document
from skitter.parse.container import Container, Text, Unreadable
from skitter.parse.findings import folded
from skitter.parse.making import known, made, short
from skitter.parse.patterns import urls_in_all
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_NUMBER = re.compile(r"\d+")
_FIELD_LINK = re.compile(r'HYPERLINK\s+"(https?://[^"\s]+)"', re.IGNORECASE)
_WEB = ("http://", "https://")
# What documents say about themselves, by the names of elements in docProps/core.xml and meta.xml.
_TOLD = {
    "title": "title",
    "creator": "author",
    "initial-creator": "author",
    "subject": "description",
    "description": "description",
    "keywords": "keywords",
    "keyword": "keywords",
    "language": "language",
    "created": "created",
    "creation-date": "created",
    "modified": "modified",
    "date": "modified",
}
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?)?)?")


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read an Office document."""
    try:
        reading = _Reading(Container(body.content, settings.deadline), settings)
        reading.all()
    except Unreadable as problem:
        encrypted = {"encrypted": True} if "encrypted" in str(problem) else {"damaged": True}
        return made(body, settings, ignored=str(problem), media=encrypted)
    told, text = reading.told, reading.text()
    partly = reading.file.problem
    details = {"format": reading.kind, "partly": partly, **reading.details}
    details |= {name: told.get(name, "") for name in ("created", "modified")}
    return made(
        body,
        settings,
        **{name: told.get(name, "") for name in ("title", "author", "description", "keywords")},
        language=told.get("language", "") or body.language,
        text=folded(text),
        links=(*reading.links, *urls_in_all([text], settings.max_links)),
        ignored=partly if partly and not text.strip() else "",
        media=known(details),
    )


class _Reading:
    """One document being read."""

    def __init__(self, file: Container, settings: ParseSettings) -> None:
        self.file, self._settings = file, settings
        self._text = Text(settings.max_text)
        self._texts: list[str] = []
        self.told: dict[str, str] = {}
        self.links: dict[str, None] = {}
        self.details: dict[str, object] = {}
        self.kind = ""

    def text(self) -> str:
        return "\n".join([*self._texts, self._text.take()])

    def all(self) -> None:
        """Find out what it is, and read it."""
        names = set(self.file.names())
        kinds: tuple[tuple[str, str, Callable[[], None]], ...] = (
            ("word/document.xml", "docx", self._word),
            ("xl/workbook.xml", "xlsx", self._sheets),
            ("ppt/presentation.xml", "pptx", self._slides),
            ("content.xml", "", self._open_document),
        )
        for name, kind, read in kinds:
            if name in names:
                self.kind = kind
                self._properties("meta.xml" if name == "content.xml" else "docProps/core.xml")
                read()
                return
        raise Unreadable("the zip file holds no document that can be read")

    def link(self, target: str) -> None:
        target = target.strip()
        if target.lower().startswith(_WEB) and len(self.links) < self._settings.max_links:
            self.links[target] = None

    # -- what all have ---------------------------------------------------------------------------------------

    def _properties(self, name: str) -> None:
        text, told = Text(self._settings.max_text), self.told

        def start(element: str, _attributes: dict[str, str]) -> None:
            text.take()
            text.on = element in _TOLD

        def end(element: str) -> None:
            field, value = _TOLD.get(element), short(text.take())
            if field in ("created", "modified") and not _DATE.fullmatch(value):
                value = ""
            if field and value:
                told.setdefault(field, value)
            text.on = False

        self.file.walk(name, start, end, text)

    def _relations(self, part: str) -> None:
        """The links of a part, which are kept beside it."""
        folder, _, name = part.rpartition("/")

        def start(element: str, attributes: dict[str, str]) -> None:
            external = element == "Relationship" and attributes.get("TargetMode") == "External"
            if external and attributes.get("Type", "").endswith("/hyperlink"):
                self.link(attributes.get("Target", ""))

        self.file.walk(f"{folder}/_rels/{name}.rels", start, lambda _name: None, Text(1))

    def _numbered(self, beginning: str) -> list[str]:
        """The parts that are numbered, in order: slide2 before slide10."""
        found = [name for name in self.file.names() if re.fullmatch(rf"{beginning}\d+\.xml", name)]
        return sorted(found, key=lambda name: int(_NUMBER.findall(name)[-1][:9]))

    # -- Word, PowerPoint ------------------------------------------------------------------------------------

    def _word(self) -> None:
        for part in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
            self._paragraphs(part)
            self._relations(part)

    def _slides(self) -> None:
        slides = self._numbered("ppt/slides/slide")
        self.details["slides"] = len(slides)
        for part in (*slides[: self._settings.max_pages], *self._numbered("ppt/notesSlides/notesSlide")):
            self._paragraphs(part)
            self._relations(part)

    def _paragraphs(self, part: str) -> None:
        """Text in runs (<t>) in paragraphs (<p>). A fallback repeats what stands beside it, for old programs."""
        text = self._text

        def start(element: str, attributes: dict[str, str]) -> None:
            if element == "fldSimple" and (field := _FIELD_LINK.search(attributes.get("w:instr", ""))):
                self.link(field[1])
            if element == "t":
                text.on = True
            elif element in ("tab", "br", "cr"):
                text.put(" ")
            elif element == "Fallback":
                text.hide(1)

        def end(element: str) -> None:
            if element == "t":
                text.on = False
            elif element in ("p", "tc"):
                text.put("\n")
            elif element == "Fallback":
                text.hide(-1)

        self.file.walk(part, start, end, text)
        self._texts.append(text.take())

    # -- Excel -----------------------------------------------------------------------------------------------

    def _sheets(self) -> None:
        shared = self._shared_strings()
        names: list[str] = []

        def start(element: str, attributes: dict[str, str]) -> None:
            if element == "sheet" and len(names) < 1_000:
                names.append(short(attributes.get("name", "")))

        self.file.walk("xl/workbook.xml", start, lambda _name: None, Text(1))
        self.details["sheets"] = names
        for part in self._numbered("xl/worksheets/sheet")[: self._settings.max_pages]:
            self._cells(part, shared)
            self._relations(part)

    def _shared_strings(self) -> list[str]:
        text, found = Text(self._settings.max_text), list[str]()

        def start(element: str, _attributes: dict[str, str]) -> None:
            if element == "t":
                text.on = True
            elif element == "rPh":  # how it is pronounced
                text.hide(1)

        def end(element: str) -> None:
            if element == "t":
                text.on = False
            elif element == "rPh":
                text.hide(-1)
            elif element == "si":
                found.append(text.take())

        self.file.walk("xl/sharedStrings.xml", start, end, text)
        return found

    def _cells(self, part: str, shared: list[str]) -> None:
        text, value, kind = self._text, Text(self._settings.max_text), ""

        def start(element: str, attributes: dict[str, str]) -> None:
            nonlocal kind
            if element == "c":
                kind = attributes.get("t", "")
                value.take()
            value.on = element in ("v", "t")

        def end(element: str) -> None:
            value.on = False
            if element == "c":
                said = value.take()
                if kind == "s":
                    said = shared[int(said)] if said.isdecimal() and int(said[:9]) < len(shared) else ""
                if said:
                    text.put(said)
                    text.put(" ")
            elif element == "row":
                text.put("\n")

        self.file.walk(part, start, end, value)
        self._texts.append(text.take())

    # -- OpenDocument ----------------------------------------------------------------------------------------

    def _open_document(self) -> None:
        kind = self.file.whole("mimetype", 200).decode("ascii", "replace").strip().rpartition(".")[2]
        self.kind = {"text": "odt", "spreadsheet": "ods", "presentation": "odp"}.get(kind, kind[:40])
        text, inside, sheets = self._text, 0, list[str]()

        def start(element: str, attributes: dict[str, str]) -> None:
            nonlocal inside
            if element in ("p", "h"):
                inside += 1
                text.on = True
            elif element in ("tab", "s", "line-break"):
                text.put(" ")
            elif element == "a":
                self.link(attributes.get("xlink:href", ""))
            elif element in ("tracked-changes", "annotation"):
                text.hide(1)
            elif element == "table" and len(sheets) < 1_000:
                sheets.append(short(attributes.get("table:name", "")))

        def end(element: str) -> None:
            nonlocal inside
            if element in ("p", "h"):
                inside -= 1
                text.on = inside > 0
                text.put("\n")
            elif element in ("tracked-changes", "annotation"):
                text.hide(-1)

        self.file.walk("content.xml", start, end, text)
        if self.kind == "ods":
            self.details["sheets"] = sheets
