"""The synthetic web is what it says it is: the same everywhere, faulty exactly as described, and true about itself."""

import asyncio
import contextlib
import gzip
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import ada_url
import brotli
import numpy as np
import pytest
import xxhash
import zstandard
from selectolax.lexbor import LexborHTMLParser

from skitter.model import Fault
from skitter.testing.web import (
    Features,
    Refusal,
    SyntheticWeb,
    botcrawler_site,
    gaps,
    overlaps,
    serve,
    serve_here,
    serve_process,
)
from skitter.testing.web.log import Request
from skitter.testing.web.pages import Reply
from skitter.testing.web.robots import EVERYDAY, FAULTY, KINDS
from skitter.testing.web.server import FLUSH_HOST, Served
from skitter.testing.web.wings import WINGS

HOSTILE_HOSTS = 40


def hostile(**changes):
    """Everything, in small: no fault takes longer than it must."""
    sizes = {"slow_seconds": 0.08, "bomb_bytes": 4 * 2**20, "poison": "poisonous words"}
    return SyntheticWeb(3, HOSTILE_HOSTS, 6, Features.hostile(**sizes | changes))


@pytest.fixture(scope="module")
def web():
    return hostile()


@pytest.fixture(scope="module")
def server(web):
    with serve(web) as running:
        yield running


def split(url):
    parts = urlsplit(url)
    return parts.hostname, re.sub(r"^http://[^/]*|#.*", "", url) or "/"


def ask(server, url, **headers):
    """One request on a connection of its own; the body as it was sent, chunks undone."""
    host, target = split(url)
    address = server.web.resolve_map().get(host, host)
    with contextlib.closing(http.client.HTTPConnection(address, server.port, timeout=20)) as connection:
        connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
        for name, value in ({"Host": host} | headers).items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def raw(server, url, seconds=20.0, limit=10**9):
    """Bytes as they come, until the server closes, time is over or enough was read."""
    host, target = split(url)
    with socket.create_connection((server.web.resolve_map()[host], server.port)) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        got, until = b"", time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while len(got) < limit and (left := until - time.monotonic()) > 0:
                connection.settimeout(left)
                piece = connection.recv(65536)
                if not piece:
                    break
                got += piece
        return got


def sent(web, target, host=0, port=80):
    """Head and body of an ordinary answer, from the description."""
    [reply] = web.look_up(web.names[host], target, port).replies
    [data] = reply.steps
    assert isinstance(data, bytes)
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body


def at(server, wing, target):
    """The URL of a path on the host that has this wing."""
    return server.url(target, server.web.host_of(wing))


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
        hashlib.sha256(body).hexdigest() == "351047b8cf1218b4e3bef2c08990f5e717ddfee4df3fd5262299dde5b7cba496"
    )


def test_plain_pages_have_the_promised_size_and_links():
    web = SyntheticWeb(1, 5, 50, Features.plain())
    for page in range(1, 50):
        _head, body = sent(web, f"/p/{page}.html", host=2)
        assert 17_000 < len(body) < 19_000
        assert len(LexborHTMLParser(body).css("a[href]")) == 40


# ------------------------------------------------------------------------------------------------ truth against an independent reader


def key(url):
    """One spelling per page, made without the code under test."""
    parsed = ada_url.URL(url)
    path = quote(unquote(parsed.pathname), safe="/~()$:;=+,@!*'&")
    params = [(k, v) for k, v in parse_qsl(parsed.search[1:], keep_blank_values=True)]
    params = [(k, v) for k, v in params if not re.fullmatch("utm_.*|gclid|fbclid|sid", k)]
    return f"{parsed.origin}{path}" + (f"?{urlencode(params)}" if params else "")


