"""Do we want this link?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.links.scope import Scope, repeats
from skitter.settings import ScopeSettings

ROOT = "http://docs.example.org/guide/start.html"


def code(url, depth=1, roots=(ROOT,), **settings):
    reason = Scope(ScopeSettings(**settings), roots, year=2026).refusal(url, depth)
    return reason.code if reason else None


@pytest.mark.parametrize(
    ("kind", "url", "expected"),
    [
        ("page", ROOT, "scope.page"),
        ("prefix", "http://docs.example.org/guide/next.html", None),
        ("prefix", "http://docs.example.org/guide/deep/er", None),
        ("prefix", "http://docs.example.org/other", "scope.prefix"),
        ("prefix", "https://docs.example.org/guide/", "scope.prefix"),
        ("host", "http://docs.example.org/other", None),
        ("host", "https://docs.example.org:8443/other", None),
        ("host", "http://www.example.org/", "scope.host"),
        ("domain", "http://www.example.org/", None),
        ("domain", "http://example.net/", "scope.domain"),
        ("any", "http://example.net/", None),
    ],
)
def test_the_kind_of_scope_says_how_far_from_the_seeds_a_crawl_may_go(kind, url, expected):
    assert code(url, kind=kind) == expected


def test_a_root_with_a_query_has_the_prefix_of_its_path():
    assert code("http://a.test/x/y", roots=("http://a.test/x/?next=/z/",), kind="prefix") is None
    assert code("http://a.test/w", roots=("http://a.test/x/?next=/z/",), kind="prefix") == "scope.prefix"


def test_host_patterns_are_narrower_than_a_domain_and_open_the_host_scope():
    hosts = ("*.inf.ed.ac.uk", "inf.ed.ac.uk")
    roots = ("http://www.inf.ed.ac.uk/",)
    assert code("http://homepages.inf.ed.ac.uk/x", roots=roots, hosts=hosts) is None
    assert code("http://www.ed.ac.uk/x", roots=roots, hosts=hosts) == "scope.hosts"
    assert code("http://www.ed.ac.uk/x", roots=roots, hosts=hosts, kind="any") == "scope.hosts"


def test_host_patterns_are_read_as_hosts_are_spelt():
    for pattern in ("*.a.test.", "*.A.Test"):
        assert code("http://www.a.test./x", hosts=(pattern,), kind="any") is None
        assert code("http://b.test/x", hosts=(pattern,), kind="any") == "scope.hosts"


def test_include_and_exclude_are_regular_expressions():
    assert code("http://docs.example.org/a", include=("/b",)) == "scope.include"
    assert code("http://docs.example.org/b", include=("/b", "/c")) is None
    assert code("http://docs.example.org/b", include=("/b",), exclude=("b$",)) == "scope.exclude"


def test_seeds_are_wanted_unless_excluded_in_writing():
    scope = Scope(ScopeSettings(include=("/b",), exclude=("secret",), max_depth=0))
    assert scope.seed_refusal("http://a.test/x.pdf") is None
    assert scope.seed_refusal("http://a.test/secret").code == "scope.exclude"


def test_depth_is_counted_from_the_seed():
    assert code("http://docs.example.org/a", depth=3, max_depth=3) is None
    assert code("http://docs.example.org/a", depth=4, max_depth=3) == "scope.depth"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.zip", "scope.extension"),
        ("A.ZIP", "scope.extension"),
        ("a.zip?download=1", "scope.extension"),
        ("a.html", None),
        ("a.zip/", None),
        ("view?file=a.zip", None),
        ("zip", None),
        ("", None),
    ],
)
def test_links_to_unwanted_file_types_are_skipped_by_their_ending(path, expected):
    assert code(f"http://docs.example.org/{path}") == expected


def test_widening_takes_another_host_in():
    scope = Scope(ScopeSettings(), (ROOT,))
    assert scope.refusal("http://new.example.net/", 1).code == "scope.host"
    scope.widen("http://new.example.net/home")
    assert scope.refusal("http://new.example.net/", 1) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/" + "x" * 2000, "trap.length"),
        ("/" + "/".join(f"d{n}" for n in range(21)), "trap.depth"),
        ("/" + "/".join(f"d{n}" for n in range(19)) + "/", None),
        ("/a/b/a/b/a/b/x", "trap.repeat"),
        ("/a/a/x", None),
        ("/x?" + "&".join(f"p{n}=1" for n in range(21)), "trap.query"),
        ("/x?q=" + "y" * 1001, "trap.query"),
        ("/cal?month=1&year=9999", "trap.calendar"),
        ("/cal/2099/01/02", "trap.calendar"),
        ("/cal/1901-07", "trap.calendar"),
        ("/cal/2027/01/02", None),
        ("/1999/12/31/news", None),
        ("/p;jsessionid=0123456789ABCDEF/x", "trap.session"),
        ("/(S(lit3py55t21z5v55vlm25s55))/x.aspx", "trap.session"),
        ("/sidewalk/9999", None),
    ],
)
def test_trap_rules(path, expected):
    scope = Scope(ScopeSettings(kind="any"), year=2026)
    reason = scope.refusal(f"http://docs.example.org{path}", 0)
    assert (reason.code if reason else None) == expected


@given(st.lists(st.sampled_from("ab"), max_size=12), st.integers(2, 4))
def test_repeats_agrees_with_its_definition(segments, times):
    count = len(segments)
    expected = any(
        segments[start : start + length] * times == segments[start : start + length * times]
        for length in range(1, count + 1)
        for start in range(count - length * times + 1)
    )
    assert repeats(segments, times) == expected


def test_a_root_is_new_when_it_changes_the_scope():
    scope = Scope(ScopeSettings(kind="prefix"), ("http://a.test/x/1",))
    assert scope.has_root("http://a.test/x/2?y=/z/")
    assert not scope.has_root("http://a.test/y/1")
    assert not scope.has_root("http://b.test/x/1")
    assert Scope(ScopeSettings(kind="any"), ("http://a.test/1",)).has_root("http://a.test/2")
