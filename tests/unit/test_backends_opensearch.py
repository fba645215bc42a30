"""OpenSearch failures: wrong answers, nodes that are away, refused documents, and a real server that is frozen."""

import asyncio
import json
import ssl
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skitter.backends.opensearch import OpenSearchIndex
from skitter.backends.opensearch.documents import Line, document, portions
from skitter.backends.opensearch.http import ROUNDS, Cluster, reason
from skitter.engines.breaker import BreakerRules, Phase
from skitter.export.search.feed import feed
from skitter.model import Place
from skitter.ports import EngineAway, EngineError, Entry, Rejected
from skitter.settings.engines import SearchSettings
from skitter.testing.contracts.search import entry
from tests.engines import engine, frozen, killed, our_engine
from tests.unit.test_fetch_tls import OPENSSL, make

Reply = tuple[int, Any]
Answers = Callable[[str, str, bytes], Reply]
ROOT = {"version": {"distribution": "opensearch", "number": "2.19.1"}}
MAPPING = {"web_pages": {"mappings": {"_meta": {"skitter": 1}}}}


class Node:
    """A node that answers as a test wants, and remembers what it was asked."""

    def __init__(self, answers: Answers, pem: Path | None) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                node.connections += 1

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                node.asked.append((self.command, self.path, body))
                node.headers.append(dict(self.headers))
                status, reply = answers(self.command, self.path, body)
                said = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
                self.close_connection = status == 299  # closes an idle connection without a word

            do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  names of the library

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  name of the library
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        if pem is not None:
            side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            side.load_cert_chain(pem)
            self.server.socket = side.wrap_socket(self.server.socket, server_side=True)
            self.address = f"https://localhost:{self.server.server_address[1]}"


@contextmanager
def node(answers: Answers, pem: Path | None = None) -> Iterator[Node]:
    made = Node(answers, pem)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def healthy(method: str, path: str, body: bytes) -> Reply:
    """A node with an index of ours that takes every document."""
    if path == "/":
        return 200, ROOT
    if path == "/_cluster/health":
        return 200, {"status": "green"}
    if path.endswith("/_mapping"):
        return 200, MAPPING
    lines = [json.loads(line) for line in body.splitlines()]
    return 200, {"items": [{"index": {"status": 201}} for line in lines if "index" in line]}


def but(**changes: Reply) -> Answers:
    """As a healthy one, but for requests whose path has these words in it."""

    def answers(method: str, path: str, body: bytes) -> Reply:
        for words, reply in changes.items():
            if path.strip("/").endswith(words):
                return reply
        return healthy(method, path, body)

    return answers


# A breaker that is as strict as in life, and rests for no time that a test would notice.
HASTY = BreakerRules(window=120.0, minimum=3, tests=1, pause=0.01, longest=0.05)


def use(
    *addresses: str, act: Callable[[OpenSearchIndex], Any] | None = None, password: str = "", **fields: Any
) -> tuple[Any, int]:
    """Open an index there and do something with it; the result, and how many calls were of no use."""

    async def main() -> Any:
        index = OpenSearchIndex(SearchSettings(addresses=addresses, **fields), password, HASTY)
        try:
            await index.open()
            return await act(index) if act else None, int(index.guard.metrics().failures)
        finally:
            await index.close()

    found: tuple[Any, int] = asyncio.run(main())
    return found


