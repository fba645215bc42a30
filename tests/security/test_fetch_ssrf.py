"""The fetcher cannot be made to connect to a non-public address: real listeners count connections there."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from skitter import urls
from skitter.backends.memory import MemoryCache
from skitter.fetch.address import Guard, Names
from skitter.fetch.transfer import Order, Target, target
from skitter.model import Failed, Fetched, Outcome, Redirected, Refused
from skitter.runtime.clock import SystemClock
from skitter.settings import FetchSettings, Seconds
from skitter.testing.clock import VirtualClock
from tests.conformance.cases import needs_cases, rows
from tests.fetching import AAAA, NXDOMAIN, A, Records, Server, fetching, naming, ok, run, serving, visit

ROWS = rows("security_vectors.jsonl")
BLOCKED = [row["url"] for row in ROWS if row["kind"] == "ssrf_block"]
ALLOWED = [row["url"] for row in ROWS if row["kind"] == "ssrf_allow"]
SCHEMES = [row["url"] for row in ROWS if row["kind"] == "scheme_block"]
REDIRECTS = [
    (row["url"], row["location"], row["expect_target"]) for row in ROWS if row["kind"] == "redirect_scheme"
]
EVERYTHING = ("0.0.0.0/0", "::/0")
# Our own, beside the collected ones: every spelling of loopback we could think of.
OWN = [
    "http://127.0.0.1",
    "http://127.255.255.254",
    "http://127.1",
    "http://0x7f.1",
    "http://0x7F000001",
    "http://2130706433",
    "http://017700000001",
    "http://0177.1",
    "http://0",
    "http://0.0.0.0",
    "http://00.0x0.0",
    "http://[::1]",
    "http://[::ffff:127.0.0.1]",
    "http://[::ffff:7f00:1]",
    "http://[0:0:0:0:0:ffff:127.0.0.1]",
    "http://[::]",
    "http://[::127.0.0.1]",
    "http://[::ffff:0:0]",
    "http://localhost",
    "http://LocalHost.",
    "http://a.b.localhost",
    "http://１２７.０.０.１",
    "http://127。0。0。1",
    "http://%6c%6f%63alhost",
    "http://user:pass@127.0.0.1",
    "http://public.example@127.0.0.1",
]


def with_port(url: str, port: int) -> str:
    """The URL with the port of our listener in the place of its own."""
    return re.sub(r"^(https?://(?:[^/?#]*@)?(?:\[[^\]]*\]|[^/?#:]*))(?::\d+)?", rf"\g<1>:{port}", url)


@asynccontextmanager
async def trap() -> AsyncIterator[list[Server]]:
    """Listeners on every IPv4 address of this machine and on ::1, on one port."""
    async with (
        serving(ok(b"secret"), host="0.0.0.0") as four,
        serving(ok(b"secret"), host="::1", port=four.port) as six,
    ):
        yield [four, six]


def internal(_name: str, kind: int) -> Records:
    """The worst DNS server: every name is this machine."""
    return [("127.0.0.1", 60)] if kind == A else [("::1", 60)] if kind == AAAA else []


async def tried(url: str, allow: tuple[str, ...] = ()) -> tuple[Outcome, int]:
    """The outcome of fetching a URL while traps are laid, and how many connections they saw."""
    async with trap() as traps, naming(internal) as (_, where):
        settings = FetchSettings(allow_private=allow, nameservers=(where,), connect_timeout=Seconds(2.0))
        async with fetching(settings) as fetcher:
            outcome = await fetcher.fetch(visit(with_port(url, traps[0].port)))
        return outcome, sum(listener.connections for listener in traps)


@needs_cases
@pytest.mark.parametrize("url", BLOCKED)
def test_a_url_that_leads_inside_is_refused_without_a_connection(url: str):
    outcome, connections = run(tried(url))
    assert isinstance(outcome, Refused), outcome
    assert connections == 0


@pytest.mark.parametrize("url", OWN)
def test_every_spelling_of_this_machine_is_refused_without_a_connection(url: str):
    outcome, connections = run(tried(url))
    assert isinstance(outcome, Refused), outcome
    assert outcome.reason.code == "address"
    assert connections == 0


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1", "http://0x7f.1", "http://[::1]", "http://localhost", "http://x.example"]
)
def test_the_traps_are_real_with_everything_allowed_they_are_reached(url: str):
    outcome, connections = run(tried(url, EVERYTHING))
    assert isinstance(outcome, Fetched), outcome
    assert outcome.content == b"secret"
    assert connections == 1


@needs_cases
@pytest.mark.parametrize("url", ALLOWED)
def test_the_public_internet_is_not_refused(url: str):
    async def main() -> None:
        where = target(url)
        assert isinstance(where, Target)
        settings = FetchSettings(resolve=("example.com:93.184.216.34",))
        answer = await Names(settings, MemoryCache(10, SystemClock())).lookup(where.host)
        assert [Guard().refusal(address) for address in answer.addresses] == [None]

    run(main())


@needs_cases
@pytest.mark.parametrize("url", SCHEMES)
def test_other_schemes_are_refused(url: str):
    async def main() -> Outcome:
        async with fetching(FetchSettings(allow_private=EVERYTHING)) as fetcher:
            return await fetcher.fetch(visit(url))

    outcome = run(main())
    assert isinstance(outcome, Refused)
    assert outcome.reason.code == "scheme"


@needs_cases
@pytest.mark.parametrize(("url", "location", "expected"), REDIRECTS)
def test_a_redirect_leads_to_http_or_nowhere(url: str, location: str, expected: str | None):
    async def main() -> Outcome:
        answer = ok(b"", f"Location: {location}".encode(), status=b"302 Found")
        async with serving(answer) as server, fetching(FetchSettings(allow_private=EVERYTHING)) as fetcher:
            return await fetcher.fetch(visit(server.url("/a")))

    outcome = run(main())
    assert isinstance(outcome, Redirected)
    # The server cannot be example.com; where its own address stands in, the location is resolved once more.
    resolved = urls.resolve(outcome.location, url)
    assert resolved == expected
    assert bool(outcome.target) == (expected is not None)


# ------------------------------------------------------------------------------------------------ DNS


async def named(
    zone: dict[tuple[str, int], Records], host: str, allow: tuple[str, ...]
) -> tuple[Outcome, int, int]:
    """Outcome, and connections to 127.0.0.2 (which stands for the public internet) and to all the rest."""
    async with (
        serving(ok(b"secret"), host="127.0.0.1") as inside,
        serving(ok(b"public"), host="127.0.0.2", port=inside.port) as outside,
        naming(lambda name, kind: zone.get((name, kind), [])) as (_, where),
        fetching(FetchSettings(allow_private=allow, nameservers=(where,))) as fetcher,
    ):
        outcome = await fetcher.fetch(visit(inside.url(host=host)))
        return outcome, outside.connections, inside.connections


PUBLIC = ("127.0.0.2/32",)


@pytest.mark.parametrize(
    "records",
    [
        {("evil.example", A): [("169.254.169.254", 60)]},
        {("evil.example", A): [("127.0.0.1", 60)]},
        {("evil.example", A): [("10.0.0.1", 60), ("192.168.0.1", 60)]},
        {("evil.example", AAAA): [("64:ff9b::a9fe:a9fe", 60)]},
        {("evil.example", AAAA): [("::ffff:127.0.0.1", 60)]},
        {("evil.example", AAAA): [("::1", 60)], ("evil.example", A): [("0.0.0.0", 60)]},
        {("evil.example", AAAA): [("fd00:ec2::254", 60)]},
    ],
)
def test_a_name_that_points_inside_is_refused_and_the_reason_does_not_tell_where(
    records: dict[tuple[str, int], Records],
):
    outcome, outside, inside = run(named(records, "evil.example", ()))
    assert isinstance(outcome, Refused), outcome
    assert (outside, inside) == (0, 0)
    for found in records.values():
        for address, _ in found:
            assert address not in outcome.reason.detail


@pytest.mark.parametrize("order", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")])
def test_of_mixed_answers_only_the_public_ones_are_used(order: tuple[str, str]):
    records = {("mixed.example", A): [(address, 60) for address in order]}
    outcome, outside, inside = run(named(records, "mixed.example", PUBLIC))
    assert isinstance(outcome, Fetched), outcome
    assert outcome.content == b"public"
    assert (outside, inside) == (1, 0)


def test_an_answer_that_changes_between_check_and_connection_changes_nothing():
    """Rebinding: public first, this machine ever after, good for no time at all."""

    async def main() -> None:
        answers: Iterator[str] = iter(["127.0.0.2"])

        def rebinding(_name: str, kind: int) -> Records:
            return [(next(answers, "127.0.0.1"), 0)] if kind == A else []

        clock = VirtualClock()
        async with (
            serving(ok(b"secret"), host="127.0.0.1") as inside,
            serving(ok(b"public"), host="127.0.0.2", port=inside.port) as outside,
            naming(rebinding) as (server, where),
            fetching(FetchSettings(allow_private=PUBLIC, nameservers=(where,)), clock) as fetcher,
        ):
            first = await fetcher.fetch(visit(inside.url(host="rebind.example")))
            assert isinstance(first, Fetched), first
            assert first.content == b"public"
            assert first.exchange.address == "127.0.0.2"
            clock.advance(3600)
            second = await fetcher.fetch(visit(inside.url(host="rebind.example")))
            assert isinstance(second, Refused), second
            assert (outside.connections, inside.connections) == (1, 0)
            assert len([kind for _, kind in server.questions if kind == A]) >= 2

    run(main())


def test_the_second_lock_refuses_even_if_the_first_was_left_open():
    """A bug in what comes before must not be enough: the socket itself is refused."""

    async def main() -> None:
        async with trap() as traps, fetching(FetchSettings()) as fetcher:
            for address in ("127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"):
                where = target(traps[0].url("/", "public.example"))
                assert isinstance(where, Target)
                order = Order(where, address, (), 5.0, 5.0, limit=10_000)
                outcome = await fetcher._carry(visit("http://public.example/"), order)
                assert isinstance(outcome, Refused), outcome
            assert [listener.connections for listener in traps] == [0, 0]

    run(main())


def test_a_hop_of_a_redirect_chain_is_judged_like_any_other():
    async def main() -> None:
        async with serving(ok(b"secret"), host="127.0.0.1") as inside:
            answer = ok(b"", b"Location: " + inside.url("/metadata").encode(), status=b"302 Found")
            async with (
                serving(answer, host="127.0.0.2") as outside,
                fetching(FetchSettings(allow_private=PUBLIC)) as fetcher,
            ):
                first = await fetcher.fetch(visit(outside.url()))
                assert isinstance(first, Redirected)
                second = await fetcher.fetch(visit(first.target))
                assert isinstance(second, Refused)
                assert (outside.connections, inside.connections) == (1, 0)

    run(main())


def test_a_reused_connection_does_not_bypass_the_guard():
    """Two fetches of one name whose address changes: the connection to the old address is not used for the new one."""

    async def main() -> None:
        async with trap() as traps:
            settings = FetchSettings(allow_private=("127.0.0.2/32",), resolve=("h.example:127.0.0.2",))
            async with fetching(settings) as fetcher:
                url = traps[0].url(host="h.example")
                assert isinstance(await fetcher.fetch(visit(url)), Fetched)
                fetcher._names._fixed.clear()
                outcome = await fetcher.fetch(visit(traps[0].url(host="127.0.0.1")))
                assert isinstance(outcome, Refused)
                assert traps[0].connections == 1

    run(main())


def test_an_override_is_judged_too():
    async def main() -> None:
        async with trap() as traps:
            async with fetching(FetchSettings(resolve=("h.example:127.0.0.1",))) as fetcher:
                assert isinstance(await fetcher.fetch(visit(traps[0].url(host="h.example"))), Refused)
            assert [listener.connections for listener in traps] == [0, 0]

    run(main())


@pytest.mark.parametrize("port", [0, 21, 22, 23, 25, 53, 110, 143, 465, 587, 6000, 6667])
def test_services_that_are_not_the_web_are_not_spoken_to(port: int):
    async def main() -> Outcome:
        async with fetching(FetchSettings(allow_private=EVERYTHING)) as fetcher:
            return await fetcher.fetch(visit(f"http://127.0.0.1:{port}/"))

    outcome = run(main())
    assert isinstance(outcome, Refused)
    assert outcome.reason.code == "port"


@needs_cases
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["kind"] == "url_dos" and isinstance(row["url"], str)], ids=str
)
def test_urls_made_to_break_parsers_are_outcomes(row: dict[str, str]):
    async def main() -> Outcome:
        async with (
            naming(lambda _name, _kind: NXDOMAIN) as (_, where),
            fetching(FetchSettings(nameservers=(where,))) as fetcher,
        ):
            return await fetcher.fetch(visit(row["url"]))

    assert isinstance(run(main()), Refused | Failed)


@pytest.mark.parametrize(
    "url",
    ["http://a" + "@" * 50_000, "http://" + "a" * 70_000 + ".example/", "http://e.example/" + "%" * 50_000],
)
def test_long_urls_are_cut_in_linear_time(url: str):
    async def main() -> Outcome:
        async with (
            naming(lambda _name, _kind: NXDOMAIN) as (_, where),
            fetching(FetchSettings(nameservers=(where,))) as fetcher,
        ):
            return await asyncio.wait_for(fetcher.fetch(visit(url)), 20)

    assert isinstance(run(main()), Refused | Failed)
