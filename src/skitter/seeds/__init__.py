"""Seeds: URLs from the command line, from files and from standard input, as Links.

A file has one URL per line, or one JSON object {url, priority, score, depth, lastmod, meta} per line; both may
be mixed. A whole number or a name is a priority of ours (a level), a fraction such as 0.8 that of a sitemap. Empty lines and lines that begin with "#" are skipped. Other keys of an object are ignored, so that an
export of URLs can seed the next crawl. A bad line is a value, `BadSeed`, with its place and reason: one typo
in a million seeds must not cost the others. Files are read as a stream, so their size does not matter.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from skitter import reasons, urls
from skitter.model import Hints, Level, Link, Purpose, Reason
from skitter.runtime import dates
from skitter.runtime.hiding import hidden

MAX_LINE = 2**20  # bytes; URLs have at most a few thousand, the rest is room for meta


class BadSeed(Struct, frozen=True):
    """An unusable seed, with the place it came from."""

    where: str
    text: str
    reason: Reason

    @property
    def complaint(self) -> str:
        """Where it is, what it says, and what is wrong with it."""
        return f"{self.where}: {self.text}: {self.reason.detail}"


_Lastmod = str | Annotated[float, Meta(ge=0, le=dates.LATEST)] | None


class _Hints(Struct, frozen=True):
    """The hints of a URL as `skitter export --format urls` writes them."""

    lastmod: _Lastmod = None
    priority: Annotated[float, Meta(ge=0, le=1)] | None = None


class _Line(Struct, frozen=True):
    """A JSON line of a seed file."""

    url: str
    priority: str | int | float | None = None
    score: float = 0.0
    depth: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    meta: dict[str, Any] | None = None
    lastmod: _Lastmod = None
    purpose: str = Purpose.PAGE.value
    hints: _Hints | None = None


_NO_SEEDS = (Purpose.ROBOTS, Purpose.TERMS)  # fetched when a page needs them
_PURPOSES = {purpose.value: purpose for purpose in Purpose if purpose not in _NO_SEEDS}

_decode = msgspec.json.Decoder(_Line).decode


def named(
    texts: Iterable[str], rules: urls.UrlRules = urls.DEFAULT_RULES, purpose: Purpose = Purpose.PAGE
) -> Iterator[Link | BadSeed]:
    """Seeds from the command line."""
    where = "argument" if purpose is Purpose.PAGE else f"--{purpose.value}"
    for number, text in enumerate(texts, start=1):
        yield _seed(_Line(text, purpose=purpose.value), f"{where} {number}", rules)


class Lines(Protocol):
    """Anything that can be read line by line."""

    def readline(self, size: int, /) -> bytes:
        """The next line, or at most this many bytes of it; empty at the end."""
        ...


def read(file: Lines, name: str, rules: urls.UrlRules = urls.DEFAULT_RULES) -> Iterator[Link | BadSeed]:
    """Seeds of a file or pipe, line by line."""
    for _, seed in numbered(file, name, rules):
        yield seed


def numbered(
    file: Lines, name: str, rules: urls.UrlRules = urls.DEFAULT_RULES, after: int = 0
) -> Iterator[tuple[int, Link | BadSeed]]:
    """Seeds of a file after a given line, each with its line number."""
    number = 0
    while line := line_of(file):
        number += 1
        seed = parsed(line, f"{name}:{number}", rules) if number > after else None
        if seed is not None:
            yield number, seed


def line_of(file: Lines) -> bytes:
    """The next line, empty at the end; of an overlong one only the beginning, which is longer than MAX_LINE."""
    line = rest = file.readline(MAX_LINE + 1)
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(MAX_LINE + 1)
    return line


def parsed(line: bytes, where: str, rules: urls.UrlRules = urls.DEFAULT_RULES) -> Link | BadSeed | None:
    """The seed on a line; None if the line has none."""
    if len(line) > MAX_LINE:
        return _bad(where, line[:100], f"the line is longer than {MAX_LINE} bytes")
    bare = line.strip().removeprefix(b"\xef\xbb\xbf")
    if not bare or bare.startswith(b"#"):
        return None
    return _json(bare, where, rules) if bare.startswith(b"{") else _plain(bare, where, rules)


def _plain(line: bytes, where: str, rules: urls.UrlRules) -> Link | BadSeed:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return _bad(where, line, "the line is not UTF-8 text")
    return _seed(_Line(text), where, rules)


def _json(line: bytes, where: str, rules: urls.UrlRules) -> Link | BadSeed:
    try:
        parsed = _decode(line)
        msgspec.msgpack.encode(
            parsed.meta
        )  # it is stored as MessagePack, which has no numbers beyond 64 bits
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as problem:
        return _bad(where, line, f'{problem}; write for example {{"url": "https://example.org/"}}')
    return _seed(parsed, where, rules)


def _seed(line: _Line, where: str, rules: urls.UrlRules) -> Link | BadSeed:
    level = _level(line.priority)
    if level is None:
        names = ", ".join(level.name.lower() for level in Level)
        return _bad(
            where,
            line.url,
            f"the priority {line.priority!r} is not one of {names} (or 0 to {len(Level) - 1}), nor a fraction "
            "between 0.0 and 1.0",
        )
    purpose = _PURPOSES.get(line.purpose)
    if purpose is None:
        return _bad(where, line.url, _no_purpose(line.purpose))
    hints = _hints(line)
    if isinstance(hints, str):
        return _bad(where, line.url, hints)
    url = urls.seed(line.url, rules)
    key = None if url is None else urls.key(url, rules)
    if url is None or key is None:
        return _bad(where, line.url, "not an http or https URL; write for example https://example.org/")
    host = urls.host(url)
    if urls.too_long(host):
        return _bad(where, line.url, "its host name is longer than any can be (253 characters)")
    return Link(
        url=url,
        key=key,
        host=host,
        depth=line.depth,
        level=level,
        score=line.score,
        purpose=purpose,
        seed=True,
        meta=line.meta,
        hints=hints,
    )


# User name and password before the host; deprecated by RFC 3986 3.2.1, and never sent.
_CREDENTIALS = re.compile(r"(?<=//)[^/?#\\\s]*@|\A(?!mailto:)[^/?#\\\s:]+:[^/?#\\\s]+@")


def without_credentials(text: str) -> str:
    """A URL without user name and password, safe to show."""
    return hidden(_CREDENTIALS.sub("", text.strip()))


def has_credentials(line: bytes) -> bool:
    """Whether the URL on a line has a user name or password."""
    text = line.decode(errors="replace").strip()
    if text.startswith("{"):
        text = _decode(line).url
    return without_credentials(text) != text.strip()


def _level(priority: str | float | None) -> Level | None:
    """Seeds are critical by default: somebody is waiting for them."""
    if priority is None or (isinstance(priority, float) and 0 <= priority <= 1):
        return Level.CRITICAL
    if isinstance(priority, str):
        return Level.__members__.get(priority.upper())
    return Level(priority) if isinstance(priority, int) and 0 <= priority < len(Level) else None


def _no_purpose(written: str) -> str:
    return f"the purpose {written[:50]!r} is not one of {', '.join(_PURPOSES)}"


def _hints(line: _Line) -> Hints | str | None:
    """The hints of a line; None if it has none; in words, what is wrong with them."""
    given = line.hints or _Hints()
    lastmod = given.lastmod if line.lastmod is None else line.lastmod
    priority = line.priority if isinstance(line.priority, float) else given.priority
    if isinstance(lastmod, str):
        written, lastmod = lastmod, dates.w3c(lastmod)
        if lastmod is None:
            return f"the lastmod {written[:50]!r} is not a date such as 2024-05-01 or 2024-05-01T12:00:00Z"
    return None if lastmod is None and priority is None else Hints(lastmod, priority)


def _bad(where: str, text: str | bytes, detail: str) -> BadSeed:
    shown = text if isinstance(text, str) else text.decode(errors="backslashreplace")
    return BadSeed(where, without_credentials(shown)[:200], Reason(reasons.SEED_UNUSABLE, detail))