# ------------------------------------------------------------------------------------------------ cannot be used


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (lambda *_: (401, {}), "it does not accept the name and password (401); set search.username, and the password by"),
        (lambda *_: (403, {"error": {"type": "security_exception", "reason": "no permissions"}}), "this is forbidden: security_exception: no permissions; give"),
        (lambda *_: (200, b"<html>welcome"), "this is no OpenSearch or Elasticsearch; mend search.addresses"),
        (lambda *_: (200, [1]), "this is no OpenSearch or Elasticsearch"),
        (lambda *_: (404, {}), "this is no OpenSearch or Elasticsearch"),
        (lambda *_: (301, b""), "it redirects (301); name the nodes themselves in search.addresses"),
        (lambda *_: (200, {"version": {"distribution": "opensearch", "number": "1.3.2"}}), "it is opensearch 1.3.2; use OpenSearch 2 or later"),
        (lambda *_: (200, {"version": {"number": "7.17.0"}}), "it is elasticsearch 7.17.0; use OpenSearch 2 or later, or Elasticsearch 8"),
        (lambda *_: (200, {"version": {"distribution": "other", "number": "9.9"}}), "it is other 9.9"),
        (lambda *_: (503, {"error": {"type": "starting", "reason": "wait\na bit"}}), "it is too busy (503): starting: wait a bit; look at its log"),
        (but(_mapping=(200, {"web_pages": {"mappings": {}}})), "its index web_pages was made by somebody else, or by another version of Skitter; name another"),
        (but(_mapping=(500, {"error": "broken"})), "it says no (500): broken; look at its log"),
    ],
)  # fmt: skip
def test_an_engine_that_cannot_be_used_is_one_line_that_names_the_fix(answers, said):
    with node(answers) as made, pytest.raises(EngineError) as problem:
        use(made.address)
    assert str(problem.value).startswith(f"OpenSearch at {made.address}: {said}")
    assert "\n" not in str(problem.value)


def test_temporary_errors_are_distinguished_from_permanent_ones():
    def failure(answers: Answers) -> type[BaseException]:
        with node(answers) as made, pytest.raises(EngineError) as problem:
            use(made.address)
        return problem.type

    assert failure(lambda *_: (503, {})) is EngineAway
    assert failure(but(_mapping=(500, {}))) is EngineAway
    assert failure(lambda *_: (401, {})) is EngineError
    assert failure(but(_mapping=(400, {}))) is EngineError


def test_a_wrong_address_is_found_within_bounds():
    with pytest.raises(
        EngineError, match=r"127\.0\.0\.1:1: it cannot be reached \(Connection refused\); start it, or mend"
    ):
        use("http://127.0.0.1:1")


def test_a_port_without_tls_is_reported_at_once():
    with (
        node(healthy) as made,
        pytest.raises(EngineError, match=r"it does not speak TLS as we do; write http:// in search"),
    ):
        use(made.address.replace("http:", "https:"))


@pytest.mark.skipif(OPENSSL is None, reason="no openssl command to make certificates with")
def test_tls_requires_a_trusted_certificate_with_the_right_name(tmp_path):
    pem = make(tmp_path, "localhost", "-days", "30")
    trusted = str(tmp_path / "certificate.crt")
    with node(healthy, pem) as made:
        assert use(made.address, act=lambda index: index.index(PAGES), ca_file=trusted) == ([], 0)
        with pytest.raises(
            EngineError, match=r"its certificate is not trusted \(self-signed certificate\); name the file"
        ):
            use(made.address)
        with pytest.raises(EngineError, match=r"is not trusted \(IP address mismatch.*; name the file"):
            use(made.address.replace("localhost", "127.0.0.1"), ca_file=trusted)


def test_an_invalid_ca_file_is_reported(tmp_path):
    with pytest.raises(
        EngineError, match=r"search\.ca_file: .*none\.pem: No such file or directory; name a readable file"
    ):
        OpenSearchIndex(
            SearchSettings(addresses=("https://127.0.0.1:1",), ca_file=str(tmp_path / "none.pem"))
        )
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(
        EngineError, match=r"search\.ca_file: .*bad\.pem: .*; name a readable file of certificates"
    ):
        OpenSearchIndex(SearchSettings(addresses=("https://127.0.0.1:1",), ca_file=str(tmp_path / "bad.pem")))


def test_user_name_and_password_are_sent_and_never_shown():
    with node(healthy) as made:
        use(made.address, username="me", password="geheim")
    assert {headers["Authorization"] for headers in made.headers} == {"Basic bWU6Z2VoZWlt"}
    with node(lambda *_: (401, {})) as made, pytest.raises(EngineError) as problem:
        use(made.address, username="me", password="geheim")
    assert "geheim" not in str(problem.value)


