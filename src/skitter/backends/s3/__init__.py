"""The archive of a cluster: WARC segments on the worker's disk first, uploaded to an S3 bucket soon after.

A page is saved before it is settled, and that save is a local file (`skitter.backends.warc`, used as it is):
no visit ever waits for S3. A file is called a segment here. When all of it is settled and it is large or old
enough, it is closed, uploaded, verified, and then removed from the disk. A page's place names its segment by
file name; its object key in the bucket follows from the name (`names`).

The stage of a segment is kept in a register (`Segments`), because three parties must agree on it: the worker
that has the only copy until it is uploaded, the next owner of the shard, and the operator who declares a
worker lost.

    begun ──► sealed ──► finished ──► uploaded        sealed: its shard was taken, and its settled size is
    known
      └─────────┴───────────┴──► abandoned            abandoned: the only copy is lost; its pages are pending
      again

`archive` is the port, one per shard. `uploader` belongs to the worker: a queue, a breaker, a limit. `bucket`
talks to S3. `pages` makes the objects of the pages layout.
"""

from skitter.backends.s3.archive import S3Archive
from skitter.backends.s3.bucket import Bucket, BucketError, open_bucket
from skitter.backends.s3.reading import SegmentReader
from skitter.backends.s3.segments import WHOLE, LocalSegments, Segment, Segments, Stage
from skitter.backends.s3.uploader import Uploader, worker_of

__all__ = [
    "WHOLE",
    "Bucket",
    "BucketError",
    "LocalSegments",
    "S3Archive",
    "Segment",
    "SegmentReader",
    "Segments",
    "Stage",
    "Uploader",
    "open_bucket",
    "worker_of",
]
