"""The synthetic web is deterministic, and its truth is correct."""

import hashlib
import ipaddress
import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import ada_url
import pytest
from selectolax.lexbor import LexborHTMLParser

from skitter.model import Fault
from skitter.testing.web import (
    Features,
    Refusal,
    SyntheticWeb,
    serve,
)
from skitter.testing.web.robots import EVERYDAY, FAULTY, KINDS
from skitter.testing.web.wings import WINGS
from tests.unit.asking import ask, at, crawl, hostile, key, permits, raw, sent


@pytest.fixture(scope="module")
def web():
    return hostile()


@pytest.fixture(scope="module")
def server(web):
    with serve(web) as running:
        yield running


# ------------------------------------------------------------------------------------------------ determinism


def test_two_webs_of_one_seed_serve_the_same_bytes_and_another_seed_does_not():
    one, same, other = (SyntheticWeb(seed, 3, 9, Features.plain()) for seed in (5, 5, 6))
    for target in ("/", "/p/3.html", "/p/8.html", "/robots.txt"):
        host = one.names[1]
        assert one.look_up(host, target, 8080) == same.look_up(host, target, 8080)
        if target != "/robots.txt":
            assert one.look_up(host, target, 8080) != other.look_up(host, target, 8080)


def test_the_bytes_do_not_depend_on_the_process():
    code = (
        "import hashlib; from skitter.testing.web import *\n"
        "web = SyntheticWeb(3, 40, 6, Features.hostile(bomb_bytes=2**20)); sum = hashlib.sha256()\n"
        "for host in web.names:\n"
        "    for target in ('/', '/p/5.html', '/forms/', '/twins/', '/traps/', '/n/', '/robots.txt'):\n"
        "        sum.update(repr(web.look_up(host, target, 80)).encode())\n"
        "print(sum.hexdigest())"
    )
    sums = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": salt},
        ).stdout
        for salt in ("1", "2")
    }
    assert len(sums) == 1


def test_a_page_is_the_same_on_every_machine_and_version():
    _head, body = sent(SyntheticWeb(7, 2, 10, Features.plain()), "/p/4.html", host=1, port=8080)
    assert (
        hashlib.sha256(body).hexdigest() == "882558b77a6fd590aa0710f3ba784c6b83489b18a82573dd966702f422620af1"
    )


def test_plain_pages_have_the_promised_size_and_links():
    web = SyntheticWeb(1, 5, 50, Features.plain())
    for page in range(1, 50):
        _head, body = sent(web, f"/p/{page}.html", host=2)
        assert 17_000 < len(body) < 19_000
        assert len(LexborHTMLParser(body).css("a[href]")) == 40


# ------------------------------------------------------------------------------------------------ truth against an independent reader


@pytest.mark.parametrize(("scope", "seeds"), [("host", None), ("host", 3), ("any", 1), ("domain", 2)])
def test_an_independent_crawler_finds_exactly_the_truth(scope, seeds):
    web = SyntheticWeb(11, 24, 12, Features.mixed(retry_after=0))
    with serve(web) as server:
        truth = server.truth(scope, seeds)
        start = server.seeds(seeds)
        hosts = {urlsplit(u).hostname or "" for u in start}
        if scope == "domain":
            hosts = {n for n in web.names if n.partition(".")[2] in {h.partition(".")[2] for h in hosts}}
        pages, gone, moves = crawl(server, truth, start, set(web.names) if scope == "any" else hosts)
        assert pages == truth.pages
        assert gone == truth.gone
        assert moves == truth.redirects
        asked = {key(f"http://{r.host}:{server.port}{r.path}") for r in server.log()}
        assert not asked & truth.hidden
        assert not asked & truth.refused.keys()


def test_the_truth_without_scope_covers_every_host_and_scope_host_refuses_the_others(web):
    everything = web.truth(80, "any", 1)
    reached = {urlsplit(u).hostname for u in everything.pages}
    closed = {n for n in web.names if web.site(n).robots.closed}
    assert reached == set(web.names) - closed
    assert Refusal.SCOPE not in everything.refused.values()
    one = web.truth(80, "host", 1)
    assert {urlsplit(u).hostname for u in one.pages} == {web.names[0]}
    assert Refusal.SCOPE in one.refused.values()