# ------------------------------------------------------------------------------------------------ nodes that come and go


def test_another_node_is_used_when_one_is_away_and_stays_preferred():
    with node(healthy) as made:
        _, failures = use("http://127.0.0.1:1", made.address)
        assert failures == 0
        assert made.connections == 1  # and one connection does for all of it
    assert len(made.asked) == 2


def test_a_busy_node_is_retried_later():
    replies: list[Reply] = [(200, ROOT), (429, {})]
    with node(lambda *asked: replies.pop(0) if replies else healthy(*asked)) as made:
        _, failures = use(made.address)
    assert failures == 1
    assert [path for _, path, _ in made.asked] == ["/", "/web_pages/_mapping", "/web_pages/_mapping"]


def test_a_persistently_busy_node_opens_the_breaker_and_is_health_checked():
    replies: list[Reply] = [(200, ROOT), (503, {}), (503, {}), (503, {})]

    async def look(index: OpenSearchIndex) -> Phase:
        return index.guard.phase

    with node(lambda *asked: replies.pop(0) if replies else healthy(*asked)) as made:
        phase, _ = use(made.address, act=look)
    mapping, health = "/web_pages/_mapping", "/_cluster/health"
    assert [path for _, path, _ in made.asked] == ["/", mapping, mapping, health, health, mapping]
    assert phase is Phase.CLOSED


@pytest.mark.parametrize(
    ("reply", "word"), [((200, {"status": "yellow"}), "yellow"), ((403, {}), ""), ((200, b"hello"), "")]
)
def test_a_node_that_answers_anything_counts_as_up(reply, word):
    """Who may index need not be allowed to ask how the cluster is."""

    async def ask(address: str) -> str:
        cluster = Cluster(SearchSettings(addresses=(address,)), "")
        try:
            await cluster.check()
            return await cluster.health()
        finally:
            await cluster.close()

    with node(but(health=reply)) as made:
        assert asyncio.run(ask(made.address)) == word
    with node(but(health=(503, {}))) as made, pytest.raises(EngineAway):
        asyncio.run(ask(made.address))


def test_a_connection_that_was_closed_while_idle_costs_nothing():
    with node(but(_mapping=(299, MAPPING))) as made:
        _, failures = use(made.address, act=lambda index: index.index([entry("https://a.example/1")]))
    assert failures == 0
    assert made.connections == 2


# ------------------------------------------------------------------------------------------------ documents


def bulk(items: Callable[[list[str]], Reply]) -> tuple[Answers, list[int]]:
    """A node that judges bulk requests by the URLs in them, and how many there were in each."""
    sizes: list[int] = []

    def answers(method: str, path: str, body: bytes) -> Reply:
        if not path.endswith("/_bulk"):
            return healthy(method, path, body)
        found = [json.loads(line) for line in body.splitlines()]
        urls = [each["url"] for each in found if "url" in each]
        sizes.append(len(urls))
        return items(urls)

    return answers, sizes


def item(status: int, kind: str = "", why: str = "") -> dict[str, Any]:
    error = {"error": {"type": kind, "reason": why, "caused_by": {"reason": "deep down"}}} if kind else {}
    return {"index": {"status": status, **error}}


PAGES = [entry(f"https://a.example/{n}") for n in range(8)]


def test_a_refused_document_is_named_and_the_others_are_in():
    def judge(urls: list[str]) -> Reply:
        refused = item(400, "mapper_parsing_exception", "failed to\nparse")
        return 200, {"items": [refused if url.endswith("/3") else item(201) for url in urls]}

    answers, sizes = bulk(judge)
    with node(answers) as made:
        rejected, failures = use(made.address, act=lambda index: index.index(PAGES))
    assert rejected == [
        Rejected("https://a.example/3", "mapper_parsing_exception: failed to parse (deep down)")
    ]
    assert sizes == [8]
    assert failures == 0


