"""A worker as its parent sees it, and the links that are under way between two of them."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skitter.fleet.messages import Account, Carried, Carry, Ended, Line, Message, Start
from skitter.fleet.processes import Child, executed, forked
from skitter.model import Counts


@dataclass(eq=False)
class Worker:
    """One process, or the next one in its place."""

    number: int
    shards: Sequence[int]
    process: Child | None = None
    unborn: socket.socket | None = None  # our end of the line to a process that waits for its orders
    line: Line | None = None
    ready: bool = False
    account: Account | None = None
    counts: Counts = field(default_factory=Counts)
    ended: Ended | None = None
    had: int | None = None  # pages, when it was first opened
    deaths: int = 0  # in a row, without getting anywhere

    def fork(self, lock: int) -> None:
        """Start the first process, before there are threads or an event loop. It waits for its orders."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = forked(theirs.fileno(), lock)
        self.unborn = ours

    def forgo(self) -> None:
        """There are no orders after all: the process goes when it hears nobody."""
        if self.unborn is not None and self.process is not None:
            self.unborn.close()
            self.process.wait()
            self.unborn = None

    async def start(self, command: Sequence[str], lock: int, orders: Start) -> None:
        """Start a process, unless the first is there already. It holds the lock of the crawl directory, too."""
        ours, self.unborn = self.unborn, None
        if ours is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self.process = executed(command, theirs.fileno(), lock)
        self.line = Line(*await asyncio.open_connection(sock=ours))
        self.line.say(orders)

    def say(self, message: Message) -> None:
        """Tell it something, if it is there to listen."""
        if self.line is not None and self.ready:
            self.line.say(message)

    async def hung_up(self) -> int:
        """It has closed its end: wait for it to go. Returns its exit code, negative for a signal."""
        self.ready = False
        if self.line is not None:
            await self.line.close()
        return 0 if self.process is None else await asyncio.to_thread(self.process.wait)

    def kill(self) -> None:
        """End it. That is always safe."""
        self.ready = False
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)


class Carrier:
    """Hands links on from worker to worker, and counts what was sent and what was accepted."""

    def __init__(self, owners: Mapping[int, Worker]) -> None:
        self._owners = owners
        self._under_way: dict[tuple[int, int], tuple[int, int]] = {}  # (sender, number) -> (owner, links)
        self.sent = self.accepted = 0

    def carry(self, message: Carry) -> None:
        """Take links to their owner. If it is away, they are sent again when it is back."""
        key = (message.sender, message.number)
        if key not in self._under_way:
            self._under_way[key] = (message.to, message.size)
            self.sent += message.size
        self._owners[message.to].say(message)

    def carried(self, message: Carried) -> None:
        """Tell the sender that the owner has them."""
        _, links = self._under_way.pop((message.sender, message.number), (0, 0))
        self.accepted += links
        self._owners[message.sender].say(message)

    def forget(self, shards: Sequence[int]) -> None:
        """Nothing is under way from these shards or to them any more: their worker is gone."""
        for key, (owner, links) in list(self._under_way.items()):
            if owner in shards or key[0] in shards:
                del self._under_way[key]
                self.sent -= links
