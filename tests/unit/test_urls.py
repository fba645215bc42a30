"""The two forms of a URL, what they may and may not change, and that no text breaks them."""

import ipaddress
import pickle
import subprocess
import sys
import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skitter import urls
from skitter.urls import UrlRules

BASE = "https://example.org/section/page.html?id=7"
BOLD = UrlRules(fold_trailing_slash=True, fold_www=True, fold_scheme=True)

# ------------------------------------------------------------------------------------------------- resolving


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("/a", "https://example.org/a"),
        ("a", "https://example.org/section/a"),
        ("../a", "https://example.org/a"),
        ("?x=1", "https://example.org/section/page.html?x=1"),
        ("", "https://example.org/section/page.html?id=7"),
        ("#part", "https://example.org/section/page.html?id=7"),
        ("//other.net", "https://other.net/"),
        ("  /a\n", "https://example.org/a"),
        ("/a\tb", "https://example.org/ab"),
        ("\\a\\b", "https://example.org/a/b"),
        ("http:b", "http://b/"),
        ("https:b", "https://example.org/section/b"),
        ("HTTP://OTHER.net:80/%7e", "http://other.net/%7e"),
        ("https://user:secret@other.net/", "https://user:secret@other.net/"),
        ("/ä?ö=ü", "https://example.org/%C3%A4?%C3%B6=%C3%BC"),
        ("/\ud800", "https://example.org/%EF%BF%BD"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
    ],
)
def test_a_link_resolves_as_in_a_browser_without_its_fragment(href: str, expected: str):
    assert urls.resolve(href, BASE) == expected


@pytest.mark.parametrize(
    "href",
    [
        *("mailto:a@example.org", "javascript:void(0)", "JavaScript:x", "java\nscript:x", "data:text/html,x"),
        *(
            "tel:+123",
            "ftp://example.org/",
            "file:///etc/passwd",
            "blob:https://example.org/1",
            "about:blank",
        ),
        *(
            "https://",
            "http://a b/",
            "http://[::1",
            "http://example.org:99999/",
            "http://%00/",
            "http://256.0.0.1/",
        ),
    ],
)
def test_text_that_is_not_an_http_url_is_none(href: str):
    assert urls.resolve(href, BASE) is None
    assert urls.link(href, BASE) is None


# ---------------------------------------------------------------------------------------------- fetched form


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Example.ORG:443", "https://example.org/"),
        ("https://example.org/a#b", "https://example.org/a"),
        ("https://me:secret@example.org/a@b", "https://example.org/a@b"),
        ("https://me@example.org:8443/", "https://example.org:8443/"),
        ("https://example.org/?utm_source=x", "https://example.org/"),
        ("https://example.org/?b=2&UTM_Medium=x&a=1&fbclid=y", "https://example.org/?b=2&a=1"),
        ("https://example.org/?utm%5fsource=x&a=%7e", "https://example.org/?a=%7e"),
        ("https://example.org/a?my_utm_source=1&gclidx=2", "https://example.org/a?my_utm_source=1&gclidx=2"),
    ],
)
def test_the_fetched_form_loses_fragment_credentials_and_tracking(url: str, expected: str):
    assert urls.fetched_form(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/?",
        "https://example.org/?b=2&a=1&&=3&c=",
        "https://example.org//a//b/?sid=1&PHPSESSID=2&ref=3",
        "https://example.org/a;jsessionid=1?x=%7e%7E",
        "https://www.example.org/%7e|[]",
    ],
)
def test_the_fetched_form_changes_nothing_else(url: str):
    assert urls.fetched_form(url) == url


@pytest.mark.parametrize(
    "spelling",
    [
        "a.test",
        "a.test.",
        "A.Test.",
        "a%2Etest%2e",
        "\uff41.test\u3002",  # a full-width letter and an ideographic full stop
        "me:secret.@a.test.",
    ],
)
@pytest.mark.parametrize("port", ["", ":8080"])
def test_one_host_has_one_name_however_it_is_spelt(spelling: str, port: str):
    url, plain = f"http://{spelling}{port}/b?c.:d", f"http://a.test{port}/b?c.:d"
    assert urls.host(url) == "a.test"
    assert urls.origin(url) == f"http://a.test{port}"
    assert urls.fetched_form(url) == plain
    assert (urls.resolve(url, "http://b.test/") or "").endswith(f"a.test{port}/b?c.:d")
    assert urls.key(url) == urls.key(plain)
    assert urls.link(url, "http://b.test/") == (plain, urls.key(plain), "a.test")
    assert urls.link("/b?c.:d", url) == (plain, urls.key(plain), "a.test")
    assert urls.split(url) == urls.split(plain)
    assert urls.seed(url) == plain


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("B\u00fccher.test.", "xn--bcher-kva.test"),
        ("0x7f.1.", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("a.test..", "a.test.."),  # no name that DNS could know
        ("1..", "1.."),
    ],
)
def test_the_trailing_dot_is_not_part_of_the_host(spelling: str, host: str):
    assert urls.host(f"https://{spelling}/") == host


