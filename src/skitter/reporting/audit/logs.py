"""Reads logs: Skitter's request log, access logs of servers (common and combined format), and WARC files."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from skitter import urls
from skitter.reporting.audit import robots, warc
from skitter.reporting.audit.values import Log, Promise, Request

_OWN_PRECISION = 0.001  # seconds: one clock, written as it was read
_LATE = 5.0  # seconds: how far behind the clock of its run a request may seem to start

# 203.0.113.7 - - [17/Nov/2026:22:00:00 +0000] "GET /a HTTP/1.1" 200 512 "referer" "user agent", perhaps with the
# name of the host before it (vhost_combined).
_ACCESS = re.compile(
    r"(?:(?P<vhost>[^\s:\[\]]+)(?::(?P<port>\d+))? (?=\S+ \S+ \S+ \[))?(?P<client>\S+) \S+ [^\[]*\[(?P<time>[^\]]{20,30})\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}|-) (?P<size>\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?.*'
)


class Bad(Struct, frozen=True):
    """A line that says nothing, or something impossible."""

    line: int
    what: str


class _Line(Struct, frozen=True, tag_field="type", tag="Requested"):
    url: str
    host: str
    address: str
    start: float
    end: float
    status: int
    bytes: int
    purpose: str
    attempt: int
    fault: str = ""
    retry_after: str = ""
    origin: str = ""


class _Lost(Struct, frozen=True, tag_field="type", tag="Lost"):
    url: str
    host: str
    leased_at: float


class _Terms(Struct, frozen=True, tag_field="type", tag="Terms"):
    at: float
    agent: str
    settings: dict[str, Any]


Found = Request | Bad
Opened = tuple[Log, Callable[[], Iterator[Found]]]


class Promises:
    """All terms of all logs, each once."""

    def __init__(self) -> None:
        self.all: list[Promise] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, promise: Promise) -> int:
        """The number of these terms."""
        key = msgspec.json.encode((promise.agent, promise.settings), order="deterministic")
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append(promise)
        return self._numbers[key]


# ------------------------------------------------------------------------------------------------ the request log


def own_log(path: Path, name: str, file: int, promises: Promises, default: Promise) -> Opened:
    """A request log of Skitter's. `default` holds until the first line that says what was promised."""
    return Log(name, _OWN_PRECISION, ends=True), lambda: _own_lines(path, file, promises, default)


