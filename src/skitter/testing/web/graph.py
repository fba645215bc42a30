"""The data types of the synthetic web: a resource, its links, and its answers.

A description says three things at once: what bytes are served, what the URLs on the page mean, and what a
correct crawler makes of them. Pages are rendered from it and the truth is read from it, so they cannot
diverge, and no parser takes part in judging a parser.

URLs contain `PORT` in place of the port, which is only known when a server listens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from skitter.model import Fault

# Characters of the private use area (Unicode 23.5), which cannot occur in the generated text. The second
# means the same port in an odd spelling: with a leading zero, or explicit although it is the default.
PORT = "\ue000"
ODD_PORT = "\ue001"


def with_port(text: str, port: int) -> str:
    """Replace both characters by a real port."""
    plain, odd = ("", ":80") if port == 80 else (f":{port}", f":0{port}")
    return text.replace(PORT, plain).replace(ODD_PORT, odd)


class Fate(StrEnum):
    """What must become of a URL once it is requested."""

    PAGE = "page"  # answered with 2xx and kept
    GONE = "gone"  # 404 or 410
    DENIED = "denied"  # another 4xx: an answer, never retried
    REDIRECT = "redirect"
    FAILED = "failed"  # no usable answer, retries included
    UNJUDGED = "unjudged"  # crawlers may differ: it is requested, and either result is right


class Refusal(StrEnum):
    """Why a URL must not be requested."""

    SCHEME = "scheme"
    ADDRESS = "address"
    BROKEN = "broken"  # not a URL
    ROBOTS = "robots"
    SCOPE = "scope"
    REDIRECTS = "redirects"  # one hop too many


class Anchor(Struct, frozen=True, gc=False):  # a Struct, because every page creates dozens of them
    """A link: its target, and how it is written."""

    url: str  # what it resolves to, in normal form; as written if it resolves to nothing
    markup: str
    followed: bool = True  # False: nofollow, inside a comment or a script
    refusal: Refusal | None = None  # it can never be requested, on any page
    in_head: bool = False
    sloppy: bool = (
        False  # not an anchor to an HTML parser; only followed by crawlers that are configured for it
    )


@dataclass(frozen=True, slots=True)
class Delayed:
    """The answer comes late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Dripped:
    """The body is sent in pieces with pauses between them."""

    seconds: float
    pieces: int


@dataclass(frozen=True, slots=True)
class Endless:
    """After the head, or inside it, the same bytes for as long as the client reads."""

    data: bytes
    in_head: bool = False
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is closed after this part of the body, although the head declared all of it."""

    share: float


@dataclass(frozen=True, slots=True)
class Literal:
    """These bytes instead of a response; then the connection is closed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Silent:
    """The request is read and never answered."""


Manner = Delayed | Dripped | Endless | Cut | Literal | Silent | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, before it is rendered."""

    status: int = 200
    headers: tuple[str, ...] = ()  # complete lines, in addition to those that the rendering adds
    media: str = "text/html; charset=utf-8"
    body: bytes | Callable[[], bytes] | None = (
        None  # None: the resource's page; a function: called on the first request
    )
    charset: str = "utf-8"  # the encoding of the page's text, whatever is declared
    bom: bytes = b""
    codings: tuple[str, ...] = ()  # content codings, in the order they are applied
    chunked: bool = False
    declared_length: int | None = None  # instead of the true Content-Length
    retry_in: int | None = None  # a Retry-After with a date this many seconds after the request
    manner: Manner = None


PAGE = Answer()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that answers at one path of one host."""

    target: str  # path and query, in normal form
    fate: Fate = Fate.PAGE
    fault: Fault | None = None  # how it fails
    to: str = ""  # redirects: the target URL; empty if there is none
    title: str = ""
    text_key: str = ""  # pages with the same key have the same text; the target when empty
    words: int = 150
    ending: str = ""  # last words of the text: how near-duplicates differ
    phrase: str = ""  # is in the text and must be found in it, whatever the charset and coding
    anchors: tuple[Anchor, ...] = ()
    head: str = ""  # markup for the head
    around: tuple[str, str] = ("", "")  # markers before and after the text
    index: bool = True
    follow: bool = True
    allowed: bool = True  # by the host's robots.txt
    answers: tuple[Answer, ...] = (PAGE,)  # one per request, the last one repeated
    etag: str = ""
    modified: str = ""  # HTTP date


@dataclass(frozen=True, slots=True)
class Trap:
    """A part of a host without end. How much of it is requested measures the crawler."""

    kind: str
    prefix: str  # of its URLs
    distinct: int = 0  # number of pages in it, if only their spellings are endless
