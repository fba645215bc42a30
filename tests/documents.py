"""Documents of all kinds, made by code: small, whole and harmless ones. Hostile ones are in tests/hostile_documents.py."""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# ------------------------------------------------------------------------------------------------ PDF


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"/Root 1 0 R") -> bytes:
    """A PDF with these objects, numbered from 1."""
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d %b >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)


def stream(data: bytes, words: bytes = b"") -> bytes:
    return b"<< /Length %d %b >>\nstream\n%b\nendstream" % (len(data), words, data)


def drawn(lines: Iterable[str]) -> bytes:
    """A content stream that shows lines of text."""
    shown = b"".join(b"(%b) Tj 0 -20 Td\n" % line.encode("latin-1") for line in lines)
    return b"BT /F1 12 Tf 72 720 Td\n%bET" % shown


def pdf(
    pages: Sequence[Sequence[str]] = (("Hello",),),
    links: Iterable[str] = (),
    info: Mapping[str, str] | None = None,
) -> bytes:
    """A PDF with these pages, each of them lines of text; its first page has links that a reader can click."""
    first = 5
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(pages)))
    told = b" ".join(b"/%b (%b)" % (name.encode(), value.encode()) for name, value in (info or {}).items())
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) >>",
        b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< %b >>" % told,
    ]
    notes = b" ".join(
        b"<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI (%b) >> >>" % url.encode()
        for url in links
    )
    for number, lines in enumerate(pages):
        annotations = b"/Annots [%b]" % notes if not number else b""
        content = first + 2 * number + 1
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
            b" /Contents %d 0 R %b >>" % (content, annotations)
        )
        objects.append(stream(drawn(lines)))
    return pdf_of(objects, b"/Root 1 0 R /Info 4 0 R")


# ------------------------------------------------------------------------------------------------ zip files


