"""Which level is next: by weight, with retries behind everything untried."""

import pytest

from skitter.frontier.agenda import drawn
from skitter.frontier.levels import DRAW, DUE_AGAIN, LEVELS, RULER, draw_retry, retried
from skitter.frontier.rows import new_host
from skitter.model import Level


def test_the_ruler_draws_by_the_weights_and_skips_what_is_empty():
    weights = [RULER.count(level) for level in Level]
    assert weights == [16, 8, 4, 2, 1]
    turn, drawn_levels = 0, []
    for _ in range(6):
        level, turn = DRAW[0b01010][turn]
        drawn_levels.append(level)
    assert drawn_levels == [1, 1, 3, 1, 1, 1]
    assert DRAW[0][5] == (-1, 5)


def host_with(**waiting):
    """A host with links in its queues, by number."""
    host = new_host("a.example", "a.example")
    for queue, links in waiting.items():
        host.levels[int(queue.removeprefix("q"))] = links
    return host


def test_a_retry_of_any_level_comes_when_nothing_untried_waits():
    host = host_with(q4=1, q5=9)  # a link of the lowest level, and retries of the highest
    assert drawn(host)[0] == Level.BACKGROUND
    host.levels[4] = 0
    assert drawn(host)[0] == retried(Level.CRITICAL) == 5
    assert drawn(host_with()) == (-1, 0)


def test_retries_are_drawn_by_the_same_weights():
    host, queues = host_with(q6=9, q8=9), []
    for _ in range(6):
        queue, host.turn = drawn(host)
        queues.append(queue)
    assert queues == [6, 6, 8, 6, 6, 6]
    assert draw_retry([0, 0, 0, 0, 1], 0)[0] == retried(Level.BACKGROUND)


@pytest.mark.parametrize("queue", range(DUE_AGAIN))
def test_a_link_that_is_tried_again_keeps_its_level(queue):
    assert retried(queue) % len(LEVELS) == queue % len(LEVELS)
    assert retried(queue) >= len(LEVELS)
    assert retried(retried(queue)) == retried(queue)
