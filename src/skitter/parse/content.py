"""Content markers: where the operator says which part of a page counts.

Some sites fence their articles with a pair of markers, such as comments. With both markers set, only what stands between
them is content, and a page without them is none.
"""

from skitter.settings import ParseSettings

MISSING = "the content markers are missing"


def between(source: str, settings: ParseSettings) -> list[str] | None:
    """All that stands between a start and the next end, where both are named; None if there is no such pair."""
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