def hrefs(body, url):
    """What a plain reader of HTML5 takes for links, resolved; http only."""
    tree = LexborHTMLParser(body)
    if any("nofollow" in (m.attributes.get("content") or "").lower() for m in robots_metas(tree)):
        return set()
    if any("none" in (m.attributes.get("content") or "").lower() for m in robots_metas(tree)):
        return set()
    base = tree.css_first("base[href]")
    base_url = ada_url.join_url(url, base.attributes["href"] or "") if base else url
    found = []
    for node in tree.css("a[href], area[href], link[href]"):
        rel = (node.attributes.get("rel") or "").lower().split()
        if "nofollow" not in rel and (node.tag != "link" or {"next", "prev", "alternate"} & set(rel)):
            found.append(node.attributes["href"])
    found += [node.attributes["src"] for node in tree.css("iframe[src], frame[src]")]
    for meta in tree.css("meta[http-equiv='refresh' i]"):
        found += re.findall(r"(?i)url='?([^']+)", meta.attributes["content"] or "")
    resolved = set()
    for href in found:
        with contextlib.suppress(ValueError):
            resolved.add(ada_url.join_url(base_url, (href or "").strip("\t\n\f\r ")))
    return {u for u in resolved if u.startswith("http://")}


def robots_metas(tree):
    return [
        m for m in tree.css("meta[name]") if (m.attributes["name"] or "").lower() in ("robots", "skitter")
    ]


def crawl(server, truth, seeds, hosts):
    """Breadth first over real HTTP. Only robots.txt is taken from the truth; everything else is found."""
    forbidden = {u for u, why in truth.refused.items() if why is Refusal.ROBOTS}
    port = f":{server.port}"
    seen, queue, pages, gone, moves = set(), deque(seeds), set(), set(), {}
    for _ in range(20_000):
        if not queue:
            break
        url = key(queue.popleft())
        if url in seen or url in forbidden or urlsplit(url).hostname not in hosts or port not in url:
            continue
        seen.add(url)
        status, headers, body = ask(server, url)
        if status in (500, 502, 503, 429):
            status, headers, body = ask(server, url)
        if status in (500, 502):
            status, headers, body = ask(server, url)
        if status in (404, 410):
            gone.add(url)
        elif 300 <= status < 400:
            moves[url] = key(ada_url.join_url(url, headers["location"]))
            queue.append(moves[url])
        elif status in {200, 203}:
            pages.add(url)
            tag = headers.get("x-robots-tag", "")
            if "html" in headers.get("content-type", "") and "nofollow" not in tag:
                queue.extend(hrefs(unpacked(headers, body), url))
    assert not queue
    return pages, gone, moves


def unpacked(headers, body):
    undo = {
        "gzip": gzip.decompress,
        "br": brotli.decompress,
        "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        "deflate": inflate,
        "identity": lambda data: data,
    }
    for coding in reversed([c.strip() for c in headers.get("content-encoding", "").split(",") if c.strip()]):
        body = undo[coding](body)
    return body


def inflate(data):
    try:
        return zlib.decompress(data)
    except zlib.error:
        return zlib.decompress(data, -15)


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


def test_what_is_gone_or_denied_answers_so(server):
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
    kinds = [*EVERYDAY, *FAULTY, "missing", "allow"]
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


def test_too_few_hosts_for_the_variants_is_an_error_that_says_how_many_are_needed():
    with pytest.raises(ValueError, match=r"at least 10 hosts; there are 4"):
        SyntheticWeb(1, 4, 3, Features(robots=True))


def test_every_wing_has_its_switch_and_every_switch_its_wing():
    assert set(WINGS) | {"robots", "robots_faults"} == set(Features.wings()) | {"poison"}


@pytest.mark.parametrize("wing", WINGS)
def test_each_wing_stands_alone_on_a_single_host(wing):
    switched: dict[str, Any] = {wing: "words" if wing == "poison" else True}
    web = SyntheticWeb(1, 1, 4, Features(bomb_bytes=2**20, **switched))
    truth = web.truth(80)
    assert len(truth.requested()) > 4 or truth.traps


# ------------------------------------------------------------------------------------------------ content


def test_phrases_come_out_of_every_charset_and_coding(server):
    phrases = server.truth("any").phrases
    assert len(phrases) > 25
    for url, phrase in phrases.items():
        _status, headers, body = ask(server, url)
        body = unpacked(headers, body)
        declared = re.search(r"charset=\"?([\w-]+)", headers["content-type"])
        meta = re.search(rb"charset=\"?([\w-]+)", body)
        charset = declared[1] if declared else meta[1].decode() if meta else "utf-8"
        for bom, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
            charset = name if body.startswith(bom) else charset
        charset = {"iso-8859-1": "cp1252", "utf-16": "utf-8"}.get(charset.lower(), charset)
        assert phrase in body.decode(charset), url


