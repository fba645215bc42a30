"""Entry point of the command `skitter` and of `python -m skitter`."""

import gc
import sys
from typing import NoReturn

# Importing modules creates hundreds of thousands of objects, none of them garbage. With Python's thresholds
# the collector scans them 400 times, and once more at the end: 35 ms of the 260 that a crawl of one page
# takes.
_COLLECT_AFTER = 100_000
# Engine clients have threads that must end before the interpreter does, so the collector runs there.
_THREADED = {"confluent_kafka", "obstore"}


def main() -> NoReturn:
    """Run one command."""
    gc.set_threshold(_COLLECT_AFTER)
    from skitter.cli import main as command  # noqa: PLC0415  it loads most of what there is

    code = command()
    if _THREADED.isdisjoint(sys.modules):
        gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
