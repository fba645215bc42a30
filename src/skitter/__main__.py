"""Where the command `skitter` begins and ends; `python -m skitter` is the same."""

import gc
import sys
from typing import NoReturn

# Loading modules makes objects by the hundred thousand, and none of them is garbage. With Python's thresholds the
# collector looks through them 400 times, and once more at the end: 35 ms of the 260 that a crawl of one page takes.
_COLLECT_AFTER = 100_000
# Engines' clients have threads of their own, which must be gone before the interpreter is: there the collector looks.
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