# ------------------------------------------------------------------------------------------------------- key


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/b/../a/./c", "https://example.org/a/c"),
        ("https://example.org/b/%2E%2e/a", "https://example.org/a"),
        ("https://example.org//a///b//", "https://example.org/a/b/"),
        ("https://example.org/%7euser/%e4%f6?%41=%2f", "https://example.org/~user/%E4%F6?A=%2F"),
        ("https://example.org/100%/%zz", "https://example.org/100%25/%25zz"),
        ("https://example.org/[x]|?[y]|`{}", "https://example.org/%5Bx%5D%7C?%5By%5D%7C%60%7B%7D"),
        ("https://example.org/Path", "https://example.org/Path"),
        ("https://example.org/?", "https://example.org/"),
        ("https://example.org/?b=2&a=1&b=1&a=3", "https://example.org/?a=1&a=3&b=2&b=1"),
        ("https://example.org/?c=&b&=1&&a", "https://example.org/?a&b&c"),
        ("https://example.org/?id=1&sid=2&PHPSESSID=3&utm_x=4", "https://example.org/?id=1"),
        ("https://example.org/a;jsessionid=A1/b;v=2;JSESSIONID=B2?x", "https://example.org/a/b;v=2?x"),
        ("https://example.org/a;jsessionid=A1", "https://example.org/a"),
        ("https://example.org/a/..;sid=1/b", "https://example.org/a/..;sid=1/b"),
        ("https://example.org./", "https://example.org/"),
        ("https://example.org.:8443/", "https://example.org:8443/"),
        ("http://1../", "http://1../"),
        ("https://me:secret@example.org/", "https://example.org/"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("http://[0:0::1]:80/", "http://[::1]/"),
    ],
)
def test_the_key_is_one_spelling_for_many(url: str, expected: str):
    assert urls.key(url) == expected
    assert urls.canonical(f" \u00a0{url}\n") == expected


def test_every_escape_is_in_upper_case_unless_it_is_of_an_unreserved_character():
    for code in range(256):
        char = chr(code)
        bare = char.isascii() and (char.isalnum() or char in "-._~")
        for escape in {
            f"%{code:02x}",
            f"%{code:02X}",
            f"%{code >> 4:x}{code & 15:X}",
            f"%{code >> 4:X}{code & 15:x}",
        }:
            normal = char if bare else escape.upper()
            assert (
                urls.key(f"https://example.org/a{escape}b?c{escape}d")
                == f"https://example.org/a{normal}b?c{normal}d"
            )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a", "https://example.org/a/"),
        ("https://example.org/a", "http://example.org/a"),
        ("https://example.org/a", "https://www.example.org/a"),
        ("https://example.org/a", "https://example.org:8443/a"),
        ("https://example.org/?a=1&a=2", "https://example.org/?a=2&a=1"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
        ("https://example.org/?q=a%26b", "https://example.org/?q=a&b"),
        ("https://example.org/a?x", "https://example.org/a%3Fx"),
        ("https://example.org/a..;sid=1/b", "https://example.org/b"),
    ],
)
def test_urls_that_may_be_two_pages_have_two_keys(one: str, other: str):
    assert urls.key(one) != urls.key(other)


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        (UrlRules(fold_trailing_slash=True), "https://example.org/a/", "https://example.org/a"),
        (UrlRules(fold_trailing_slash=True), "https://example.org/?a", "https://example.org/?a"),
        (UrlRules(fold_www=True), "https://www.example.org:8443/", "https://example.org:8443/"),
        (UrlRules(fold_www=True), "https://www.www.example.org/", "https://example.org/"),
        (UrlRules(fold_www=True), "https://www.www.org/", "https://www.org/"),
        (UrlRules(fold_www=True), "https://www.org/", "https://www.org/"),
        (UrlRules(fold_scheme=True), "http://example.org/", "https://example.org/"),
        (UrlRules(fold_scheme=True), "http://[::1]/", "https://[::1]/"),
        (UrlRules(fold_scheme=True), "http://example.org:8080/", "http://example.org:8080/"),
        (UrlRules(fold_scheme=True), "http://example.org:443/", "http://example.org:443/"),
        (
            UrlRules(session_params=()),
            "https://example.org/a;sid=1?sid=1",
            "https://example.org/a;sid=1?sid=1",
        ),
        (
            UrlRules(tracking_params=("*_id",)),
            "https://example.org/?user_id=1&id=2",
            "https://example.org/?id=2",
        ),
        (
            UrlRules(tracking_params=()),
            "https://example.org/?utm_source=1",
            "https://example.org/?utm_source=1",
        ),
    ],
)
def test_settings_decide_what_is_folded_and_dropped(rules: UrlRules, url: str, expected: str):
    assert urls.key(url, rules) == expected
    assert urls.link(url, BASE, rules) == (urls.fetched_form(url, rules), expected, urls.host(url))


