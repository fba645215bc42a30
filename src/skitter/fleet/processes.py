"""The processes of a fleet's workers: how they are started, forked or as a new interpreter, and ended.

The first process of every worker is forked. Modules that the parent has loaded by then are loaded in the copy as
well, which saves a third of a worker's start (0.1 s of CPU). That is safe only while the parent has one thread and no
event loop; so the replacement of a dead worker, hours later, is a new interpreter.
"""

import asyncio
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from skitter.fleet.messages import Account, Ended, Line, Message, Start
from skitter.model import Counts

MODULE = "skitter.compose.fleet_worker"  # by name: wiring is a layer above
COMMAND = (sys.executable, "-m", MODULE)

# numpy's linear algebra has a thread per core, which takes 60 ms of CPU to start. A worker does not use it.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


class Child(Protocol):
    """A process of ours."""

    @property
    def pid(self) -> int:
        """Its process id."""
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
    """Whether a fork of this process would be sound: threads are not copied, but the locks they hold are.

    Threads of libraries count too: the pool of a RocksDB that was ever opened here would be missing in the copy,
    which then waits for it for ever. If they cannot be counted, nothing is forked.
    """
    tasks = Path("/proc/self/task")
    return tasks.is_dir() and len(list(tasks.iterdir())) == 1


def forked(line: int, lock: int) -> Child:
    """Fork a worker at the end of `line` that holds the lock."""
    pid = os.fork()
    if not pid:
        _become_a_worker(line, lock)
    return _Copy(pid)


def executed(command: Sequence[str], line: int, lock: int) -> Child:
    """Start a new interpreter as a worker at the end of `line` that holds the lock."""
    return subprocess.Popen(  # noqa: S603  the command is ours
        [*command, str(line)],
        pass_fds=(line, lock),
        stdin=subprocess.DEVNULL,
        env=os.environ | _ONE_THREAD,
        start_new_session=True,  # Ctrl-C is for the parent
    )


def _become_a_worker(line: int, lock: int) -> NoReturn:
    """The forked counterpart of `executed`. Whatever happens, this copy must not return into the parent's code."""
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
    """Close the parent's files, above all its ends of the lines to other workers, which must notice when it dies."""
    low = 3
    for number in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, number)
        low = number + 1


# ------------------------------------------------------------------------------------------------ a worker


@dataclass(eq=False)
class WorkerProcess:
    """A worker as its parent sees it: one process, or its replacement."""

    number: int
    shards: Sequence[int]
    process: Child | None = None
    waiting: socket.socket | None = None  # our end of the line to a forked process that waits for its orders
    line: Line | None = None
    ready: bool = False
    account: Account | None = None
    counts: Counts = field(default_factory=Counts)
    ended: Ended | None = None
    had: int | None = None  # pages, when it was first opened
    importing: str = ""  # the plug-in that it is importing now
    deaths: int = 0  # in a row, without progress
    life: int = 0  # which of the processes started so far it is

    def fork(self, lock: int) -> None:
        """Start the first process, before there are threads or an event loop. It waits for its orders."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = forked(theirs.fileno(), lock)
        self.waiting = ours

    def dismiss(self) -> None:
        """There are no orders after all: a forked process ends when the other end of its line is closed."""
        if self.waiting is not None and self.process is not None:
            self.waiting.close()
            self.process.wait()
            self.waiting = None

    async def start(self, command: Sequence[str], lock: int, orders: Start) -> None:
        """Start a process, unless the first is there already. It holds the lock of the crawl directory, too."""
        ours, self.waiting = self.waiting, None
        if ours is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self.process = executed(command, theirs.fileno(), lock)
        self.line = Line(*await asyncio.open_connection(sock=ours))
        self.line.say(orders)

    def say(self, message: Message) -> None:
        """Send it a message, if it is there."""
        if self.line is not None and self.ready:
            self.line.say(message)

    async def hung_up(self) -> int:
        """It has closed its end: wait until it exits. Returns its exit code, negative for a signal."""
        self.ready = False
        if self.line is not None:
            await self.line.close()
        return 0 if self.process is None else await asyncio.to_thread(self.process.wait)

    def kill(self) -> None:
        """Kill it. That is always safe."""
        self.ready = False
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
