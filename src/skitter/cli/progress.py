"""Live progress on standard error: a redrawn block on a terminal, a line every few seconds on a pipe.

`Progress` is that of a crawl, `Transfer` that of an export or an index. `render` and `line` are pure; the screens only write. Nothing here goes to standard output, which belongs to results.
"""

import math
import os
import shutil
from collections.abc import Mapping
from typing import Protocol, TextIO

from msgspec import Struct

from skitter.cli import streams
from skitter.model import Counts
from skitter.reporting.format import amount, count, counted, duration, printable, shortened
from skitter.reporting.progress import Progress
from skitter.reporting.report import error_answers
from skitter.reporting.waiting import Pause, Waiting

REDRAW = 0.25  # seconds
LINES_EVERY = 10.0  # seconds between two lines on a pipe
NOTED = 3.0  # seconds a request must take before its duration is shown
_CLEAR = "\x1b[J"  # from here to the end of the screen


class Shown(Protocol):
    """What a screen can show."""

    def block(self, width: int) -> list[str]:
        """The block for a terminal, no line longer than `width`."""
        ...

    def line(self) -> str:
        """The progress in one line, for logs."""
        ...


class Crawling(Struct, frozen=True):
    """The progress of a crawl on a screen."""

    progress: Progress

    def block(self, width: int) -> list[str]:
        """The block for a terminal."""
        return render(self.progress, width)

    def line(self) -> str:
        """The progress in one line."""
        return line(self.progress)


class Transfer(Struct, frozen=True, kw_only=True):
    """How far something is that is written record by record."""

    done: int
    one: str  # what a record is called …
    many: str  # … and several
    total: int | None = None  # about; None: unknown
    written: int | None = None  # octets
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.done / self.elapsed if self.elapsed > 0 else 0.0

    def block(self, width: int) -> list[str]:
        """One line, redrawn."""
        size = [] if self.written is None else [amount(self.written)]
        parts = [self._count(), f"{count(round(self.rate))}/s", *size, duration(self.elapsed), *self._left()]
        return [shortened(" · ".join(parts), width)]

    def line(self) -> str:
        """The same for logs."""
        size = [] if self.written is None else [amount(self.written)]
        counts = f"{self._count()} ({count(round(self.rate))}/s)"
        return f"skitter: {duration(self.elapsed)}: {', '.join([counts, *size, *self._left()])}"

    def _count(self) -> str:
        if self.total is None or self.total < self.done:  # it was a guess
            return counted(self.done, self.one, self.many)
        return f"{count(self.done)} of {counted(self.total, self.one, self.many)}"

    def _left(self) -> list[str]:
        if self.total is None or self.total < self.done or not self.rate:
            return []
        return [f"{duration((self.total - self.done) / self.rate)} left"]


def remaining(snapshot: Progress) -> float | None:
    """Seconds until the first limit is reached at the current rate; None without a limit or a rate."""
    waits = []
    if snapshot.max_time is not None:
        waits.append(snapshot.max_time - snapshot.elapsed)
    if snapshot.max_pages is not None and snapshot.rate > 0:
        waits.append((snapshot.max_pages - snapshot.counts.pages) / snapshot.rate)
    if snapshot.max_bytes is not None and snapshot.counts.bytes and snapshot.elapsed > 0:
        speed = snapshot.counts.bytes / max(snapshot.counts.elapsed, snapshot.elapsed)
        waits.append((snapshot.max_bytes - snapshot.counts.bytes) / speed)
    return max(0.0, min(waits)) if waits else None


def render(snapshot: Progress, width: int) -> list[str]:
    """The block for a terminal, no line longer than `width`."""
    counts = snapshot.counts
    pages = counted(counts.pages, "page")
    if snapshot.max_pages is not None:
        pages = f"{count(counts.pages)} of {counted(snapshot.max_pages, 'page')}"
    left = remaining(snapshot)
    state = "paused · " if snapshot.paused else ""
    first = f"{state}{pages} · {snapshot.rate:.1f}{snapshot.rate_of}/s · {amount(counts.bytes)} · {duration(snapshot.elapsed)}"
    ready = "" if snapshot.hosts_ready is None else f", {count(snapshot.hosts_ready)} ready"
    second = (
        f"{count(counts.queued)} waiting · {count(snapshot.in_flight)} in flight · "
        f"{counted(counts.hosts, 'host')}{ready} · {troubles(counts, ' · ')}"
    )
    if left is not None:
        first += f" · {duration(left)} left"
    lines = [first, second, *(f"  {printable(text)}" for text in waits(snapshot))]
    return [shortened(text, width) for text in lines]