def test_only_documents_the_engine_was_too_busy_for_are_sent_again():
    def judge(urls: list[str]) -> Reply:
        busy = item(429, "rejected_execution_exception", "queue full")
        return 200, {
            "items": [busy if len(urls) > 2 and url > "https://a.example/5" else item(201) for url in urls]
        }

    answers, sizes = bulk(judge)
    with node(answers) as made:
        rejected, failures = use(made.address, act=lambda index: index.index(PAGES))
    assert rejected == []
    assert sizes == [8, 2]
    assert failures == 1


def test_an_already_indexed_later_version_is_not_a_failure():
    answers, _ = bulk(
        lambda urls: (200, {"items": [item(409, "version_conflict_engine_exception", "x") for _ in urls]})
    )
    with node(answers) as made:
        assert use(made.address, act=lambda index: index.index(PAGES)) == ([], 0)


def test_an_engine_that_takes_nothing_more_is_lost_within_bounds():
    answers, sizes = bulk(
        lambda urls: (200, {"items": [item(429, "cluster_block_exception", "disk full") for _ in urls]})
    )
    with (
        node(answers) as made,
        pytest.raises(EngineError, match="it takes no more pages: cluster_block_exception: disk full"),
    ):
        use(made.address, act=lambda index: index.index(PAGES))
    assert sizes == [8] * ROUNDS


def test_a_request_that_is_too_large_is_sent_in_halves_and_a_page_that_is_too_large_is_named():
    def judge(urls: list[str]) -> Reply:
        return (413, b"") if "https://a.example/5" in urls else (200, {"items": [item(201) for _ in urls]})

    answers, sizes = bulk(judge)
    with node(answers) as made:
        (rejected,), _ = use(made.address, act=lambda index: index.index(PAGES))
    assert rejected.url == "https://a.example/5"
    assert rejected.reason.startswith("too large for the engine: ")
    assert sizes == [8, 4, 4, 2, 1, 1, 2]


def test_requests_are_bounded_in_documents_and_in_bytes():
    lines = [Line(str(n), b"x" * size) for n, size in enumerate((10, 10, 10, 99, 10))]
    assert [[each.url for each in portion] for portion in portions(lines, 2, 50)] == [
        ["0", "1"],
        ["2"],
        ["3"],
        ["4"],
    ]
    assert list(portions([], 2, 50)) == []
    answers, sizes = bulk(lambda urls: (200, {"items": [item(201) for _ in urls]}))
    with node(answers) as made:
        use(made.address, act=lambda index: index.index(PAGES), bulk=3)
    assert sizes == [3, 3, 2]


def test_a_document_matches_the_template():
    page = replace(
        entry("https://a.example/1", "T\x00", "e\u0301").page,
        simhash=0xAB,
        archive=Place("00-1.warc.gz", 7, 9),
        language="EN",
    )
    made = document(Entry(page, ["https://a.example/2"] * 2000))
    assert made["title"] == "T "
    assert made["content"] == "é"
    assert made["language"] == "en"
    assert made["fetched_at"] == "2023-11-14T22:13:20.000Z"
    assert made["simhash"] == "00000000000000ab"
    assert made["archive"] == {"file": "00-1.warc.gz", "offset": 7, "length": 9}
    assert len(made["links"]) == 1000
    assert "parent" not in made


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "no reason given"),
        ("plain\ntext", "plain text"),
        ({"error": {"type": "a", "reason": "b", "caused_by": {"reason": "c"}}}, "a: b (c)"),
        ({"error": {}}, "error:"),
        ({"error": "x" * 900}, "x" * 300),
    ],
)
def test_reasons_are_one_short_line(body, said):
    assert reason(body) == said


# ------------------------------------------------------------------------------------------------ the real one


@pytest.fixture
def real() -> Iterator[SearchSettings]:
    """An index of this test's own, and nothing of it left behind."""
    settings = SearchSettings(addresses=(engine("opensearch").address,), index=f"test-{uuid.uuid4().hex}")
    yield settings

    async def remove() -> None:
        cluster = Cluster(settings, "")
        await cluster.ask("DELETE", f"/{settings.index}")
        await cluster.ask("DELETE", f"/_index_template/{settings.index}")
        await cluster.close()

    asyncio.run(remove())


