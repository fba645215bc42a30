"""Content markers: which part of a page counts.

Some sites enclose their articles in a pair of markers, such as comments. With both markers set, only what is
between them is content, and a page without them has none.
"""

from skitter.settings import ParseSettings

MISSING = "the content markers are missing"


def between(source: str, settings: ParseSettings) -> list[str] | None:
    """Everything between a start and the next end; None if no markers are set or there is no such pair."""
    start, end = settings.content_start, settings.content_end
    found = []
    position = source.find(start)
    while position >= 0:
        opened = position + len(start)
        closed = source.find(end, opened)
        if closed < 0:
            break
        found.append(source[opened:closed])
        position = source.find(start, closed + len(end))
    return found or None