def test_folding_never_changes_the_fetched_form():
    assert urls.link("http://www.example.org/a/", BASE, BOLD) == (
        "http://www.example.org/a/",
        "https://example.org/a",
        "www.example.org",
    )


def test_a_tidy_link_is_one_string_with_two_names():
    both = urls.link("/a/b", BASE)
    assert both is not None
    assert both[0] is both[1]


def test_rules_can_be_sent_to_another_process_after_use():
    urls.key("https://example.org/?utm_source=1&a=2", BOLD)
    assert pickle.loads(pickle.dumps(BOLD)) == BOLD


# ------------------------------------------------------------------------------------------------------ seed


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("example.org", "https://example.org/"),
        ("  Example.org/x?utm_source=y&z#f \n", "https://example.org/x?z"),
        ("localhost:8000/", "https://localhost:8000/"),
        ("localhost:8000", "https://localhost:8000/"),
        ("example.org:443?x", "https://example.org/?x"),
        ("127.1:8000", "https://127.0.0.1:8000/"),
        ("[::1]:8000/x", "https://[::1]:8000/x"),
        ("//example.org/x", "https://example.org/x"),
        ("http://example.org", "http://example.org/"),
        ("HTTP:example.org", "http://example.org/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
    ],
)
def test_typed_text_becomes_a_url(typed: str, expected: str):
    assert urls.seed(typed) == expected


@pytest.mark.parametrize(
    "typed",
    [
        "",
        " ",
        "two words",
        "/etc/hosts",
        "./file",
        "\\share",
        "?x",
        "#x",
        "mailto:a@b.c",
        "C:\\x",
        "a:b",
        "ftp://a/",
    ],
)
def test_mistyped_text_is_none(typed: str):
    assert urls.seed(typed) is None


def test_a_seed_follows_the_rules_it_is_given():
    assert urls.seed("example.org?utm_a=1", UrlRules(tracking_params=())) == "https://example.org/?utm_a=1"


# ----------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("url", "parts", "origin"),
    [
        ("https://example.org/a?b", ("https", "example.org", 443, "/a", "b"), "https://example.org"),
        ("http://example.org", ("http", "example.org", 80, "/", ""), "http://example.org"),
        ("http://example.org:8080/?", ("http", "example.org", 8080, "/", ""), "http://example.org:8080"),
        ("https://example.org:80/", ("https", "example.org", 80, "/", ""), "https://example.org:80"),
        (
            "HTTPS://me@Example.org:0443/a/../b#c",
            ("https", "example.org", 443, "/b", ""),
            "https://example.org",
        ),
        ("http://[::1]:81/", ("http", "[::1]", 81, "/", ""), "http://[::1]:81"),
        ("http://[::1]/", ("http", "[::1]", 80, "/", ""), "http://[::1]"),
        ("http://10.0.0.1:50000/x", ("http", "10.0.0.1", 50000, "/x", ""), "http://10.0.0.1:50000"),
        ("http://010.0.0.1/x", ("http", "8.0.0.1", 80, "/x", ""), "http://8.0.0.1"),
        ("http://a_b.example:65535/", ("http", "a_b.example", 65535, "/", ""), "http://a_b.example:65535"),
        (
            "http://good.example\\@bad.example/",
            ("http", "good.example", 80, "/@bad.example/", ""),
            "http://good.example",
        ),
        ("http://good.example\t.bad.example/", ("http", "good.example.bad.example", 80, "/", ""), None),
        ("http://good.example@bad.example/", ("http", "bad.example", 80, "/", ""), "http://bad.example"),
    ],
)
def test_parts_host_and_origin_are_those_of_the_parsed_url(
    url: str, parts: tuple[object, ...], origin: str | None
):
    assert urls.split(url) == parts
    assert urls.host(url) == parts[1]
    assert urls.origin(url) == (origin or f"{parts[0]}://{parts[1]}")


