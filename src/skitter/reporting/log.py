"""Two readers of the event stream: the request log, and messages in words."""

import logging
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from skitter.events import Deferred, Event, Lost, Opened, Requested, ScopeWidened, SetAside, Terms, Warned
from skitter.model import Purpose, Settlement, Visit
from skitter.reporting.format import escaped, printable
from skitter.runtime import durable
from skitter.settings import Settings

log = logging.getLogger("skitter")


RENDER = "render"
"""The purpose, in the log, of what a page requested while it was rendered."""


class RequestLog:
    """Every request to a server, one JSON object per line. Politeness is checked against this file.

    The lines of a group of visits are written together, by `flush`, before the group is settled. So a crash
    can leave a request in the log whose page is fetched again (both happened), but never a page without its
    request. `sync` is called before the store is synced, so that this also holds after a power loss.
    """

    KINDS = (Requested, Lost, Terms)

    def __init__(self, path: Path) -> None:
        self.repaired = _cut_torn_line(path)
        is_new = not path.exists()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if is_new:
            durable.sync_folder(path.parent)
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._waiting: list[Requested | Lost | Terms] = []

    def __call__(self, event: Event) -> None:
        """Buffer a line for each request; write one at once for each visit that a crash left open, and for new terms."""
        if isinstance(event, Requested):
            self._waiting.append(event)
        elif isinstance(event, Lost | Terms):
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
        bytes=len(exchange.head) + len(exchange.body) + exchange.beyond,
        purpose=_purpose(visit),
        attempt=visit.attempt,
        fault=reason.code if reason and not settlement.status else "",
        retry_after=_retry_after(exchange.head)
        if settlement.status == 429 or settlement.status >= 500
        else UNSET,
        origin=visit.link.origin if visit.link.hops and visit.link.origin else UNSET,
    )


def requests_beside(settlement: Settlement) -> list[Requested]:
    """What was sent because the page of a visit was rendered, as in the log."""
    return [
        Requested(
            url=each.exchange.url,
            host=each.link.host,
            address=each.exchange.address,
            start=each.exchange.started,
            end=each.exchange.ended,
            status=each.status,
            bytes=each.exchange.received,
            purpose=RENDER if each.link.purpose is Purpose.ASSET else each.link.purpose.value,
            attempt=1,
            fault=each.fault,
            retry_after=_retry_after(each.exchange.head)
            if each.status == 429 or each.status >= 500
            else UNSET,
            origin=each.link.origin if each.link.hops and each.link.origin else UNSET,
        )
        for each in settlement.beside
    ]


def _purpose(visit: Visit) -> str:
    """The purpose of a request, as named in the request log."""
    if visit.link.purpose is not Purpose.PAGE:
        return visit.link.purpose.value
    if visit.attempt > 1:
        return "retry"
    if visit.recrawl:
        return "recrawl"
    return "redirect" if visit.link.hops else "page"


_RETRY_AFTER = re.compile(rb"\nretry-after[ \t]*:[ \t]*([^\r\n]{1,100})", re.IGNORECASE)


def _retry_after(head: bytes) -> str | UnsetType:
    """The Retry-After of an answer, as sent."""
    found = _RETRY_AFTER.search(head)
    return found[1].decode("ascii", "replace").strip() if found else UNSET


# What can be held against a crawl, by section; everything else in the settings is nobody's business but the user's.
_PROMISES: dict[str, tuple[str, ...]] = {
    "politeness": (),
    "robots": (),
    "budget": (),
    "schedule": ("retries",),
    "fetch": ("render_gap",),
}


def terms(settings: Settings, agent: str, now: float) -> Terms:
    """What a crawl with these settings promises."""
    promised: dict[str, Any] = {}
    for section, keys in _PROMISES.items():
        values = msgspec.to_builtins(getattr(settings, section, {}))
        promised[section] = {key: value for key, value in values.items() if not keys or key in keys}
    sites = [
        (site.match, {key: value for key, value in site.values.items() if _is_promise(key)})
        for site in settings.site
    ]
    promised["site"] = [
        {"match": match, "values": msgspec.to_builtins(values)} for match, values in sites if values
    ]
    promised["group"] = msgspec.to_builtins(settings.group)
    return Terms(now, agent, promised)


def _is_promise(dotted: str) -> bool:
    section, _, name = dotted.partition(".")
    return section in _PROMISES and (not _PROMISES[section] or name in _PROMISES[section])


MAX_REQUESTS = 100  # of one URL that are shown; a page that is visited for years has more
_line = msgspec.json.Decoder(Requested | Lost)


def requests_for(paths: Iterable[Path], urls: Collection[str], most: int) -> list[Requested | Lost]:
    """The last requests for some URLs, in order. Reads whole logs: some seconds for a gigabyte."""
    needles = [url.encode() for url in urls]
    found: deque[Requested | Lost] = deque(maxlen=most)
    for path in paths:
        if not path.is_file():
            continue
        with path.open("rb") as file:
            for text in file:
                if any(needle in text for needle in needles) and text.endswith(b"\n"):
                    with suppress(msgspec.DecodeError):  # written by another version
                        request = _line.decode(text)
                        if request.url in urls:
                            found.append(request)
    return sorted(found, key=lambda each: each.start if isinstance(each, Requested) else each.leased_at)


_TAIL = 2**20  # bytes at the end of a log that are read after a crash


Wait = Callable[[Sequence[tuple[str, str]], float], float | None]
"""How many seconds a Retry-After in some header fields means, read at a time: `politeness.retry_after`."""


def asked_to_wait(path: Path, wait: Wait, visits: Sequence[Visit]) -> dict[str, float]:
    """Until when hosts have asked us to wait, in answers to visits that a crash left open. Reads the end of the log."""
    leased = {visit.link.url: visit.leased_at for visit in visits}
    found: dict[str, float] = {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        for text in file:
            with suppress(msgspec.DecodeError):  # the rest of a line, or no request
                line = _line.decode(text)
                if not isinstance(line, Requested) or line.retry_after is UNSET or line.url not in leased:
                    continue
                asked = wait([("retry-after", line.retry_after)], line.end)
                if asked is not None and line.start >= leased[line.url]:
                    found[line.host] = max(found.get(line.host, 0.0), line.end + asked)
    return found


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
