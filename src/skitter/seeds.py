"""Where a crawl begins: URLs from the command line, from files and from standard input.

A file has one URL a line, or a JSON object {url, priority, score, depth, meta} a line; both may be mixed. Empty lines and
lines that begin with "#" are skipped. Other keys of an object are left alone, so that an export of URLs can be the seeds
of the next crawl. A bad line is a value, `BadSeed`, with its place and its reason: one misprint in a million seeds must
not cost the other seeds. Files are read as a stream, so their size does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta, Struct

from skitter import urls
from skitter.model import Level, Reason

MAX_LINE = 2**20  # bytes; a URL has at most some thousand, the rest is room for meta


class Seed(Struct, frozen=True, kw_only=True):
    """What somebody asks for. What is None is for the strategy to say."""

    url: str  # as written
    where: str
    level: Level | None = None
    score: float | None = None
    depth: int = 0
    meta: Mapping[str, Any] | None = None


class BadSeed(Struct, frozen=True):
    """A seed that cannot be used, with the place it came from."""

    where: str
    text: str
    reason: Reason


class _Line(Struct, frozen=True):
    """A JSON line of a seed file."""

    url: str
    priority: str | int | None = None
    score: float | None = None
    depth: Annotated[int, Meta(ge=0)] = 0
    meta: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Line).decode


def named(texts: Iterable[str]) -> Iterator[Seed | BadSeed]:
    """Seeds as they stand on the command line."""
    for number, text in enumerate(texts, start=1):
        yield _seed(_Line(text), f"argument {number}")


def read(file: BinaryIO, name: str) -> Iterator[Seed | BadSeed]:
    """Seeds of a file or a pipe, line by line."""
    for number, line in _lines(file):
        where = f"{name}:{number}"
        if len(line) > MAX_LINE:
            yield _bad(where, line[:100], f"the line is longer than {MAX_LINE} bytes")
            continue
        bare = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not bare or bare.startswith(b"#"):
            continue
        yield _json(bare, where) if bare.startswith(b"{") else _plain(bare, where)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of one that is too long only the beginning is held in memory."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        yield number, line
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE + 1)


def _plain(line: bytes, where: str) -> Seed | BadSeed:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return _bad(where, line, "the line is not UTF-8 text")
    return _seed(_Line(text), where)


def _json(line: bytes, where: str) -> Seed | BadSeed:
    try:
        parsed = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        return _bad(where, line, f'{problem}; write for example {{"url": "https://example.org/"}}')
    return _seed(parsed, where)


def _seed(line: _Line, where: str) -> Seed | BadSeed:
    level = _level(line.priority)
    if level is None and line.priority is not None:
        names = ", ".join(level.name.lower() for level in Level)
        return _bad(
            where, line.url, f"the priority {line.priority!r} is none of {names} (or 0 to {len(Level) - 1})"
        )
    if urls.seed(line.url) is None:
        return _bad(where, line.url, "this is no http or https URL; write for example https://example.org/")
    return Seed(
        url=line.url.strip(), where=where, level=level, score=line.score, depth=line.depth, meta=line.meta
    )


def _level(priority: str | int | None) -> Level | None:
    if isinstance(priority, str):
        return Level.__members__.get(priority.upper())
    return Level(priority) if priority is not None and 0 <= priority < len(Level) else None


def _bad(where: str, text: str | bytes, detail: str) -> BadSeed:
    shown = text if isinstance(text, str) else text.decode(errors="backslashreplace")
    return BadSeed(where, shown[:200], Reason("seed.unusable", detail))
