"""What site owners say about uses: the examples of the drafts and protocols, written for this project, and what follows."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model import Statement
from skitter.parse import parse
from skitter.robots import robots_rules, terms, usage
from skitter.robots.saying import Said
from skitter.settings import ParseSettings

SITE = "https://example.com"


def verdicts(statements: list[Statement]) -> dict[str, str]:
    return {use: said for use, (said, _) in usage.verdicts(statements).items()}


def of_robots(text: str, url: str, agent: str = "skitter") -> dict[str, str]:
    said = robots_rules(text.encode(), agent).said
    return {} if said is None else verdicts(said.statements(url))


def of_page(*headers: tuple[str, str], html: str = "") -> dict[str, str]:
    fields = [("content-type", "text/html"), *headers]
    return verdicts(list(parse(f"{SITE}/", fields, html.encode(), ParseSettings()).statements))


# ------------------------------------------------------------------------------------------------ draft-ietf-aipref-vocab


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("train-ai=n", {"train-ai": "n"}),
        ("train-ai=y, search=n", {"train-ai": "y", "search": "n"}),
        ('train-ai=y, train-ai, search=n, search="n"', {}),  # the last of each counts, and is no token
        ("train-ai;allow=n, train-ai=y", {"train-ai": "y"}),
        ("train-ai=y;reason=x", {"train-ai": "y"}),  # parameters are ignored
        ("unheard-of=n, search=y", {"search": "y"}),  # unknown labels are
        ("bots=n, train-genai=n, ai-use=n", {}),  # labels of earlier drafts are unknown today
        ("train-ai=N", {}),
        ("Train-AI=n", {}),
        ("train-ai=?0", {}),
        ('train-ai=n;x="a,b", search=y', {"train-ai": "n", "search": "y"}),
        ("train-ai=n,", {}),  # RFC 9651 4.2.2: a comma at the end makes the whole field malformed
        ("train-ai=n search=y", {}),
        ("train-ai=n, =y", {}),
        ("", {}),
    ],
)
def test_content_usage_is_a_dictionary_of_y_and_n(field: str, expected: dict[str, str]) -> None:
    assert usage.usage(field) == expected
    assert of_page(("content-usage", field)) == expected


def test_several_content_usage_lines_are_one_field() -> None:
    assert of_page(("content-usage", "train-ai=y"), ("content-usage", "train-ai=n, search=y")) == {
        "train-ai": "n",
        "search": "y",
    }


# ------------------------------------------------------------------------------------------------ draft-ietf-aipref-attach

ATTACHED = """\
User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""


@pytest.mark.parametrize(
    ("agent", "path", "expected"),
    [
        ("skitter", "/test", {"train-ai": "n"}),
        ("skitter", "/ai-ok/test", {"train-ai": "y"}),
        ("ExampleBot", "/test", {"train-ai": "y"}),
        ("ExampleBot", "/ai-ok/test", {"train-ai": "y"}),
    ],
)
def test_the_example_of_the_draft(agent: str, path: str, expected: dict[str, str]) -> None:
    assert of_robots(ATTACHED, SITE + path, agent) == expected
    assert not robots_rules(ATTACHED.encode(), "skitter").allows("/never/test")  # nothing is asked about it


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["train-ai=y", "train-ai=n"], "/", {"train-ai": "n"}),  # equal paths: n wins, not Allow's rule
        (["/a train-ai=n", "/a train-ai=y"], "/a", {"train-ai": "n"}),
        (["/a train-ai=n", "/a search=y"], "/a", {"train-ai": "n", "search": "y"}),
        (["train-ai=n", "/a search=y"], "/a/b", {"search": "y"}),  # the longest path speaks alone
        (["train-ai=n", "/a nonsense!"], "/a", {}),  # malformed: unknown
        (["/*.pdf$ train-ai=n"], "/x.pdf", {"train-ai": "n"}),
        (["/*.pdf$ train-ai=n"], "/x.pdf?1", {}),
        (["/x$ train-ai=n"], "/x", {"train-ai": "n"}),
        (["/x$ train-ai=n"], "/xy", {}),
        (["/%7Eme/ train-ai=n"], "/~me/page", {"train-ai": "n"}),
        (["/a*b train-ai=y", "/abb train-ai=n"], "/abb", {"train-ai": "n"}),  # equal in length, both match
        (["/a\ttrain-ai=n"], "/a", {"train-ai": "n"}),
    ],
)
def test_paths_are_matched_like_those_of_rules(lines: list[str], path: str, expected: dict[str, str]) -> None:
    text = "User-agent: *\n" + "\n".join(f"Content-Usage: {line}" for line in lines)
    assert of_robots(text, SITE + path) == expected


