"""The commands that a crawl on one machine was given: one line each in a file of its directory, for good.

Only the process that holds the lock of the directory writes; workers and readers read. A line is on the disk before
anybody acts on it. A crash may leave the beginning of a line: it was answered by nobody and applied by nobody, readers
skip it, and the next writer cuts it off.
"""

import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from skitter.control.orders import is_paused
from skitter.ports import Command, StateError
from skitter.runtime import durable

_decode = msgspec.json.Decoder(Command).decode


def read(path: Path) -> list[Command]:
    """Every command in the file, in order; none if there is no file."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Command], int]:
    """The commands, and where the last complete line ends."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    end = whole.rfind(b"\n") + 1
    commands: list[Command] = []
    for line in whole[:end].splitlines():
        number = len(commands) + 1
        try:
            command = _decode(line)
        except msgspec.DecodeError as problem:
            raise StateError(
                f"{path}: line {number} is no command ({problem}); correct it, or remove the file to forget all commands "
                "that no shard has applied"
            ) from None
        if command.number != number:
            raise StateError(f"{path}: line {number} has the number {command.number}; lines are missing")
        commands.append(command)
    return commands, end


class CommandLog:
    """The file, opened by the process that holds the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.commands, self._end = _read(path)

    @property
    def paused(self) -> bool:
        """Whether the crawl is paused."""
        return is_paused(self.commands)

    def after(self, number: int) -> list[Command]:
        """The commands with higher numbers."""
        return self.commands[number:]

    def append(self, command: Command) -> Command:
        """Keep a command, with the next number. It is on the disk when this returns."""
        command = replace(command, number=len(self.commands) + 1)
        line = msgspec.json.encode(command) + b"\n"
        is_new = not self._path.exists()
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(handle, self._end)  # what a crash, or a full disk, has left of a line
            written = 0
            while written < len(line):
                written += os.pwrite(handle, line[written:], self._end + written)
            os.fsync(handle)
        finally:
            os.close(handle)
        if is_new:
            durable.sync_folder(self._path.parent)
        self._end += len(line)
        self.commands.append(command)
        return command
