"""The synthetic web as a whole: a pure description that can be served and that knows its own truth.

The same arguments give the same web, byte for byte, in every process and on every machine.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from urllib.parse import quote

from skitter.testing.web import robots, wings
from skitter.testing.web.features import Features
from skitter.testing.web.graph import Answer, Fate, Resource, with_port
from skitter.testing.web.pages import Reply, html, reply
from skitter.testing.web.server import Served
from skitter.testing.web.site import Neighbourhood, Site
from skitter.testing.web.truth import Truth, Walk, at_port

# "shared": names below .test, all on 127.0.0.1. "own": the same names, each on its own address.
# "literal": no names; the addresses themselves are the hosts.
Addressing = Literal["shared", "own", "literal"]
ScopeKind = Literal["host", "domain", "any"]

NOT_FOUND = Resource("", Fate.GONE, title="Not found", words=10, answers=(Answer(status=404),))
_UNRESERVED = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~"
_TRACKING = re.compile(r"(?:utm_\w+|gclid|fbclid|sid)=[^&]*&?")


@dataclass(frozen=True)
class SyntheticWeb:
    """A web of `hosts` hosts with `pages_per_host` ordinary pages each, and the wings switched on in `features`.

    `robots` names the robots.txt variants of the hosts, in turn (see `skitter.testing.web.robots.KINDS`); by
    default they follow from the features.
    """

    seed: int = 0
    hosts: int = 4
    pages_per_host: int = 20
    features: Features = field(default_factory=Features)
    hosts_per_domain: int = 2
    addressing: Addressing = "shared"
    robots: Sequence[str] = ()
    _hands: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    _sites: dict[str, Site] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= 1_000_000 or self.pages_per_host < 1:
            raise ValueError("a web has 1 to 1,000,000 hosts and at least one page on each")
        around = Neighbourhood(self.seed, self.names, self.pages_per_host, self.features)
        kinds = self._robots_kinds()
        files = [
            robots.KINDS[kind](self.features, around.names[(index + 1) % self.hosts])
            for index, kind in enumerate(kinds)
        ]
        # Wings go to hosts with an ordinary robots.txt, so that each wing is tested by itself.
        free = [index for index, kind in enumerate(kinds) if kind in ("allow", "missing")]
        free = free or [index for index, file in enumerate(files) if not file.closed] or [0]
        hands = wings.dealt(self.features, free)
        for index, file in enumerate(files):
            site = Site(around, index, file)
            self._hands.setdefault(file.kind, index)
            for wing in hands.get(index, ()):
                wings.WINGS[wing](site)
                self._hands[wing] = index
            self._sites[site.name] = site

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The host names."""
        if self.addressing == "literal":
            return tuple(self.address(index) for index in range(self.hosts))
        return tuple(
            f"h{index:04d}.site{index // self.hosts_per_domain:04d}.test" for index in range(self.hosts)
        )

    def _robots_kinds(self) -> list[str]:
        if not self.robots:
            return robots.dealt(self.features, self.hosts)
        return [self.robots[index % len(self.robots)] for index in range(self.hosts)]

    # -------------------------------------------------------------------------------------------- addresses

    def address(self, index: int) -> str:
        """The loopback address of a host."""
        if self.addressing == "shared":
            return "127.0.0.1"
        return str(ipaddress.IPv4Address("127.0.0.1") + index // 250 * 256 + index % 250)

    def resolve_map(self) -> dict[str, str]:
        """Host name → address; empty when the hosts are addresses."""
        if self.addressing == "literal":
            return {}
        return {name: self.address(index) for index, name in enumerate(self._sites)}

    def addresses(self) -> tuple[str, ...]:
        """Every address that a server of this web listens on."""
        return tuple(dict.fromkeys(self.address(index) for index in range(self.hosts)))

    def url(self, port: int, target: str = "/", host: int = 0) -> str:
        """The URL of a path on a host."""
        return with_port(self._sites[self.names[host]].url(target), port)

    def seeds(self, port: int, hosts: int | None = None) -> list[str]:
        """The start pages of the first hosts, of all by default."""
        return [with_port(site.url("/"), port) for site in list(self._sites.values())[:hosts]]

    # -------------------------------------------------------------------------------------------- reading

    def site(self, host: int | str) -> Site:
        """A host, by number or name."""
        return self._sites[self.names[host] if isinstance(host, int) else host]

    def host_of(self, what: str) -> int:
        """The number of the host with a wing, or of the first with a robots.txt variant."""
        return self._hands[what]

    def truth(
        self,
        port: int,
        scope: ScopeKind = "host",
        seeds: int | None = None,
        *,
        max_redirects: int = 10,
        sloppy: bool = False,
    ) -> Truth:
        """What a correct crawl from the start pages of the first `seeds` hosts finds; from all of them by default.

        `sloppy` is for crawlers that also follow anchors written like `< a href = x >`.
        """
        start = [site.url("/") for site in list(self._sites.values())[:seeds]]
        hosts = set(self.names[:seeds])
        domains = {_domain(host) for host in hosts}
        in_scope: dict[str, Callable[[str], bool]] = {
            "host": hosts.__contains__,
            "domain": lambda host: _domain(host) in domains,
            "any": lambda _host: True,
        }
        return at_port(Walk(self._sites, in_scope[scope], max_redirects, sloppy=sloppy).run(start), port)

    def look_up(self, host: str, target: str, port: int) -> Served:
        """What a server answers."""
        site = self._sites.get(host)
        if site is None:
            body = f"There is no host {host!r} in this web.\n".encode()
            unknown = Resource(
                target, Fate.GONE, answers=(Answer(status=404, media="text/plain", body=body),)
            )
            return Served(target, (reply(unknown, unknown.answers[0], str, port),))
        plain = plainest(target)
        resource = site.find(target) or site.find(plain) or NOT_FOUND
        return Served(plain, self._replies(site, resource, port))

    def _replies(self, site: Site, resource: Resource, port: int) -> tuple[Reply, ...]:
        def page() -> str:
            return html(resource, f"{self.seed}/{site.name}", self.features.page_bytes)

        return tuple(reply(resource, answer, page, port) for answer in resource.answers)


def botcrawler_site(seed: int = 0, pages: int = 60, interval: int = 1) -> SyntheticWeb:
    """A host of numbered pages with markers, sloppy anchors and a Request-rate, and a second such host that is
    only reached by links.
    """
    features = Features(numbered=True, request_interval=interval, links_per_page=4)
    return SyntheticWeb(seed, 2, pages, features, robots=("request-rate",))


def _domain(host: str) -> str:
    """The registrable domain: .test is in no public suffix list, so the last two labels; an address is its own."""
    return host if host[-1].isdigit() else ".".join(host.split(".")[-2:])


def plainest(target: str) -> str:
    """A path and query without insignificant parts: needless encoding, tracking parameters, session ids."""
    path, _, query = target.partition("?")
    path = re.sub("%[0-9A-Fa-f]{2}", _undo, quote(path, safe="!$%&'()*+,/:;=@~", encoding="latin-1"))
    query = _TRACKING.sub("", query).rstrip("&")
    return f"{path}?{query}" if query else path


def _undo(escape: re.Match[str]) -> str:
    char = chr(int(escape[0][1:], 16))
    return char if char in _UNRESERVED else escape[0].upper()
