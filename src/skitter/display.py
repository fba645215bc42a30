"""Numbers, times and foreign text, the way people read them.

Titles and URLs come from strangers and end up on terminals: `printable` leaves nothing in them that a terminal obeys.
"""

from collections.abc import Sequence
from datetime import UTC, datetime


def count(number: int) -> str:
    """1234567 -> 1,234,567."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 host, 2 hosts; `many` where the plural is not one with an s."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def amount(size: float) -> str:
    """Bytes with a binary unit: 1536 -> 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def duration(seconds: float) -> str:
    """The two largest units: 3725 -> 1h 02m."""
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


def moment(at: float) -> str:
    """ISO 8601 in UTC, to the millisecond: 2024-05-01T12:00:00.000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """Text without anything a terminal obeys: control characters, bidirectional overrides, line ends."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable()
        else " "
        if letter.isspace()
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def shortened(text: str, width: int) -> str:
    """At most `width` characters; what is cut is cut in the middle, because both ends of a URL tell something."""
    if len(text) <= width:
        return text
    if width < 8:
        return text[: max(width, 0)]
    tail = width // 3
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], indent: str = "  ") -> list[str]:
    """Columns, the first to the left and the others to the right, as lines."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for first, *others in (head, *rows):
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