def zipped(members: Mapping[str, bytes | str], stored: Iterable[str] = ()) -> bytes:
    """A zip file; some members are not compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, method)
    return file.getvalue()


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
HYPERLINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
EPUB = "application/epub+zip"
CORE = """<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>The plan</dc:title>
 <dc:creator>Ada Lovelace</dc:creator><dc:language>de-DE</dc:language><dcterms:created>2024-01-31T12:00:00Z</dcterms:created>
 <dcterms:modified>not a date</dcterms:modified></cp:coreProperties>"""


def relations(*urls: str) -> str:
    links = "".join(
        f'<Relationship Id="r{number}" Type="{HYPERLINK}" Target="{url}" TargetMode="External"/>'
        for number, url in enumerate(urls)
    )
    inside = '<Relationship Id="x" Type="http://x/styles" Target="styles.xml"/>'
    return f"<Relationships>{inside}{links}</Relationships>"


def docx(*paragraphs: str, links: Iterable[str] = ()) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": relations(*links),
        }
    )


def xlsx(rows: Sequence[Sequence[str | int]]) -> bytes:
    """Its texts are shared strings, but for those that begin with an equals sign: these are inline."""
    shared: list[str] = []
    lines = ""
    for row in rows:
        lines += "<row>"
        for cell in row:
            if isinstance(cell, int):
                lines += f"<c><v>{cell}</v></c>"
            elif cell.startswith("="):
                lines += f'<c t="inlineStr"><is><t>{cell[1:]}</t></is></c>'
            else:
                lines += f'<c t="s"><v>{len(shared)}</v></c>'
                shared.append(cell)
        lines += "</row>"
    strings = "".join(f"<si><r><t>{text}</t></r><rPh><t>spoken</t></rPh></si>" for text in shared)
    return zipped(
        {
            "docProps/core.xml": CORE,
            "xl/workbook.xml": '<workbook><sheets><sheet name="Costs"/></sheets></workbook>',
            "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{lines}</sheetData></worksheet>",
        }
    )


def pptx(*slides: str, link: str = "") -> bytes:
    drawn = {
        f"ppt/slides/slide{number}.xml": f"<p:sld xmlns:p='p' xmlns:a='a'><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>"
        for number, text in enumerate(slides, start=1)
    }
    return zipped(
        {"docProps/core.xml": CORE, "ppt/presentation.xml": "<p/>"}
        | dict(sorted(drawn.items()))
        | {"ppt/slides/_rels/slide1.xml.rels": relations(link)}
    )


def odf(content: str, kind: str = ODT) -> bytes:
    names = "xmlns:text='t' xmlns:office='o' xmlns:xlink='x' xmlns:table='b' xmlns:dc='d' xmlns:meta='m'"
    meta = "<dc:title>The plan</dc:title><meta:initial-creator>Ada</meta:initial-creator><dc:date>2024-01-31</dc:date>"
    return zipped(
        {
            "mimetype": kind,
            "content.xml": f"<office:document-content {names}><office:body>{content}</office:body></office:document-content>",
            "meta.xml": f"<office:document-meta {names}>{meta}</office:document-meta>",
        },
        stored=["mimetype"],
    )


def epub(*chapters: str) -> bytes:
    """A book; its chapters stand in the manifest in another order than they are read."""
    numbers = range(len(chapters))
    items = "".join(
        f'<item id="c{number}" href="text/c%20{number}.xhtml" media-type="application/xhtml+xml"/>'
        for number in reversed(numbers)
    )
    spine = "".join(f'<itemref idref="c{number}"/>' for number in numbers)
    package = (
        '<package xmlns:dc="d"><metadata><dc:title>A book</dc:title><dc:creator>Mary Shelley</dc:creator>'
        "<dc:language>en</dc:language><dc:date>1818</dc:date></metadata>"
        f'<manifest>{items}<item id="css" href="s.css" media-type="text/css"/></manifest><spine>{spine}</spine></package>'
    )
    members = {
        "mimetype": EPUB,
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        "OEBPS/book.opf": package,
    }
    for number, text in enumerate(chapters):
        members[f"OEBPS/text/c {number}.xhtml"] = (
            f"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>{number}</title></head><body>{text}</body></html>"
        )
    return zipped(members, stored=["mimetype"])


# ------------------------------------------------------------------------------------------------ images


def picture(kind: str = "PNG", size: tuple[int, int] = (60, 40), **options: Any) -> bytes:
    from PIL import Image  # noqa: PLC0415  an extra

    file = io.BytesIO()
    Image.new("RGB", size, "white").save(file, kind, **options)
    return file.getvalue()


def photo() -> bytes:
    """A JPEG with EXIF: camera, author, and where it was taken."""
    from PIL import Image  # noqa: PLC0415  an extra

    exif = Image.Exif()
    exif[0x010F], exif[0x013B], exif[0x010E] = "Camera Works", "Ada", "A bridge"
    exif.get_ifd(0x8769)[0x9003] = "2024:01:31 12:00:00"
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 30.0, 0.0), 3: "W", 4: (2.0, 15.0, 0.0)})
    return picture("JPEG", exif=exif)


def written(text: str) -> bytes:
    """A picture with a text in it."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  an extra

    image = Image.new("RGB", (900, 120), "white")
    ImageDraw.Draw(image).text((20, 30), text, fill="black", font=ImageFont.load_default(48))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


# ------------------------------------------------------------------------------------------------ a server


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, bodies: Mapping[str, Any], asked: list[str], *arguments: Any) -> None:
        self._bodies, self._asked = bodies, asked
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._asked.append(self.path)
        found = self._bodies.get(self.path)
        kind, body, *fields = found or ("text/plain", b"no")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Answers with bodies by path: (Content-Type, body, further fields …)."""

    daemon_threads = True

    def __init__(self) -> None:
        self.bodies: dict[str, Any] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), partial(_Answering, self.bodies, self.asked))
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
