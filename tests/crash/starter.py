"""Starts crawls one after the other, each as a fork of this process, so that a start is fast. Run as a module.

The arguments are a command of Skitter. For each line on standard input it is run once; the number of its process is printed,
and then what that came to.
"""

import os
import sys

from skitter.cli import main, resume, running  # noqa: F401
from skitter.fleet import worker  # noqa: F401  what the copies need is loaded here, once

if __name__ == "__main__":
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os._exit(main(sys.argv[1:]))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