def troubles(counts: Counts, between: str) -> str:
    """Error answers and URLs given up, with the same names as in the report."""
    answers = counted(error_answers(counts), "error answer")
    return f"{answers}{between}{count(counts.failed)} given up"


def waits(snapshot: Progress) -> list[str]:
    """One line for each request in flight, then for each pausing host with its reason."""
    waiting = snapshot.waiting
    lines = [
        each.url if each.seconds < NOTED else f"{each.url} ({duration(each.seconds)})"
        for each in waiting.asked
    ]
    if snapshot.paused and not snapshot.in_flight:
        return ["paused: nothing is fetched until `skitter continue`"]
    if snapshot.in_flight or not snapshot.counts.queued:
        return lines + [f"pausing: {_pause(each)}" for each in waiting.pauses]
    return [
        *_next(waiting),
        *(f"waiting{' for ' if each.host else ': '}{_pause(each)}" for each in waiting.pauses),
    ]


def _pause(each: Pause) -> str:
    name = f"{each.host}: " if each.host else ""
    return f"{name}{each.why} ({duration(each.seconds)} left)"


def _next(waiting: Waiting) -> list[str]:
    """The next retry, if it is due before the first pause ends."""
    first = min((each.seconds for each in waiting.pauses), default=math.inf)
    if waiting.next_in is None or waiting.next_in < NOTED or waiting.next_in > first - 1:
        return []
    return [f"waiting: the next request (a retry) is due in {duration(waiting.next_in)}"]


def line(snapshot: Progress) -> str:
    """The progress in one line, for logs."""
    counts = snapshot.counts
    said = (
        f"{duration(snapshot.elapsed)}: {'paused, ' if snapshot.paused else ''}{counted(counts.pages, 'page')} ({snapshot.rate:.1f}{snapshot.rate_of}/s), "
        f"{count(counts.queued)} waiting, {count(snapshot.in_flight)} in flight, {troubles(counts, ', ')}, {amount(counts.bytes)}"
    )
    idle = waits(snapshot) if not snapshot.in_flight and not snapshot.paused else []
    return f"{said}; {idle[0]}" if idle else said


# ------------------------------------------------------------------------------------------------ screens


class Screen(Protocol):
    """Where progress and messages are shown."""

    def show(self, snapshot: Shown, now: float) -> None:
        """Show the progress, unless it was shown a moment ago. `now` is a monotonic time."""
        ...

    def say(self, text: str) -> None:
        """Print a message that stays."""
        ...

    def end(self) -> None:
        """Clean up the display."""
        ...


class TerminalScreen:
    """A block redrawn in place; messages scroll above it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._block: list[str] = []
        self._next = float("-inf")

    def show(self, snapshot: Shown, now: float) -> None:
        """Redraw the block, at most four times a second."""
        if now < self._next:
            return
        self._next = now + REDRAW
        # One column stays free: a full line would wrap on some terminals, and the block would grow.
        block = snapshot.block(shutil.get_terminal_size().columns - 1)
        self._write(self._up() + "".join(f"{text}\n" for text in block))
        self._block = block

    def say(self, text: str) -> None:
        """Print above the block."""
        self._write(self._up() + printable(text) + "\n" + "".join(f"{text}\n" for text in self._block))

    def end(self) -> None:
        """Erase the block."""
        self._write(self._up())
        self._block = []

    def _up(self) -> str:
        return f"\x1b[{len(self._block)}F{_CLEAR}" if self._block else ""

    def _write(self, text: str) -> None:
        if text:
            streams.write(self._stream, text)


class PlainScreen:
    """A line every few seconds, for pipes and logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next: float | None = None

    def show(self, snapshot: Shown, now: float) -> None:
        """Write a line, at most every ten seconds and not at the very start."""
        if self._next is None:
            self._next = now + LINES_EVERY
        if now >= self._next:
            self._next = now + LINES_EVERY
            self.say(snapshot.line())

    def say(self, text: str) -> None:
        """Write a line."""
        streams.write(self._stream, printable(text) + "\n")

    def end(self) -> None:
        """Do nothing: plain lines stay."""


class SilentScreen:
    """Shows nothing, for -q."""

    def show(self, snapshot: Shown, now: float) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


def screen(stream: TextIO, environ: Mapping[str, str] = os.environ, *, quiet: bool) -> Screen:
    """Choose the screen for a stream."""
    if quiet:
        return SilentScreen()
    if stream.isatty() and environ.get("TERM") != "dumb":
        return TerminalScreen(stream)
    return PlainScreen(stream)
