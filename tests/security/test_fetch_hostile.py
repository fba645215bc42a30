"""Servers that try to exhaust, confuse or inject: each ends in an outcome, within limits, and affects only itself."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skitter.model import Failed, Fault, Fetched, Outcome, Refused
from skitter.settings import Bytes, FetchSettings, Seconds, SettingsError
from tests.conformance.cases import needs_cases, rows
from tests.fetching import LOOPBACK, Server, Talk, answered, fetching, ok, once, run, serving, visit

ROWS = rows("security_vectors.jsonl")
INJECTIONS = [row["value"] for row in ROWS if row["kind"] == "header_injection"]
AS_CODE = [row["header"] for row in ROWS if row["kind"] == "header_as_code"]


def loopback(**values: object) -> FetchSettings:
    return FetchSettings(allow_private=LOOPBACK, **values)  # type: ignore[arg-type]


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def pouring(head: bytes, unit: bytes, pause: float = 0.0) -> Talk:
    """A server that never stops."""

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(head)
        while True:
            writer.write(unit)
            await writer.drain()
            await asyncio.sleep(pause)

    return talk


OK = b"HTTP/1.1 200 OK\r\n"

# ------------------------------------------------------------------------------------------------ exhaustion


@pytest.mark.parametrize(
    "talk",
    [
        pouring(OK, b"X-Filler: " + b"a" * 1000 + b"\r\n"),
        pouring(OK + b"X-Long: ", b"a" * 4000),
        pouring(OK, b"a: b\r\n" * 100),
        pouring(OK, b"Set-Cookie: a=b\r\n" * 1000),
        pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        pouring(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100),
        pouring(OK + b"X-Folded: a\r\n", b"  b\r\n" * 500),
    ],
    ids=["fields", "line", "small", "cookies", "continue", "hints", "folded"],
)
def test_endless_header_fields_end_at_the_limit(talk: Talk):
    outcome = failed(run(answered(talk, loopback(deadline=Seconds(50.0)))))
    assert outcome.fault is Fault.HEADERS
    assert outcome.exchange is not None
    assert len(outcome.exchange.head) <= 300 * 1024 + 2**16


def test_a_hundred_thousand_header_fields_are_too_many():
    fields = [b"X-%d: y" % number for number in range(100_000)]
    assert failed(run(answered(once(ok(b"", *fields))))).fault is Fault.HEADERS


@pytest.mark.parametrize(
    "talk",
    [
        pouring(OK + b"\r\n", b"a" * 10_000),
        pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b"a" * 10_000 + b"\r\n"),
        pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n5;x=", b"x" * 10_000),
        pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"Trailer: x\r\n" * 1000),
        pouring(OK + b"Content-Length: 9999999999\r\n\r\n", b"a" * 10_000),
    ],
    ids=["plain", "chunks", "extension", "trailers", "announced"],
)
def test_endless_bodies_end_at_the_limit(talk: Talk):
    outcome = failed(run(answered(talk, loopback(max_body=Bytes(100_000), deadline=Seconds(50.0)))))
    assert outcome.fault is Fault.SIZE
    assert outcome.exchange is not None
    assert len(outcome.exchange.body) <= 100_000


@pytest.mark.parametrize(
    "talk",
    [
        pouring(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", 0.05),
        pouring(OK + b"X-Slow: ", b"a", 0.05),
        pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    ],
    ids=["body", "header", "interim"],
)
def test_a_drip_that_never_pauses_ends_by_the_deadline(talk: Talk):
    limits = loopback(deadline=Seconds(0.6), idle_timeout=Seconds(30.0))
    assert failed(run(answered(talk, limits))).fault is Fault.TIMEOUT


def test_an_announced_length_that_does_not_come_allocates_nothing_and_fails():
    answer = once(OK + b"Content-Length: 99999999999\r\n\r\n0123456789")
    assert failed(run(answered(answer))).fault is Fault.SIZE
    answer = once(OK + b"Content-Length: 9999999\r\n\r\n0123456789")
    outcome = failed(run(answered(answer)))
    assert outcome.fault is Fault.RESET
    assert outcome.exchange is not None
    assert outcome.exchange.body == b"0123456789"


def test_hostile_hosts_do_not_keep_others_from_being_fetched():
    async def main() -> None:
        limits = loopback(max_body=Bytes(50_000), deadline=Seconds(2.0))
        async with (
            serving(pouring(OK + b"\r\n", b"a" * 5000)) as flood,
            serving(pouring(OK + b"X-Slow: ", b"a", 0.05)) as drip,
            serving(once(b"")) as dead,
            serving(ok(b"sound")) as sound,
            fetching(limits) as fetcher,
        ):
            servers = [flood, drip, dead, sound] * 10
            outcomes = await asyncio.gather(*(fetcher.fetch(visit(server.url())) for server in servers))
            for server, outcome in zip(servers, outcomes, strict=True):
                assert isinstance(outcome, Fetched if server is sound else Failed)

    run(main())


# ------------------------------------------------------------------------------------------------ injection


@needs_cases
@pytest.mark.parametrize("value", INJECTIONS)
def test_nothing_from_a_url_adds_a_line_to_the_request(value: str):
    async def main() -> None:
        async with serving(ok()) as server, fetching(loopback(resolve=("h.example:127.0.0.1",))) as fetcher:
            for host in ("127.0.0.1", "h.example"):
                for url in (server.url("/", host) + value, server.url("/?q=", host) + value):
                    outcome = await fetcher.fetch(visit(url))
                    assert isinstance(outcome, Fetched | Refused)
            for request in server.requests:
                assert b"Injected" not in request.replace(b"X-Injected", b"Injected", 0).partition(b"\r\n")[2]
                assert request.count(b"\r\nHost: ") == 1
                assert b"smuggled HTTP/1.1\r\n" not in request.partition(b"\r\n")[2]
                assert request.count(b"\r\n\r\n") == 1

    run(main())


@needs_cases
@pytest.mark.parametrize("value", INJECTIONS)
def test_nothing_from_a_validator_adds_a_line_to_the_request(value: str):
    async def main() -> None:
        async with serving(ok()) as server, fetching(loopback()) as fetcher:
            validators = [("If-None-Match", value), (f"X-{value}", "x"), ("If-None-Match", '"fine"')]
            assert isinstance(await fetcher.fetch(visit(server.url()), validators), Fetched)
            (request,) = server.requests
            assert b"Injected" not in request
            assert b"evil" not in request
            assert b"smuggled" not in request
            assert b'If-None-Match: "fine"\r\n' in request

    run(main())


@needs_cases
@pytest.mark.parametrize("value", INJECTIONS)
@pytest.mark.parametrize("name", ["user_agent", "contact", "accept_language"])
def test_nothing_from_the_settings_adds_a_line_to_the_request(name: str, value: str):
    async def main() -> None:
        async with fetching(loopback(**{name: value})):
            pass

    with pytest.raises(SettingsError):
        run(main())


@needs_cases
@pytest.mark.parametrize("field", AS_CODE)
def test_header_values_are_inert_text(field: str):
    outcome = run(answered(ok(b"body", field.encode())))
    assert isinstance(outcome, Fetched)
    name, _, value = field.partition(": ")
    assert (name.lower(), value) in outcome.headers
    assert outcome.content == b"body"


# ------------------------------------------------------------------------------------------------ confusion


def test_length_and_chunks_together_have_one_meaning():
    """RFC 9112 6.3: the chunks win."""
    answer = OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    outcome = run(answered(once(answer)))
    assert isinstance(outcome, Fetched)
    assert outcome.content == b"abc"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_an_unsolicited_answer_is_not_mistaken_for_the_next_one(chunked: bool, pause: float):
    smuggled = ok(b"smuggled")
    first = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" if chunked else ok(b"abc")

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await server.hear(reader):
            if b"/first" in request:
                writer.write(first + smuggled if not pause else first)
                await writer.drain()
                await asyncio.sleep(pause)
                if pause:
                    writer.write(smuggled)
            else:
                writer.write(ok(b"honest"))

    async def main() -> None:
        async with serving(talk) as server, fetching(loopback()) as fetcher:
            outcome = await fetcher.fetch(visit(server.url("/first")))
            assert isinstance(outcome, Fetched)
            assert outcome.content == b"abc"
            await asyncio.sleep(pause * 2)
            for _ in range(3):  # the talkative connection lingers: it must not come back later either
                later = await fetcher.fetch(visit(server.url("/later")))
                assert isinstance(later, Fetched)
                assert later.content == b"honest"

    run(main())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(
        st.binary(max_size=400),
        st.binary(max_size=400).map(lambda noise: OK + noise),
        st.binary(max_size=400).map(lambda noise: OK + b"Content-Encoding: gzip\r\n\r\n" + noise),
        st.binary(max_size=400).map(lambda noise: OK + b"Transfer-Encoding: chunked\r\n\r\n" + noise),
        st.binary(max_size=400).map(lambda noise: b"HTTP/1.1 302 Found\r\nLocation: " + noise + b"\r\n\r\n"),
    )
)
def test_whatever_a_server_says_the_end_is_an_outcome(answer: bytes):
    assert run(answered(once(answer), loopback(deadline=Seconds(5.0)))) is not None