def _own_lines(path: Path, file: int, promises: Promises, default: Promise) -> Iterator[Found]:
    decode = msgspec.json.Decoder(_Line | _Lost | _Terms).decode
    terms, began = -1, 0.0
    era = run = 0
    latest = 0.0
    torn = Bad(0, "")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if torn.line:
                yield torn
                torn = Bad(0, "")
            try:
                found = decode(line)
            except msgspec.DecodeError as problem:
                # The last line of a log may be torn: that is what a crash leaves, and the next run cuts it off.
                torn = Bad(number, f"it is not a line of a request log: {problem}")
                if line.endswith(b"\n"):
                    yield torn
                    torn = Bad(0, "")
                continue
            if isinstance(found, _Terms):
                run += 1
                era += found.at < latest - _OWN_PRECISION
                latest = began = found.at
                terms = promises.number(Promise(found.agent, found.settings, found.at, "the request log"))
                continue
            if terms < 0:
                terms = promises.number(default)
            if isinstance(found, _Lost):
                # It may have been requested until its process died; the next one has opened its shard at `began`. A process
                # that was stopped at once says so itself: then it was leased in this very run.
                at = max(began, found.leased_at)
                yield Request(era, at, at, found.url, found.host, file, number, terms, lost=True, run=run)
                continue
            if found.end < found.start:
                yield Bad(number, f"it ends {found.start - found.end:.3f} s before it starts")
            elif found.start < began - _OWN_PRECISION:
                yield Bad(number, f"it starts {began - found.start:.3f} s before its run began")
            latest = max(latest, found.end)
            yield Request(
                era, found.start, max(found.end, found.start), found.url, found.host, file, number, terms,
                found.address, found.status, found.bytes, found.purpose, found.fault, found.attempt,
                found.retry_after, found.origin, run=run,
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------ access logs


def access_log(path: Path, file: int, terms: int, agent: str, host: str) -> Opened:
    """The log of a server. Lines of other agents are left out, where the log tells them apart."""
    return Log(str(path), 1.0, ends=False, kind="access"), lambda: _access_lines(
        path, file, terms, agent, host
    )


def _access_lines(path: Path, file: int, terms: int, agent: str, host: str) -> Iterator[Found]:
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            found = _ACCESS.fullmatch(line.rstrip("\r\n"))
            at = _clf_time(found["time"]) if found else None
            if found is None or at is None:
                yield Bad(number, "it is not in the common or combined log format")
                continue
            who = found["agent"]
            if who is not None and agent and agent.lower() not in who.lower():
                continue
            url = _asked_for(found["request"], _named(found, host))
            if url is None:
                yield Bad(number, f"it is no HTTP request: {found['request'][:60]!r}")
                continue
            status = found["status"]
            size = found["size"]
            yield Request(
                0, at, at, url, urls.host(url), file, number, terms,
                status=int(status) if status.isdigit() else 0, size=int(size) if size.isdigit() else 0,
            )  # fmt: skip


def is_access_log(line: str) -> bool:
    """Whether a line is in the common or combined format."""
    return _ACCESS.fullmatch(line.rstrip("\r\n")) is not None


def _named(found: re.Match[str], host: str) -> str:
    vhost, port = found["vhost"], found["port"]
    if not vhost:
        return host
    return f"{vhost}:{port}" if port and port not in {"80", "443"} else vhost


def _asked_for(request: str, host: str) -> str | None:
    words = request.split()
    if len(words) < 2:
        return None
    url = words[1] if words[1].startswith(("http://", "https://")) else f"http://{host}{words[1]}"
    return urls.fetched_form(url)


def _clf_time(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").timestamp()
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------ WARC files


def warc_log(path: Path, file: int, terms: int) -> Opened:
    """A WARC file: its response records are requests."""
    exact = not any(answer.whole_seconds for answer, _ in zip(warc.answers(path), range(20), strict=False))
    precision = _OWN_PRECISION if exact else 1.0
    return Log(str(path), precision, ends=False, kind="warc"), lambda: _records(path, file, terms)


def _records(path: Path, file: int, terms: int) -> Iterator[Found]:
    for number, answer in enumerate(warc.answers(path), start=1):
        yield Request(
            0, answer.at, answer.at, answer.url, urls.host(answer.url), file, number, terms, answer.address,
            answer.status, len(answer.body), retry_after=answer.headers.get("retry-after", ""),
        )  # fmt: skip


class RobotsTexts:
    """The answers to requests for a robots.txt, as archives have them."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], warc.Answer] = {}
        self._given: Mapping[str, bytes] = {}

    def give(self, texts: Mapping[str, bytes]) -> None:
        """Texts by host, or for all ("") where no archive has them."""
        self._given = texts

    def read(self, path: Path, also: frozenset[str]) -> None:
        """Keep those of one WARC file; `also` are URLs to which one has moved."""
        for answer in warc.answers(path, robots_only=also):
            if len(answer.body) > _ROBOTS:
                answer = msgspec.structs.replace(answer, body=answer.body[:_ROBOTS], cut=True)  # noqa: PLW2901
            self._found[answer.url, round(answer.at * 1_000_000)] = answer

    def of(self, request: Request) -> warc.Answer | None:
        """The answer to a request."""
        micro = round(request.start * 1_000_000)
        found = self._found.get((_as_uri(request.url), micro))
        if found is None:
            given = self._given.get(request.host, self._given.get(""))
            if given is not None:
                return warc.Answer(request.url, request.start, False, request.status, {}, given)  # noqa: FBT003
        return found

    def given(self, host: str, agent: str) -> robots.Rules | None:
        """The rules that the owner of a host says it has."""
        text = self._given.get(host, self._given.get(""))
        return None if text is None else robots.read(text, agent)

    def rules(self, answer: warc.Answer, agent: str) -> robots.Rules:
        """What an answer says."""
        return robots.read(warc.content(answer, _ROBOTS), agent, cut=answer.cut)


_ROBOTS = 600 * 1024
_NOT_URI = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")


def _as_uri(url: str) -> str:
    """As a WARC file spells it."""
    return _NOT_URI.sub(lambda found: "".join(f"%{octet:02X}" for octet in found[0].encode()), url)
