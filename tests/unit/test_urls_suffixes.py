"""Public suffixes: the reader of the list against the package it comes with, over every rule there is."""

from pathlib import Path

import publicsuffixlist
import pytest

from skitter.urls.suffixes import Suffixes, suffixes

RULES = Suffixes(
    plain=frozenset({"com", "uk", "co.uk", "ck", "blogspot.com", "deep.wild.com"}),
    wild=frozenset({"ck", "wild.com"}),
    exceptions=frozenset({"www.ck"}),
)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("com", None),
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("co.uk", None),
        ("a.uk", "a.uk"),
        ("blogspot.com", None),
        ("me.blogspot.com", "me.blogspot.com"),
        ("any.ck", None),
        ("a.any.ck", "a.any.ck"),
        ("b.a.any.ck", "a.any.ck"),
        ("www.ck", "www.ck"),
        ("a.www.ck", "www.ck"),
        ("a.deep.wild.com", "a.deep.wild.com"),
        ("unknown", None),
        ("a.unknown", "a.unknown"),
        ("b.a.unknown", "a.unknown"),
        ("", None),
        (".com", None),
        ("com.", None),
        ("a..com", None),
    ],
)
def test_the_longest_rule_decides_and_an_exception_above_all(name, domain):
    assert RULES.registrable(name) == domain


def test_every_rule_of_the_list_is_read_as_the_package_reads_it():
    package = publicsuffixlist.PublicSuffixList()
    text = Path(publicsuffixlist.PSLFILE).read_text(encoding="utf-8")
    rules = [line for line in text.splitlines() if line and not line.startswith("//")]
    assert len(rules) > 9000
    for rule in rules:
        base = rule.lstrip("!").removeprefix("*.")
        ascii_form = publicsuffixlist.encode_idn(base)
        for name in (
            base,
            f"a.{base}",
            f"b.a.{base}",
            f"c.b.a.{base}",
            ascii_form,
            f"a.{ascii_form}",
            f"b.a.{ascii_form}",
        ):
            assert suffixes().registrable(name) == package.privatesuffix(name), name