@pytest.mark.parametrize(
    "text", ["", "example.org", "ftp://example.org/", "https://", "https://a b/", "//a.example/"]
)
def test_text_that_is_not_an_http_url_has_no_parts(text: str):
    assert urls.split(text) is None
    assert urls.host(text) == ""
    assert urls.origin(text) == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", ipaddress.IPv4Address("127.0.0.1")),
        ("[::ffff:7f00:1]", ipaddress.IPv6Address("::ffff:127.0.0.1")),
        *[
            (name, None)
            for name in ("example.org", "host1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "", "[", "[x]", "²")
        ],
    ],
)
def test_addresses_and_names_are_distinguished(host: str, expected: object):
    assert urls.address(host) == expected


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.org", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("me.github.io", "me.github.io"),
        ("www.me.github.io", "me.github.io"),
        ("github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("example.org.", "example.org"),
        ("localhost", "localhost"),
        ("printer.local", "printer.local"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]", "[::1]"),
        ("a." * 200 + "example.org", "a." * 200 + "example.org"),
        ("", ""),
    ],
)
def test_the_domain_is_the_registrable_one_or_the_host_itself(host: str, domain: str):
    assert urls.registrable_domain(host) == domain


# ---------------------------------------------------------------------------------- fingerprints and shards


def test_fingerprints_depend_on_the_secret_and_on_nothing_else():
    one = urls.fingerprint("https://example.org/", 1)
    assert one == urls.fingerprint("https://example.org/", 1)
    assert one != urls.fingerprint("https://example.org/", 2)
    assert one != urls.fingerprint("https://example.org/a", 1)
    assert 0 <= one < 2**64


def test_shards_are_the_same_in_every_process():
    names = [f"host{number}.example" for number in range(50)]
    code = f"from skitter import urls; print([urls.shard(name, 7) for name in {names}])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str([urls.shard(name, 7) for name in names])


def test_shards_share_the_domains_out_evenly():
    counts = [0] * 8
    for number in range(8000):
        counts[urls.shard(f"host{number}.example", 8)] += 1
    assert min(counts) > 850
    assert max(counts) < 1150


# -------------------------------------------------------------------------------------------- for any text

SPICE = st.sampled_from(
    [
        *(
            "/",
            "//",
            ".",
            "..",
            "/../",
            "/./",
            "%2e",
            "%2E%2e/",
            "\\",
            ";",
            ";sid=1",
            ";jsessionid=A",
            "?",
            "&",
            "=",
            "#",
        ),
        *(
            ":",
            "@",
            "%",
            "%2",
            "%41",
            "%7e",
            "%2f",
            "%zz",
            "[",
            "]",
            "|",
            "^",
            "'",
            '"',
            "<",
            " ",
            "\t",
            "\n",
            "\0",
            "+",
        ),
        *(
            "utm_source=1",
            "a=1",
            "b",
            "sid=2",
            "http:",
            "https://",
            "www.",
            "example.org",
            "xn--a",
            "1",
            "0x7f",
            "::1",
        ),
        *(
            "ü",
            "😀",
            "\ud800",
            "\udc00",
            "\u00a0",
            "\ufeff",
            "。",
            "ß",
            "A",
            "z",
            "~",
            ",",
            "!",
            "javascript:",
            ":80",
            ":8080",
        ),
    ]
)
MIXED = st.lists(SPICE | st.characters(), max_size=12).map("".join)
URLS = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(
        [
            "example.org",
            "www.example.org",
            "EXAMPLE.org.",
            "a.b.c",
            "127.1",
            "[::1]",
            "bücher.de",
            "1..",
            "www..",
            "u:p@h",
        ]
    ),
    st.sampled_from(["", ":", ":80", ":443", ":8080", ":65535"]),
    MIXED,
)
HREFS = MIXED | URLS
RULES = st.sampled_from([urls.DEFAULT_RULES, BOLD, UrlRules(tracking_params=(), session_params=())])


@given(HREFS, RULES)
@example("https://www.www./", BOLD)
@example("https://h/..;sid=1;sid=2/", BOLD)
@settings(max_examples=300, deadline=None)
def test_both_forms_are_stable_and_share_their_key(url: str, rules: UrlRules):
    key, fetched = urls.key(url, rules), urls.fetched_form(url, rules)
    assert (key is None) == (fetched is None)
    assume(key is not None and fetched is not None)
    assert key is not None
    assert fetched is not None
    assert urls.key(key, rules) == key
    assert urls.key(fetched, rules) == key
    assert urls.fetched_form(fetched, rules) == fetched
    assert urls.whatwg(key) == key
    assert urls.whatwg(fetched) == fetched


