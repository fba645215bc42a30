"""What a robots.txt permits: the rule that decides, spellings of one path, and the group that applies to us."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skitter.robots import RobotsRules, path_of, product_token, robots_rules, valid_product_token

SITE = "https://example.org"


def rules(*lines: str) -> RobotsRules:
    """Rules for everybody."""
    return robots_rules("\n".join(["User-agent: *", *lines]).encode(), "skitter")


def allowed(path: str, *lines: str) -> bool:
    return rules(*lines).allows(SITE + path)


# ------------------------------------------------------------------------------------------------ the deciding rule


@pytest.mark.parametrize(
    ("path", "lines", "expected"),
    [
        ("/", [], True),
        ("/", ["Disallow:"], True),
        ("/a", ["Disallow: /"], False),
        ("/a", ["Disallow: /a"], False),
        ("/abc", ["Disallow: /a"], False),
        ("/A", ["Disallow: /a"], True),
        ("/b/a", ["Disallow: /a"], True),
        ("/a", ["Disallow: a"], True),  # no path starts without a slash
        ("/shop/x", ["Disallow: /shop", "Allow: /shop/x"], True),
        ("/shop/x", ["Allow: /shop", "Disallow: /shop/x"], False),
        ("/shop/x", ["Allow: /shop/x", "Disallow: /shop"], True),  # order is nothing
        ("/same", ["Disallow: /same", "Allow: /same"], True),
        ("/same", ["Disallow: /same", "Allow: /sam*"], True),  # equal length: Allow
        ("/same", ["Allow: /same", "Disallow: /sam**"], False),  # every character counts
        ("/foo/b", ["Disallow: /foo****", "Allow: /foo/b"], False),  # also in a shorter prefix
        ("/a?q=1", ["Disallow: /*?"], False),
        ("/a", ["Disallow: /*?"], True),
        ("/a.pdf", ["Disallow: /*.pdf$"], False),
        ("/a.pdf?x", ["Disallow: /*.pdf$"], True),
        ("/.pdf", ["Disallow: /*.pdf$"], False),
        ("/pdf", ["Disallow: /*.pdf$"], True),
        ("/a/b/c", ["Disallow: /a*b*c"], False),
        ("/a/c/b", ["Disallow: /a*b*c"], True),
        ("/aba", ["Disallow: /ab*ba$"], True),  # parts may not overlap
        ("/abba", ["Disallow: /ab*ba$"], False),
        ("/abab", ["Disallow: /*ab$"], False),
        ("/x", ["Disallow: *"], False),
        ("/x", ["Disallow: /*$"], False),
        ("/x", ["Disallow: $"], True),
        ("/", ["Disallow: /$"], False),
        ("/x", ["Disallow: /$"], True),
        ("/robots.txt", ["Disallow: /"], True),
        ("/robots.txt?v=2", ["Disallow: /"], False),
        ("/dir/", ["Disallow: /", "Allow: /dir/index.html"], True),
        ("/dir/", ["Disallow: /", "Disallow: /dir/index.html"], False),
        ("/dir/x", ["Disallow: /", "Allow: /dir/index.html"], False),
        ("/dir/", ["Disallow: /", "Allow: /dir/index"], False),
    ],
)
def test_the_longest_matching_rule_decides(path: str, lines: list[str], expected: bool) -> None:
    assert allowed(path, *lines) is expected


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/private", "/%70rivate"),
        ("/%70rivate", "/private"),
        ("/private", "/public/../private"),
        ("/private", "/public/%2e%2E/private"),
        ("/private", "/./private"),
        ("/private", "\\private"),
        ("/private", "/pri\tvate"),
        ("/private/$", "/private/x/.."),
        ("/private/$", "/private/."),
        ("/~joe", "/%7Ejoe"),
        ("/%7ejoe", "/~joe"),
        ("/a b", "/a%20b"),
        ("/caf\u00e9", "/caf%c3%a9"),
        ("/caf%C3%A9", "/caf\u00e9"),
        ("/*'", "/x?q=%27"),
        ("/%2Fx", "/%2fx"),
        ("/100%", "/100%"),
        ("/a%2Ab", "/a*b"),
        ("/a%24", "/a$"),
        ("/a$b", "/a%24b"),
        ("/x|y", "/x%7Cy"),
    ],
)
def test_a_rule_meets_every_spelling_of_its_path(rule: str, path: str) -> None:
    assert not allowed(path, f"Disallow: {rule}")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/a/b", "/a%2Fb"),
        ("/a%2Fb", "/a/b"),
        ("/a%3Ab", "/a:b"),
        ("/a%2Ab", "/axb"),
        ("/a%24", "/a"),
        ("/b", "/a?x=/../b"),
    ],
)
def test_reserved_characters_are_only_special_unescaped(rule: str, path: str) -> None:
    assert allowed(path, f"Disallow: {rule}")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://example.org", "/"),
        ("https://example.org?q", "/?q"),
        ("https://example.org/a#b?c", "/a"),
        ("https://example.org#/a", "/"),
        ("https://example.org/../../a", "/a"),
        ("https://example.org/.well-known/x", "/.well-known/x"),
        ("https://example.org/a..b/c.", "/a..b/c."),
        ("https://example.org//a//b", "//a//b"),
        ("example.org/a", "/a"),
        ("/a?b=https://c/d", "/a?b=https://c/d"),
        ("", "/"),
        ("\ud800", "/"),
        ("/\ud800", "/%ED%A0%80"),
    ],
)
def test_path_of_is_path_and_query_in_one_spelling(url: str, path: str) -> None:
    assert path_of(url) == path
    assert path_of(SITE + path) == path


# ------------------------------------------------------------------------------------------------ groups

GROUPS = b"""
Disallow: /before-any-group
User-agent: skitter
User-agent: cousin
Disallow: /ours
Sitemap: https://example.org/sitemap.xml
User-agent: *
Disallow: /
User-agent: SKITTER/2.0 (the old one)
Unheard-of: thing
User-agent: stranger
Disallow: /also-ours
"""


def test_groups_that_name_us_are_merged_and_hide_the_one_for_everybody() -> None:
    ours = robots_rules(GROUPS, "Skitter/0.1 (+https://example.org/bot)")
    assert not ours.allows("/ours")
    assert not ours.allows("/also-ours")
    assert ours.allows("/before-any-group")
    assert ours.allows("/anything-else")


def test_other_agents_get_the_star_group() -> None:
    assert not robots_rules(GROUPS, "other").allows("/x")
    assert not robots_rules(GROUPS, "skitt").allows("/x"), "a token is no prefix"
    assert not robots_rules(GROUPS, "skitter-news").allows("/x")
    assert not robots_rules(GROUPS, "").allows("/x")
    assert robots_rules(b"User-agent: other\nDisallow: /", "skitter").allows("/x")


def test_a_group_for_us_and_everybody_is_ours() -> None:
    body = b"User-agent: *\nUser-agent: skitter\nDisallow: /both\n\nUser-agent: *\nDisallow: /all"
    ours, theirs = robots_rules(body, "skitter"), robots_rules(body, "other")
    assert (ours.allows("/both"), ours.allows("/all")) == (False, True)
    assert (theirs.allows("/both"), theirs.allows("/all")) == (False, False)


def test_a_group_of_ours_without_rules_allows_everything() -> None:
    assert robots_rules(b"User-agent: *\nDisallow: /\n\nUser-agent: skitter", "skitter").allows("/x")


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("Skitter/0.1 (+https://example.org/bot)", "skitter"),
        ("skitter", "skitter"),
        ("My_Bot-X 1.0", "my_bot-x"),
        ("MJ12bot/v1", "mj12bot"),
        ("", ""),
        ("(none)", ""),
        ("Bücher", "b"),
    ],
)
def test_product_token_is_the_name_before_the_version(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


def test_our_own_token_has_only_letters_hyphens_and_underscores() -> None:
    assert valid_product_token("Skitter_news-bot")
    assert not any(
        map(valid_product_token, ["", "skitter2", "skitter/1", "skit ter", "skitter*", "ski\u0142a", "a\n"])
    )


# ------------------------------------------------------------------------------------------------ against a naive matcher


def naive(path: str, lines: list[tuple[bool, str]]) -> bool:
    """The definition, letter by letter: all positions of the path that a rule can have reached."""
    best = (0, True)
    for allow, rule in lines:
        reached = {0}
        for at, letter in enumerate(rule):
            if letter == "$" and at == len(rule) - 1:
                reached &= {len(path)}
            elif letter == "*":
                reached = set(range(min(reached, default=len(path) + 1), len(path) + 1))
            else:
                reached = {place + 1 for place in reached if path[place : place + 1] == letter}
        if reached and rule:
            best = max(best, (len(rule), allow))
    return best[1]


RULE = st.text("/ab*$", max_size=7).filter(lambda rule: "$" not in rule[:-1])


@given(st.lists(st.tuples(st.booleans(), RULE), max_size=12), st.text("/ab", max_size=9).map("/".__add__))
@example([(False, "/a****"), (True, "/aab")], "/aab")
@example([(True, "/"), (False, "*a$"), (True, "/*b*")], "/ba")
def test_the_index_gives_the_answer_of_the_definition(lines: list[tuple[bool, str]], path: str) -> None:
    text = [f"{'Allow' if allow else 'Disallow'}: {rule}" for allow, rule in lines]
    found = rules(*text)
    assert found.allows(SITE + path) is naive(path, lines)
    line = found.line(SITE + path)
    if line is not None:
        assert line.text == text[line.number - 2].strip()
        assert lines[line.number - 2][0] is found.allows(SITE + path) or not lines[line.number - 2][1]
