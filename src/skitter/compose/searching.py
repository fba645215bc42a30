"""The search index of a crawl: a file beside it on one machine, a server for a cluster.

Separate, because a crawl needs neither, and loading them takes 15 ms of every worker's start.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from skitter.backends.opensearch import OpenSearchIndex
from skitter.backends.sqlite_fts import FtsIndex, copied
from skitter.settings import Settings, SettingsError
from skitter.settings.secrets import secret

if TYPE_CHECKING:
    from skitter.backends.kafka.source import DocumentSource


def local_index(file: Path) -> FtsIndex:
    """An index in a file on this machine, not yet open."""
    return FtsIndex(file)


@contextmanager
def writable_index(file: Path) -> Iterator[Path]:
    """The file of an index or, if it cannot be written, a temporary copy."""
    if os.access(file if file.exists() else file.parent, os.W_OK) and os.access(file.parent, os.W_OK):
        yield file
        return
    with TemporaryDirectory(prefix="skitter-") as folder:
        copy = Path(folder) / file.name
        if file.exists():
            copied(file, copy)
        yield copy


def shared_index(settings: Settings) -> OpenSearchIndex:
    """The index of a cluster's crawl, not yet open."""
    if not settings.search.addresses:
        raise SettingsError(
            'search.addresses names no server; write for example addresses = ["http://127.0.0.1:9200"] under [search], '
            "or search without one: skitter search DIR WORD, or skitter search --config FILE --index FILE WORD"
        )
    return OpenSearchIndex(settings.search, secret("search.password_file", settings.search.password_file))


def document_source(settings: Settings) -> "DocumentSource":
    """The pages that the workers of a full cluster announce."""
    from skitter.backends.kafka.source import DocumentSource  # noqa: PLC0415  its library is an extra

    return DocumentSource(settings)
