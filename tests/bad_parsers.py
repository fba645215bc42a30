"""A parser process whose HTML parser does what the name of the page says: `python -m tests.bad_parsers SOCKET`."""

import ctypes
import os
import sys
import time
from pathlib import Path

from skitter.model import Document
from skitter.parse import PARSERS, Parser, html, process
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

COMMAND = (sys.executable, "-m", "tests.bad_parsers")


def parse(body: Body, settings: ParseSettings) -> Document:
    name = body.url.rpartition("/")[2]
    if name == "spins":
        while True:
            pass
    if name == "sleeps":
        time.sleep(1e6)
    if name == "eats":
        eaten = []
        while True:
            eaten.append(bytes(2**24))
    if name == "crashes":
        ctypes.string_at(0)
    if name == "exits":
        os._exit(3)
    if name == "raises":
        raise ValueError("no such element")
    if name == "surprises":
        os.write(int(sys.argv[1]), b"\xff\xff\xff\xff")
    if name == "babbles":
        os.write(int(sys.argv[1]), b"\0\0\0\3abc")
    if name.startswith("waits"):
        _wait_to_be_killed(Path(body.content.split(b"\n")[1].decode()), times=int(name[-1]))
    return html.parse(body, settings)


def _wait_to_be_killed(folder: Path, times: int) -> None:
    """The first times, write the number of this process to a file, and wait."""
    before = len(list(folder.glob("*.pid")))
    if before < times:
        (folder / f"{before}.new").write_text(str(os.getpid()))
        (folder / f"{before}.new").rename(folder / f"{before}.pid")
        time.sleep(1e6)


if __name__ == "__main__":
    PARSERS["text/html"] = Parser(__name__)
    os._exit(process.main())
