"""libcurl transfers on the event loop: CurlMulti driven by socket and timer callbacks, without threads or polling.

libcurl says which sockets it waits for and when it wants to be woken; the loop watches and calls back. One
transfer is one awaited call. The bridge belongs to the loop it was created on.

It also checks an idle connection before it is reused. A server that keeps sending after its answer (a body
longer than announced, an unsolicited answer) would have that mistaken for the next answer; libcurl only
checks once a second.
"""

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import Protocol

import pycurl

_NEVER = float("inf")
_TIME = ((pycurl.SOCKET_TIMEOUT, 0),)  # the ready set when only time has passed


class Multi:
    """Runs Curl handles on a running event loop, and keeps at most `keep` idle connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, keep: int) -> None:
        self._loop = loop
        self._waiting: dict[pycurl.Curl, tuple[asyncio.Future[tuple[int, str]], str]] = {}
        self._sockets = _sockets(loop, self._serve)
        self._soon: asyncio.Handle | None = None  # the next timer, and a later one
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = self._due = _NEVER
        self._keep = keep
        self._kept = _Kept(keep)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._wake)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)

    async def perform(self, curl: pycurl.Curl, peer: str, *, fresh: bool = False) -> tuple[int, str]:
        """Run one transfer to its end. Returns libcurl's code and message, (0, "") on success.

        `peer` identifies the other end: transfers to the same peer may share a connection, one after the
        other. `fresh` asks for a new connection.
        """
        fresh = self._kept.has_spoken(peer, self._loop.time()) or fresh
        if fresh:
            curl.setopt(pycurl.FRESH_CONNECT, 1)
        done: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self._waiting[curl] = done, peer
        self._make_room()
        self._multi.add_handle(curl)
        try:
            return await done
        finally:
            if self._waiting.pop(curl, None) is not None:  # cancelled: the connection is closed with it
                self._multi.remove_handle(curl)
            if fresh:
                curl.setopt(pycurl.FRESH_CONNECT, 0)

    def close(self) -> None:
        """Close every connection. Transfers in flight end as cut off."""
        for curl in list(self._waiting):
            self._end(curl, pycurl.E_ABORTED_BY_CALLBACK, "the fetcher was closed")
        self._multi.close()
        self._sockets.close()
        for timer in (self._soon, self._alarm):
            if timer is not None:
                timer.cancel()

    def _make_room(self) -> None:
        """libcurl counts connections in use among those it keeps, and closes idle ones when there are too many."""
        self._multi.setopt(pycurl.M_MAXCONNECTS, max(self._keep + len(self._waiting) - 1, 1))

    # -- what libcurl waits for ------------------------------------------------------------------------------

    def _watch(self, what: int, fd: int, _multi: object, _own: object) -> None:
        """libcurl's socket callback: watch `fd` for `what` from now on."""
        if what == pycurl.POLL_REMOVE:
            self._sockets.release(fd)
        else:
            self._sockets.watch(fd, what)
            self._kept.in_use(fd)

    def _wake(self, milliseconds: int) -> None:
        """libcurl's timer callback: there is one timer, and this replaces it. It must not act from in here.

        Every transfer postpones the timer, so the loop's timer is left alone while it is early enough, and
        may fire in vain.
        """
        if milliseconds == 0:
            if self._soon is None:
                self._soon = self._loop.call_soon(self._ring)
            return
        self._due = self._loop.time() + milliseconds / 1000 if milliseconds > 0 else _NEVER
        if self._due < self._alarm_at:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(self._due, self._look_at_the_time)
        self._alarm_at = self._due

    def _look_at_the_time(self) -> None:
        self._alarm, self._alarm_at = None, _NEVER
        if self._due <= self._loop.time():
            self._serve(_TIME)
        elif self._due < _NEVER:
            self._set_alarm()

    def _ring(self) -> None:
        self._soon = None
        self._serve(_TIME)

    def _serve(self, ready: Iterable[tuple[int, int]]) -> None:
        """Let libcurl work, then complete what has ended."""
        for fd, event in ready:
            _, running = self._multi.socket_action(fd, event)
        if running < len(self._waiting):
            self._collect()

    def _collect(self) -> None:
        _, whole, broken = self._multi.info_read()
        for curl in whole:
            self._end(curl, 0, "")
        for curl, code, message in broken:
            self._end(curl, code, message)

    def _end(self, curl: pycurl.Curl, code: int, message: str) -> None:
        done, peer = self._waiting.pop(curl)
        fd = curl.getinfo(pycurl.ACTIVESOCKET)  # libcurl forgets it with the next line
        self._multi.remove_handle(curl)
        if (
            fd not in self._sockets.watched
        ):  # or libcurl has already given the connection to the next transfer
            self._kept.keep(peer, fd)
        self._make_room()
        if not done.done():
            done.set_result((code, message))


