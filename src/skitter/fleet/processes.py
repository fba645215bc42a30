"""How a worker comes into being: as a copy of its parent, or from scratch.

The first process of every worker is forked. What the parent has loaded by then is loaded in the copy as well, which saves
a third of a worker's start (0.1 s of CPU). That is safe only while the parent has one thread and no event loop; so one
that takes the place of a dead worker, hours later, is a new interpreter.
"""

import logging
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

MODULE = "skitter.compose.fleet_worker"  # by name: wiring is above what it wires
COMMAND = (sys.executable, "-m", MODULE)

# numpy's matrices have a thread per core, which takes 60 ms of CPU to get ready. A worker multiplies none.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


class Child(Protocol):
    """A process of ours."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def wait(self) -> int:
        """Its exit code, negative for a signal, once it has ended."""
        ...


class _Copy:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Whether a copy of this process would be sound: threads are not copied, but what they hold is.

    Threads of libraries count too: the pool of a RocksDB that was ever opened here would be missing in the copy, which
    then waits for it for ever. Where they cannot be counted, nothing is forked.
    """
    tasks = Path("/proc/self/task")
    return tasks.is_dir() and len(list(tasks.iterdir())) == 1


def forked(line: int, lock: int) -> Child:
    """A copy of this process that is a worker at the end of `line`, and holds the lock."""
    pid = os.fork()
    if not pid:
        _become_a_worker(line, lock)
    return _Copy(pid)


def executed(command: Sequence[str], line: int, lock: int) -> Child:
    """A new interpreter that is a worker at the end of `line`, and holds the lock."""
    return subprocess.Popen(  # noqa: S603  the command is ours
        [*command, str(line)],
        pass_fds=(line, lock),
        stdin=subprocess.DEVNULL,
        env=os.environ | _ONE_THREAD,
        start_new_session=True,  # Ctrl-C is for the parent to hear
    )


def _become_a_worker(line: int, lock: int) -> NoReturn:
    """What `executed` does by other means. Whatever happens, this copy must not return into the parent's code."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        _close_all_but(line, lock)
        os.environ.update(_ONE_THREAD)
        logging.getLogger("skitter").handlers.clear()
        sys.argv = [MODULE, str(line)]
        runpy.run_module(MODULE, run_name="__main__")
    except BaseException:  # noqa: BLE001  said like any interpreter says it, and then it ends
        traceback.print_exc()
    os._exit(1)


def _close_all_but(*kept: int) -> None:
    """Files of the parent, and above all its ends of the lines to other workers, which must hear when it dies."""
    low = 3
    for number in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, number)
        low = number + 1
