"""Two readers of the event stream: the request log, and messages in words."""

import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from skitter.events import Deferred, Event, Lost, Opened, Requested, ScopeWidened, SetAside, Warned
from skitter.model import Purpose, Settlement, Visit
from skitter.reporting.format import escaped, printable
from skitter.runtime import durable

log = logging.getLogger("skitter")


class RequestLog:
    """Every request to a server, one JSON object per line. Politeness is checked against this file.

    The lines of a group of visits are written together, by `flush`, before the group is settled. So a crash
    can leave a request in the log whose page is fetched again (both happened), but never a page without its
    request. `sync` is called before the store is synced, so that this also holds after a power loss.
    """

    KINDS = (Requested, Lost)

    def __init__(self, path: Path) -> None:
        self.repaired = _cut_torn_line(path)
        is_new = not path.exists()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if is_new:
            durable.sync_folder(path.parent)
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._waiting: list[Requested | Lost] = []

    def __call__(self, event: Event) -> None:
        """Buffer a line for each request; write one at once for each visit that a crash left open."""
        if isinstance(event, Requested):
            self._waiting.append(event)
        elif isinstance(event, Lost):
            self._waiting.append(event)
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        text, self._waiting = self._encode_lines(self._waiting), []
        if not text.isascii():  # URLs already are; anything else is escaped, line by line
            text = b"".join(escaped(line).encode() + b"\n" for line in text.decode().split("\n")[:-1])
        while (
            text
        ):  # a nearly full disk may write only a part; the next write raises, and the next start cuts it off
            text = text[os.write(self._file, text) :]

    def sync(self) -> None:
        """Sync the file."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write the rest, and close the file."""
        try:
            self.flush()
            self.sync()
        finally:
            os.close(self._file)


def request_of(settlement: Settlement) -> Requested | None:
    """The request of a visit, as in the log; None if nothing was sent."""
    exchange, visit = settlement.exchange, settlement.visit
    if exchange is None:
        return None
    reason = settlement.verdict.reason
    return Requested(
        url=exchange.url,
        host=visit.link.host,
        address=exchange.address,
        start=exchange.started,
        end=exchange.ended,
        status=settlement.status,
        bytes=len(exchange.head) + len(exchange.body),
        purpose=_purpose(visit),
        attempt=visit.attempt,
        fault=reason.code if reason and not settlement.status else "",
    )


def _purpose(visit: Visit) -> str:
    """The purpose of a request, as named in the request log."""
    if visit.link.purpose is not Purpose.PAGE:
        return visit.link.purpose.value
    if visit.attempt > 1:
        return "retry"
    return "redirect" if visit.link.hops else "page"


def _cut_torn_line(path: Path) -> str:
    """Cut an incomplete last line that a crash left. Returns what was done, or ""."""
    if not path.exists() or not (size := path.stat().st_size):
        return ""
    with path.open("r+b") as file:
        start = max(0, size - 2**20)
        file.seek(start)
        tail = file.read()
        keep = start + tail.rfind(b"\n") + 1
        if keep == size:
            return ""
        file.truncate(keep)
    return f"cut {size - keep} bytes of a torn line from {path.name}"


# Event types that people want to read.
WARNING = (Opened, Deferred, SetAside, ScopeWidened, Warned)


def said() -> Sequence[type[Event]]:
    """The kinds of events to tell `say`: warnings, and requests only if the level of the log shows them now."""
    return (*WARNING, Requested, Lost) if log.isEnabledFor(logging.INFO) else WARNING


def say(event: Event) -> None:
    """Events in words, through the standard logging module."""
    match event:
        case Requested():
            _say_request(event)
        case Lost(url):
            log.info("lost %s", url)
        case _:
            for warning in warnings(event):
                log.warning("%s", printable(warning))


def warnings(event: Event) -> list[str]:
    """The warnings of an event, one sentence each."""
    match event:
        case Opened(_, lost, repaired):
            mended = [f"repaired: {repaired}"] if repaired else []
            open_then = f"{lost} visits were in flight when the crawl stopped; they are repeated"
            return [*mended, open_then] if lost else mended
        case Deferred(origin, _, wait, problem):
            return [f"no robots.txt from {origin} ({problem}); trying again in {wait:.0f} s"]
        case SetAside(what, reason):
            return [f"set aside {what}: {reason.detail or reason.code}"]
        case ScopeWidened(seed, target):
            return [f"{seed} redirects to {target}; the scope is extended"]
        case Warned(text):
            return [text]
        case _:
            return []


def _say_request(event: Requested) -> None:
    log.info(
        "%s %s %s %s (%s, %d bytes, %.0f ms)",
        _clock(event.start),
        event.purpose,
        event.fault or event.status,
        event.url,
        event.address,
        event.bytes,
        (event.end - event.start) * 1000,
    )


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]
