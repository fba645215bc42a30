"""The guard's table and our own DNS, against a real DNS server on loopback."""

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.backends.memory import MemoryCache
from skitter.fetch.address import Answer, Guard, Names, is_literal
from skitter.settings import FetchSettings, Seconds, SettingsError
from skitter.testing.clock import VirtualClock
from tests.fetching import AAAA, NXDOMAIN, A, Records, naming, run

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:a9fe:a9fe::1",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:c0a8:101::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:127.0.0.1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
    "2606:4700::5efe:8.8.8.8",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_outside_the_public_internet_is_refused_with_the_reason(address: str):
    reason = Guard().refusal(address)
    assert reason is not None
    assert reason.code == "address"
    assert "not a public address: " in reason.detail
    assert address not in reason.detail


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_refused(address: str):
    assert Guard().refusal(address) is None


@pytest.mark.parametrize("text", ["", "example.org", "127.1", "0x7f.0.0.1", "1.2.3.4 ", "::1]", "1.2.3.4.5"])
def test_invalid_addresses_are_refused(text: str):
    assert Guard().refusal(text) is not None


# Reachable to the letter of the registry, but of no use to a crawler: anycast for PCP and TURN, AMT, AS112, drone ids.
STRICTER = [
    ipaddress.ip_network(block)
    for block in (
        "192.0.0.0/24",
        "168.63.129.16/32",
        "192.88.99.0/24",
        "2001::/23",
        "fec0::/10",
        "64:ff9b:1::/48",
    )
]


@given(
    st.one_of(
        st.ip_addresses(v=4), st.ip_addresses(v=6), st.sampled_from(NOT_PUBLIC).map(ipaddress.ip_address)
    )
)
def test_the_table_refuses_all_that_python_knows_as_not_global(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
):
    inner = getattr(address, "ipv4_mapped", None) or address
    if not inner.is_global and inner not in ipaddress.ip_network("64:ff9b::/96"):
        assert Guard().refusal(str(address)) is not None


@given(st.ip_addresses(v=4))
def test_the_table_refuses_no_more_of_ipv4_than_it_says(address: ipaddress.IPv4Address):
    if address.is_global and not address.is_multicast and not any(address in block for block in STRICTER):
        assert Guard().refusal(str(address)) is None


def test_an_allowed_network_is_let_through_in_every_spelling_and_no_other():
    guard = Guard(("127.0.0.0/8", "fd00:1::/32"))
    for address in ("127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd00:1::5"):
        assert guard.refusal(address) is None
    for address in (
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00:2::5",
        "::ffff:10.0.0.1",
        "fe80::5efe:127.0.0.1",
    ):
        assert guard.refusal(address) is not None


def test_an_allowed_network_may_be_written_as_one_address():
    assert Guard(("10.1.2.3",)).refusal("10.1.2.3") is None
    assert Guard(("10.1.2.3/8",)).refusal("10.9.9.9") is None


def test_a_network_that_is_none_is_a_settings_error():
    with pytest.raises(SettingsError, match=r"fetch\.allow_private.*10\.0\.0\.0/33"):
        Guard(("10.0.0.0/33",))


@pytest.mark.parametrize(
    ("host", "literal"),
    [("127.0.0.1", True), ("::1", True), ("a1", False), ("1.2.3.4.5", False), ("h.example", False)],
)
def test_literals_need_no_dns(host: str, literal: bool):
    assert is_literal(host) is literal


# ------------------------------------------------------------------------------------------------ names


def names(settings: FetchSettings, clock: VirtualClock | None = None) -> Names:
    return Names(settings, MemoryCache(settings.dns_cache, clock or VirtualClock()))


async def look_up(settings: FetchSettings, *hosts: str) -> list[Answer]:
    resolver = names(settings)
    try:
        return [await resolver.lookup(host) for host in hosts]
    finally:
        await resolver.close()


@pytest.mark.parametrize(
    ("pair", "host", "address"),
    [
        ("a.example:192.0.2.1", "a.example", "192.0.2.1"),
        ("A.Example:192.0.2.1", "a.example", "192.0.2.1"),
        ("a.example.:192.0.2.1", "a.example", "192.0.2.1"),
        ("Bücher.example:192.0.2.1", "xn--bcher-kva.example", "192.0.2.1"),
        ("a.example:[2001:db8::1]", "a.example", "2001:db8::1"),
        ("a.example:2001:db8::1", "a.example", "2001:db8::1"),
    ],
)
def test_an_override_replaces_dns(pair: str, host: str, address: str):
    assert run(look_up(FetchSettings(resolve=(pair,)), host)) == [Answer((address,))]


def test_several_overrides_of_one_host_are_tried_in_their_order():
    settings = FetchSettings(resolve=("a.example:192.0.2.1", "a.example:192.0.2.2"))
    assert run(look_up(settings, "a.example")) == [Answer(("192.0.2.1", "192.0.2.2"))]


@pytest.mark.parametrize("pair", ["a.example", "a.example:", "a.example:b.example", "a.example:80:192.0.2.1"])
def test_an_override_that_is_none_is_a_settings_error(pair: str):
    with pytest.raises(SettingsError, match="HOST:ADDRESS"):
        names(FetchSettings(resolve=(pair,)))


def test_the_hosts_file_is_honoured_and_localhost_is_loopback():
    found = run(look_up(FetchSettings(), "localhost", "foo.localhost", "localhost."))
    for answer in found:
        assert answer.addresses or answer.problem
        assert all(ipaddress.ip_address(address).is_loopback for address in answer.addresses)
    assert found[0].addresses


