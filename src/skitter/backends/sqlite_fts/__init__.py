"""SQLite with FTS5: the search index of a crawl on one machine, in one file."""

from skitter.backends.sqlite_fts.index import FtsIndex, copied

__all__ = ["FtsIndex", "copied"]
