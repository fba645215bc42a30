"""Clients for the synthetic web that share no code with the crawler, to test the test server."""

import contextlib
import gzip
import http.client
import re
import socket
import time
import zlib
from collections import deque
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import ada_url
import brotli
import pytest
import zstandard
from selectolax.lexbor import LexborHTMLParser

from skitter.testing.web import (
    Features,
    Refusal,
    SyntheticWeb,
)

HOSTILE_HOSTS = 40


def hostile(**changes):
    """Everything, in small: no fault takes longer than it must."""
    sizes = {"slow_seconds": 0.08, "bomb_bytes": 4 * 2**20, "poison": "poisonous words"}
    return SyntheticWeb(3, HOSTILE_HOSTS, 6, Features.hostile(**sizes | changes))


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


def permits(text, agent, target):
    """RFC 9309 2.2 in a few lines, so that the stated meaning of a file is held against its text."""
    groups: list[tuple[set[str], list[tuple[bool, str]]]] = []
    in_agents = False
    for line in text.removeprefix("\ufeff").splitlines():
        name, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if name.lower() == "user-agent":
            if not in_agents:
                groups.append((set(), []))
            groups[-1][0].add(value.lower())
        elif name.lower() in ("allow", "disallow") and value and groups:
            groups[-1][1].append((name.lower() == "allow", unquote(value)))
        in_agents = name.lower() == "user-agent"
    ours = [rules for agents, rules in groups if agent in agents] or [
        r for agents, r in groups if "*" in agents
    ]
    matching = [
        (len(pattern), allow) for rules in ours for allow, pattern in rules
        if re.match(re.escape(pattern).replace(r"\*", ".*").replace(r"\$", r"\Z"), unquote(target))
    ]  # fmt: skip
    return max(matching)[1] if matching else True


def wait_for(question):
    """Until the answer is yes; a server thread may be a moment behind."""
    for _ in range(500):
        if question():
            return
        time.sleep(0.02)
    pytest.fail("it never happened")
