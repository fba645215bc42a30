"""Numbers, times and untrusted text, formatted for people.

Titles, URLs, header fields and error texts come from strangers, and end up on terminals, in spreadsheets and
in other programs. Everything shown to a person goes through `printable`, and everything written as JSON
through `as_json` or `escaped`: no control character, no bidirectional override and nothing invisible gets out
raw.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

from skitter.runtime.windows import Windows


def count(number: int) -> str:
    """1234567 -> 1,234,567."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 host, 2 hosts; pass `many` if the plural is not formed with an s."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def amount(size: float) -> str:
    """Bytes with a binary unit: 1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def duration(seconds: float) -> str:
    """A duration in its two largest units: 3725 -> 1h 02m."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def span(seconds: float) -> str:
    """A duration that may be short: 0.05 -> 50ms, and from a tenth of a second on as `duration` shows it."""
    return f"{max(1, round(seconds * 1000))}ms" if 0 < seconds < 0.095 else duration(seconds)


def moment(at: float) -> str:
    """ISO 8601 in UTC, to the millisecond: 2024-05-01T12:00:00.000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Characters that are invisible, or look like a space, but count as letters or marks: Unicode's default
# ignorable code points that `str.isprintable` accepts, and BRAILLE PATTERN BLANK. VARIATION SELECTOR-16
# stays: half of all emoji end with it.
_IGNORABLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef"
)
_IS_IGNORABLE = re.compile(f"[{_IGNORABLE}]")


@cache
def _unseen() -> re.Pattern[str]:
    """Invisible characters: everything that Python does not print, except spaces (0.1 s, and rarely needed)."""
    spans: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if letter.isprintable() or unicodedata.category(letter) == "Zs":
            continue
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in spans)
    return re.compile(f"[{ranges}{_IGNORABLE}]")


def _is_plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _IS_IGNORABLE.search(text) is None)


def printable(text: str) -> str:
    """Text on one line without anything a terminal obeys or a reader cannot see.

    Control characters (C0 and C1), format characters (bidirectional, zero-width), lone surrogates and
    private-use characters are written as escapes such as \\u202e; white space of any kind becomes a space.
    """
    if _is_plain(text):
        return text
    return _unseen().sub(_shown, _BLANK.sub(" ", text))


_BLANK = re.compile(r"\s")


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def as_json(value: object) -> str:
    """A value as JSON on one line, safe to print on a terminal."""
    return escaped(json.dumps(value, ensure_ascii=False))


def escaped(text: str) -> str:
    """JSON with `\\uXXXX` for every invisible character. It is the same JSON."""
    return text if _is_plain(text) else _unseen().sub(lambda found: json.dumps(found[0])[1:-1], text)


def shortened(text: str, width: int) -> str:
    """At most `width` characters, cut in the middle, because both ends of a URL are informative."""
    if len(text) <= width:
        return text
    if width < 8:
        return text[: max(width, 0)]
    tail = width // 3
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], indent: str = "  ") -> list[str]:
    """Columns as lines, the first aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for first, *others in (head, *rows):
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def window_words(hours: Windows, now: float) -> str:
    """A window, and when it opens or closes next."""
    if opens := hours.closed_until(now):
        return f"{hours.name}, closed now; it opens {moment(opens)} (in {duration(opens - now)})"
    closes = hours.closes_at(now)
    return f"{hours.name}, open now" + (
        "" if closes is None else f"; it closes {moment(closes)} (in {duration(closes - now)})"
    )
