"""A replay in a process of its own, and pictures compared."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image, ImageChops

BAR = 40  # pixels of our own page above an archived one
WIDTH, HEIGHT = 1200, 1600


@contextmanager
def replayed(archive: Path | str, *words: str, log: Path, **environ: str) -> Iterator[str]:
    """`skitter replay` of a crawl or a WACZ; the value is the address of its own pages."""
    command = [sys.executable, "-m", "skitter", "replay", str(archive), *words]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | environ | {"TERM": "dumb"},
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"at (http://127\.0\.0\.1:\d+)/", line)
        assert found is not None, (line, log.read_text())
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        process.stdout.close()
    assert code == 0, log.read_text()


def difference(one: bytes, other: bytes) -> float:
    """The part of the pixels that differ at all."""
    first, second = (Image.open(io.BytesIO(png)).convert("RGB") for png in (one, other))
    assert first.size == second.size
    red, green, blue = ImageChops.difference(first, second).split()
    seen = ImageChops.lighter(ImageChops.lighter(red, green), blue).point(lambda value: 255 if value else 0)
    return seen.histogram()[255] / (first.width * first.height)
