"""Documents that are made to do harm: PDF files, and others. Each is small, and made by code."""

import random
import zlib
from collections.abc import Callable, Iterator
from functools import partial

from tests.documents import DOCX, EPUB, ODT, XLSX, docx, drawn, epub, pdf, pdf_of, stream, zipped

CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
FONT = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"


def page(content: bytes, extra: bytes = b"") -> bytes:
    """A PDF with one page."""
    return pdf_of(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources %b %b >>"
            % (FONT, extra),
            content,
        ]
    )


def flate(data: bytes, times: int = 1) -> bytes:
    """A compressed stream, perhaps several times over."""
    for _ in range(times):
        data = zlib.compress(data, 9)
    return stream(data, b"/Filter [%b]" % (b"/FlateDecode " * times))


def pages_tree(kids: bytes, more: list[bytes] | None = None, count: int = 1) -> bytes:
    return pdf_of([CATALOG, b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, count), *(more or [])])


def encrypted() -> bytes:
    """A file whose text needs a password that nobody knows."""
    words = b"/Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <%b> /U <%b>" % (b"ab" * 32, b"cd" * 32)
    whole = pdf([["secret"]])
    return whole.replace(b"/Root 1 0 R /Info", b"/Encrypt << %b >> /ID [<00><00>] /Root 1 0 R /Info" % words)


def self_calling(levels: int, calls: int) -> bytes:
    """Forms that draw further forms, many times each; the last draws the first."""
    first, objects = 5, []
    for level in range(levels):
        following = first + (level + 1) % levels
        objects.append(
            stream(
                b"/X Do " * calls,
                b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X %d 0 R >> >>"
                % following,
            )
        )
    resources = b"<< /XObject << /X 5 0 R >> >>"
    return pdf_of(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources %b >>" % resources,
            stream(b"/X Do " * calls),
            *objects,
        ]
    )


def many_pages(number: int) -> bytes:
    """Pages that share one content stream."""
    kids = b" ".join(b"%d 0 R" % (number_ + 4) for number_ in range(number))
    one = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R /Resources %b >>" % FONT
    return pdf_of(
        [
            CATALOG,
            b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, number),
            stream(drawn(["shared"] * 20)),
            *[one] * number,
        ]
    )


def deep_tree(depth: int) -> bytes:
    """A tree of pages in which each node has one child."""
    nodes = [b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (number + 3) for number in range(depth)]
    last = b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 9 9] >>" % (depth + 1)
    return pdf_of([CATALOG, *nodes, last])


def noise(seed: int, share: float) -> bytes:
    """A good file in which some bytes are others."""
    dice = random.Random(seed)
    body = bytearray(pdf([["Some words on a page"] * 30] * 5, links=["http://a.test/"], info={"Title": "T"}))
    for _ in range(int(len(body) * share)):
        body[dice.randrange(len(body))] = dice.randrange(256)
    return b"%PDF-1.7\n" + bytes(body[9:])


def cut(whole: bytes, share: float) -> bytes:
    """The beginning of a file."""
    return whole[: int(len(whole) * share)]


