"""Paging: every row once, whatever the size of pages, also when the open reader is gone."""

import asyncio

import pytest

from skitter.serve.lists import Lists
from skitter.serve.problems import ProblemError


class Rows:
    def __init__(self, number):
        self.number = number
        self.begun = self.closed = 0

    async def begin(self):
        self.begun += 1

        async def rows():
            for each in range(self.number):
                yield each

        async def close():
            self.closed += 1

        return rows(), close


async def read_all(lists, rows, limit, between=lambda: None):
    found, cursor = [], ""
    while True:
        some, cursor = await lists.page("list", cursor, limit, rows.begin)
        found += some
        if not cursor:
            return found
        between()


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 100])
def test_every_row_comes_once_and_the_reader_is_opened_and_closed_once(limit):
    rows = Rows(10)
    assert asyncio.run(read_all(Lists(), rows, limit)) == list(range(10))
    assert (rows.begun, rows.closed) == (1, 1)


def test_after_a_restart_a_cursor_goes_on_where_it_was():
    async def work():
        rows, first, second = Rows(10), Lists(), Lists()
        found, cursor = await first.page("list", "", 4, rows.begin)
        await first.close()
        more, cursor = await second.page("list", cursor, 4, rows.begin)
        rest, end = await second.page("list", cursor, 4, rows.begin)
        return [*found, *more, *rest], end, rows.begun - rows.closed

    assert asyncio.run(work()) == (list(range(10)), "", 0)


@pytest.mark.parametrize("cursor", ["x", "AAAA", "%", "é", "eA" * 50])
def test_a_made_up_cursor_or_one_of_another_list_is_refused(cursor):
    with pytest.raises(ProblemError, match="cursor"):
        asyncio.run(Lists().page("list", cursor, 4, Rows(10).begin))

    async def other():
        lists = Lists()
        _, cursor = await lists.page("one", "", 4, Rows(10).begin)
        await lists.close()
        await lists.page("two", cursor, 4, Rows(10).begin)

    with pytest.raises(ProblemError, match="cursor"):
        asyncio.run(other())


def test_readers_that_nobody_reads_on_are_closed():
    async def work():
        lists, rows = Lists(), Rows(10)
        for number in range(200):
            await lists.page(f"list {number}", "", 1, rows.begin)
        open_now = rows.begun - rows.closed
        await lists.close()
        return open_now, rows.begun - rows.closed

    open_now, at_the_end = asyncio.run(work())
    assert open_now <= 65
    assert at_the_end == 0
