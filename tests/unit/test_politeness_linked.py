"""Budgets by links from other domains: the bitmap that counts them, and what it allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from skitter.model import Linked
from skitter.politeness.linked import BITS, LinkedBudget, counted, linked_budget, marked
from skitter.settings import BudgetSettings, SettingsError
from skitter.settings.file import load

BUDGET = LinkedBudget(10, 10, 10_000)


def bitmap(names) -> bytes:
    bits = b""
    for name in names:
        bits = marked(bits, name) or bits
    return bits


@pytest.mark.parametrize(
    ("domains", "off"), [(0, 0), (1, 0), (10, 1), (100, 0.05), (1_000, 0.06), (5_000, 0.12)]
)
def test_domains_are_counted_within_a_few_percent(domains, off):
    found = counted(bitmap(f"d{number}.example" for number in range(domains)))
    assert abs(found - domains) <= (off if off >= 1 or not off else off * domains)


def test_it_takes_256_bytes_and_ends_somewhere():
    bits = bitmap(f"d{number}.example" for number in range(60_000))
    assert len(bits) == BITS // 8 == 256
    assert counted(bits) == counted(b"\xff" * 256) < 16_000


@given(some.lists(some.text(min_size=1, max_size=20), max_size=40))
def test_neither_order_nor_repetition_matters_and_it_never_shrinks(names):
    bits, before = b"", 0
    for name in names:
        bits = marked(bits, name) or bits
        assert counted(bits) >= before
        before = counted(bits)
        assert marked(bits, name) is None
    assert bitmap(reversed(names * 2)) == bits


def test_a_domain_may_have_more_the_more_others_link_to_it():
    allowed = [
        BUDGET.allowed(Linked(bitmap(f"d{number}.example" for number in range(domains))))
        for domains in (0, 1, 3, 3_000)
    ]
    assert allowed == [10, 20, 40, 10_000]
    assert BUDGET.allowed(None) == 10
    assert (
        LinkedBudget(50, 10, 20).allowed(Linked(bitmap(["b.example"]))) == 50
    )  # never less than to begin with


def test_it_is_off_unless_it_is_asked_for():
    assert linked_budget(BudgetSettings()) is None
    assert linked_budget(BudgetSettings(linked_first=10)) == BUDGET


@pytest.mark.parametrize("setting", ["linked_first", "linked_more", "linked_most"])
def test_it_is_a_number_of_pages(setting):
    with pytest.raises(SettingsError, match=f"budget.{setting}"):
        load(None, {}, {f"budget.{setting}": -1})
