"""The pool of parser processes, for documents that take long to parse, or that may break a parser.

A process is a new interpreter, started when the first document needs it and ended when none did for a minute. It has
limits for time and memory; one that reaches them, or crashes, costs the document it was reading. If a process was
killed by somebody else, another one reads the document again, once.

The pool never raises for what a document does: it returns what was found, or why nothing was.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

import msgspec

from skitter.parse.frames import (
    LENGTH,
    Answer,
    Begin,
    Order,
    Read,
    Ready,
    Trouble,
    Work,
    answers,
    framed,
)
from skitter.settings import ParseSettings, Settings

COMMAND = (sys.executable, "-m", "skitter.parse.process")

_IDLE = 60.0  # seconds until a process without work is ended
_START = 60.0  # seconds for a new process until it is ready; it takes 0.2
_PATIENCE = 5.0  # seconds for a process that has hung up to exit
_BUFFER = 2**20  # bytes read ahead of an answer
# An answer is hardly longer than its document: a byte becomes at most three when it is decoded, and some become text
# and a link.
_LONGER = 8
_AT_LEAST = 2**20
_WIDEST = 4  # bytes of a character, where the text is not a part of the document as it is
# How a process ends that its own code has broken. SIGXCPU and SIGALRM: see `process`.
_CRASHES = frozenset(
    (
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGABRT,
        signal.SIGSYS,
        signal.SIGTRAP,
    )
)
_TOO_LONG = frozenset((signal.SIGXCPU, signal.SIGALRM))
# numpy's linear algebra would start a thread per core, with memory for each.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


class _Gone(Exception):  # noqa: N818  it is the process that is gone
    """The process has hung up, or said something that makes no sense."""


class _NotStarted(Exception):  # noqa: N818  it is the process that is not started
    """Why there is no process."""


class ParserPool:
    """Reads documents in processes of their own, a few at a time; the others wait for their turn."""

    def __init__(self, settings: Settings, command: Sequence[str] | None = None) -> None:
        parse, dedup = settings.parse, settings.dedup
        self._settings = parse
        self._begin = Begin(parse, dedup.min_words if dedup.near else None)
        self._longest = _AT_LEAST + max(_LONGER * parse.max_input, _WIDEST * parse.max_text)
        self._most = settings.fetch.max_in_flight // 2
        self._command = COMMAND if command is None else command
        self._turns = asyncio.Semaphore(parse.processes)
        self._idle: list[_Process] = []
        self._ending: set[asyncio.Task[int]] = set()
        self._held = 0  # bytes of documents that wait or are being read
        self._room = asyncio.Event()
        self.full = False  # so many bytes wait that nothing more should be fetched
        self.started = 0  # processes, so far
        self.complain: Callable[[str], None] = lambda _text: None
        self._complained = False

    async def read(
        self,
        url: str,
        headers: Sequence[tuple[str, str]],
        content: bytes,
        settings: ParseSettings | None = None,
        asset: str = "",
    ) -> Read | Trouble:
        """Read a document as `skitter.parse.parse` would, perhaps with the settings of its site; an asset of this kind as `parse_asset` would."""
        own = None if settings is self._settings else settings
        self._hold(len(content))
        try:
            async with self._turns:
                return await self._read(Work(url, headers, content, own, asset))
        finally:
            self._hold(-len(content))

    async def room(self) -> None:
        """Wait until fewer documents wait."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    async def close(self) -> None:
        """End every process."""
        while self._idle:
            self._end(self._idle.pop())
        while self._ending:
            await asyncio.wait(self._ending)

    def _hold(self, size: int) -> None:
        self._held += size
        self.full = self._held > self._most
        if not self.full:
            self._room.set()

    async def _read(self, work: Work) -> Read | Trouble:
        for _ in range(2):
            try:
                process = self._waiting() or await self._start()
            except _NotStarted as problem:
                return self._not_started(str(problem))
            try:
                async with asyncio.timeout(self._settings.deadline):
                    answer = await process.ask(work)
            except TimeoutError:
                self._end(process)
                return self._too_long()
            except _Gone as gone:
                if trouble := self._explained(await asyncio.shield(self._gone(process)), str(gone)):
                    return trouble
                continue
            except BaseException:
                self._end(process)
                raise
            if isinstance(answer, Read | Trouble):
                self._let_wait(process)
                return answer
            self._end(process)
            most = self._settings.max_memory // 2**20
            return Trouble(f"the page needs more than {most} MiB to be parsed (parse.max_memory)")
        return Trouble("the process that parsed the page was killed from outside, twice")

    # -- processes -------------------------------------------------------------------------------------------

    async def _start(self) -> "_Process":
        try:
            process = await _Process.started(self._command, self._longest)
        except OSError as problem:
            raise _NotStarted(problem.strerror or str(problem)) from None
        self.started += 1
        try:
            async with asyncio.timeout(_START):
                answer = await process.ask(self._begin)
        except TimeoutError:
            self._end(process)
            raise _NotStarted(f"it is not ready after {_START:g} s") from None
        except _Gone:
            raise _NotStarted(_ended(await asyncio.shield(self._gone(process)))) from None
        except BaseException:
            self._end(process)
            raise
        if not isinstance(answer, Ready):
            self._end(process)
            raise _NotStarted("it does not say that it is ready")
        self._complained = False
        return process

    def _waiting(self) -> "_Process | None":
        """A process without work, if there is one and nobody has killed it."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():
                process.take()
                return process
            self._end(process)
        return None

    def _let_wait(self, process: "_Process") -> None:
        self._idle.append(process)
        process.end_after(_IDLE, self._dismiss)

    def _dismiss(self, process: "_Process") -> None:
        self._idle.remove(process)
        self._end(process)

    def _end(self, process: "_Process") -> None:
        """Kill it, which is always safe."""
        process.kill()
        self._gone(process)

    def _gone(self, process: "_Process") -> "asyncio.Task[int]":
        """The exit code of a process that ends now; `close` waits until it has ended."""
        ending = asyncio.ensure_future(process.exit_code())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    # -- what went wrong -------------------------------------------------------------------------------------

    def _explained(self, code: int, said: str) -> Trouble | None:
        """Why a process ended; None if it was not because of the document, as far as can be told."""
        if said:
            return Trouble(said)
        if -code in _TOO_LONG:
            return self._too_long()
        if -code in _CRASHES:
            return Trouble(f"the process that parsed the page crashed: {_ended(code)}")
        return None if code < 0 else Trouble(f"the process that parsed the page ended: {_ended(code)}")

    def _too_long(self) -> Trouble:
        return Trouble(f"the page takes longer than {self._settings.deadline:g} s to parse (parse.deadline)")

    def _not_started(self, why: str) -> Trouble:
        trouble = f"the process that parses large pages could not be started: {why}"
        if not self._complained:
            self._complained = True
            self.complain(
                f"{trouble}; pages larger than parse.pool_above, and documents such as PDF, fail meanwhile"
            )
        return Trouble(trouble)


class _Process:
    """A parser process, and our end of the line to it."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        longest: int,
    ) -> None:
        self._child, self._reader, self._writer, self._longest = child, reader, writer, longest
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def started(cls, command: Sequence[str], longest: int) -> "_Process":
        """Start a new interpreter: this process has threads, so a copy of it would not be sound."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                child = subprocess.Popen(  # noqa: S603, ASYNC220  the command is ours, and this takes a millisecond
                    [*command, str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=os.environ | _ONE_THREAD,
                    start_new_session=True,  # Ctrl-C is for the crawl
                )
        except OSError:
            ours.close()
            raise
        try:
            return cls(child, *await asyncio.open_connection(sock=ours, limit=_BUFFER), longest)
        except BaseException:
            ours.close()
            child.kill()
            child.wait()
            raise

    async def ask(self, order: Order) -> Answer:
        """Send an order, and wait for the answer."""
        try:
            for piece in framed(order):
                self._writer.write(piece)
            await self._writer.drain()
            size = int.from_bytes(await self._reader.readexactly(LENGTH), "big")
            if size > self._longest:
                self.kill()
                raise _Gone(f"the process that parsed the page gave an answer of {size} bytes")
            return answers.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            raise _Gone from None
        except msgspec.DecodeError as problem:
            self.kill()
            raise _Gone(f"the process that parsed the page gave no usable answer: {problem}") from None

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.poll() is None and not self._reader.at_eof()

    def end_after(self, seconds: float, end: "Callable[[_Process], None]") -> None:
        """Call `end` unless it is taken before."""
        self._timer = asyncio.get_running_loop().call_later(seconds, end, self)

    def take(self) -> None:
        """It has work again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def kill(self) -> None:
        """End it at once. That is always safe."""
        self.take()
        self._child.kill()

    async def exit_code(self) -> int:
        """Wait until it is gone; negative for a signal."""
        self._writer.close()
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asyncio.to_thread(self._child.wait)
        except TimeoutError:
            self._child.kill()
            return await asyncio.to_thread(self._child.wait)


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"
