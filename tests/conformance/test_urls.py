"""URLs against the cases of the field: WHATWG, Unicode, RFC 3986, the public suffix list, other crawlers' normal forms.

Each test reads one file, collects what differs and compares it with a table of the differences we want, with their
reasons. So a new difference fails, and so does an exception that is no longer needed.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from skitter import urls
from tests.conformance.cases import FOLDER, needs_cases, rows

pytestmark = needs_cases

BASE = "https://example.org/folder/page.html?query=1"
NO_BASE = "about:blank"  # nothing is relative to it
BOLD = urls.UrlRules(fold_trailing_slash=True, fold_www=True, fold_scheme=True)

NOT_THE_WEB = "a crawler of http and https knows no other scheme"
NOT_A_KEY = "another transform: it keeps scheme, case, www or credentials, and replay tools do not look pages up by it"


def cases(name: str) -> list[dict[str, Any]]:
    found = rows(name)
    assert found, f"{name} is missing or empty"
    return found


def differences(
    found: list[dict[str, Any]], field: str, ours: Callable[[dict[str, Any]], object]
) -> dict[str, object]:
    """Input → our answer, for every row whose answer is not ours."""
    return {row["input"]: answer for row in found if (answer := ours(row)) != row[field]}


def test_every_whatwg_case_is_parsed_and_serialised_as_the_standard_says():
    found = cases("url_whatwg.jsonl")
    assert sum(row["http"] for row in found) > 500
    wrong = [row["id"] for row in found if urls.whatwg(row["input"], row["base"]) != row.get("expected_href")]
    assert wrong == []


def test_every_whatwg_case_resolves_to_a_web_url_without_fragment_or_to_nothing():
    wrong = []
    for row in cases("url_whatwg.jsonl"):
        href = row.get("expected_href") or ""
        expected = href.partition("#")[0] if href.startswith(("http://", "https://")) else None
        if urls.resolve(row["input"], row["base"] or NO_BASE) != expected:
            wrong.append(row["id"])
    assert wrong == []


def test_every_whatwg_case_is_split_into_the_components_of_the_standard():
    wrong, seen = [], 0
    for row in cases("url_whatwg.jsonl"):
        parts, expected = row.get("components"), row.get("expected_href", "")
        if not parts or not expected.startswith(("http://", "https://")):
            continue
        seen += 1
        scheme = parts["protocol"][:-1]
        port = int(parts["port"] or (443 if scheme == "https" else 80))
        ours = urls.split(expected)
        if ours != (scheme, parts["hostname"], port, parts["pathname"], parts["search"][1:]):
            wrong.append((row["id"], ours))
    assert seen > 0
    assert wrong == []


def test_host_names_become_ascii_as_unicode_uts_46_says():
    exceptions = {"": "an http URL has a host: in https:///x the name is x"}
    found = cases("url_idna.jsonl")
    for row in found:
        assert (row["expected_ascii"] is None) == row["failure"]

    def parsed(row: dict[str, Any]) -> str | None:
        """As the standard serialises it; that we take "a." and "a" for one host comes after that."""
        serialised = urls.whatwg(f"https://{row['input']}/x")
        return None if serialised is None else serialised.removeprefix("https://").partition("/")[0]

    ours = differences(found, "expected_ascii", parsed)
    assert ours.keys() == exceptions.keys()


def test_dot_segments_are_resolved_also_when_percent_encoded():
    """The rows are about paths before parsing, so they keep the backslashes that http URLs turn into slashes."""
    wrong, seen = [], 0
    for row in cases("url_path_dots.jsonl"):
        if row["scheme_class"] == "nonspecial" and "\\" in row["input"]:
            continue  # in other schemes a backslash is a letter like any other
        seen += 1
        parts = urls.split("http://example.org" + row["input"])
        if parts is None or parts.path != row["expected"].replace("\\", "/"):
            wrong.append((row["input"], row["expected"], parts))
    assert seen > 700
    assert wrong == []


def test_odd_spellings_of_ipv4_are_read_before_any_decision_about_the_address():
    def address(row: dict[str, Any]) -> str | None:
        found = urls.address(urls.host(f"http://{row['input']}/"))
        return None if found is None else str(found)

    assert differences(cases("url_ipv4_forms.jsonl"), "expected_ipv4", address) == {}


def test_references_are_resolved_as_in_rfc_3986():
    exceptions = {
        "//g": "http://g/",  # an http URL always has a path
        "http:g": "http://a/b/c/g",  # RFC 3986 5.4.2 allows this for old pages, WHATWG demands it
    }
    ours = differences(
        cases("url_rfc3986_resolution.jsonl"),
        "expected_href",
        lambda row: urls.whatwg(row["input"], row["base"]),
    )
    assert ours == exceptions
    assert urls.resolve("g:h", "http://a/b/c/d;p?q") is None


def test_registrable_domains_follow_the_public_suffix_list():
    found = [row for row in cases("psl_cases.jsonl") if row["host"] is not None]
    wrong = [row["host"] for row in found if urls.registrable(row["host"]) != row["registrable_domain"]]
    assert wrong == []
    for row in found:
        whole = row["host"].removesuffix(".")
        assert urls.registrable_domain(row["host"]) == (row["registrable_domain"] or whole)


def test_keys_agree_with_the_crawler_commons_normaliser():
    exceptions = {
        "file:///foo/bar.txt": NOT_THE_WEB,
        "file:/path/index.html": NOT_THE_WEB,
        "file:/var/www/html/////./bar/index.html": NOT_THE_WEB,
        "file:/var/www/html/foo/../bar/index.html": NOT_THE_WEB,
        "ftp:/": NOT_THE_WEB,
        "ftp://foo.com/index.html": NOT_THE_WEB,
        "foo.com/index.html": "without a scheme it is no URL; seed() is for what people type",
        "http:////": "WHATWG: no host, so no URL",
        "http:///////": "WHATWG: no host, so no URL",
        "http://[::ffff:127.0.0.1]/": "WHATWG serialises IPv6 in hexadecimal: [::ffff:7f00:1]",
    }
    found = [row for row in cases("url_canonical.jsonl") if row["profile"].startswith("crawler-commons")]
    assert len(found) > 100
    ours = differences(found, "expected", lambda row: urls.canonical(row["input"]))
    assert ours.keys() == exceptions.keys()
    assert ours.pop("http://[::ffff:127.0.0.1]/") == "http://[::ffff:7f00:1]/"
    assert set(ours.values()) == {None}


def test_equivalent_spellings_share_one_key():
    exceptions = {"example://a/b/c/%7Bfoo%7D": NOT_THE_WEB}
    apart = {}
    for row in cases("url_equivalence.jsonl"):
        keys = {urls.key(url) for url in row["equivalent"]}
        if len(keys) != 1 or None in keys:
            apart[row["equivalent"][0]] = keys
    assert apart.keys() == exceptions.keys()


def test_cdxj_keys_agree_with_the_wayback_machines():
    exceptions = {
        "dns:alexa.com": "urlcanon leaves it; the key maker of the Wayback Machine and of pywb reverses the name",
        "dns:archive.org": "as above",
        "whois://whois.isoc.org.il/shaveh.co.il": NOT_THE_WEB,
    }
    others = dict.fromkeys(
        (
            "heritrix",
            "ssurtHost",
            "reverseHost",
            "ssurt",
            "surt",
            "surtWithoutScheme",
            "surtWithoutTrailingComma",
        ),
        NOT_A_KEY,
    )
    others["googleSupplementalFromSurt"] = "a canonical URL, not a SURT"
    by_form: dict[str, list[dict[str, Any]]] = {}
    for row in cases("url_surt.jsonl"):
        by_form.setdefault(row["form"], []).append(row)

    def ours(row: dict[str, Any]) -> str:
        return urls.surt(row["input"])

    assert differences(by_form.pop("cdx-key"), "expected_surt", ours) == {}
    assert differences(by_form.pop("defaultIASurt"), "expected_surt", ours).keys() == exceptions.keys()
    assert by_form.keys() == others.keys()


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def every_string() -> set[str]:
    found = {
        text for path in sorted(FOLDER.glob("*.jsonl")) for row in rows(path.name) for text in strings(row)
    }
    assert len(found) > 10_000
    return found


def test_both_forms_of_every_string_of_every_file_are_stable():
    for text in every_string():
        for rules in (urls.DEFAULT_RULES, BOLD):
            key, fetched = urls.key(text, rules), urls.fetched_form(text, rules)
            assert (key is None) == (fetched is None), text
            if key is not None and fetched is not None:
                assert urls.key(key, rules) == key, text
                assert urls.fetched_form(fetched, rules) == fetched, text
                assert urls.key(fetched, rules) == key, text
                assert urls.whatwg(key) == key, text


def test_every_string_of_every_file_means_the_same_with_and_without_the_parser():
    """`link` and the plain paths beside the parser must never be told apart from the parser."""
    for text in every_string():
        resolved = urls.resolve(text, BASE)
        if resolved is None or urls.too_long(urls.host(resolved)):
            assert urls.link(text, BASE) is None, text
        else:
            expected = urls.fetched_form(resolved), urls.key(resolved), urls.host(resolved)
            assert urls.link(text, BASE) == expected, text
        assert urls.split(text) == (urls.split(alone) if (alone := urls.resolve(text, NO_BASE)) else None), (
            text
        )
        assert isinstance(urls.seed(text), str | None)
        assert isinstance(urls.surt(text), str)


def hostile(row: dict[str, Any]) -> Iterator[str]:
    """The row's URL, short and long; a generator row grows by its last letter, as its CVE describes."""
    url = row["url"]
    if isinstance(url, str):
        yield url
    else:
        stem = url["generator"].removesuffix("...")
        yield from (stem.ljust(url["length"], stem[-1]), stem.ljust(8 * url["length"], stem[-1]))