def hostile_pdfs() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """At least 50, by name."""
    good = pdf([["Some words on a page"] * 30] * 5)
    for part in range(1, 10):
        yield f"cut after {part}/10", partial(cut, good, part / 10)
    for seed in range(12):
        yield f"noise {seed}", partial(noise, seed, (0.001, 0.01, 0.1)[seed % 3])
    yield "empty", lambda: b"%PDF-1.7\n"
    yield "garbage", lambda: b"%PDF-1.7\n" + random.Random(1).randbytes(100_000)
    yield "zeros", lambda: b"%PDF-1.7\n" + bytes(1_000_000)
    yield "only an end", lambda: b"%PDF-1.7\nstartxref\n0\n%%EOF"
    yield "an end far away", lambda: b"%PDF-1.7\nstartxref\n99999999999999999999\n%%EOF"
    yield (
        "xref loop",
        lambda: b"%PDF-1.7\nxref\n0 0\ntrailer << /Prev 9 /Size 1 /Root 1 0 R >>\nstartxref\n9\n%%EOF",
    )
    yield "encrypted", encrypted
    yield "unknown encryption", lambda: encrypted().replace(b"/Standard", b"/Whatever")
    yield "cyclic pages", lambda: pages_tree(b"2 0 R 2 0 R")
    yield "pages in a circle", lambda: pages_tree(b"3 0 R", [b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"])
    yield "a parent that is its child", lambda: pages_tree(b"3 0 R", [b"<< /Type /Page /Parent 3 0 R >>"])
    yield "a billion pages", lambda: pages_tree(b"3 0 R", [b"<< /Type /Page /Parent 2 0 R >>"], 10**9)
    yield "minus one page", lambda: pages_tree(b"3 0 R", [b"<< /Type /Page /Parent 2 0 R >>"], -1)
    yield "100,000 pages with one stream", lambda: many_pages(100_000)
    yield "a deep tree of pages", lambda: deep_tree(5_000)
    yield "arrays nested 100,000 deep", lambda: page(stream(b"[" * 100_000 + b"]" * 100_000))
    yield "objects nested 100,000 deep", lambda: page(b"[" * 100_000 + b"]" * 100_000)
    yield "dictionaries nested 50,000 deep", lambda: page(b"<< /A " * 50_000 + b">>" * 50_000)
    yield "a page nested deep", lambda: page(stream(b""), b"/Annots " + b"[" * 50_000 + b"]" * 50_000)
    yield "saved states", lambda: page(flate(b"q " * 5_000_000))
    yield "forms that call themselves", lambda: self_calling(1, 2)
    yield "forms that call each other", lambda: self_calling(3, 50)
    yield "a tree of forms", lambda: self_calling(25, 10)
    yield "a flate bomb of 256 MB", lambda: page(flate(bytes(256 * 2**20)))
    yield "a flate bomb of blanks", lambda: page(flate(b" " * (200 * 2**20)))
    yield "a flate bomb in two steps", lambda: page(flate(bytes(400 * 2**20), 2))
    yield (
        "a flate bomb of operators",
        lambda: page(flate(b"BT /F1 9 Tf " + b"(x) Tj 0 1 Td " * 1_500_000 + b"ET")),
    )
    yield (
        "a line of ten million characters",
        lambda: page(flate(b"BT /F1 9 Tf (" + b"word " * 2_000_000 + b") Tj ET")),
    )
    yield "many filters", lambda: page(stream(b"x" * 1_000, b"/Filter [%b]" % (b"/ASCIIHexDecode " * 10_000)))
    yield "a length that lies", lambda: page(b"<< /Length 999999999 >>\nstream\nBT ET\nendstream")
    yield "a length that is itself", lambda: page(b"<< /Length 4 0 R >>\nstream\nBT ET\nendstream")
    yield "50,000 links", lambda: pdf([["x"]], links=[f"http://a.test/{n}" for n in range(50_000)])
    yield "a link without end", lambda: pdf([["x"]], links=["http://a.test/" + "x" * 1_000_000])
    yield "an enormous page", lambda: page(stream(drawn(["x"])), b"/MediaBox [0 0 1e30 1e30] /UserUnit 1e30")
    yield "a title without end", lambda: pdf([["x"]], info={"Title": "t" * 3_000_000})
    yield "a date without end", lambda: pdf([["x"]], info={"CreationDate": "D:" + "9" * 1_000_000})
    yield "opens a program", lambda: page(stream(drawn(["x"])), b"/AA << /O << /S /Launch /F (/bin/sh) >> >>")


def hostile_others() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Office documents and books: name, media type, content."""
    laughs = "<!DOCTYPE d [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;'>]>"

    def word(xml: bytes | str) -> bytes:
        return zipped({"word/document.xml": xml})

    def lying() -> bytes:
        """The directory says that a member is small."""
        whole = bytearray(word(b"<d>" + b" " * (50 * 2**20) + b"</d>"))
        at = whole.rindex(b"PK\x01\x02")
        whole[at + 24 : at + 28] = (100).to_bytes(4, "little")
        return bytes(whole)

    def overlapping() -> bytes:
        """Many members that are one and the same in the file."""
        whole = zipped({"xl/workbook.xml": b"<w>" + b" " * (9 * 2**20)})
        at = whole.rindex(b"PK\x01\x02")
        end = whole.rindex(b"PK\x05\x06")
        entry = whole[at:end]
        entries = [entry.replace(b"xl/workbook.xml", b"xl/w%011d" % number) for number in range(1_000)]
        both = whole[:at] + entry + b"".join(entries)
        tail = bytearray(whole[end:])
        tail[8:12] = (1_001).to_bytes(2, "little") * 2
        tail[12:16] = (len(both) - at).to_bytes(4, "little")
        return both + bytes(tail)

    yield "a zip bomb", DOCX, lambda: word(b"<d>" + b" " * (120 * 2**20))
    yield "a zip bomb of text", DOCX, lambda: word(b"<w:t xmlns:w='w'>" + b"x" * (120 * 2**20))
    yield "a member that lies about its size", DOCX, lying
    yield "members that overlap", XLSX, overlapping
    yield "laughs", DOCX, lambda: word(f"{laughs}<w:d xmlns:w='w'><w:t>&b;</w:t></w:d>")
    yield "laughs in an open document", ODT, lambda: zipped({"content.xml": f"{laughs}<d>&b;</d>"})
    yield (
        "an entity that is a file",
        DOCX,
        lambda: word(
            "<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><w:d xmlns:w='w'><w:t>&a;</w:t></w:d>"
        ),
    )
    yield "nested 100,000 deep", DOCX, lambda: word("<a>" * 100_000)
    yield (
        "a million attributes",
        DOCX,
        lambda: word("<a " + " ".join(f"a{n}='1'" for n in range(1_000_000)) + "/>"),
    )
    yield (
        "a million cells",
        XLSX,
        lambda: zipped(
            {
                "xl/workbook.xml": "<w/>",
                "xl/worksheets/sheet1.xml": "<d><row>" + "<c><v>1</v></c>" * 1_000_000,
            }
        ),
    )
    yield "cut", DOCX, lambda: docx(*["x"] * 1_000)[:-300]
    yield "a book cut", EPUB, lambda: epub("x" * 1_000)[:-300]
    yield "a book with a bomb", EPUB, lambda: epub("<p>" + " x" * (30 * 2**20))
    yield "a book nested deep", EPUB, lambda: epub("<div>" * 200_000)
    yield (
        "a book that names itself",
        EPUB,
        lambda: zipped({"META-INF/container.xml": "<c><rootfile full-path='META-INF/container.xml'/></c>"}),
    )