# libcurl drops idle connections with unread data when a transfer starts, but at most once a second.
_LOUD = 2.0


class _Kept:
    """The sockets of the most recently used idle connections, by peer.

    A number may be out of date: then it is not an open socket, or another one that happens to be readable,
    and the cost of a mistake is new connections for a while. So a socket that is watched again is removed: a
    transfer that was waiting when another ended takes its connection unchecked, and what it receives is its
    answer.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(capacity, 1)
        self._sockets: dict[str, set[int]] = {}
        self._peers: dict[int, str] = {}  # the inverse mapping
        self._loud: dict[str, float] = {}  # peers that get only new connections, and until when
        self._poll = select.poll()

    def keep(self, peer: str, fd: int) -> None:
        """A transfer has ended on this socket, which is negative if it is already closed."""
        if fd < 0:
            return
        self.in_use(fd)  # the number may be recorded for a closed connection
        if len(self._sockets) >= self._capacity and peer not in self._sockets:
            self._forget(next(iter(self._sockets)))
        self._sockets.setdefault(peer, set()).add(fd)
        self._peers[fd] = peer

    def in_use(self, fd: int) -> None:
        """Data on this socket is expected from now on."""
        peer = self._peers.pop(fd, None)
        if peer is not None:
            self._sockets[peer].discard(fd)

    def _forget(self, peer: str) -> set[int]:
        sockets = self._sockets.pop(peer, set())
        for fd in sockets:
            del self._peers[fd]
        return sockets

    def has_spoken(self, peer: str, now: float) -> bool:
        """Whether a connection that should be silent has something to read, including its end.

        With several connections to one peer, all are checked before the first transfer, none before the next
        ones.
        """
        sockets = self._forget(peer)
        for fd in sockets:
            self._poll.register(fd, select.POLLIN)
        if sockets and any(event & select.POLLIN for _, event in self._poll.poll(0)):
            self._loud[peer] = now + _LOUD
        for fd in sockets:
            self._poll.unregister(fd)
        if self._loud.get(peer, now) > now:
            return True
        self._loud.pop(peer, None)
        if len(self._loud) > self._capacity:
            self._loud = {name: until for name, until in self._loud.items() if until > now}
        return False


# ------------------------------------------------------------------------------------------------ watching sockets
#
# A connection that serves one visit after the other is watched again for each. With the loop alone that costs a handle, its
# removal and two system calls; our own epoll, itself watched by the loop, needs one system call. It saves 20 µs of a
# visit's 150. Without epoll (macOS), the loop watches every socket itself.

_Serve = Callable[[Iterable[tuple[int, int]]], None]
"""Takes sockets, and what each is ready for in the words of libcurl."""

_BATCH = 64  # sockets served before other work on the loop gets its turn
# By what libcurl asks for (POLL_IN is 1, POLL_OUT 2): the epoll flags, whose bits equal those of poll.
_ASKED = (0, select.POLLIN, select.POLLOUT, select.POLLIN | select.POLLOUT)
_READY = {select.POLLIN: pycurl.CSELECT_IN, select.POLLOUT: pycurl.CSELECT_OUT}
# Several at once, an error or a hang-up: libcurl finds out by trying both.
_ANY = pycurl.CSELECT_IN | pycurl.CSELECT_OUT


class _Sockets(Protocol):
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


class _EpollSockets:
    """An epoll between libcurl and the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: _Serve) -> None:
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


class _LoopSockets:
    """Watches with the event loop's own reader and writer callbacks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: _Serve) -> None:
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


def _sockets(loop: asyncio.AbstractEventLoop, serve: _Serve) -> _Sockets:
    """epoll if there is one, otherwise the loop."""
    return _EpollSockets(loop, serve) if hasattr(select, "epoll") else _LoopSockets(loop, serve)
