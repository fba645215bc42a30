"""Duplicate pages, and pages in all charsets and codings."""

from skitter.testing.web.faults import literal
from skitter.testing.web.graph import Anchor, Answer, Resource
from skitter.testing.web.site import Site, link
from skitter.testing.web.words import dice, phrase

# The SimHash of a text of N word triples has bits whose sums spread like sqrt(N). Changing two words at the
# end replaces two triples, so about 64/pi * atan(2/sqrt(N)) of 64 bits flip: 1.2 for N = 1200, and at most 3
# in 97 of 100 cases.
NEAR_WORDS = 1200
GROUPS = 3


def duplicates(site: Site) -> None:
    """Groups of pages with the same bytes, and groups whose text differs in its last two words."""
    anchors = []
    for group in range(GROUPS):
        # Links resolve the same from every page of a group, so the bytes can be the same.
        onward = (link(site.url("/twins/"), "/twins/"),)
        for copy in range(3):
            page = Resource(f"/twins/same-{group}-{copy}.html", text_key=f"same-{group}", anchors=onward)
            anchors.append(link(site.add(page)))
        for copy in range(3):
            ending = phrase(dice(site.web.seed, site.name, group, copy), 2)
            target, key = f"/twins/near-{group}-{copy}.html", f"near-{group}"
            page = Resource(target, text_key=key, ending=ending, words=NEAR_WORDS, anchors=onward)
            anchors.append(link(site.add(page)))
    site.hub("twins", anchors)


WEST = "Äpfel “kosten” 3 € – très bon marché."
EAST = "日本語の文章をここに書きます。"
ALL = "Grüße, 世界, мир, κόσμος – “ok” ✓"
_MARK = '<meta charset="{}">'
_OLD_MARK = '<meta http-equiv="Content-Type" content="text/html; charset={}">'

# name: (Content-Type, declaration in the head, how the bytes are made, byte order mark, a phrase that must survive)
CHARSETS: dict[str, tuple[str, str, str, bytes, str]] = {
    "utf8-header": ("text/html; charset=UTF-8", "", "utf-8", b"", ALL),
    "utf8-meta": ("text/html", _MARK.format("utf-8"), "utf-8", b"", ALL),
    "utf8-bom": ("text/html", "", "utf-8", b"\xef\xbb\xbf", ALL),
    "latin-header": (
        "text/html; charset=iso-8859-1",
        "",
        "cp1252",
        b"",
        WEST,
    ),  # means windows-1252 on the web
    "windows-meta": ("text/html", _OLD_MARK.format("windows-1252"), "cp1252", b"", WEST),
    "utf16-le": ("text/html", "", "utf-16-le", b"\xff\xfe", ALL),
    "utf16-be": ("text/html", "", "utf-16-be", b"\xfe\xff", ALL),
    "shift-jis-header": ('text/html; charset="Shift_JIS"', "", "shift_jis", b"", EAST),
    "euc-jp-meta": ("text/html", _MARK.format("euc-jp"), "euc_jp", b"", EAST),
    "header-before-meta": ("text/html; charset=utf-8", _MARK.format("windows-1251"), "utf-8", b"", ALL),
    "bom-before-header": ("text/html; charset=iso-8859-1", "", "utf-8", b"\xef\xbb\xbf", ALL),
    "meta-utf16-is-utf8": ("text/html", _MARK.format("utf-16"), "utf-8", b"", ALL),
}
# The declaration is wrong, or names nothing that exists: what the text becomes is up to the parser.
GUESSES: dict[str, tuple[str, str, str, bytes, str]] = {
    "undeclared": ("text/html", "", "utf-8", b"", ALL),
    "wrong": ("text/html; charset=utf-8", "", "cp1252", b"", WEST),
    "unknown": ("text/html; charset=x-no-such-thing", "", "utf-8", b"", ALL),
}


def charsets(site: Site) -> None:
    """Texts that must be decoded correctly, whatever their encoding."""
    anchors: list[Anchor] = []
    for name, (media, head, encoding, bom, text) in (CHARSETS | GUESSES).items():
        answer = Answer(media=media, charset=encoding, bom=bom)
        anchors.append(_speaking(site, f"/tongues/{name}.html", text, head, answer, judged=name in CHARSETS))
    site.hub("tongues", anchors)


def _speaking(site: Site, target: str, text: str, head: str, answer: Answer, *, judged: bool) -> Anchor:
    """A page whose text can be checked; an unchecked one shows its phrase and promises nothing."""
    if judged:
        return link(site.add(Resource(target, phrase=text, head=head, answers=(answer,))))
    return link(site.add(Resource(target, title=text, head=head, answers=(answer,))))


CODED = (
    ("gzip",), ("deflate",), ("deflate-raw",), ("br",), ("zstd",), ("identity",), ("gzip", "br"), ("deflate", "gzip"),
)  # fmt: skip


def codings(site: Site) -> None:
    """Content codings, alone and combined, and chunked transfer."""
    anchors = []
    for coding in CODED:
        name = "-".join(coding)
        for chunked in (False, True):
            target = f"/packed/{name}{'-chunked' if chunked else ''}.html"
            page = Resource(target, phrase=ALL, answers=(Answer(codings=coding, chunked=chunked),))
            anchors.append(link(site.add(page)))
    anchors.append(
        link(site.add(Resource("/packed/chunked.html", phrase=ALL, answers=(Answer(chunked=True),))))
    )
    trailer = b"0\r\nX-Trailer: yes\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    odd = head + b"5;note=x\r\n<p>hi\r\n00c\r\n there</p>\r\n\r\n" + trailer
    anchors.append(link(site.add(literal("/packed/trailer.html", odd))))
    bare = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<title>until closed</title><p>no length at all"
    anchors.append(link(site.add(literal("/packed/until-closed.html", bare))))
    site.hub("packed", anchors)
