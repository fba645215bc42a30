"""Starts a program that shall not outlive its parent: `python -m skitter.runtime.tied PARENT PROGRAM ARGUMENT…`.

On Linux the kernel sends it SIGTERM when the parent dies, however it dies. Elsewhere the program simply goes on.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    """Tie this process to its parent, and become the program."""
    parent, *words = sys.argv[1:]
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has died meanwhile
            sys.exit(128 + signal.SIGTERM)
    os.execv(words[0], words)  # noqa: S606  the caller's own words, without a shell


if __name__ == "__main__":
    main()
