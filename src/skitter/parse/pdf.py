"""PDF, read with PDFium: the text page by page, what the file says about itself, and its links.

Only a parser process calls this (see `pool`), because a hostile file may crash PDFium or take all memory. What merely is
long is read in part, and `media` says so: pages, characters and time have limits here. An encrypted or damaged file is a
document without text, with the reason.
"""

import ctypes
import re
import time
import unicodedata
from collections.abc import Iterator
from typing import Any

import pypdfium2
from pypdfium2 import raw

from skitter.model import Document
from skitter.parse.findings import folded
from skitter.parse.making import known, made, short
from skitter.parse.patterns import urls_in
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_ENCRYPTED = "the PDF is encrypted and needs a password"
_DAMAGED = "the PDF is damaged or cut short, and cannot be read"
_PASSWORD = 4  # FPDF_ERR_PASSWORD
_LONGEST_URL = 16_384  # bytes
_LINKS_OF_A_PAGE = 2_000
_SHARE = 0.6  # of the deadline, after which no further page is begun
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(Z|[+-]\d\d'?(?:\d\d)?)?")
# PDFium marks a hyphen at the end of a line, where a word goes on, by U+FFFE. Other controls mean nothing in a text.
_DROPPED = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127, 0xFFFE, 0xFFFF))
# Fonts without accented letters, as TeX had them: the accent stands alone before its letter (math´ematique).
_ACCENTS = {
    "´": "\u0301",
    "¨": "\u0308",
    "¸": "\u0327",
    "ˆ": "\u0302",
    "˜": "\u0303",
    "ˇ": "\u030c",
    "`": "\u0300",
}
_ACCENTED = re.compile(r"([´¨¸ˆ˜ˇ]|(?<=[a-z])`)([A-Za-z])")
_HYPHEN = re.compile("\ufffe\\s*")


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read a PDF."""
    try:
        pdf = pypdfium2.PdfDocument(bytes(body.content))
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD:
            return made(body, settings, ignored=_ENCRYPTED, media={"encrypted": True})
        return made(body, settings, ignored=_DAMAGED, media={"damaged": True})
    try:
        return _read(pdf, body, settings)
    finally:
        pdf.close()


def _read(pdf: pypdfium2.PdfDocument, body: Body, settings: ParseSettings) -> Document:
    told = pdf.get_metadata_dict(skip_empty=True)
    reading = _Reading(pdf, settings)
    pieces = list(reading.texts())
    text = folded(" ".join(pieces))
    media = known(
        {
            "format": "pdf",
            "pages": len(pdf),
            "pages_read": reading.done if reading.stopped else None,
            "partly": reading.stopped,
            "version": _version(pdf),
            "encrypted": raw.FPDF_GetSecurityHandlerRevision(pdf) >= 0 or None,
            "created": iso(told.get("CreationDate", "")),
            "modified": iso(told.get("ModDate", "")),
            "creator": short(told.get("Creator", "")),
            "producer": short(told.get("Producer", "")),
            "damaged": reading.damaged or None,
        }
    )
    return made(
        body,
        settings,
        title=short(told.get("Title", "")) or _first_line(pieces),
        author=short(told.get("Author", "")),
        description=short(told.get("Subject", "")),
        keywords=short(told.get("Keywords", "")),
        language=body.language or _language(pdf),
        text=text,
        links=reading.links,
        ignored=_DAMAGED if not len(pdf) else "",
        media=media,
    )


class _Reading:
    """The pages of a PDF, one after the other, until there are enough of them."""

    def __init__(self, pdf: pypdfium2.PdfDocument, settings: ParseSettings) -> None:
        self._pdf, self._settings = pdf, settings
        self._until = time.monotonic() + settings.deadline * _SHARE
        self.links: dict[str, None] = {}
        self.done = 0  # pages
        self.damaged = 0  # pages that cannot be read
        self.stopped = ""  # why not all of them were

    def texts(self) -> Iterator[str]:
        """The text of each page."""
        room = self._settings.max_text
        for number in range(len(self._pdf)):
            self.stopped = self._enough(number, room)
            if self.stopped:
                return
            text = self._page(number)
            self.done += 1
            yield text[:room]
            room -= len(text)
        self.stopped = "text" if room < 0 else ""

    def _enough(self, number: int, room: int) -> str:
        """Which limit is reached; empty if none is."""
        if number >= self._settings.max_pages:
            return "pages"
        if room <= 0:
            return "text"
        return "time" if number and time.monotonic() > self._until else ""

    def _page(self, number: int) -> str:
        page = raw.FPDF_LoadPage(self._pdf, number)
        if not page:
            self.damaged += 1
            return ""
        try:
            text_page = raw.FPDFText_LoadPage(page)
            if not text_page:
                self.damaged += 1
                return ""
            try:
                self._annotations(page)
                self._written(text_page)
                return _text(text_page, self._settings.max_text)
            finally:
                raw.FPDFText_ClosePage(text_page)
        finally:
            raw.FPDF_ClosePage(page)

    def _annotations(self, page: Any) -> None:  # noqa: ANN401  a pointer of PDFium
        """Links that a reader can click."""
        position, link = ctypes.c_int(0), raw.FPDF_LINK()
        for _ in range(_LINKS_OF_A_PAGE):
            if not raw.FPDFLink_Enumerate(page, position, link):
                return
            action = raw.FPDFLink_GetAction(link)
            if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
                continue
            size = raw.FPDFAction_GetURIPath(self._pdf, action, None, 0)
            if 1 < size <= _LONGEST_URL:
                buffer = ctypes.create_string_buffer(size)
                raw.FPDFAction_GetURIPath(self._pdf, action, buffer, size)
                self._add(buffer.value.decode("utf-8", "replace"))

    def _written(self, text_page: Any) -> None:  # noqa: ANN401
        """URLs in the text."""
        found = raw.FPDFLink_LoadWebLinks(text_page)
        if not found:
            return
        try:
            for number in range(min(raw.FPDFLink_CountWebLinks(found), _LINKS_OF_A_PAGE)):
                size = raw.FPDFLink_GetURL(found, number, None, 0)
                if 1 < size <= _LONGEST_URL:
                    buffer = (ctypes.c_ushort * size)()
                    raw.FPDFLink_GetURL(found, number, buffer, size)
                    for url in urls_in(bytes(buffer)[: 2 * size - 2].decode("utf-16-le", "ignore")):
                        self._add(url)
        finally:
            raw.FPDFLink_CloseWebLinks(found)

    def _add(self, href: str) -> None:
        href = href.strip()
        if len(self.links) < self._settings.max_links and href.lower().startswith(("http://", "https://")):
            self.links[href] = None


def _text(text_page: Any, most: int) -> str:  # noqa: ANN401
    count = min(raw.FPDFText_CountChars(text_page), most)
    if count <= 0:
        return ""
    # A character may become several; what does not fit is left out by PDFium.
    buffer = (ctypes.c_ushort * (2 * count + 1))()
    size = raw.FPDFText_GetText(text_page, 0, count, buffer)
    text = bytes(buffer)[: 2 * max(size - 1, 0)].decode("utf-16-le", "ignore")
    return _ACCENTED.sub(_composed, _HYPHEN.sub("", text).translate(_DROPPED))


def _composed(match: re.Match[str]) -> str:
    """The letter with its accent, if there is such a letter."""
    letter = unicodedata.normalize("NFC", match[2] + _ACCENTS[match[1]])
    return letter if len(letter) == 1 else match[0]


def _version(pdf: pypdfium2.PdfDocument) -> str:
    number = pdf.get_version()
    return f"{number // 10}.{number % 10}" if number else ""


def _language(pdf: pypdfium2.PdfDocument) -> str:
    ask = getattr(raw, "FPDFCatalog_GetLanguage", None)
    if ask is None:  # an older PDFium
        return ""
    size = ask(pdf, None, 0)
    if not 2 < size <= 200:
        return ""
    buffer = ctypes.create_string_buffer(size)
    ask(pdf, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    found = buffer.raw[: size - 2].decode("utf-16-le", "ignore").strip()
    return found if re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", found) else ""


def _first_line(pieces: list[str]) -> str:
    """The first line of the text, for the many files without a title."""
    for piece in pieces[:3]:
        for line in piece[:2000].splitlines():
            if len(words := short(line)) > 2:
                return words
    return ""


def iso(date: str) -> str:
    """A date of a PDF (D:20240131120000+01'00') as ISO 8601, as precise as it is; empty if it is none."""
    match = _DATE.match(date.strip())
    if match is None:
        return ""
    year, month, day, hour, minute, second, zone = match.groups()
    if month and not "01" <= month <= "12":
        return year
    found = "-".join(filter(None, (year, month, day if month else None)))
    if not (day and hour and hour < "24"):
        return found
    found += f"T{hour}:{minute or '00'}:{second or '00'}"
    if zone == "Z" or zone is None:
        return found + ("Z" if zone else "")
    digits = zone.replace("'", "")
    return f"{found}{digits[:3]}:{digits[3:5] or '00'}"