def test_exact_twins_have_the_same_bytes_and_near_twins_do_not(server):
    truth = server.truth("any")
    for group in truth.exact:
        assert len(group) == 3
        assert len({ask(server, url)[2] for url in group}) == 1
    for group in truth.near:
        assert len({ask(server, url)[2] for url in group}) == 3
    texts = [ask(server, url)[2] for url in truth.pages if "/p/" in url]
    assert len(set(texts)) == len(texts)


def simhash(body):
    """A SimHash of word triples, written here so that the promise does not rest on the crawler's own."""
    words = LexborHTMLParser(body).text(separator=" ").split()
    triples = [" ".join(words[i : i + 3]) for i in range(len(words) - 2)]
    hashes = np.array([xxhash.xxh3_64_intdigest(t.encode()) for t in triples], dtype=np.uint64)
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return (bits.sum(axis=0) * 2 > len(hashes)).astype(int)


def test_near_twins_are_within_three_bits_of_each_other_and_ordinary_pages_far_apart():
    distances, far = [], []
    for seed in range(20):
        web = SyntheticWeb(seed, 1, 4, Features(duplicates=True))
        for group in web.truth(80).near:
            first, *others = [simhash(sent(web, split(url)[1])[1]) for url in sorted(group)]
            distances += [int((first != other).sum()) for other in others]
        one, two, three = [simhash(sent(web, f"/p/{page}.html")[1]) for page in (1, 2, 3)]
        far += [int((one != two).sum()), int((two != three).sum())]
    assert len(distances) == 120
    assert sum(distance <= 3 for distance in distances) > 0.9 * len(distances)
    assert min(far) > 8


def test_what_was_kept_is_answered_with_304(server):
    for name, header in (("strong", "ETag"), ("weak", "ETag"), ("dated", "Last-Modified"), ("both", "ETag")):
        url = at(server, "conditional", f"/kept/{name}.html")
        status, headers, body = ask(server, url)
        assert (status, len(body) > 500) == (200, True)
        condition = {"ETag": "If_None_Match", "Last-Modified": "If_Modified_Since"}[header]
        status, again, body = ask(server, url, **{condition: headers[header.lower()]})
        assert (status, body) == (304, b"")
        assert again.get("etag") == headers.get("etag")
        assert ask(server, url, **{condition: '"other"'})[0] == 200


def test_failures_that_pass_give_the_page_in_the_end():
    with serve(SyntheticWeb(1, 1, 2, Features(later=True, retry_after=9))) as server:
        once = [ask(server, server.url("/later/error-once.html"))[0] for _ in range(3)]
        twice = [ask(server, server.url("/later/error-twice.html"))[0] for _ in range(4)]
        busy = [ask(server, server.url("/later/too-many.html")) for _ in range(2)]
        asked_at = time.time()
        until = ask(server, server.url("/later/unavailable-until.html"))
    assert once == [500, 200, 200]
    assert twice == [500, 502, 200, 200]
    assert [b[0] for b in busy] == [429, 200]
    assert busy[0][1]["retry-after"] == "9"
    assert until[0] == 503
    assert asked_at + 9 <= parsedate_to_datetime(until[1]["retry-after"]).timestamp() < asked_at + 60


def test_numbered_pages_keep_some_for_those_who_read_sloppy_anchors():
    web = botcrawler_site(1, 30, interval=2)
    assert web.host_of("numbered") == 0 == web.host_of("request-rate")
    strict, sloppy = web.truth(80, seeds=1), web.truth(80, seeds=1, sloppy=True)
    more = sloppy.pages - strict.pages
    assert {split(u)[1] for u in more} == {f"/n/{n}.html" for n in range(5, 31, 5)}
    assert strict.hidden >= more
    assert {split(u)[1] for u in sloppy.pages - sloppy.marked if "/n/" in u} == {
        "/n/", *(f"/n/{n}.html" for n in range(6, 31, 6)),
    }  # fmt: skip
    assert strict.gone
    _head, body = sent(web, "/n/4.html")
    assert b"< a href = 5.html >" in body
    assert body.index(b"<!-- CONTENT -->") < body.index(b"<!-- /CONTENT -->")


