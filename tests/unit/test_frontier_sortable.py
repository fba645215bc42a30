"""Numbers as bytes: they sort like the numbers, and can be decoded."""

from hypothesis import given
from hypothesis import strategies as st

from skitter.frontier.sortable import number8, number_of, order_of, score8, time8, time_of

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_larger_scores_sort_first(one, other):
    assert (score8(one) < score8(other)) == (one > other)
    assert order_of(score8(one)) == -one


def test_few_scores_are_remembered():
    for number in range(10_000):
        assert order_of(score8(number / 7)) == -number / 7
    assert len(score8.__self__) <= 4096
    assert len(order_of.__self__) <= 4096


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_times_sort_by_size(one, other):
    assert (time8(one) < time8(other)) == (one < other)
    assert time_of(b"x" + time8(one)) == one


@given(st.integers(0, 2**64 - 1))
def test_numbers_come_back(number):
    assert number_of(number8(number)) == number