def test_a_preference_is_no_rule_and_ends_no_list_of_agents() -> None:
    rules = "User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /x"
    for agent in ("a", "b"):
        assert not robots_rules(rules.encode(), agent).allows("/x")
    assert of_robots(rules, f"{SITE}/", "a") == {"train-ai": "n"}


def test_preferences_are_of_the_group_that_applies_and_of_what_stands_before_all_groups() -> None:
    text = "Content-Signal: search=yes\nUser-agent: *\nContent-Usage: train-ai=n\n\nUser-agent: skitter\nAllow: /"
    assert of_robots(text, f"{SITE}/", "other") == {"search": "y", "train-ai": "n"}
    assert of_robots(text, f"{SITE}/", "skitter") == {"search": "y"}
    assert robots_rules(b"User-agent: *\nDisallow: /x", "skitter").said is None


def test_a_hostile_file_costs_little_and_says_nothing() -> None:
    lines = "".join(f"Content-Usage: /{'*a' * 20}{n} train-ai=n\n" for n in range(9_000))
    said = robots_rules(f"User-agent: *\n{lines}".encode(), "skitter").said
    assert isinstance(said, Said)
    assert len(said.usage.lines) == 1_000
    assert said.statements(f"{SITE}/{'a' * 5_000}") == []


# ------------------------------------------------------------------------------------------------ Content-Signal


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("search=yes, ai-train=no", {"search": "y", "train-ai": "n"}),
        ("search=yes,ai-train=no,use=reference", {"search": "y", "train-ai": "n"}),
        ("SEARCH=Yes , ai-input = NO", {"search": "y", "ai-input": "n"}),
        ("ai-train=yes, ai-train=no", {"train-ai": "n"}),
        ("ai-train=maybe, search", {}),
        ("/content-signals.json", {}),
    ],
)
def test_content_signals_are_words_with_yes_or_no(line: str, expected: dict[str, str]) -> None:
    assert of_robots(f"User-Agent: *\nContent-signal: {line}", f"{SITE}/") == expected
    assert of_page(("content-signal", line)) == expected


# ------------------------------------------------------------------------------------------------ TDMRep

RESERVED = {"tdm": "n", "train-ai": "n"}
FILE = json.dumps(
    [
        {"location": "/", "tdm-reservation": 1, "tdm-policy": "https://provider.com/policies/policy.json"},
        {"location": "/directory-b/html/", "tdm-reservation": 1},
        {"location": "/directory-b/images/*.jpg$", "tdm-reservation": 0},
        {"location": "/odd", "tdm-reservation": "yes"},
    ]
)


@pytest.mark.parametrize(
    ("path", "header", "html", "expected"),
    [
        ("/x", "", "", RESERVED),
        ("/directory-b/images/1.jpg", "", "", {"tdm": "y"}),
        ("/directory-b/images/1.jpg.html", "", "", RESERVED),
        ("/x", "0", "", {"tdm": "y"}),  # the header supersedes the file
        ("/x", "", "0", {"tdm": "y"}),
        ("/x", "0", "1", RESERVED),  # … and the meta element the header
        ("/x", "1", "0", {"tdm": "y"}),
        ("/x", "yes", "", RESERVED),  # what has no meaning resets nothing
        ("/odd", "", "", {}),
        ("/odd", "1", "2", RESERVED),
    ],
)
def test_the_three_places_of_tdmrep_in_their_order(
    path: str, header: str, html: str, expected: dict[str, str]
) -> None:
    fields = [("content-type", "text/html")] + ([("tdm-reservation", header)] if header else [])
    meta = f'<meta name="tdm-reservation" content="{html}">' if html else ""
    own = parse(SITE + path, fields, meta.encode(), ParseSettings()).statements
    of_file = terms.statements(terms.tdm_file(FILE.encode()), SITE + path, 5.0)
    assert verdicts([*own, *of_file]) == expected
    assert {one.at for one in of_file} == {5.0}


