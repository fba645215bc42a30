"""Address guard and DNS: where a host may be reached.

A crawler follows URLs written by strangers, so every address is checked before it is connected to: addresses
outside the public internet are refused unless a setting allows their network. Names are resolved here and not
by libcurl, which is then pinned to the checked address: a DNS answer that changes between check and
connection changes nothing.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from skitter import reasons, urls
from skitter.model import Reason
from skitter.ports import Cache
from skitter.runtime.metrics import CacheMetrics
from skitter.settings import FetchSettings, SettingsError

if TYPE_CHECKING:
    import aiodns

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The blocks of the IANA special-purpose registries (RFC 6890) that are not globally reachable, and what they
# leave out. Listed here because the answers of `ipaddress.is_global` differ between Python versions.
_SET_ASIDE = tuple(
    (ipaddress.ip_network(block), why)
    for block, why in (
        ("0.0.0.0/8", "this network (RFC 791 3.2)"),
        ("10.0.0.0/8", "private (RFC 1918)"),
        ("100.64.0.0/10", "carrier-grade NAT (RFC 6598)"),
        ("127.0.0.0/8", "loopback (RFC 1122 3.2.1.3)"),
        ("168.63.129.16/32", "the platform service of a cloud (Azure)"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata (RFC 3927)"),
        ("172.16.0.0/12", "private (RFC 1918)"),
        ("192.0.0.0/24", "IETF protocol assignments (RFC 6890 2.1)"),
        ("192.0.2.0/24", "documentation (RFC 5737)"),
        ("192.88.99.0/24", "6to4 relays (RFC 7526)"),
        ("192.168.0.0/16", "private (RFC 1918)"),
        ("198.18.0.0/15", "benchmarks (RFC 2544)"),
        ("198.51.100.0/24", "documentation (RFC 5737)"),
        ("203.0.113.0/24", "documentation (RFC 5737)"),
        ("224.0.0.0/4", "multicast (RFC 1112)"),
        ("240.0.0.0/4", "reserved, broadcast (RFC 1112 4, RFC 919)"),
        ("::/128", "unspecified (RFC 4291 2.5.2)"),
        ("::1/128", "loopback (RFC 4291 2.5.3)"),
        ("64:ff9b:1::/48", "local-use NAT64 (RFC 8215)"),
        ("100::/64", "discard (RFC 6666)"),
        ("2001::/23", "IETF protocol assignments, Teredo (RFC 2928, RFC 4380)"),
        ("2001:db8::/32", "documentation (RFC 3849)"),
        ("3fff::/20", "documentation (RFC 9637)"),
        ("5f00::/16", "segment routing (RFC 9602)"),
        ("fc00::/7", "unique local, private (RFC 4193)"),
        ("fe80::/10", "link-local (RFC 4291 2.5.6)"),
        ("fec0::/10", "site-local (RFC 3879)"),
        ("ff00::/8", "multicast (RFC 4291 2.7)"),
    )
)
# https://www.iana.org/assignments/ipv6-address-space: all that is allocated as global unicast.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# Blocks that embed an IPv4 address, and the number of bits after it. The first two are judged by that address
# alone.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")  # RFC 4291 2.5.5.2
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291 2.5.5.1
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")  # RFC 3056
_CARRIERS = ((_MAPPED, 0), (_NAT64, 0), (_COMPATIBLE, 0), (_SIX_TO_FOUR, 80))
_ISATAP = (
    0x00005EFE,
    0x02005EFE,
)  # RFC 5214 6.1: what precedes an IPv4 address in the interface identifier


class Guard:
    """Decides which addresses may be connected to: the public internet, and explicitly allowed networks."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allowed = tuple(_network(text) for text in allow)
        # Cached: few addresses are checked often, at every request and again at every connection.
        self.refusal = lru_cache(maxsize=4096)(self._judge)

    def _judge(self, address: str) -> Reason | None:
        """Why this address is refused, or None."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return Reason(reasons.ADDRESS, "no IP address")
        if _within(parsed, self._allowed):
            return None
        inner = _embedded(parsed)
        hidden = None if inner is None or _within(inner, self._allowed) else _set_aside(inner)
        why = hidden or _set_aside(parsed)
        # The address itself is not named: refusals must not reveal what internal names resolve to.
        return (
            None
            if why is None
            else Reason(
                reasons.ADDRESS, f"not a public address: {why}; allow it with --allow-private {_block(why)}"
            )
        )


def _block(why: str) -> str:
    """The network to allow. For loopback that reveals nothing; for any other it would reveal where a name leads."""
    return "127.0.0.0/8" if why.startswith("loopback (RFC 1122") else "NETWORK"


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(
            f"fetch.allow_private: {text!r} is not a network; write for example 10.0.0.0/8 or ::1/128"
        ) from None


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(
        address in network for network in networks
    )  # an address is never in a network of the other family


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a packet to this one ends up at."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    bits = int(address)
    if bits <= 1:  # RFC 4291 2.5.5.1: "::" and "::1" look like embedded addresses but are not
        return None
    for network, behind in _CARRIERS:
        if address in network:
            return ipaddress.IPv4Address(bits >> behind & 0xFFFFFFFF)
    if bits >> 32 & 0xFFFFFFFF in _ISATAP:
        return ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    return None


def _set_aside(address: Address) -> str | None:
    """What a block is reserved for; None for the public internet."""
    for network, why in _SET_ASIDE:
        if address in network:
            return why
    if isinstance(address, ipaddress.IPv4Address) or address in _GLOBAL_UNICAST:
        return None
    return None if address in _MAPPED or address in _NAT64 else "not allocated to anybody (RFC 4291 2.4)"


# ------------------------------------------------------------------------------------------------ names


class Answer(Struct, frozen=True, array_like=True):
    """A DNS answer: addresses in the order to try them, or what went wrong."""

    addresses: tuple[str, ...] = ()
    problem: str = ""
    definite: bool = False  # definite: the name does not exist, or has no address


# A record may have a TTL of zero. A visit, and perhaps its retry, still has to use it.
_LEAST_TTL = 1.0


class Names:
    """Resolves host names: overrides, then /etc/hosts and DNS, cached as long as the records allow."""

    def __init__(self, settings: FetchSettings, cache: Cache) -> None:
        self._fixed = overrides(settings.resolve)
        self._servers = tuple(_nameserver(text) for text in settings.nameservers)
        self._timeout = settings.connect_timeout
        self._max_ttl = settings.dns_max_ttl
        self._negative_ttl = settings.dns_negative_ttl
        self._cache = cache
        self._resolver: aiodns.DNSResolver | None = None

    async def lookup(self, host: str) -> Answer:
        """The addresses of a host: a name or a literal without brackets."""
        fixed = self._fixed.get(host)
        if fixed is not None:
            return fixed
        if is_literal(host):
            return Answer((host,))
        return await self._cache.get_or_fetch(host, lambda: self._ask(host))

    def metrics(self) -> CacheMetrics:
        """The DNS cache in numbers."""
        return self._cache.metrics()

    async def close(self) -> None:
        """Close the resolver's sockets."""
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    async def _ask(self, host: str) -> tuple[Answer, float]:
        from aiodns import error  # noqa: PLC0415  25 ms that a crawl of named addresses does without

        if self._resolver is None:
            self._resolver = self._connect()
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except TimeoutError:
            return Answer(problem=f"no answer within {self._timeout:g} s"), self._negative_ttl
        except error.DNSError as problem:
            definite = problem.args[0] in (error.ARES_ENOTFOUND, error.ARES_ENODATA)
            return Answer(problem=str(problem.args[-1]), definite=definite), self._negative_ttl
        addresses = tuple(dict.fromkeys(_numeric(node.addr[0]) for node in found.nodes))
        if not addresses:
            return Answer(problem="the name has no address", definite=True), self._negative_ttl
        ttl = min(node.ttl for node in found.nodes)
        return Answer(addresses), max(_LEAST_TTL, min(ttl, self._max_ttl))

    def _connect(self) -> "aiodns.DNSResolver":
        import aiodns  # noqa: PLC0415  as above
        import pycares  # noqa: PLC0415

        # A name in a URL is absolute: this machine's search list must not complete it to an internal one.
        return aiodns.DNSResolver(
            nameservers=self._servers or None,
            loop=asyncio.get_running_loop(),
            timeout=max(1.0, self._timeout / 3),
            tries=3,
            flags=pycares.ARES_FLAG_NOSEARCH,
        )