def test_every_kind_of_end_occurs_in_the_hostile_web(web):
    truth = web.truth(80, "any")
    assert truth.pages
    assert truth.gone
    assert truth.denied
    assert truth.redirects
    assert truth.unjudged
    assert truth.hidden
    assert truth.exact
    assert truth.near
    assert truth.noindex
    assert truth.marked
    assert set(truth.refused.values()) == set(Refusal) - {Refusal.SCOPE}
    assert {Fault.TIMEOUT, Fault.RESET, Fault.PROTOCOL, Fault.HEADERS, Fault.SIZE, Fault.BOMB, None} == set(
        truth.failed.values()
    )
    assert {trap.kind for trap in truth.traps} == {"calendar", "deeper", "session", "session-path", "filter"}


def test_no_url_has_two_fates(web):
    truth = web.truth(80, "any")
    ends = (
        truth.pages,
        truth.gone,
        truth.denied,
        truth.redirects,
        truth.refused,
        truth.failed,
        truth.unjudged,
    )
    assert sum(map(len, ends)) == len(set().union(*ends))
    assert not truth.hidden & set().union(*ends)


def test_every_page_of_the_truth_is_served_as_one(server):
    truth = server.truth("any")
    for url in truth.pages:
        for _ in range(3):  # some fail first, as described
            head = raw(server, url, limit=12)
            if head.startswith((b"HTTP/1.1 20", b"HTTP/1.0 20")):
                break
        else:
            pytest.fail(f"{url} answers {head!r}")


def test_missing_and_denied_pages_answer_accordingly(server):
    truth = server.truth("any")
    assert {ask(server, url)[0] for url in truth.gone} == {404, 410}
    assert all(ask(server, url)[0] == status for url, status in truth.denied.items())


def test_redirects_of_all_kinds_lead_where_the_truth_says(server):
    moves = server.truth("any").redirects
    seen = set()
    for url, target in moves.items():
        status, headers, _body = ask(server, url)
        seen.add(status)
        if target.startswith("http://h"):
            assert ada_url.join_url(url, headers["location"]) == target
        else:
            assert headers["location"] == target
    assert seen == {301, 302, 303, 307, 308}


def test_a_chain_is_followed_as_far_as_allowed_and_no_further(web):
    truth, strict = web.truth(80, "any"), web.truth(80, "any", max_redirects=3)
    assert [u for u, why in truth.refused.items() if why is Refusal.REDIRECTS] == [
        web.url(80, "/lost/chain-12", web.host_of("redirect_faults"))
    ]
    assert web.url(80, "/lost/chain-5", web.host_of("redirect_faults")) in strict.refused
    assert web.url(80, "/moved/chain-4", web.host_of("redirects")) in strict.redirects


def test_all_spellings_of_a_page_are_answered_with_that_page(server):
    host = server.web.site(server.web.host_of("spellings"))
    log_before = len(server.log())
    anchors = host.find("/spelt/").anchors
    body = ask(server, at(server, "spellings", "/spelt/"))[2]
    hub = at(server, "spellings", "/spelt/")
    links = [node.attributes["href"] or "" for node in LexborHTMLParser(body).css("a[href]")]
    written = {ada_url.join_url(hub, href) for href in links}
    answers: dict[str, set[bytes]] = {key(url): set() for url in written}
    for url in written:
        status, _headers, page = ask(server, url)
        assert status == 200
        answers[key(url)].add(page)
    assert len(answers) == len({anchor.url for anchor in anchors}) == 3
    assert len(written) >= 10
    assert all(len(pages) == 1 for pages in answers.values())
    assert len({r.page for r in server.log()[log_before:]}) == 4  # the hub and three pages


# ------------------------------------------------------------------------------------------------ robots.txt