def with_index(settings: SearchSettings, act: Callable[[OpenSearchIndex], Any]) -> Any:
    async def main() -> Any:
        index = OpenSearchIndex(settings)
        try:
            await index.open()
            return await act(index)
        finally:
            await index.close()

    return asyncio.run(main())


def test_the_real_engine_refuses_one_document_and_takes_the_others(real):
    bad = replace(PAGES[3].page, status=99_999)  # more than the template's short holds

    async def act(index: OpenSearchIndex) -> tuple[list[Rejected], int]:
        rejected = await index.index([*PAGES[:3], Entry(bad), *PAGES[4:]])
        await index.refresh()
        return rejected, await index.count()

    (rejected,), count = with_index(real, act)
    assert rejected.url == "https://a.example/3"
    assert "mapper_parsing_exception" in rejected.reason
    assert count == 7


def test_the_real_engine_has_the_fields_of_the_template(real):
    async def act(index: OpenSearchIndex) -> dict[str, Any]:
        await index.open()  # again, and nothing changes
        await index.index([entry("https://a.example/1", "Title", "Text")])
        await index.refresh()
        answer = await index._cluster.ask("GET", f"/{real.index}/_mapping")
        return dict(answer.body[real.index]["mappings"]["properties"])

    fields = with_index(real, act)
    assert {fields[name]["type"] for name in ("url", "domain", "language", "links", "digest")} == {"keyword"}
    assert {fields[name]["type"] for name in ("title", "content")} == {"text"}
    assert fields["fetched_at"]["type"] == "date"
    assert fields["links"]["index"] is False


@pytest.mark.parametrize("name", ["Upper", "a b", "a/b"])
def test_an_invalid_index_name_is_reported(name):
    address = engine("opensearch").address
    with pytest.raises(EngineError, match=r"it makes no index '.*': .*invalid.*; mend search\.index"):
        with_index(SearchSettings(addresses=(address,), index=name), lambda index: index.count())


def test_a_foreign_index_is_not_touched(real):
    async def make() -> None:
        cluster = Cluster(real, "")
        await cluster.ask("PUT", f"/{real.index}", b"{}")
        await cluster.close()

    asyncio.run(make())
    with pytest.raises(
        EngineError, match="was made by somebody else, or by another version of Skitter; name another index"
    ):
        with_index(real, lambda index: index.count())


def test_a_real_engine_that_freezes_is_waited_for(real):
    our_engine("opensearch")

    async def act(index: OpenSearchIndex) -> int:
        with frozen("opensearch"):
            waiting = asyncio.create_task(index.index(PAGES))
            await asyncio.sleep(1)
            assert not waiting.done()
        assert await waiting == []
        await index.refresh()
        return await index.count()

    assert with_index(real, act) == len(PAGES)


@pytest.mark.soak
def test_a_real_engine_that_is_killed_while_pages_come_in_loses_none_that_it_acknowledged(real):
    our_engine("opensearch")
    acknowledged: list[str] = []

    async def source() -> AsyncIterator[Sequence[Entry]]:
        """Batches until the engine has died, come back, and taken one more."""
        for number in range(100_000):
            batch = [entry(f"https://a.example/{number}/{n}", "Word") for n in range(20)]
            yield batch
            acknowledged.extend(each.page.key for each in batch)
            if back.is_set():
                return
            await asyncio.sleep(0.02)

    back = threading.Event()

    def die() -> None:
        with killed("opensearch"):
            time.sleep(2)
        back.set()

    async def act(index: OpenSearchIndex) -> int:
        dying = asyncio.create_task(asyncio.to_thread(die))
        await feed(source(), index, poison=lambda rejected: pytest.fail(rejected.reason))
        await dying
        await index.refresh()
        return await index.count()

    assert with_index(real, act) == len(acknowledged)
    assert len(acknowledged) > 20
