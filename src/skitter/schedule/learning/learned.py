"""The rows in which a shard keeps what it has learned, apart from the hosts' own rows, which every visit rewrites.

A row is bounded in size, however many URLs a host has: whoever adds to it forgets what is least useful.
"""

from msgspec import Struct, field

from skitter.schedule.learning.parameters import Parameter


class Pattern(Struct, array_like=True, gc=False):
    """URLs that look alike, and what their visits have brought."""

    fetched: int = 0
    useful: int = 0  # of these, visits that brought something new
    dry: float = (
        0.0  # the evidence that its visits bring nothing now; about the visits since the last useful one
    )
    share: float = 0.0  # of the shingles of its useful pages, those that were new, on average
    parked: bool = False
    skipped: int = 0  # members that were put aside since it is parked
    tried: int = 0  # members that were tried again since
    held: int = 0  # members that wait aside because of it, about


class Learned(Struct, array_like=True, gc=False):
    """What was learned of a host; or, under the name `*.` and a domain, of a domain and all its hosts.

    Each thing that is learned has a field; a new one goes to the end, and has a default.
    """

    name: str
    patterns: dict[str, Pattern] = field(default_factory=dict)
    # Of a domain: a sample of the shingles of its pages (see `dedup.simhash.news`).
    sample: bytes = b""
    shift: int = 0
    pages: int = 0  # useful pages that were compared with it
    share: float = 0.0  # of their shingles, those that were new, on average; without the first page
    # Of a host.
    unlisted: int = 0  # pages that ask not to be indexed
    asked: float = (
        0.0  # since when members of parked patterns are tried again, since nothing else waits; 0: not yet
    )
    grown: int = 0  # URLs found since then, and put aside
    rest: bool = False  # all that wait aside are fetched: they are few, and no more come
    # Of a domain: hosts where something waits aside, because of what others of its hosts have brought.
    hosts: list[str] = field(default_factory=list)
    # Of a host (see `parameters`).
    parameters: dict[str, Parameter] = field(default_factory=dict)
    wrong: int = 0  # parameters that were learned to be needless, and are not


def host_of(name: str) -> str:
    """A host that the row of this name is about."""
    return name.removeprefix("*.")
