"""What pages ask of robots: X-Robots-Tag, meta robots, the Link and Refresh headers."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.compose import with_agent
from skitter.model import Directives, Document
from skitter.parse import directives, parse
from skitter.settings import ParseSettings, SettingsError
from skitter.settings.file import load

URL = "https://site.example/a/page"


def read(html: str = "", *headers: tuple[str, str], kind: str = "text/html; charset=utf-8") -> Document:
    return parse(URL, [("content-type", kind), *headers], html.encode(), ParseSettings())


@pytest.mark.parametrize(
    ("lines", "rules"),
    [
        (["noindex, NOFOLLOW"], ["noindex", "nofollow"]),
        (["skitter: noindex, nofollow"], ["noindex", "nofollow"]),
        (["Skitter : none"], ["none"]),
        (["other: noindex, nofollow"], []),
        (["other: noindex, skitter: nofollow"], ["nofollow"]),
        (["*: noindex"], ["noindex"]),
        (["max-snippet: 20, noindex"], ["max-snippet: 20", "noindex"]),
        (["", " , "], []),
        (["other: noindex", "nofollow"], ["nofollow"]),
        (["skitter: noarchive", "other: none", "nosnippet"], ["noarchive", "nosnippet"]),
        (
            ["unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, noindex"],
            ["unavailable_after: fri, 25 jun 2010 15:00:00 gmt", "noindex"],
        ),
        (["other: unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, noindex"], []),
        (["other: noindex, unavailable_after: 2030-01-01"], []),
    ],
)
def test_rules_for_other_robots_are_not_ours(lines: list[str], rules: list[str]) -> None:
    assert directives.rules(lines) == rules


@pytest.mark.parametrize(
    ("content", "rules"),
    [
        ("noindex nofollow", ["noindex", "nofollow"]),
        ("NOINDEX,NOFOLLOW", ["noindex", "nofollow"]),
        ("max-snippet: 20, max-image-preview:large", ["max-snippet: 20", "max-image-preview:large"]),
        ("noarchive, unavailable_after: 25 Jun 2010 15:00:00 PST", ["noarchive", "unavailable_after: 25 jun 2010 15:00:00 pst"]),
    ],
)  # fmt: skip
def test_meta_rules_are_separated_by_commas_or_blanks(content: str, rules: list[str]) -> None:
    assert directives.meta_rules(content) == rules


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], {}),
        (["none"], {"index": False, "follow": False}),
        (["all", "index", "follow"], {}),
        (["index", "noindex"], {"index": False}),
        (["noarchive"], {"archive": False}),
        (["nocache"], {"archive": False}),
        (["max-snippet:20", "max-snippet: 50"], {"snippet": 20}),
        (["max-snippet:-1"], {}),
        (["max-snippet:20", "nosnippet"], {"snippet": 0}),
        (["unavailable_after: 25 jun 2010 15:00:00 pst"], {"unavailable_after": 1277506800.0}),
        (["unavailable_after: fri, 25 jun 2010 15:00:00 gmt"], {"unavailable_after": 1277478000.0}),
        (["unavailable_after: friday, 25-jun-10 15:00:00 gmt"], {"unavailable_after": 1277478000.0}),
        (["unavailable_after: 2010-06-25t15:00:00z"], {"unavailable_after": 1277478000.0}),
        (["unavailable_after: 25 jun 2010 15:00:00"], {"unavailable_after": 1277478000.0}),
    ],
)
def test_the_stricter_rule_wins_and_all_are_kept(found: list[str], expected: dict[str, object]) -> None:
    assert directives.directives(found) == Directives(**expected, rules=tuple(found))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "never",
        "the day after tomorrow",
        "99 jun 2010",
        "31 feb 2010 10:00:00 gmt",
        "25 jun 99999999999 15:00:00 gmt",
        "2010-99-99",
        "9" * 5000,
        "25 jun 2010 99:99:99 +9999999999",
    ],
)
def test_a_date_that_makes_no_sense_is_no_date(nonsense: str) -> None:
    asked = read("", ("x-robots-tag", f"noindex, unavailable_after: {nonsense}")).directives
    assert not asked.index
    assert asked.unavailable_after is None or asked.unavailable_after < 4e9
    assert all(len(rule) <= 100 for rule in asked.rules)


def test_meta_and_headers_unite_and_a_page_that_says_nothing_has_nothing() -> None:
    meta = "<meta name=robots content='NoIndex'><meta name=Skitter content='noarchive'><meta name=other content=nofollow>"
    asked = read(meta, ("x-robots-tag", "max-snippet:7"), ("x-robots-tag", "other: nofollow")).directives
    assert asked == Directives(
        index=False, archive=False, snippet=7, rules=("max-snippet:7", "noindex", "noarchive")
    )
    nothing = read("<p>Hello")
    assert (nothing.directives, nothing.statements, nothing.alternates) == (Directives(), (), None)


def test_a_header_of_a_megabyte_costs_little_and_is_kept_in_part() -> None:
    long = "noindex, " + "x" * 500_000 + ", " + "y, " * 200_000
    begun = time.process_time()
    found = read(
        "",
        ("x-robots-tag", long),
        ("content-usage", "train-ai=n," * 90_000),
        ("link", "<x>;" * 250_000 + "canonical"),
    )
    assert time.process_time() - begun < 5  # a minute if it were quadratic
    assert not found.directives.index
    assert len(found.directives.rules) <= 64
    assert all(len(one.raw) <= 500 for one in found.statements)
    assert [one.uses for one in found.statements] == [{}]  # longer than any preference: unknown


@given(st.text(max_size=60))
def test_no_field_is_too_strange_to_read(field: str) -> None:
    names = (
        "x-robots-tag",
        "content-usage",
        "content-signal",
        "tdm-reservation",
        "tdm-policy",
        "link",
        "refresh",
    )
    asked, said = directives.of_page({name: [field] for name in names}, [field])
    assert asked.index in {True, False}
    assert all(use in "yn" for one in said for use in one.uses.values())
    assert directives.canonical("", URL, URL, {"link": [field]}) is not None
    assert directives.hrefs(URL, {"refresh": [field]}) is not None


# ------------------------------------------------------------------------------------------------ where else a page is


@pytest.mark.parametrize(
    ("html", "header", "canonical"),
    [
        ("<link rel=Canonical href=' /c '><link rel=canonical href=/d>", "", "https://site.example/c"),
        ("<base href=/b/><link rel=canonical href=c>", "", "https://site.example/b/c"),
        ("", '<https://site.example/doc>; rel="canonical"', "https://site.example/doc"),
        ("", '</s.css>; rel=preload; as=style, </doc>; rel="Canonical nofollow"', "https://site.example/doc"),
        ("<link rel=canonical href=/c>", "</d>; rel=canonical", "https://site.example/c"),
        ("<link rel=canonical href='mailto:me'>", "", "mailto:me"),
        ("<link rel=canonical href='https://['>", "", "https://["),
        (f"<link rel=canonical href=/{'x' * 20_000}>", "", ""),
        ("", "<", ""),
    ],
)
def test_the_canonical_url_is_absolute(html: str, header: str, canonical: str) -> None:
    fields = [("link", header)] if header else []
    assert read(html, *fields).canonical == canonical


def test_a_canonical_url_is_a_link_unless_it_is_the_page_itself() -> None:
    assert read("<link rel=canonical href=/c>").links == ["https://site.example/c"]
    assert read("<link rel=canonical href=/c>").rels == {"https://site.example/c": ("canonical",)}
    assert not read(f"<link rel=canonical href={URL}>").links
    pdf = read("%PDF-1.4", ("link", "</c.html>; rel=canonical"), kind="application/pdf")
    assert (pdf.canonical, pdf.links) == ("https://site.example/c.html", ["https://site.example/c.html"])


def test_a_refresh_header_leads_on_from_any_kind_of_body() -> None:
    for kind in ("text/html", "text/plain", "application/pdf"):
        assert list(read("x", ("refresh", "0; url=/next"), kind=kind).links) == ["/next"]


def test_the_page_in_other_languages() -> None:
    html = "<link rel=alternate hreflang=DE href=/de><link rel=alternate hreflang=x-default href=/><link rel=alternate hreflang=de href=/2>"
    found = read(html, ("link", '</fr>; rel="alternate"; hreflang="fr"'))
    assert found.alternates == {"de": "/de", "x-default": "/", "fr": "/fr"}
    assert set(found.links) == {"/de", "/", "/2"}
    many = "".join(f"<link rel=alternate hreflang=l{n} href=/{n}>" for n in range(1000))
    assert len(read(many).alternates or ()) == 100


@pytest.mark.parametrize("rel", ["nofollow", "ugc", "sponsored", "UGC external", "noopener Sponsored"])
def test_links_that_are_paid_for_or_left_by_visitors_are_not_followed(rel: str) -> None:
    found = read(f"<a href=/1 rel='{rel}'>1</a><a href=/2 rel=external>2</a>")
    assert (found.links, found.nofollow) == (["/2"], ["/1"])


def test_pages_may_call_us_by_the_product_token_of_the_user_agent() -> None:
    for name, index in (("skitter", True), ("mybot", False)):
        settings = with_agent(
            load(None, {}, {"fetch.user_agent": "MyBot/1.0 (+https://example.org/bot)"})
        ).parse
        meta = f"<meta name={name} content=noindex>".encode()
        header = [("content-type", "text/plain"), ("x-robots-tag", f"{name}: noindex")]
        assert parse(URL, [("content-type", "text/html")], meta, settings).directives.index is index
        assert parse(URL, header, b"x", settings).directives.index is index
    assert with_agent(load(None, {}, {})).parse.agent == "skitter"
    assert with_agent(load(None, {}, {"parse.agent": "other"})).parse.agent == "other"
    with pytest.raises(SettingsError, match=r"parse\.agent"):
        load(None, {}, {"parse.agent": "My Bot"})
