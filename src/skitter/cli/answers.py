"""Answers to questions in SQL, on standard output: as a table for people, as CSV, or as JSON lines.

Titles and URLs come from strangers, and so may the SQL: everything is shown as decision 34 says.
"""

import math
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skitter.reporting.format import as_json, count, printable, shortened

if TYPE_CHECKING:
    from skitter.export.tables.duck import Answer

MOST = 1_000  # rows of a table, which is kept in memory until its widths are known
_BATCH = 1_000
_LEAST = 12  # characters of a column that is cut
_GAP = "  "


async def as_table(answer: "Answer", most: int = MOST) -> str:
    """Print an aligned table; returns a remark if there are more rows."""
    rows = await answer.more(most + 1)
    shown = [[cell(value) for value in found] for found in rows[:most]]
    numbers = [
        all(isinstance(found[place], int | float | None) for found in rows)
        and any(found[place] is not None for found in rows)
        for place in range(len(answer.columns))
    ]
    for line in aligned([printable(name) for name in answer.columns], shown, numbers, _width()):
        print(line)
    return (
        f"only the first {count(most)} rows are shown; see all with --csv or --json"
        if len(rows) > most
        else ""
    )


async def as_csv(answer: "Answer") -> None:
    """Print CSV, safe in a spreadsheet."""
    from skitter.export.formats import row  # noqa: PLC0415  most answers are tables

    sys.stdout.write(row(answer.columns))
    while rows := await answer.more(_BATCH):
        sys.stdout.writelines(
            row(value if is_plain(value) else cell(value) for value in found) for found in rows
        )


async def as_json_lines(answer: "Answer") -> None:
    """Print one JSON object per row."""
    while rows := await answer.more(_BATCH):
        for found in rows:
            print(as_json({name: jsonable(value) for name, value in zip(answer.columns, found, strict=True)}))


def aligned(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], width: int | None
) -> list[str]:
    """Lines of a table: numbers to the right. With a width, the widest columns are cut until it fits, if it can."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    if width is not None:
        widths = _fitting(widths, width - len(_GAP) * (len(widths) - 1))
    lines = [_line(head, widths, numbers), _GAP.join("─" * each for each in widths)]
    return [*lines, *(_line(found, widths, numbers) for found in rows)]


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    placed = [
        text.rjust(width) if number else shortened(text, width).ljust(width)
        for text, width, number in zip(cells, widths, numbers, strict=True)
    ]
    return _GAP.join(placed).rstrip()


def _fitting(widths: list[int], room: int) -> list[int]:
    """The widest columns are made narrower, all to the same width."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _LEAST:
        widest = max(fitted)
        next_widest = max((each for each in fitted if each < widest), default=0)
        many = fitted.count(widest)
        cut = max(next_widest, _LEAST, widest - -(-(sum(fitted) - room) // many))
        fitted = [min(each, cut) for each in fitted]
    return fitted


def _width() -> int | None:
    """Of the terminal; what goes to a file or a pipe is not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_plain(value: object) -> bool:
    """Whether a value is text, a number or nothing."""
    return value is None or isinstance(value, str | int | float | bool)


def cell(value: object) -> str:
    """A value in a table, on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return (
            f"{value:.3f}".rstrip("0").rstrip(".")
            if math.isfinite(value) and abs(value) < 1e15
            else str(value)
        )
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, list | tuple):
        return printable(", ".join(map(cell, value)))
    return printable(str(value))


def jsonable(value: object) -> Any:  # noqa: ANN401  any JSON
    """A value as JSON can say it. Times are ISO 8601 in UTC."""
    match value:
        case float():
            said: Any = value if math.isfinite(value) else None
        case None | str() | int():
            said = value
        case datetime():
            in_utc = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
            said = in_utc.isoformat().replace("+00:00", "Z")
        case list() | tuple():
            said = [jsonable(each) for each in value]
        case dict():
            said = {str(name): jsonable(each) for name, each in value.items()}
        case bytes() | bytearray():
            said = bytes(value).hex()
        case _:
            said = str(value)
    return said
