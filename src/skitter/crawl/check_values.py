"""What a check finds in a file of the archive, stretch by stretch."""

from typing import NamedTuple

from skitter.model import Place


class Answer(NamedTuple):
    """An answer that is as it was written. `digest` is that of its payload; of a revisit, as it says itself."""

    place: Place
    uri: str
    status: int
    digest: str


class Damaged(NamedTuple):
    """A stretch of a file that is not what was written."""

    start: int
    end: int
    why: str


class Whole(NamedTuple):
    """Another record that is as it was written."""

    place: Place
    ends_visit: bool = False  # the metadata of a visit is its last record
    of_page: bool = False  # and says how a page was found
