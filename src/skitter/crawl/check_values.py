"""What a check finds in a file of the archive, range by range."""

from typing import NamedTuple

from skitter.model import Place


class Answer(NamedTuple):
    """An intact answer. `digest` is that of its payload; for a revisit, as recorded."""

    place: Place
    uri: str
    status: int
    digest: str


class Damaged(NamedTuple):
    """A damaged range of a file."""

    start: int
    end: int
    why: str


class Whole(NamedTuple):
    """Another intact record."""

    place: Place
    ends_visit: bool = False  # the metadata of a visit is its last record
    of_page: bool = False  # and says how a page was found