def zone(records: dict[tuple[str, int], Records]):
    return lambda name, kind: records.get((name, kind), [])


def test_both_address_families_are_resolved():
    async def main() -> Answer:
        records = {("h.example", A): [("93.184.216.34", 60)], ("h.example", AAAA): [("2606:4700::1", 60)]}
        async with naming(zone(records)) as (server, where):
            (answer,) = await look_up(FetchSettings(nameservers=(where,)), "h.example")
        assert {kind for _, kind in server.questions} == {A, AAAA}
        return answer

    assert set(run(main()).addresses) == {"93.184.216.34", "2606:4700::1"}


def test_an_answer_is_cached_for_its_ttl_up_to_the_limit():
    async def asked_again_after(ttl: int, seconds: float) -> bool:
        clock = VirtualClock()
        async with naming(zone({("h.example", A): [("93.184.216.34", ttl)]})) as (server, where):
            resolver = names(FetchSettings(nameservers=(where,), dns_max_ttl=Seconds(100.0)), clock)
            await resolver.lookup("h.example")
            before = resolver.metrics().misses
            clock.advance(seconds)
            await resolver.lookup("h.example")
            again = resolver.metrics().misses > before
            await resolver.close()
        assert server.questions
        return again

    assert run(asked_again_after(50, 49)) is False
    assert run(asked_again_after(50, 51)) is True
    assert run(asked_again_after(5000, 99)) is False
    assert run(asked_again_after(5000, 101)) is True


def test_a_name_that_does_not_exist_is_a_problem_that_is_remembered():
    async def main() -> None:
        clock = VirtualClock()
        async with naming(lambda _name, _kind: NXDOMAIN) as (_, where):
            resolver = names(FetchSettings(nameservers=(where,), dns_negative_ttl=Seconds(60.0)), clock)
            first = await resolver.lookup("gone.example")
            assert first.addresses == ()
            assert "not found" in first.problem
            clock.advance(59)
            assert await resolver.lookup("gone.example") == first
            assert resolver.metrics().misses == 1
            clock.advance(2)
            await resolver.lookup("gone.example")
            assert resolver.metrics().misses == 2
            await resolver.close()

    run(main())


def test_a_name_without_addresses_is_a_problem():
    async def main() -> list[Answer]:
        async with naming(zone({})) as (_, where):
            return await look_up(FetchSettings(nameservers=(where,)), "empty.example")

    (answer,) = run(main())
    assert answer.addresses == ()
    assert answer.problem


def test_a_dns_server_that_never_answers_is_a_problem_within_the_connect_timeout():
    async def main() -> Answer:
        async with naming(zone({})) as (server, where):
            server.datagram_received = lambda data, addr: None  # type: ignore[method-assign]
            settings = FetchSettings(nameservers=(where,), connect_timeout=Seconds(0.3))
            (answer,) = await look_up(settings, "silent.example")
            return answer

    assert "within 0.3 s" in run(main()).problem


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", ".".join(["abc"] * 80), "-", "_", "xn--"])
def test_names_that_cannot_exist_are_problems_and_never_exceptions(host: str):
    async def main() -> Answer:
        async with naming(lambda _name, _kind: NXDOMAIN) as (_, where):
            (answer,) = await look_up(FetchSettings(nameservers=(where,)), host)
            return answer

    assert run(main()).problem


def test_a_name_is_absolute_the_search_list_of_the_machine_does_not_complete_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("LOCALDOMAIN", "corp.example")

    async def main() -> list[tuple[str, int]]:
        async with naming(lambda _name, _kind: NXDOMAIN) as (server, where):
            await look_up(FetchSettings(nameservers=(where,)), "intranet")
            return server.questions

    assert {name for name, _ in run(main())} <= {"intranet"}


@pytest.mark.parametrize("text", ["", "dns.example", "127.0.0.1:", "127.0.0.1:x", "[::1", "1.2.3.4:5:6"])
def test_a_nameserver_that_is_none_is_a_settings_error(text: str):
    with pytest.raises(SettingsError, match=r"fetch\.nameservers"):
        names(FetchSettings(nameservers=(text,)))


def test_a_nameserver_may_be_given_by_its_ipv6_address():
    async def main() -> list[Answer]:
        records = {("h.example", A): [("93.184.216.34", 60)]}
        async with naming(zone(records), "::1") as (_, where):
            assert where.startswith("[::1]:")
            return await look_up(FetchSettings(nameservers=(where,)), "h.example")

    assert run(main()) == [Answer(("93.184.216.34",))]


def test_many_askers_for_one_name_cause_one_lookup():
    async def main() -> float:
        async with naming(zone({("h.example", A): [("93.184.216.34", 60)]})) as (_, where):
            resolver = names(FetchSettings(nameservers=(where,)))
            answers = await asyncio.gather(*(resolver.lookup("h.example") for _ in range(20)))
            assert set(answers) == {Answer(("93.184.216.34",))}
            misses = resolver.metrics().misses
            await resolver.close()
            return misses

    assert run(main()) == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [("127.0.0.1", "127.0.0.0/8"), ("::1", "NETWORK"), ("10.1.2.3", "NETWORK"), ("fd00::1", "NETWORK")],
)
def test_a_refusal_names_the_network_unless_that_reveals_an_internal_address(address, network):
    reason = Guard().refusal(address)
    assert reason is not None
    assert reason.detail.endswith(f"; allow it with --allow-private {network}")
