"""Processes that outlive the command that started them, and are still recognised later.

A process id alone proves nothing: it is reused after a while. Together with the start time in the kernel's
clock ticks it identifies a process. Nothing else is ever signalled.

Signals go to the engine and all its descendants. Its process group is not enough: PostgreSQL gives every
session its own group, and a "frozen" PostgreSQL would keep answering connected clients.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .place import Place

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """One specific process, never another that gets its id later."""

    pid: int
    started: int  # clock ticks after boot: field 22 of /proc/PID/stat, proc(5)

    @property
    def state(self) -> str | None:
        """The kernel's letter for its state (T is stopped), or None if it is gone. A zombie is gone."""
        fields = stat_of(self.pid)
        if fields is None or int(fields[19]) != self.started or fields[0] == "Z":
            return None
        return fields[0]

    @property
    def buried(self) -> bool:
        """Whether even its id is free: a zombie still exists for those who only check the id."""
        fields = stat_of(self.pid)
        return fields is None or int(fields[19]) != self.started

    @property
    def memory(self) -> int:
        """Resident bytes of the process and its descendants."""
        return sum(int((stat_of(each.pid) or ["0"] * 22)[21]) * PAGE for each in family(self))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still the same process."""
        if self.state is not None:
            with suppress(ProcessLookupError):  # it may end between the check and the signal
                os.kill(self.pid, number)


def stat_of(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on: the second, the name, may contain anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> Process | None:
    """The process that has this id now."""
    fields = stat_of(pid)
    return None if fields is None else Process(pid, int(fields[19]))


def family(head: Process) -> list[Process]:
    """The process and all its descendants, parents first."""
    if head.state is None:
        return []
    children: dict[int, list[Process]] = {}
    for entry in PROC.iterdir():
        fields = stat_of(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(Process(int(entry.name), int(fields[19])))
    found = [head]
    for member in found:  # grows while it is read: the children's children follow
        found += children.get(member.pid, [])
    return found


def remember(path: Path, process: Process) -> None:
    """Store which process was started."""
    path.write_text(f"{process.pid} {process.started}\n")


def recall(path: Path) -> Process | None:
    """The stored process, alive or not; None if none was started."""
    if not path.exists():
        return None
    pid, started = path.read_text().split()
    return Process(int(pid), int(started))


def launch(place: Place, command: Sequence[str], home: Path, extra: Mapping[str, str]) -> Process:
    """Start an engine in its own session, with its output in its log. The previous log is kept too."""
    if (home / "log").exists():
        (home / "log").replace(home / "log.before")
    with (home / "log").open("ab") as log:
        # Not waited for: it outlives us, and init adopts it.
        child = subprocess.Popen(
            command, cwd=home, env={**place.variables(home), **extra}, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True, **place.identity(),
        )  # fmt: skip
    process = identify(child.pid)
    assert process is not None, "our own child stays in /proc until we wait for it"
    remember(home / "pid", process)
    return process


def stop(head: Process, politely: signal.Signals, patience: float) -> bool:
    """Ask the engine to exit, and kill what is left if it does not. Returns whether it exited by itself."""
    members = family(head)
    head.signal(politely)
    for member in members:
        member.signal(signal.SIGCONT)  # a frozen process cannot exit
    if until(lambda: all(member.state is None for member in members), patience):
        return True
    kill(members)
    return False


def kill(members: Sequence[Process]) -> None:
    """Kill all of them at once, and wait until they are gone."""
    for member in members:
        member.signal(signal.SIGKILL)
    if not until(lambda: all(member.state is None for member in members), 30):
        raise TimeoutError(f"process {members[0].pid} did not end when it was killed")


def until(condition: Callable[[], bool], patience: float) -> bool:
    """Poll for at most this many seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