def cpu_seconds(url: str) -> float:
    begun = time.process_time()
    urls.link(url, BASE)
    urls.key(url)
    urls.seed(url)
    urls.surt(url)
    urls.host(url)
    return time.process_time() - begun


def test_hostile_urls_take_time_in_proportion_to_their_length():
    found = [row for row in cases("security_vectors.jsonl") if row["kind"] == "url_dos"]
    assert found
    for row in found:
        short, *long = hostile(row)
        if long:
            # Eight times the input takes eight times as long, with room for noise; quadratic would be 64 times.
            fastest = [min(cpu_seconds(url) for _ in range(3)) for url in (short, long[0])]
            assert fastest[1] < 24 * max(fastest[0], 1e-4), row
        else:
            cpu_seconds(short)


def test_hostile_urls_that_no_server_could_have_are_refused():
    whole = {row["url"] for row in cases("security_vectors.jsonl") if isinstance(row.get("url"), str)}
    impossible = {"http://[::1", "http://example.com:99999999999/"}
    assert impossible <= whole
    assert {urls.link(url, BASE) for url in impossible} == {None}


def test_trap_urls_keep_their_shape_so_that_trap_rules_can_see_it():
    """Collapsing what repeats is not for the canonical form: `/a/a/a` is a page of its own until a rule says no."""
    for row in cases("trap_urls.jsonl"):
        forms = urls.link(row["url"], BASE)
        assert forms is not None
        assert forms[0].rstrip("/") == row["url"].rstrip("/")
