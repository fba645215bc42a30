"""From hrefs, redirects and seeds to links: resolved, judged, scored, and remembered without mixing them up."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter import links, urls
from skitter.links import LinkJudge
from skitter.links.listing import read
from skitter.links.scope import Scope
from skitter.model import Directives, Document, Exchange, Hints, Level, Link
from skitter.runtime.metrics import LinkMetrics
from skitter.settings import Settings
from skitter.settings.file import load

BASE = "http://a.test/dir/page"


def settings_with(**overrides: object) -> Settings:
    values: dict[str, object] = {"scope.kind": "any"}
    return load(None, {}, values | {name.replace("__", "."): value for name, value in overrides.items()})


def judge(*roots: str, **overrides: object) -> LinkJudge:
    settings = settings_with(**overrides)
    return LinkJudge(settings, Scope(settings.scope, roots))


def page(url=BASE, **fields):
    return Link(url=url, key=url, host=urls.host(url), **fields)


def document(*hrefs, base=BASE, nofollow=(), follow=True):
    return Document(base=base, links=hrefs, nofollow=nofollow, directives=Directives(follow=follow))


def found_urls(judged):
    return [link.url for link in judged[0]]


def reasons(judged):
    return {link.url: reason.code for link, reason in judged[1]}


# ------------------------------------------------------------------------------------------------ found on a page


def test_a_link_knows_where_it_was_found_and_how_deep():
    (link,), refused = judge().found(page(depth=3), document("/x?b=2&a=1#top"))
    assert refused == []
    assert (link.url, link.key, link.host) == ("http://a.test/x?b=2&a=1", "http://a.test/x?a=1&b=2", "a.test")
    assert (link.depth, link.parent, link.level, link.score) == (4, BASE, Level.NORMAL, -4.0)
    assert (link.seed, link.requested, link.hops) == (False, "", 0)


def test_hrefs_resolve_against_the_base_of_the_document():
    judged = judge().found(page(), document("x", "/y", "//b.test/z", base="http://c.test/deep/er/"))
    assert found_urls(judged) == ["http://c.test/deep/er/x", "http://c.test/y", "http://b.test/z"]


def test_text_that_is_not_a_url_is_not_a_link():
    assert judge().found(page(), document("mailto:a@b.test", "javascript:x()", "http://", "tel:1")) == (
        [],
        [],
    )


def test_out_of_scope_links_are_refused_with_the_reason():
    judged = judge("http://a.test/", scope__kind="host").found(page(), document("/in", "http://b.test/out"))
    assert found_urls(judged) == ["http://a.test/in"]
    assert reasons(judged) == {"http://b.test/out": "scope.host"}


# ------------------------------------------------------------------------------------------------ nofollow


def test_a_nofollow_link_is_refused_and_the_others_are_not():
    judged = judge().found(page(), document("/a", nofollow=["/b"]))
    assert found_urls(judged) == ["http://a.test/a"]
    assert reasons(judged) == {"http://a.test/b": "nofollow"}


def test_a_page_that_asks_for_it_has_none_of_its_links_followed():
    judged = judge().found(page(), document("/a", nofollow=["/b"], follow=False))
    assert judged[0] == []
    assert reasons(judged) == {"http://a.test/a": "nofollow.page", "http://a.test/b": "nofollow"}


def test_a_reason_of_the_scope_comes_before_nofollow():
    outside = judge("http://a.test/", scope__kind="host")
    judged = outside.found(page(), document("http://b.test/1", nofollow=["http://b.test/2"], follow=False))
    assert set(reasons(judged).values()) == {"scope.host"}


def test_one_pages_nofollow_does_not_affect_the_next():
    judging = judge()
    assert judging.found(page(), document("/a", nofollow=["/b"], follow=False))[0] == []
    assert found_urls(judging.found(page(), document("/a", "/b"))) == ["http://a.test/a", "http://a.test/b"]


# ------------------------------------------------------------------------------------------------ memory


HREFS = ("x", "./x", "../x", "/x", "//b.test/x", "http://b.test/x", "HTTP://b.test/x", "http:x", "?q", "#f", "",
         " ?q", "\n?q", "\t#f", "x?y/z", "\\x", "/\\b.test/x", "https:/x", ";v=1", "%2e%2e/x", "x:y")  # fmt: skip
BASES = ("http://a.test/", "http://a.test/d/", "http://a.test/d/p", "http://a.test/d/p?q=1", "http://a.test/d/p?/e/",
         "https://a.test/d/p", "http://b.test/d/p", "http://a.test:8080/d/p", "http://a.test/d/e/p")  # fmt: skip


def test_the_same_href_in_another_directory_is_another_link():
    judging = judge()
    for base, expected in (
        ("http://a.test/d/p", "http://a.test/d/x"),
        ("http://a.test/e/p", "http://a.test/e/x"),
    ):
        assert found_urls(judging.found(page(base), document("x", base=base))) == [expected]
    assert (judging.hits, judging.misses) == (0, 2)


def test_navigation_is_judged_once_however_many_pages_repeat_it():
    judging = judge()
    for number in range(10):
        base = f"http://a.test/{number}/page"
        judging.found(page(base), document("/", "/about", "http://b.test/", base=base))
    assert (judging.hits, judging.misses) == (27, 3)
    assert judging.metrics() == LinkMetrics(3, links._REMEMBERED, hits=27, misses=3)


def test_remembered_or_not_every_href_means_the_same():
    judging = judge()
    for _ in range(2):
        for base in BASES:
            for href in HREFS:
                remembered = judging.found(page(base), document(href, base=base))
                anew = judge().found(page(base), document(href, base=base))
                assert [link.url for link in remembered[0]] == [link.url for link in anew[0]], (href, base)


@given(
    hrefs=st.lists(st.text(alphabet="ab/.?#:\\;% \t@", max_size=6), min_size=1, max_size=8),
    paths=st.lists(st.text(alphabet="ab/.?#;%", max_size=6), min_size=2, max_size=4),
)
def test_the_memo_never_changes_a_judgement(hrefs, paths):
    judging = judge()
    for path in paths:
        base = urls.resolve("/" + path, "http://a.test/")
        if base is None:
            continue
        remembered = judging.found(page(base), document(*hrefs, base=base))
        anew = judge().found(page(base), document(*hrefs, base=base))
        assert found_urls(remembered) == found_urls(anew)


def test_with_a_limit_of_depth_a_link_is_judged_at_every_depth():
    judging = judge(scope__max_depth=2)
    assert found_urls(judging.found(page(depth=1), document("/x"))) == ["http://a.test/x"]
    assert reasons(judging.found(page(depth=2), document("/x"))) == {"http://a.test/x": "scope.depth"}
    assert found_urls(judging.found(page(depth=0), document("/x"))) == ["http://a.test/x"]


def test_memory_is_bounded_and_forgets_the_oldest_first(monkeypatch):
    monkeypatch.setattr(links, "_REMEMBERED", 40)
    judging = judge()
    for number in range(200):  # of each kind: absolute, of the site, of a directory
        base = f"http://a.test/{number // 3}/page"
        judging.found(page(base), document(f"/{number}", f"{number}", f"http://b.test/{number}", base=base))
        assert judging.metrics().entries <= 40 + 3
        assert len(judging._memo) <= 40 + 3
    assert (judging.hits, judging.misses) == (0, 600)
    judging.found(page(base), document("/199", "199", "http://b.test/199", base=base))
    assert (judging.hits, judging.misses) == (3, 600)
    judging.found(page(base), document("/0", "0", "http://b.test/0", base=base))
    assert (judging.hits, judging.misses) == (3, 603)


def test_links_into_one_page_are_judged_once():
    judging = judge()
    hrefs = ["x#a", "x#b", "x", "x #c", "/y?z#d", "/y?z", "#e", "?q#f"]
    assert found_urls(judging.found(page(), document(*hrefs))) == [
        f"http://a.test/{path}"
        for path in ("dir/x", "dir/x", "dir/x", "dir/x%20", "y?z", "y?z", "dir/page", "dir/page?q")
    ]
    assert (judging.hits, judging.misses) == (3, 5)


def test_a_wider_scope_judges_refused_links_again():
    judging = judge("http://a.test/", scope__kind="host")
    wanted = document("http://b.test/x")
    assert reasons(judging.found(page(), wanted)) == {"http://b.test/x": "scope.host"}
    assert judging.widen("http://b.test/") is True
    assert found_urls(judging.found(page(), wanted)) == ["http://b.test/x"]
    assert judging.widen("http://b.test/again") is False
    assert judging.metrics().entries == 1


# ------------------------------------------------------------------------------------------------ scores


def test_every_further_link_to_a_waiting_url_raises_its_score_where_the_strategy_counts_them():
    judging = judge(schedule__strategy="depth")
    scores = [judging.found(page(), document("/x"))[0][0].score for _ in range(4)]
    assert scores == sorted(set(scores))
    judging.visited(page("http://a.test/x"))
    assert judging.found(page(), document("/x"))[0][0].score == scores[0]


def test_other_strategies_count_nothing():
    judging = judge(schedule__strategy="bfs")
    assert len({judging.found(page(), document("/x"))[0][0].score for _ in range(4)}) == 1
    judging.visited(page("http://a.test/x"))


def test_the_number_of_counted_urls_is_bounded(monkeypatch):
    monkeypatch.setattr(links, "_COUNTED", 2)
    judging = judge(schedule__strategy="depth")
    judging.found(page(), document("/1", "/2", "/3"))
    first = judging.found(page(), document("/1", "/3"))[0]
    assert first[0].score > first[1].score


# ------------------------------------------------------------------------------------------------ redirects, seeds


def test_a_redirect_keeps_the_requested_url_and_counts_hops():
    asked = page(depth=3, parent="http://a.test/", level=Level.HIGH, score=7.0, meta={"n": 1})
    hop, reason = judge().redirected(asked, "http://b.test/new?utm_source=x")
    assert reason is None
    assert (hop.url, hop.host, hop.requested, hop.hops) == ("http://b.test/new", "b.test", BASE, 1)
    assert (hop.depth, hop.parent, hop.level, hop.score, hop.meta) == (
        3,
        BASE,
        Level.HIGH,
        7.0,
        {"n": 1},
    )
    second, _ = judge().redirected(hop, "http://c.test/")
    assert (second.requested, second.hops) == (BASE, 2)


def test_a_redirect_out_of_the_scope_is_refused_but_a_seed_takes_it_along():
    judging = judge("http://a.test/", scope__kind="host")
    assert judging.redirected(page(), "http://b.test/")[1].code == "scope.host"
    hop, reason = judging.redirected(page(seed=True), "http://b.test/")
    assert reason is None
    assert hop.seed


def test_excludes_apply_to_seeds_and_their_redirects_too():
    judging = judge(scope__exclude=("/private/",))
    assert judging.redirected(page(seed=True), "http://b.test/private/x")[1].code == "scope.exclude"
    assert judging.seed(page("http://a.test/private/", seed=True))[1].code == "scope.exclude"


@pytest.mark.parametrize("target", ["mailto:x@y.test", "http://", "ftp://a.test/"])
def test_a_redirect_to_no_url_of_the_web_leads_nowhere(target):
    assert judge().redirected(page(), target) is None


def test_a_seed_keeps_the_score_of_its_file_or_gets_one():
    judging = judge(schedule__strategy="depth")
    assert judging.seed(page(seed=True, score=5.0))[0].score == 5.0
    scored, _ = judging.seed(page(seed=True, depth=0))
    assert scored.score == pytest.approx(120.0)


# ------------------------------------------------------------------------------------------------ hints


def test_a_link_carries_what_its_rel_says_and_the_others_carry_nothing():
    told = replace(document("/2#top", "/x", nofollow=["/me"]), rels={"/2#top": ("next",), "/me": ("me",)})
    (following, plain), ((refused, _),) = judge().found(page(), told)
    assert following.hints == Hints(rel=("next",))
    assert plain.hints is None
    assert refused.hints == Hints(rel=("me",))


def test_a_redirect_keeps_the_hints_of_its_link():
    hop, _ = judge().redirected(page(hints=Hints(priority=0.5)), "http://a.test/moved")
    assert hop.hints == Hints(priority=0.5)


@pytest.mark.parametrize("strategy", ["bfs", "depth"])
def test_seeds_are_ordered_by_the_priority_of_a_sitemap_unless_they_have_a_score(strategy):
    judging = judge(schedule__strategy=strategy)

    def score(**fields):
        return judging.seed(page(seed=True, **fields))[0].score

    plain, high, low = score(), score(hints=Hints(priority=0.8)), score(hints=Hints(priority=0.1))
    assert low < plain == score(hints=Hints(priority=0.5)) == score(hints=Hints(lastmod=5.0)) < high
    assert score(score=7.0, hints=Hints(priority=0.8)) == 7.0


# ------------------------------------------------------------------------------------------------ listed by a sitemap


def test_the_links_of_a_sitemap_are_stored_some_at_a_time_in_however_many_languages():
    """Else 1,000 entries in 100 languages would be judged in one go: the loop stands still, and memory grows."""
    others = "".join(f'<x:link hreflang="l{number}" href="/%d/{number}"/>' for number in range(99))
    listed = "".join(f"<url><loc>/{at}</loc>{others.replace('%d', str(at))}</url>" for at in range(300))
    body = f'<urlset xmlns:x="urn:x">{listed}</urlset>'.encode()
    sitemap = Link(url="http://a.test/s.xml", key="", host="a.test", hints=Hints(source="seed"))
    exchange = Exchange(sitemap.url, "", 0.0, 0.0, b"", b"HTTP/1.1 200 OK\r\n\r\n", body)
    stored: list[int] = []

    async def store(wanted, refused):
        stored.append(len(wanted) + len(refused))

    found = asyncio.run(read(sitemap, exchange, judge().lists, store, 10**9, lambda _: None))
    assert (found.count, sum(stored)) == (300, 30_000)
    assert max(stored) <= 1_100