@lru_cache(maxsize=4096)
def is_literal(host: str) -> bool:
    """Whether a serialised host is an IP address rather than a name."""
    if ":" in host:
        return True
    if not host[-1:].isdigit():
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def spelt(address: str) -> str:
    """The one spelling of an address; that of an IPv4 address mapped into IPv6 is the IPv4 address (RFC 4291 2.5.5.2)."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def _numeric(address: bytes | str) -> str:
    return address.decode() if isinstance(address, bytes) else address


# 9.9.9.9, 9.9.9.9:53, 2620:fe::fe, [2620:fe::fe], [2620:fe::fe]:53
_NAMESERVER = re.compile(r"\[([^\]]+)\](?::([0-9]+))?|([^:\[]+):([0-9]+)|([^\[]+)")


def _nameserver(text: str) -> str:
    """A DNS server as c-ares reads it: address and port."""
    match = _NAMESERVER.fullmatch(text)
    bracketed, port, with_port, its_port, bare = match.groups() if match else ("",) * 5
    try:
        address = ipaddress.ip_address(bracketed or with_port or bare)
    except ValueError:
        raise SettingsError(
            f"fetch.nameservers: {text!r} is not ADDRESS or ADDRESS:PORT; write for example 9.9.9.9 or [2620:fe::fe]:53"
        ) from None
    name = f"[{address}]" if address.version == 6 else str(address)
    return f"{name}:{port or its_port or 53}"


def overrides(pairs: Sequence[str]) -> dict[str, Answer]:
    """HOST:ADDRESS pairs as answers, by the host as spelt in URLs."""
    fixed: dict[str, Answer] = {}
    for pair in pairs:
        host, _, text = pair.partition(":")
        try:
            address = str(ipaddress.ip_address(text.strip("[]")))
        except ValueError:
            raise SettingsError(
                f"fetch.resolve: {pair!r} is not HOST:ADDRESS; write for example example.org:192.0.2.1"
            ) from None
        name = urls.host(f"http://{host}/")  # as in every URL: "Bücher.example." is xn--bcher-kva.example
        if not name:
            raise SettingsError(
                f"fetch.resolve: {host!r} is not a host name; write for example example.org:192.0.2.1"
            )
        known = fixed.get(name, Answer())
        fixed[name] = Answer((*known.addresses, address))
    return fixed