def test_a_link_to_a_host_with_an_impossible_name_leads_nowhere():
    longest = ".".join(["a" * 62] * 4) + ".a"
    site = f"http://{longest}"
    assert urls.link("b", f"{site}/") == (f"{site}/b", f"{site}/b", longest)
    for href, base in [(f"{site}a/", BASE), (f"{site}a/%7e", BASE), ("b", f"{site}a/"), ("?c", f"{site}a/")]:
        assert urls.link(href, base) is None


@given(HREFS, URLS, RULES)
@settings(max_examples=300, deadline=None)
def test_a_link_matches_the_parser_in_both_forms(href: str, base: str, rules: UrlRules):
    resolved = urls.resolve(href, base)
    if resolved is None:
        assert urls.link(href, base, rules) is None
    else:
        forms = urls.fetched_form(resolved, rules), urls.key(resolved, rules)
        assert urls.link(href, base, rules) == (*forms, urls.host(resolved))
        assert urls.resolve(resolved, base) == resolved


@given(HREFS)
@settings(max_examples=200, deadline=None)
def test_parts_are_those_of_the_serialised_url(url: str):
    serialised = urls.resolve(url, "about:blank")  # nothing is relative to it
    parts = urls.split(url)
    assert (parts is None) == (serialised is None)
    if parts is not None and serialised is not None:
        assert parts == urls.split(serialised)
        assert parts.host == urls.host(url) == urls.host(serialised)
        assert urls.origin(url) == urls.origin(serialised)
        assert serialised.endswith(parts.path + ("?" * ("?" in serialised) + parts.query))


@given(URLS, st.sampled_from(["utm_campaign=x", "fbclid", "GCLID=1", "utm_%65=", "_ga=1.2"]), st.booleans())
@settings(deadline=None)
def test_a_tracking_parameter_makes_no_difference(url: str, param: str, first: bool):
    bare = urls.resolve(url, url)
    assume(bare is not None and not bare.endswith("?"))
    assert bare is not None
    site, mark, query = bare.partition("?")
    tracked = f"{site}?{param}&{query}" if first and mark else f"{bare}{'&' if mark else '?'}{param}"
    assert urls.key(tracked) == urls.key(bare)
    assert urls.fetched_form(tracked) == urls.fetched_form(bare)


@given(st.permutations(["a=1", "b", "c=%20", "d=x+y", "%7E=1", "Z=2"]))
def test_the_order_of_parameters_makes_no_difference_to_the_key(pairs: list[str]):
    assert (
        urls.key("https://example.org/?" + "&".join(pairs))
        == "https://example.org/?Z=2&a=1&b&c=%20&d=x+y&~=1"
    )


@given(HREFS, HREFS)
@settings(max_examples=200, deadline=None)
def test_no_text_upsets_anything(one: str, other: str):
    assert isinstance(urls.link(one, other), tuple | None)
    assert isinstance(urls.seed(one), str | None)
    assert isinstance(urls.canonical(one), str | None)
    assert isinstance(urls.registrable(one), str | None)
    assert isinstance(urls.registrable_domain(one), str)
    assert urls.address(one) is None or one.strip("[]")
    assert urls.surt(one)  # never empty: a line of an index must start with something
    assert isinstance(urls.origin(one) + urls.host(one), str)


def seconds(url: str) -> float:
    begun = time.process_time()
    urls.link(url, BASE, BOLD)
    urls.link("x", url)
    urls.seed(url)
    urls.surt(url)
    urls.registrable_domain(url)
    return time.process_time() - begun


@pytest.mark.parametrize("stem", ["http://", "http://h/", "http://h/?", "http://h/%", "http://h/x.aspx", ""])
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "@",
            "a/../",
            "../",
            "%2e%2e/",
            "%",
            "%25",
            "25",
            "&",
            "a=&",
            "/",
            ";",
            ";sid=1",
            "..;sid=1/",
            "utm_a=1&",
            "\\",
        ),
        *(
            "\0",
            "\t",
            "ü",
            "\ud800",
            ".",
            "www.",
            "a.",
            ":",
            "[",
            "#",
            "-",
            "/" + "a" * 24,
            "%c3%bc",
            "xn--a.",
            "(a(",
            "_a",
        ),
    ],
)
def test_time_grows_with_length_not_with_its_square(stem: str, unit: str):
    short, long = (stem + unit * (size // len(unit)) for size in (2_000, 32_000))
    # Sixteen times the input takes sixteen times as long, with room for noise; quadratic would be 256 times.
    assert min(seconds(long) for _ in range(3)) < 64 * max(min(seconds(short) for _ in range(3)), 1e-4)
