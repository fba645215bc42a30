"""A worker with an S3 archive that dies at an exact point: `python -m tests.crash.s3_child DISK BUCKET POINT`.

It appends and settles groups, one segment each, and prints what is settled as a line of JSON. Dying means SIGKILL to ourselves.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from skitter.backends.s3 import LocalSegments
from skitter.settings import Bytes
from skitter.testing.contracts.archive import exchange
from tests.s3 import Worker, real_ground

GROUPS = 6


def end_at_once(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(disk: str, bucket: str, point: str) -> None:
    register = LocalSegments(Path(disk) / "segments.json")
    worker = Worker(real_ground(bucket, segment=Bytes(1)), Path(disk), register)
    arrange_death(worker, register, point)
    async with worker.running():
        archive = worker.archive()
        for group in range(GROUPS):
            body = b"group %d " % group + os.urandom(3000).hex().encode()
            (place,) = await archive.append(
                [archive.pack(exchange(f"http://example.org/{group}", body), None, None)]
            )
            mark = archive.mark()
            print(json.dumps([place.file, place.offset, place.length, mark.end, body.decode()]), flush=True)
            archive.settled()
            if point == "while appending" and group == GROUPS - 2:
                await archive.append(
                    [archive.pack(exchange("http://example.org/lost", b"never settled"), None, None)]
                )
                end_at_once()
        await worker.uploads.drain()
        end_at_once()


def arrange_death(worker: Worker, register: LocalSegments, point: str) -> None:
    """The second segment that comes to the point is the last."""
    came = 0

    def dying(real):
        def maybe(*args: object):
            nonlocal came
            came += 1
            if came == 2:
                end_at_once()
            return real(*args)

        return maybe

    if point == "before the upload":
        worker.ground.bucket.upload = dying(worker.ground.bucket.upload)  # type: ignore[method-assign]
    elif point == "before the register knows":
        register.uploaded = dying(register.uploaded)  # type: ignore[method-assign]
    elif point == "before it leaves the disk":
        worker.uploads._remove = dying(worker.uploads._remove)  # type: ignore[method-assign]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