def test_the_policy_is_kept() -> None:
    html = '<meta name="TDM-policy" content="https://provider.com/p.json">'
    page = parse(
        f"{SITE}/", [("tdm-policy", "/q.json"), ("content-type", "text/html")], html.encode(), ParseSettings()
    )
    assert [(one.source, one.raw, one.uses) for one in page.statements] == [
        ("tdm-policy header", "/q.json", {}),
        ("tdm-policy meta element", "https://provider.com/p.json", {}),
    ]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b"null", b'{"location": "/"}', b'["/", 1, {}, {"location": 1}, {"location": "x"}]',
     b'[{"location": "/", "tdm-reservation": true}]', b"\xff\xfe", b'[{"location": "/' + b"x" * 600_000 + b'"}]'],
    ids=range(9),
)  # fmt: skip
def test_a_broken_tdmrep_file_says_nothing(body: bytes) -> None:
    assert verdicts(terms.statements(terms.tdm_file(body), f"{SITE}/", 0.0)) == {}


def test_half_a_pair_of_surrogates_can_be_written_down() -> None:
    body = b'[{"location": "/", "tdm-reservation": 1, "tdm-policy": "\\ud800"}]'
    (one,) = terms.statements(terms.tdm_file(body), f"{SITE}/", 0.0)
    assert b"tdm-policy" in msgspec.json.encode(one)
    assert one.uses["tdm"] == "n"


# ------------------------------------------------------------------------------------------------ noai, RSL


def test_noai_says_no_to_training_and_noimageai_to_that_with_images() -> None:
    assert of_page(("x-robots-tag", "noai, noimageai")) == {"train-ai": "n", "train-ai-images": "n"}
    assert of_page(html='<meta name=robots content="noai">') == {"train-ai": "n"}
    assert of_page(("x-robots-tag", "otherbot: noai")) == {}


def rsl(licences: str, url: str = "/") -> bytes:
    head = '<?xml version="1.0"?><rsl xmlns="https://rslstandard.org/rsl">'
    return f'{head}<content url="{url}">{licences}</content></rsl>'.encode()


NO_TRAINING = '<license><prohibits type="usage">ai-train</prohibits></license>'


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        (NO_TRAINING, {"train-ai": "n"}),
        ("<license><prohibits>train-ai</prohibits></license>", {"train-ai": "n"}),
        ('<license><permits type="usage">all</permits></license>', {"train-ai": "y", "ai-input": "y", "search": "y"}),
        ('<license><permits type="usage">search</permits></license>', {"train-ai": "n", "ai-input": "n", "search": "y"}),
        ('<license><permits type="usage">search ai-input</permits><payment type="attribution"/></license>',
         {"train-ai": "n", "ai-input": "y", "search": "y"}),
        (('<license><permits type="usage">ai-train</permits><payment type="crawl"><amount currency="USD">1</amount>'
         "</payment></license>"), {"train-ai": "n", "ai-input": "n", "search": "n"}),
        ('<license><permits type="usage">ai-all</permits></license>' + NO_TRAINING, {"train-ai": "y", "ai-input": "y", "search": "n"}),
        ('<license><permits type="user">education</permits></license>', {}),
        ("<license/>", {}),
    ],
)  # fmt: skip
def test_a_licence_gives_what_it_permits_for_free(licences: str, expected: dict[str, str]) -> None:
    read = terms.licence(rsl(licences), f"{SITE}/license.xml", SITE)
    assert verdicts(terms.statements(read, f"{SITE}/page", 0.0)) == expected


def test_the_terms_of_a_licence_are_kept_for_people() -> None:
    body = rsl('<license><permits type="usage">ai-train</permits><payment type="use"><amount currency="EUR">0.10</amount></payment></license>')  # fmt: skip
    (one,) = terms.statements(terms.licence(body, f"{SITE}/l.xml", SITE), f"{SITE}/", 3.0)
    assert (one.raw, one.at) == (f"{SITE}/l.xml: permits usage ai-train; payment use; 0.10", 3.0)


