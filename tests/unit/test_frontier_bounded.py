"""A dictionary that keeps the latest entries."""

from skitter.frontier.bounded import Bounded


def test_a_bounded_dictionary_drops_the_oldest_and_only_when_trimmed():
    bounded = Bounded(10)
    bounded.update((number, number) for number in range(15))
    assert len(bounded) == 15
    bounded.trim()
    assert list(bounded) == [10, 11, 12, 13, 14]
    bounded.trim()
    assert len(bounded) == 5
