"""The archive as WARC/1.1 files (ISO 28500:2017): the bytes on the wire, one gzip member per record.

Every visit becomes three records, written together and in this order: the answer (`response`, or `revisit` if
an identical payload is already stored), the `request`, and a `metadata` record. They share one WARC-Date, the
instant the capture began, and are linked by WARC-Concurrent-To. The metadata record is always the last of its
visit, so that a damaged file can be cut back to complete visits. A file starts with a `warcinfo` record and
is closed when it exceeds the size limit; a group of visits is never split.

`records` builds and compresses (pure), `files` appends, cuts and syncs, `reading` reads back.
"""

from skitter.backends.warc.files import SettledFiles, WarcArchive, trim
from skitter.backends.warc.reading import DamagedRecordError, Reader, Record, from_member

__all__ = ["DamagedRecordError", "Reader", "Record", "SettledFiles", "WarcArchive", "from_member", "trim"]