def test_the_poison_stands_on_exactly_one_page(web):
    found = [
        url for url in web.truth(80, "any").pages
        if b"poisonous words" in b"".join(s for s in web.look_up(*split(url), 80).replies[-1].steps if isinstance(s, bytes))
    ]  # fmt: skip
    assert found == [web.url(80, "/poison/page.html", web.host_of("poison"))]


@pytest.mark.parametrize("kind", ["calendar", "deeper", "session", "session-path", "filter"])
def test_traps_have_no_end(web, kind):
    [trap] = [t for t in web.truth(80, "any").traps if t.kind == kind]
    host = web.names[web.host_of("traps")]
    url = next(
        a.url for a in web.site(host).find("/traps/").anchors if trap.prefix.partition(".test")[2] in a.url
    )
    seen = set()
    for _ in range(200):
        target = url.partition("\ue000")[2]
        assert target not in seen
        seen.add(target)
        url = web.site(host).find(target).anchors[-1].url
    distinct = {re.sub(r"\?sid=\w+|\(S\(\w+\)\)/", "", t) for t in seen}
    assert len(distinct) == (trap.distinct or 200)


# ------------------------------------------------------------------------------------------------ faults


def test_slow_answers_arrive_whole_and_late():
    web = SyntheticWeb(1, 1, 2, Features(slow=True, slow_seconds=0.4))
    with serve(web) as server:
        for name in ("head", "body", "chunks"):
            before = time.monotonic()
            status, _headers, body = ask(server, server.url(f"/slow/{name}.html"))
            assert status == 200
            assert body.endswith(b"</html>\n")
            assert time.monotonic() - before >= 0.35
        assert raw(server, server.url("/slow/never.html"), seconds=0.3) == b""


def test_endless_answers_go_on_for_as_long_as_one_listens(server):
    for name in ("body", "chunks", "head"):
        got = raw(server, at(server, "endless", f"/endless/{name}.html"), limit=5_000_000)
        assert len(got) >= 5_000_000
        assert (b"\r\n\r\n" in got) == (name != "head")
    for name in ("drip", "head-drip"):
        got = raw(server, at(server, "endless", f"/endless/{name}.html"), seconds=1.2, limit=10_000)
        assert 0 < len(got) < 10_000


def test_broken_answers_break_http_in_the_way_they_say(server):
    def got(name):
        return raw(server, at(server, "broken", f"/broken/{name}.html"))

    for name in ("cut", "too-short"):
        head, _, body = got(name).partition(b"\r\n\r\n")
        assert 0 < len(body) < int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
    head, _, body = got("too-long").partition(b"\r\n\r\n")
    assert b"Content-Length: 100\r\n" in head
    assert len(body) > 100
    assert b"chunked" in got("cut-chunks")
    assert not got("cut-chunks").endswith(b"0\r\n\r\n")
    assert not got("garbage").startswith(b"HTTP")
    assert got("empty") == b""
    assert b"\r\n\r\n" not in got("half-head")
    assert got("large-head").index(b"\r\n\r\n") > 256 * 1024
    with pytest.raises((http.client.IncompleteRead, ValueError)):
        ask(server, at(server, "broken", "/broken/bad-chunk.html"))


def test_lying_answers_are_intact_http(server):
    assert ask(server, at(server, "lying", "/lies/picture.html"))[2].startswith(b"\x89PNG\r\n")
    _status, headers, body = ask(server, at(server, "lying", "/lies/not-gzip.html"))
    assert headers["content-encoding"] == "gzip"
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(body)


def test_bombs_are_small_on_the_wire_and_as_large_as_promised(server):
    size = server.web.features.bomb_bytes
    targets = [u for u, fault in server.truth("any").failed.items() if fault is Fault.BOMB]
    assert len(targets) == 6
    for url in targets:
        _status, headers, body = ask(server, url)
        assert len(body) < size / 200
        assert unpacked(headers, body) == bytes(size)


