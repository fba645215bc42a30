"""What a synthetic web contains. Everything is off by default; presets switch on many features at once."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Switches, one per wing of the web, with their sizes.

    A wing is a set of pages on one host, reached from the host's start page. Wings and robots.txt variants
    are assigned to the hosts in turn; host 0 keeps a plain robots.txt.
    """

    link_forms: bool = False  # every way HTML has to write a link
    spellings: bool = False  # many spellings of one URL
    unfollowed: bool = False  # nofollow, comments, scripts, mailto, other schemes, broken URLs
    robots: bool = False  # common robots.txt variants
    robots_faults: bool = False  # robots.txt that fails, moves or never ends
    redirects: bool = False
    redirect_faults: bool = False  # loops, endless chains, forbidden targets, no target
    statuses: bool = False
    later: bool = False  # 500, 503 and 429 first, then the page
    directives: bool = False  # meta robots and X-Robots-Tag
    duplicates: bool = False
    charsets: bool = False
    codings: bool = False
    conditional: bool = False  # ETag, Last-Modified, 304
    numbered: bool = False  # pages named by numbers, content between markers, sloppy anchors
    slow: bool = False
    broken: bool = False  # answers that violate HTTP
    lying: bool = False  # mislabelled answers
    endless: bool = False
    bombs: bool = False
    traps: bool = False

    poison: str = ""  # this text is on one page: a hook in the crawler can crash on it
    page_bytes: int = 4_000  # of an ordinary page
    page_words: int = 300
    links_per_page: int = 12
    foreign_share: float = 0.1  # of an ordinary page's links: to other hosts
    crawl_delay: float = 1.0  # requested by Crawl-delay
    request_interval: int = 1  # N of "Request-rate: 1/N"
    retry_after: int = 1  # seconds requested by 429 and 503
    slow_seconds: float = 0.5  # before or during slow but complete answers
    bomb_bytes: int = 32 * 2**20  # decoded size of a decompression bomb
    agent: str = "skitter"  # the product token that robots.txt groups name

    @classmethod
    def plain(cls, **changes: object) -> "Features":
        """Only pages and links: for benchmarks."""
        return cls(**{"page_bytes": 18_000, "page_words": 700, "links_per_page": 40} | changes)  # type: ignore[arg-type]

    @classmethod
    def mixed(cls, **changes: object) -> "Features":
        """Everything that well-meaning sites do."""
        wings = (
            "link_forms spellings unfollowed robots redirects statuses later directives duplicates charsets codings "
            "conditional numbered"
        )
        return cls(**dict.fromkeys(wings.split(), True) | changes)  # type: ignore[arg-type]

    @classmethod
    def hostile(cls, **changes: object) -> "Features":
        """Everything."""
        return cls(**dict.fromkeys(cls.wings(), True) | changes)  # type: ignore[arg-type]

    @classmethod
    def wings(cls) -> tuple[str, ...]:
        """The names of all switches."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.type in (bool, "bool"))
