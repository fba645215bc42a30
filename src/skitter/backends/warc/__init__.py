"""The archive as WARC/1.1 files (ISO 28500:2017): what went over the wire, byte for byte, one gzip member per record.

Every visit becomes three records, written together and in this order: the answer (`response`, or `revisit` when an
identical payload is stored already), the `request`, and a `metadata` record. They share one WARC-Date, the instant the
capture began, and are tied by WARC-Concurrent-To. The metadata record is always the last of its visit: that is how a
damaged file is cut back to whole visits. A file opens with a `warcinfo` record and is left for the next one when it has
grown beyond the limit; a group of visits is never divided.

`records` renders and compresses (pure), `files` appends, cuts and syncs, `reading` reads back.
"""

from skitter.backends.warc.files import WarcArchive, trim
from skitter.backends.warc.reading import DamagedRecordError, Reader, Record, from_member

__all__ = ["DamagedRecordError", "Reader", "Record", "WarcArchive", "from_member", "trim"]