def test_each_robots_variant_is_served_as_described():
    kinds = [*EVERYDAY, *FAULTY, "missing", "allow", "rules"]
    assert set(kinds) == set(KINDS)
    web = SyntheticWeb(
        1, len(kinds), 3, Features(crawl_delay=2.5, request_interval=7, retry_after=4), robots=kinds
    )
    with serve(web) as server:
        got = {k: ask(server, server.url("/robots.txt", i)) for i, k in enumerate(kinds) if k != "silent"}
        silent = raw(server, server.url("/robots.txt", kinds.index("silent")), seconds=0.3)
        again = ask(server, server.url("/robots.txt", kinds.index("later")))
        elsewhere = ask(server, got["moved-away"][1]["location"])
    assert silent == b""
    assert {k: v[0] for k, v in got.items() if v[0] != 200} == {
        "missing": 404, "forbidden": 403, "error": 503, "later": 429, "moved": 301, "moved-away": 302, "loop": 302,
    }  # fmt: skip
    assert got["later"][1]["retry-after"] == "4"
    assert b"Disallow: /private/" in again[2]
    assert b"Disallow: /private/" in elsewhere[2]
    assert b"Crawl-delay: 2.5" in got["crawl-delay"][2]
    assert b"Request-rate: 1/7" in got["request-rate"][2]
    assert got["bom"][2].startswith(b"\xef\xbb\xbfUser-agent")
    assert len(got["huge"][2]) > 500 * 1024
    truth = web.truth(80)
    assert truth.delays == {
        web.names[kinds.index("crawl-delay")]: 2.5,
        web.names[kinds.index("request-rate")]: 7,
    }
    shut = {
        urlsplit(u).hostname
        for u, why in truth.refused.items()
        if why is Refusal.ROBOTS and urlsplit(u).path == "/"
    }
    assert shut == {web.names[kinds.index(k)] for k in ("closed", "error", "silent")}


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k not in ("missing", "forbidden", "error", "silent", "loop")]
)
def test_a_robots_txt_means_what_its_description_says(kind):
    web = SyntheticWeb(1, 2, 3, robots=[kind, "allow"])
    site = web.site(0)
    place = site.robots.elsewhere or (
        "/robots/for-a-neighbour.txt" if kind == "moved-away" else "/robots.txt"
    )
    reply = web.look_up(web.names[0], place, 80).replies[-1]
    text = (
        b"".join(step for step in reply.steps if isinstance(step, bytes)).partition(b"\r\n\r\n")[2].decode()
    )
    targets = ["/p/1.html", "/rules/", *(target for target, _allowed in site.robots.pages)]
    for target in targets:
        expected = dict(site.robots.pages).get(target, True) and not site.robots.closed
        assert permits(text, "skitter", target) == expected, target


def test_links_that_can_never_be_requested_are_such():
    web = SyntheticWeb(1, 1, 2, Features(unfollowed=True))
    refused = web.truth(80, "any").refused
    assert len(refused) == 16
    for url, why in refused.items():
        if why is Refusal.BROKEN:
            assert not ada_url.check_url(url), url
        elif why is Refusal.SCHEME:
            assert ada_url.URL(url).protocol not in ("http:", "https:")
        else:
            inside = ipaddress.ip_address(ada_url.URL(url).hostname.strip("[]"))
            assert not (getattr(inside, "ipv4_mapped", None) or inside).is_global


def test_too_few_hosts_for_the_variants_is_an_error_that_says_how_many_are_needed():
    with pytest.raises(ValueError, match=r"at least 10 hosts; there are 4"):
        SyntheticWeb(1, 4, 3, Features(robots=True))


def test_every_wing_has_its_switch_and_every_switch_its_wing():
    assert set(WINGS) | {"robots", "robots_faults"} == set(Features.wings()) | {"poison"}


@pytest.mark.parametrize("wing", WINGS)
def test_each_wing_works_alone_on_a_single_host(wing):
    switched: dict[str, Any] = {wing: "words" if wing == "poison" else True}
    web = SyntheticWeb(1, 1, 4, Features(bomb_bytes=2**20, **switched))
    truth = web.truth(80)
    assert len(truth.requested()) > 4 or truth.traps
