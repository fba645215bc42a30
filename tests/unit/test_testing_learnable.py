"""The webs that judge what a crawl learns: their truth is what they serve, and nobody else's opinion."""

import socket
import struct
import urllib.request
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest

from skitter.testing.learnable import KINDS, HostileWeb, ParameterWeb, judged, serving
from skitter.testing.web import Request


class Hrefs(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if tag == "a" and name == "href"]


def links(web, host, target):
    served = web.look_up(host, target, 80)
    hrefs = Hrefs()
    hrefs.feed(served.replies[0].steps[0].partition(b"\r\n\r\n")[2].decode())
    for href in hrefs.found:
        parts = urlsplit(urljoin(f"http://{host}{target}", href))
        yield parts.netloc, parts.path + (f"?{parts.query}" if parts.query else "")


def walked(web, most):
    """Breadth first by hand: which real pages are reached, following links from real pages alone."""
    found, waiting, seen = set(), [(web.home, "/")], set()
    while waiting and len(seen) < most:
        host, target = waiting.pop(0)
        if (host, target) in seen:
            continue
        seen.add((host, target))
        place = (host, web.look_up(host, target, 80).page)
        if place in web.real and place not in found:
            found.add(place)
            waiting += links(web, host, target)
    return found


@pytest.mark.parametrize("web", [HostileWeb(), ParameterWeb(pages=600)], ids=["hostile", "parameters"])
def test_every_real_page_answers_under_its_name_and_is_reached_from_real_pages(web):
    assert {(host, web.look_up(host, target, 80).page) for host, target in web.real} == web.real
    assert walked(web, 20_000) == web.real


def test_the_hostile_web_has_a_thousand_real_pages_and_no_end():
    web = HostileWeb()
    assert len(web.real) == 1000
    for host, target, kind in (
        ("www.hostile.test", "/calendar/3000/01", "(calendar)"),
        ("www.hostile.test", "/catalogue?category=1&size=m&colour=red", "(facets)"),
        ("www.hostile.test", "/shop/u-0123456789abcdef/item/3", "/shop/item/3"),
        ("www.hostile.test", f"/forum/topic/3?visit={'a' * 32}", "/forum/topic/3"),
        ("www.hostile.test", "/docs/guide-1/docs/guide-2/docs/guide-3/", "/docs/guide-3/"),
        ("www.hostile.test", "/news?page=4711", "(pagination)"),
        ("nobody.hostile.test", "/", "(subdomains)"),
    ):
        assert web.look_up(host, target, 80).page == kind
        onward = set(links(web, host, target))
        assert len({web.look_up(*place, 80).page for place in onward} - {"(missing)"}) > 1
        assert onward - {(host, target)}


def test_a_needless_parameter_never_tells_two_pages_apart_and_one_that_matters_does():
    web = ParameterWeb()
    assert len(KINDS) == 40
    kinds = {kind.name: kind for kind in KINDS}
    changed = set()
    for target in web.spellings:
        path, _, query = target.partition("?")
        pairs = query.split("&")
        for pair in pairs:
            without = [other for other in pairs if other != pair]
            if web.plain_of(f"{path}?{'&'.join(without)}") != web.plain_of(target):
                changed.add(pair.partition("=")[0])
    assert {name for name in changed if kinds[name].needless} == set()
    assert "rare" in changed
    assert web.plain_of("/id?id=5&start=10") != web.plain_of("/id?id=5")
    assert web.plain_of("/id?id=5&start=0") == web.plain_of("/id?id=5")
    assert web.plain_of("/id?id=5&mode=full") == web.plain_of("/id?id=5")
    assert web.plain_of("/section?mode=full&section=x") != web.plain_of("/section?section=x")
    share = (web.urls() - len(web.real)) / web.urls()
    assert 0.2 < share < 0.26


def request(host, page, status=200):
    return Request(host, page, page, "127.0.0.1", 1, 0.0, 0.0, status, "", 1)


def test_only_the_first_good_answer_of_a_real_page_is_not_wasted():
    web = HostileWeb()
    home = web.home
    log = [
        request(home, "(robots.txt)", 404),
        request(home, "/", 500),
        request(home, "/"),
        request(home, "/"),
        request(home, "(calendar)"),
        request(home, "/news?page=1"),
    ]
    found = judged(web, log)
    assert (found.requests, found.fetched, found.wasted, found.last) == (6, 2, 4, 6)
    assert found.by_kind == {"(again)": 2, "(robots.txt)": 1, "(calendar)": 1}


def test_every_name_of_the_domain_has_an_address_and_no_other_has():
    with serving(HostileWeb()) as server:
        host, port = server.nameserver.split(":")

        def ask(name):
            labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(30)
                question = (
                    struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)
                )
                asking.sendto(question, (host, int(port)))
                return asking.recv(512)

        assert ask("never-heard-of.hostile.test").endswith(bytes([127, 0, 0, 1]))
        assert ask("example.org")[3] & 15 == 3
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=30) as answer:
            assert answer.status == 200
    assert [entry.host for entry in server.log()] == ["127.0.0.1"]
