"""Hosts that could not be reached: what is wrong, and what to type instead. Pure.

A crawl starts with the robots.txt of each origin, so a seed that cannot work fails there. `crawl.done` decides whether
waiting is useless.
"""

import ipaddress
from collections.abc import Mapping

from msgspec import Struct

from skitter import urls
from skitter.model import Fault

# What OpenSSL, GnuTLS and others report when the other end does not speak TLS, and when they do not trust it.
_NOT_TLS = ("wrong version number", "unknown protocol", "packet length", "record overflow", "not an ssl")
_UNTRUSTED = (
    "self-signed",
    "self signed",
    "local issuer",
    "unknown ca",
    "unable to get issuer",
    "not trusted",
)
_NOT_PUBLIC = "not a public address"
_PRIVATE = tuple(
    ipaddress.ip_network(block)
    for block in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)


class Trouble(Struct, frozen=True):
    """An origin that could not be reached."""

    origin: str
    problem: str  # what happened
    remedy: str  # what to type instead, or to check


def explained(origin: str, problem: str) -> Trouble:
    """The problem with an origin, from its failed robots.txt request (`RobotsCopy.problem`)."""
    code, _, detail = problem.partition(": ")
    host = urls.host(origin)
    if code == Fault.TLS:
        remedy = _tls(origin, detail.lower())
    elif code in {Fault.CONNECT, Fault.TIMEOUT}:
        remedy = f"Nothing answers there: check the port{_or_other_scheme(origin)}"
    elif code == Fault.NXDOMAIN:
        remedy = "The name does not exist: check its spelling"
    elif code == Fault.DNS:
        remedy = "DNS does not answer: check this machine's network, or name a server with --set fetch.nameservers=ADDRESS"
    elif code in {Fault.RESET, Fault.PROTOCOL}:
        remedy = f"No HTTP is spoken there: check the port{_or_other_scheme(origin)}"
    elif code == Fault.PROXY:
        remedy = "Check fetch.proxy, its login in the secrets file, and that it allows CONNECT to this port"
    elif _NOT_PUBLIC in problem:
        return Trouble(origin, *_not_public(host, problem))
    else:
        remedy = "Check the address"
    return Trouble(origin, problem, remedy)


def _tls(origin: str, detail: str) -> str:
    if any(words in detail for words in _NOT_TLS):
        return f"The server does not speak https: try {_other_scheme(origin)}"
    if any(words in detail for words in _UNTRUSTED):
        return "Its certificate is not trusted: name its authority with --set fetch.ca_file=FILE.pem"
    return f"Check its certificate{_or_other_scheme(origin)}"


def _not_public(host: str, problem: str) -> tuple[str, str]:
    block = _block(host)
    if block in {"127.0.0.0/8", "::1/128"}:
        return f"{host} is a loopback address", f"Allow it with --allow-private {block}"
    what = problem.partition(";")[0]
    return what, f"Allow it with --allow-private {block or 'NETWORK'}"


def _block(host: str) -> str:
    """The network of a host, as far as its name shows: what a name resolves to is not revealed."""
    if urls.is_localhost(host):
        return "127.0.0.0/8"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return ""
    return next((str(block) for block in _PRIVATE if address in block), "")


def _or_other_scheme(origin: str) -> str:
    return f", or try {_other_scheme(origin)}"


def _other_scheme(origin: str) -> str:
    scheme, _, authority = origin.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{authority}/"


def all_explained(failed: Mapping[str, str]) -> list[Trouble]:
    """Every failed origin, sorted by name."""
    return [explained(origin, problem) for origin, problem in sorted(failed.items())]
