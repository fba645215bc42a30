"""Runs checks on the tables of a crawl: the first rows of each answer, and how many there are."""

import time
from collections.abc import AsyncIterator, Iterable, Sequence

from msgspec import Struct

from skitter.export.checks import Check
from skitter.export.tables.duck import Database
from skitter.export.tables.shapes import Row


class Finding(Struct, frozen=True):
    """What a check has found."""

    check: Check
    columns: Sequence[str]
    rows: Sequence[Row]  # the first ones
    total: int
    seconds: float


async def findings(opened: Database, wanted: Iterable[Check], most: int) -> AsyncIterator[Finding]:
    """Run checks one after the other, with at most so many rows of each."""
    for check in wanted:
        began = time.monotonic()
        answer = await opened.ask(check.sql)
        rows = await answer.more(most + 1)
        total = len(rows)
        if total > most:
            counted = await opened.ask(f"select count(*) from ({check.sql})")  # noqa: S608  our own
            total = (await counted.more(1))[0][0]
        yield Finding(check, answer.columns, rows[:most], total, time.monotonic() - began)
