"""The sockets that libcurl waits for, watched by the event loop.

A connection that serves one visit after the other is watched again for each. With the loop alone that costs a
handle, its removal and two system calls; our own epoll, itself watched by the loop, needs one system call. It
saves 20 µs of a visit's 150. Without epoll (macOS), the loop watches every socket itself.
"""

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import Protocol

import pycurl

Serve = Callable[[Iterable[tuple[int, int]]], None]
"""Takes sockets, and what each is ready for in the words of libcurl."""

_BATCH = 64  # sockets served before other work on the loop gets its turn
# By what libcurl asks for (POLL_IN is 1, POLL_OUT 2): the epoll flags, whose bits equal those of poll.
_ASKED = (0, select.POLLIN, select.POLLOUT, select.POLLIN | select.POLLOUT)
_READY = {select.POLLIN: pycurl.CSELECT_IN, select.POLLOUT: pycurl.CSELECT_OUT}
# Several at once, an error or a hang-up: libcurl finds out by trying both.
_ANY = pycurl.CSELECT_IN | pycurl.CSELECT_OUT


class Sockets(Protocol):
    """Watches sockets, and calls back for the ready ones."""

    watched: dict[int, int]  # socket → what it is watched for

    def watch(self, fd: int, what: int) -> None:
        """Watch a socket for these events from now on."""
        ...

    def release(self, fd: int) -> None:
        """Stop watching a socket; it may be closed."""
        ...

    def close(self) -> None:
        """Stop watching everything."""
        ...


class EpollSockets:
    """An epoll between libcurl and the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Serve) -> None:
        self.watched: dict[int, int] = {}
        self._loop = loop
        self._serve = serve
        self._epoll = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._look)

    def watch(self, fd: int, what: int) -> None:
        """One system call for a socket that was watched before.

        The kernel removes closed sockets, and the number may return as another socket: only the kernel knows.
        """
        self.watched[fd] = what
        try:
            self._epoll.modify(fd, _ASKED[what])
        except FileNotFoundError:
            self._epoll.register(fd, _ASKED[what])

    def release(self, fd: int) -> None:
        """Leave it registered: an idle connection is silent until it is reused. `_look` removes one that is not."""
        self.watched.pop(fd, None)

    def close(self) -> None:
        """Close the epoll."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _look(self) -> None:
        ready: list[tuple[int, int]] = []
        for fd, events in self._epoll.poll(0, _BATCH):
            if fd in self.watched:
                ready.append((fd, _READY.get(events, _ANY)))
            else:
                self._epoll.unregister(fd)
        if ready:
            self._serve(ready)


class LoopSockets:
    """Watches with the event loop's own reader and writer callbacks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Serve) -> None:
        self.watched: dict[int, int] = {}
        self._loop = loop
        self._serve = serve

    def watch(self, fd: int, what: int) -> None:
        """Tell the loop what changed."""
        before, self.watched[fd] = self.watched.get(fd, pycurl.POLL_NONE), what
        if what & pycurl.POLL_IN and not before & pycurl.POLL_IN:
            self._loop.add_reader(fd, self._serve, ((fd, pycurl.CSELECT_IN),))
        elif before & pycurl.POLL_IN and not what & pycurl.POLL_IN:
            self._loop.remove_reader(fd)
        if what & pycurl.POLL_OUT and not before & pycurl.POLL_OUT:
            self._loop.add_writer(fd, self._serve, ((fd, pycurl.CSELECT_OUT),))
        elif before & pycurl.POLL_OUT and not what & pycurl.POLL_OUT:
            self._loop.remove_writer(fd)

    def release(self, fd: int) -> None:
        """Remove the callbacks."""
        if fd in self.watched:
            self.watch(fd, pycurl.POLL_NONE)
            del self.watched[fd]

    def close(self) -> None:
        """Release what is left."""
        for fd in list(self.watched):
            self.release(fd)


def sockets(loop: asyncio.AbstractEventLoop, serve: Serve) -> Sockets:
    """epoll if there is one, otherwise the loop."""
    return EpollSockets(loop, serve) if hasattr(select, "epoll") else LoopSockets(loop, serve)
