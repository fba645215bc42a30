"""How much of an archive file counts that stays on the disk of the worker that wrote it. Pure.

Answers are appended before they are settled. If the worker loses its shard in between, they are in its file and belong to
nobody: the new owner fetches these pages again. What the new owner finds settled (`claims.End`) says where such a file ends.
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
    """Those of each shard."""
    found = defaultdict[int, list[End]](list)
    for end in ends:
        found[end.shard].append(end)
    return found


def settled_end(file: str, found: Found) -> int | None:
    """How many octets of a file count, WHOLE for all of them; None if that was not written down (yet).

    Between the epoch of the file in which a new owner found the mark and its own epoch, nobody settled anything. Of files
    from before that, this mark says nothing.
    """
    epoch = names.epoch_of(file)
    for end in found.get(names.shard_of(file), ()):
        if names.epoch_of(end.mark.file) <= epoch < end.epoch:
            return settled_size(file, end.mark)
    return None


def readable_end(file: str, found: Found, mark: Mark) -> int:
    """How many octets of a file a reader may use, if the shard of the file is settled up to `mark` now."""
    end = settled_end(file, found)
    if end is not None:
        return end
    return settled_size(file, mark) if names.epoch_of(file) >= names.epoch_of(mark.file) else WHOLE


def directory_of(file: str, found: Found) -> str:
    """Where whoever wrote a file keeps it, as MACHINE:PATH; empty if that was not written down."""
    epoch = names.epoch_of(file)
    return next((e.directory for e in found.get(names.shard_of(file), ()) if e.epoch == epoch), "")
