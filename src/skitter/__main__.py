"""Entry point of the command `skitter` and of `python -m skitter`."""

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

# Importing modules creates hundreds of thousands of objects, none of them garbage. With Python's thresholds
# the collector scans them 400 times, and once more at the end: 35 ms of the 260 that a crawl of one page
# takes.
_COLLECT_AFTER = 100_000
# Engine clients have threads that must end before the interpreter does, and DuckDB complains about what is left, so the
# collector runs there.
_COLLECTED = {"confluent_kafka", "obstore", "_duckdb"}


def main() -> NoReturn:
    """Run one command."""
    gc.set_threshold(_COLLECT_AFTER)
    from skitter.cli import main as command  # noqa: PLC0415  it loads most of what there is

    code = command()
    if _COLLECTED.isdisjoint(sys.modules):
        gc.freeze()
    else:
        _leave_what_hangs(code)
    sys.exit(code)


def _leave_what_hangs(code: int) -> None:
    """End at once if an engine's client could not be closed: waiting for its threads may take for ever."""
    from skitter.runtime.aside import is_any_left  # noqa: PLC0415  only a cluster has it

    if is_any_left():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