# ------------------------------------------------------------------------------------------------ the server and its log


def test_the_log_has_every_request_with_its_times_and_connection(server):
    before = len(server.log())
    at_first = time.time()
    ask(server, server.url("/p/1.html?utm_source=x"), User_Agent="skitter/0 (+mailto:me)")
    [request] = server.log()[before:]
    assert request.host == server.web.names[0]
    assert (request.path, request.page) == ("/p/1.html?utm_source=x", "/p/1.html")
    assert (request.status, request.agent, request.address) == (200, "skitter/0 (+mailto:me)", "127.0.0.1")
    assert (request.in_flight, request.whole) == (1, True)
    assert at_first <= request.start <= request.end <= time.time()


def test_one_connection_serves_many_requests(server):
    before = len(server.log())
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        for page in range(1, 5):
            connection.request("GET", f"/p/{page}.html", headers={"Host": server.web.names[0]})
            assert connection.getresponse().read()
    new = server.log()[before:]
    assert len(new) == 4
    assert len({request.connection for request in new}) == 1


def test_head_requests_get_the_head_only(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        for _ in range(2):
            connection.request("HEAD", "/p/1.html", headers={"Host": server.web.names[0]})
            answer = connection.getresponse()
            assert answer.status == 200
            assert int(answer.headers["Content-Length"]) > 1000
            assert answer.read() == b""


def test_an_unknown_host_is_told_so(server):
    status, _headers, body = ask(server, server.url(), Host="nobody.test")
    assert status == 404
    assert b"nobody.test" in body


def test_two_requests_in_flight_on_one_host_are_noticed_and_on_two_hosts_are_not():
    web = SyntheticWeb(1, 2, 5, Features())
    for hosts, expected in (((0, 0), 1), ((0, 1), 0)):
        with serve(web, latency=0.3) as server:
            askers = [
                threading.Thread(target=ask, args=(server, server.url("/p/1.html", host))) for host in hosts
            ]
            for thread in askers:
                thread.start()
            for thread in askers:
                thread.join()
            assert len(overlaps(server.log())) == expected
            assert max(request.in_flight for request in server.log()) == 1 + expected


def logged(host, start, end, *, whole=True):
    return Request(host, "/", "/", "127.0.0.1", 1, start, end, 200, "", 1, whole)


def test_gaps_run_from_the_end_of_a_response_to_the_next_request_of_its_host():
    log = [logged("b", 5.0, 6.0), logged("a", 0.0, 1.0), logged("a", 3.0, 3.5), logged("a", 3.6, 3.7)]
    found = gaps(log)
    assert found["a"] == pytest.approx([2.0, 0.1])
    assert found["b"] == []


def test_overlaps_are_judged_by_intervals_and_an_abandoned_request_ends_a_little_earlier():
    assert overlaps([logged("a", 0.0, 2.0), logged("a", 1.0, 3.0), logged("b", 1.0, 3.0)])
    assert not overlaps([logged("a", 0.0, 1.0), logged("a", 1.0, 2.0)])
    assert not overlaps([logged("a", 0.0, 1.0, whole=False), logged("a", 0.9, 2.0)])
    assert overlaps([logged("a", 0.0, 1.0, whole=False), logged("a", 0.5, 2.0)])
    assert overlaps([logged("a", 0.0, None), logged("a", 9.0, 9.5)])


def test_a_client_that_leaves_is_logged_as_having_left():
    with serve(SyntheticWeb(1, 1, 2, Features(slow=True))) as server:
        raw(server, server.url("/slow/never.html"), seconds=0.1)
        wait_for(lambda: server.log()[0].end)
        [request] = server.log()
    assert (request.status, request.whole) == (0, False)
    assert request.end is not None
    assert request.end - request.start >= 0.09


def wait_for(question):
    """Until the answer is yes; a server thread may be a moment behind."""
    for _ in range(500):
        if question():
            return
        time.sleep(0.02)
    pytest.fail("it never happened")


def test_a_request_that_is_still_open_is_in_the_log():
    web = SyntheticWeb(1, 1, 2, Features(slow=True))
    with serve(web) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /slow/never.html HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        wait_for(server.log)
        [request] = server.log()
        assert request.end is None


class LargeWeb(SyntheticWeb):
    """Answers with more than all socket buffers hold."""

    def look_up(self, _host, target, _port):
        return Served(
            target,
            (Reply(200, (b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + bytes(50_000_000),)),),
        )


def test_a_response_ends_when_its_last_byte_was_taken_not_when_it_was_offered():
    with serve(LargeWeb()) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        wait_for(server.log)
        time.sleep(0.3)
        assert server.log()[0].end is None
        reading = time.time()
        left = 50_000_000
        while left > 0:
            left -= len(connection.recv(2**20))
        wait_for(lambda: server.log()[0].end)
        [request] = server.log()
    assert request.end is not None
    assert request.end > reading
    assert request.whole


def test_own_addresses_are_all_listened_on_and_logged():
    web = SyntheticWeb(1, 6, 3, Features(), addressing="own")
    assert sorted(web.resolve_map().values()) == [f"127.0.0.{n}" for n in range(1, 7)]
    with serve(web) as server:
        for host in range(6):
            assert ask(server, server.url("/", host))[0] == 200
        assert [request.address for request in server.log()] == [f"127.0.0.{n}" for n in range(1, 7)]


def test_literal_addresses_need_no_names_and_addresses_never_leave_loopback():
    web = SyntheticWeb(1, 1000, 1, Features(), addressing="literal")
    assert web.resolve_map() == {}
    assert len(set(web.names)) == 1000
    assert all(name.startswith("127.") and name.rpartition(".")[2] not in ("0", "255") for name in web.names)
    assert web.seeds(8080, 1) == ["http://127.0.0.1:8080/"]


def test_hosts_share_registrable_domains_as_told():
    web = SyntheticWeb(1, 12, 1, Features(), hosts_per_domain=4)
    assert len({name.partition(".")[2] for name in web.names}) == 3
    assert web.names[5] == "h0005.site0001.test"


def test_a_server_on_the_running_loop():
    async def main():
        async with serve_here(SyntheticWeb(1, 1, 3, Features())) as server:
            status = (await asyncio.to_thread(ask, server, server.url()))[0]
            return status, [request.path for request in server.log()]

    assert asyncio.run(main()) == (200, ["/"])


def test_a_server_in_a_process_keeps_its_log_to_the_end():
    web = SyntheticWeb(9, 3, 5, Features.plain(slow=True))
    with serve_process(web) as server:
        for page in range(1, 5):
            _head, here = sent(web, f"/p/{page}.html", 1, server.port)
            assert ask(server, server.url(f"/p/{page}.html", 1))[2] == here
            assert len(server.log()) == page
        assert FLUSH_HOST not in {request.host for request in server.log()}
    assert [request.path for request in server.log()] == [f"/p/{page}.html" for page in range(1, 5)]


def test_stopping_ends_the_thread_and_every_open_connection():
    before = threading.active_count()
    with serve(SyntheticWeb(1, 1, 2, Features(slow=True))) as server:
        open_one = socket.create_connection(("127.0.0.1", server.port))
        open_one.sendall(b"GET /slow/never.html HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        ask(server, server.url())
    with open_one, contextlib.suppress(ConnectionResetError):
        assert open_one.recv(10) == b""
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_port_in_use_is_an_error_in_the_caller():
    with (
        serve(SyntheticWeb()) as server,
        pytest.raises(OSError, match="in use"),
        serve(SyntheticWeb(), server.port),
    ):
        pass


def test_from_a_shell_it_says_when_it_is_ready_and_leaves_a_log(tmp_path):
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "skitter.testing.web", "--hosts", "2", "--pages", "5", "--seed", "7"]
    command += ["--addressing", "literal", "--preset", "none", "--feature", "slow", "--log", str(log)]
    command += ["--set", "page_words=900"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["seed"] == f"http://127.0.0.1:{ready['port']}/"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ready["port"])) as connection:
            connection.request("GET", "/p/1.html")
            answer = connection.getresponse()
            assert answer.status == 200
            assert len(answer.read().split()) > 900
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    [line] = log.read_text().splitlines()
    assert json.loads(line)["path"] == "/p/1.html"
