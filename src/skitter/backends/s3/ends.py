"""How much of an archive file counts that stays on its worker's disk. Pure.

Answers are appended before they are settled. If the worker loses its shard in between, they are in its file
but belong to no page: the new owner fetches these pages again. The end that the new owner found settled
(`End` in `cluster/ports.py`) says where such a file ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from skitter.backends.s3 import names
from skitter.backends.s3.segments import WHOLE, settled_size
from skitter.cluster.ports import End
from skitter.ports import Mark

Found = Mapping[int, Sequence[End]]
"""What new owners found, by shard."""


def by_shard(ends: Iterable[End]) -> Found:
    """The recorded ends, by shard."""
    found = defaultdict[int, list[End]](list)
    for end in ends:
        found[end.shard].append(end)
    return found


def settled_end(file: str, found: Found) -> int | None:
    """How many bytes of a file count, WHOLE for all of them; None if that was not recorded (yet).

    Nobody settled anything between the epoch of the file in which a new owner found the mark and its own
    epoch. The mark says nothing about files from before that.
    """
    epoch = names.epoch_of(file)
    for end in found.get(names.shard_of(file), ()):
        if names.epoch_of(end.mark.file) <= epoch < end.epoch:
            return settled_size(file, end.mark)
    return None


def readable_end(file: str, found: Found, mark: Mark) -> int:
    """How many bytes of a file a reader may use, if its shard is now settled up to `mark`."""
    end = settled_end(file, found)
    if end is not None:
        return end
    return settled_size(file, mark) if names.epoch_of(file) >= names.epoch_of(mark.file) else WHOLE


def directory_of(file: str, found: Found) -> str:
    """Where the writer of a file keeps it, as MACHINE:PATH; empty if that was not recorded."""
    epoch = names.epoch_of(file)
    return next((e.directory for e in found.get(names.shard_of(file), ()) if e.epoch == epoch), "")
