"""The words in which the synthetic web is described: a resource, the links it carries, and the answers it gives.

A description says three things at once: what bytes are served, what the URLs on the page mean, and what a correct crawler
makes of them. Pages are rendered from it and the truth is read from it, so neither can drift from the other and no
parser takes part in judging a parser.

URLs are written with `PORT` in place of the port, because the port is known only when a server listens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from skitter.model import Fault

# Characters of the private use area (Unicode 23.5): they cannot occur in the generated text. The second stands for the
# same port in an odd spelling: with a leading zero, or written out where it is the default.
PORT = "\ue000"
ODD_PORT = "\ue001"


def with_port(text: str, port: int) -> str:
    """The text with a real port in place of both characters."""
    plain, odd = ("", ":80") if port == 80 else (f":{port}", f":0{port}")
    return text.replace(PORT, plain).replace(ODD_PORT, odd)


class Fate(StrEnum):
    """What must become of a URL once it is requested."""

    PAGE = "page"  # answered with 2xx and kept
    GONE = "gone"  # 404 or 410
    DENIED = "denied"  # another 4xx: an answer, never retried
    REDIRECT = "redirect"
    FAILED = "failed"  # no usable answer, retries included
    UNJUDGED = "unjudged"  # crawlers may differ: it is requested, and either end is right


class Refusal(StrEnum):
    """Why a URL must not be requested."""

    SCHEME = "scheme"
    ADDRESS = "address"
    BROKEN = "broken"  # not a URL
    ROBOTS = "robots"
    SCOPE = "scope"
    REDIRECTS = "redirects"  # one hop too many


class Anchor(Struct, frozen=True, gc=False):  # a Struct, because every page makes dozens of them
    """A link: what it means, and how it is written."""

    url: str  # what it resolves to, in the plainest spelling; as written when it resolves to nothing
    markup: str
    followed: bool = True  # False: nofollow, inside a comment or a script
    refusal: Refusal | None = None  # it can never be requested, wherever it stands
    in_head: bool = False
    sloppy: bool = (
        False  # no anchor to an HTML parser; followed only by crawlers that are told to look for these
    )


@dataclass(frozen=True, slots=True)
class Delayed:
    """The answer comes late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Dripped:
    """The body comes in pieces with pauses between them."""

    seconds: float
    pieces: int


@dataclass(frozen=True, slots=True)
class Endless:
    """After the head, or inside it, the same bytes for as long as the client listens."""

    data: bytes
    in_head: bool = False
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is closed after this share of the body; the head declared all of it."""

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
    headers: tuple[str, ...] = ()  # whole lines, in addition to those that the rendering adds
    media: str = "text/html; charset=utf-8"
    body: bytes | Callable[[], bytes] | None = (
        None  # None: the resource's page; a function: made when first asked for
    )
    charset: str = "utf-8"  # that the page's text is encoded in, whatever is declared
    bom: bytes = b""
    codings: tuple[str, ...] = ()  # content codings, in the order they are applied
    chunked: bool = False
    declared_length: int | None = None  # instead of the true Content-Length
    retry_in: int | None = None  # a Retry-After with the date that is so many seconds after the request
    manner: Manner = None


PAGE = Answer()


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that answers at one path of one host."""

    target: str  # path and query, in their plainest spelling
    fate: Fate = Fate.PAGE
    fault: Fault | None = None  # how it fails
    to: str = ""  # redirects: the URL it means; empty when there is none
    title: str = ""
    text_key: str = ""  # pages with the same key have the same text; the target when empty
    words: int = 150
    ending: str = ""  # last words of the text: what makes a near-duplicate differ
    phrase: str = ""  # stands in the text and must come out of it, whatever the charset and coding
    anchors: tuple[Anchor, ...] = ()
    head: str = ""  # markup for the head
    around: tuple[str, str] = ("", "")  # markers before and after the text
    index: bool = True
    follow: bool = True
    allowed: bool = True  # by the host's robots.txt
    answers: tuple[Answer, ...] = (PAGE,)  # one per request, the last one for ever
    etag: str = ""
    modified: str = ""  # HTTP date


@dataclass(frozen=True, slots=True)
class Trap:
    """A part of a host that has no end. How much of it is requested is the crawler's measure of itself."""

    kind: str
    prefix: str  # of its URLs
    distinct: int = 0  # pages in it, when only their spellings have no end
