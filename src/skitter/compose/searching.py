"""The search index of a crawl: a file beside it on one machine, a server for many.

Apart from the rest, because a crawl needs neither, and loading them takes 15 ms of every worker's start.
"""

from pathlib import Path

from skitter.backends.opensearch import OpenSearchIndex
from skitter.backends.sqlite_fts import FtsIndex
from skitter.settings import Settings, SettingsError
from skitter.settings.secrets import secret


def local_index(file: Path) -> FtsIndex:
    """An index in a file on this machine, not yet open."""
    return FtsIndex(file)


def shared_index(settings: Settings) -> OpenSearchIndex:
    """The index of a crawl on many machines, not yet open."""
    if not settings.search.addresses:
        raise SettingsError(
            'search.addresses names no server; write for example addresses = ["http://127.0.0.1:9200"] under [search], '
            "or search without one: skitter search DIR WORD, or skitter search --config FILE --index FILE WORD"
        )
    return OpenSearchIndex(settings.search, secret("search.password_file", settings.search.password_file))
