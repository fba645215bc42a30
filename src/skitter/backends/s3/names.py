"""Names of segments and pages. Pure.

A segment keeps the name of its file, SHARD-YYYYMMDDHHMMSS-NUMBER.warc.gz, for good. The number orders the
segments of a shard, whoever wrote them (the frontier relies on that), and makes them unique: it counts up
from a hundred million times the epoch under which the shard was taken, and an epoch belongs to one owner.
"""

import hashlib
import re

_PER_EPOCH = 10**8  # segments of one shard under one owner; at one a minute they last for 190 years
_FILE = re.compile(r"(\d{2,})-(\d{4})(\d\d)(\d\d)\d{6}-(\d{5,})\.warc\.gz")
_HASH = 32  # hexadecimal digits: 128 bits, so that no two URLs of a day collide


def first_number(epoch: int) -> int:
    """The number of the first segment of this epoch."""
    return epoch * _PER_EPOCH


def first_of_owner(number: int) -> int:
    """The number of the first segment of the same owner."""
    return first_number(number // _PER_EPOCH)


def epoch_of(file: str) -> int:
    """The epoch under which a segment was written; -1 if it is not a segment."""
    return number(file) // _PER_EPOCH


def shard_of(file: str) -> int:
    """The shard of a segment; -1 if it is not a segment."""
    match = _FILE.fullmatch(file)
    return int(match[1]) if match else -1


def number(file: str) -> int:
    """The number that orders the segments of a shard; -1 if it is not a segment."""
    match = _FILE.fullmatch(file)
    return int(match[5]) if match else -1


def is_segment(file: str) -> bool:
    """Whether a file in the spool is one of ours."""
    return _FILE.fullmatch(file) is not None


def segment_key(prefix: str, crawl: str, file: str) -> str:
    """The object key of a segment: by the day it was begun."""
    match = _FILE.fullmatch(file)
    if match is None:
        raise ValueError(f"{file!r} is not the name of a segment")
    return f"{prefix}{match[2]}-{match[3]}-{match[4]}/{crawl}/{file}"


def page_key(prefix: str, fetched: str, url: str) -> str:
    """The object key of a page: by the day of its WARC-Date, and the SHA-256 of its WARC-Target-URI."""
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix}{fetched[:10]}/{digest[:_HASH]}.html.gz"
