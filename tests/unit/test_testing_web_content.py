"""The pages of the synthetic web: every charset and coding, twins, traps, and faults exactly as described."""

import gzip
import http.client
import re
import time
from email.utils import parsedate_to_datetime

import numpy as np
import pytest
import xxhash
from selectolax.lexbor import LexborHTMLParser

from skitter.model import Fault
from skitter.testing.web import (
    Features,
    SyntheticWeb,
    botcrawler_site,
    serve,
)
from tests.unit.asking import ask, at, hostile, raw, sent, split, unpacked


@pytest.fixture(scope="module")
def web():
    return hostile()


@pytest.fixture(scope="module")
def server(web):
    with serve(web) as running:
        yield running


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


def test_a_valid_copy_is_answered_with_304(server):
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


def test_some_numbered_pages_are_only_reached_by_sloppy_anchors():
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


def test_the_poison_is_on_exactly_one_page(web):
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


def test_slow_answers_arrive_late_but_complete():
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