@pytest.mark.parametrize(
    ("url", "page", "known"),
    [
        ("/premium/", "/premium/1", True),
        ("/premium/", "/free", False),
        (f"{SITE}/*", "/x", True),
        (SITE, "/x", True),
        ("https://other.example/*", "/x", False),
        ("https://example.com.evil.example/", "/x", False),
        ("/*.pdf$", "/a/b.pdf", True),
    ],
)
def test_a_licence_is_for_the_contents_it_names(url: str, page: str, known: bool) -> None:
    read = terms.licence(rsl(NO_TRAINING, url), f"{SITE}/license.xml", SITE)
    assert bool(terms.statements(read, SITE + page, 0.0)) is known


BOMB = b'<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><rsl>&b;</rsl>'


@pytest.mark.parametrize("body", [b"", b"<rsl", b"<html>", BOMB, (b"<!DOCTYPE rsl>" + rsl(NO_TRAINING)[21:]).decode().encode("utf-16"), b"<rsl>" * 60_000, b"\xff\xfe<\x00", b"<a>" + b"x" * 600_000 + b"</a>"], ids=range(8))  # fmt: skip
def test_a_broken_licence_says_nothing(body: bytes) -> None:
    assert terms.licence(body, f"{SITE}/l.xml", SITE).lines == ()


def test_where_the_licence_is_said() -> None:
    said = robots_rules(
        b"License: https://example.com/license.xml\nUser-agent: other\nDisallow: /", "skitter"
    ).said
    assert said is not None
    assert said.licenses == ("https://example.com/license.xml",)
    (one,) = said.statements(f"{SITE}/")
    assert (one.source, one.raw, one.uses) == ("License in robots.txt", "https://example.com/license.xml", {})
    html = '<link rel="license" type="application/rsl+xml" href="/license.xml">'
    page = parse(
        f"{SITE}/",
        [("content-type", "text/html"), ("link", "</l2.xml>; rel=license")],
        html.encode(),
        ParseSettings(),
    )
    assert [(one.source, one.raw) for one in page.statements] == [
        ("Link header", "/l2.xml"),
        ("link rel=license", "/license.xml"),
    ]


# ------------------------------------------------------------------------------------------------ all together


def test_over_all_sources_n_wins_and_unknown_stays_unknown() -> None:
    statements = [
        Statement("Content-Usage header", "train-ai=y", {"train-ai": "y"}),
        Statement("Content-Signal in robots.txt", "ai-train=no", {"train-ai": "n"}),
        Statement("meta robots", "noai", {"train-ai": "n"}),
    ]
    assert usage.verdicts(statements) == {"train-ai": ("n", statements[1])}
    assert usage.objection(statements, ["search"]) == ""
    assert usage.objection(statements, ["search", "train-ai"]) == (
        "it says no to train-ai (Content-Signal in robots.txt: ai-train=no)"
    )
    assert usage.objection([], ["train-ai"]) == usage.objection(statements, []) == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["tdmrep.json", "tdm-reservation header", "noai"]), st.sampled_from("yn")),
        max_size=6,
    )
)
def test_no_order_of_statements_changes_a_verdict(said: list[tuple[str, str]]) -> None:
    statements = [Statement(source, "", {"train-ai": use}) for source, use in said]
    assert verdicts(statements) == verdicts(statements[::-1])


@given(st.binary(max_size=80))
def test_nothing_raises_whatever_the_octets(octets: bytes) -> None:
    text = octets.decode("latin-1")
    assert usage.signals(text) is not None
    assert usage.usage(text) is not None
    assert terms.tdm_file(octets) is not None
    assert terms.licence(octets, "", SITE) is not None
    assert terms.licence(b"<rsl>" + octets + b"</rsl>", "", SITE) is not None
    assert (
        terms.licence(rsl(NO_TRAINING).replace(b'"/"', b'"' + octets.hex().encode() + b'"'), "", SITE)
        is not None
    )
