"""What a correct crawl of the synthetic web finds, from the same description that the pages are rendered from."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from skitter.model import Fault
from skitter.testing.web.graph import PORT, Fate, Refusal, Resource, Trap, with_port
from skitter.testing.web.robots import allows
from skitter.testing.web.site import Site

Rule = Callable[[str], bool]


@dataclass(slots=True)
class Truth:
    """URLs are absolute, with the port, in normal form; compare by key, not by spelling."""

    pages: set[str] = field(default_factory=set)  # answered with 2xx and kept, including duplicates
    gone: set[str] = field(default_factory=set)  # 404 and 410
    denied: dict[str, int] = field(default_factory=dict)  # other 4xx, by status
    redirects: dict[str, str] = field(default_factory=dict)  # to their targets
    refused: dict[str, Refusal] = field(default_factory=dict)  # seen, and never to be requested
    failed: dict[str, Fault | None] = field(default_factory=dict)  # None: a 5xx that stays
    unjudged: set[str] = field(default_factory=set)  # requested; the result is up to the crawler
    hidden: set[str] = field(
        default_factory=set
    )  # exist, but no link that counts leads there: never to be requested
    exact: list[frozenset[str]] = field(default_factory=list)  # groups of pages with the same bytes
    near: list[frozenset[str]] = field(
        default_factory=list
    )  # groups of pages whose text differs in a word or two
    traps: list[Trap] = field(default_factory=list)  # their contents are not listed above
    phrases: dict[str, str] = field(default_factory=dict)  # page → what its text contains once decoded
    noindex: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)  # pages with content markers
    delays: dict[str, float] = field(default_factory=dict)  # host → seconds requested by its robots.txt

    def in_trap(self, url: str) -> bool:
        """Whether a URL is in an endless part of the web."""
        return url.startswith(tuple(trap.prefix for trap in self.traps))

    def requested(self) -> set[str]:
        """Every URL outside the traps that a complete crawl requests, without robots.txt."""
        return (
            self.pages
            | self.gone
            | self.denied.keys()
            | self.redirects.keys()
            | self.failed.keys()
            | self.unjudged
        )


class Walk:
    """A simulated crawl: breadth first, every link once."""

    def __init__(self, sites: dict[str, Site], in_scope: Rule, max_redirects: int, *, sloppy: bool) -> None:
        self._sites = sites
        self._in_scope = in_scope
        self._max_redirects = max_redirects
        self._sloppy = sloppy
        self._seen: set[str] = set()
        self._queue: deque[tuple[str, int]] = deque()
        self._hidden: set[str] = set()
        self._met: set[str] = set()
        self._twins: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.truth = Truth()

    def run(self, seeds: Iterable[str]) -> Truth:
        """Follow everything from these URLs."""
        for seed in seeds:
            self._offer(seed, 0)
        while self._queue:
            self._visit(*self._queue.popleft())
        truth = self.truth
        truth.hidden = self._hidden - self._seen
        self._find_twins()
        return truth

    def _offer(self, url: str, hops: int) -> None:
        if url not in self._seen:
            self._seen.add(url)
            self._queue.append((url, hops))

    def _visit(self, url: str, hops: int) -> None:
        truth = self.truth
        no = self._refusal(url, hops)
        if no is not None:
            truth.refused[url] = no
            return
        site, target = self._split(url)
        if site.name not in self._met:
            self._meet(site)
        if site.traps and truth.in_trap(url):
            return
        resource = site.find(target)
        if not allows(site.robots, resource):
            truth.refused[url] = Refusal.ROBOTS
        elif resource is None:
            truth.gone.add(url)
        else:
            self._record(url, resource)
            self._follow(resource, hops)

    def _meet(self, site: Site) -> None:
        self._met.add(site.name)
        self.truth.traps += site.traps
        if site.robots.delay:
            self.truth.delays[site.name] = site.robots.delay

    def _follow(self, resource: Resource, hops: int) -> None:
        if resource.fate is Fate.REDIRECT:
            self._offer(resource.to, hops + 1)
        for anchor in resource.anchors:
            if anchor.refusal is Refusal.ADDRESS:
                self._offer(anchor.url, 0)
            elif anchor.refusal is not None:
                self.truth.refused[anchor.url] = anchor.refusal
            elif anchor.followed and resource.follow and (self._sloppy or not anchor.sloppy):
                self._offer(anchor.url, 0)
            else:
                self._hidden.add(anchor.url)

    def _refusal(self, url: str, hops: int) -> Refusal | None:
        if not url.startswith("http://"):
            return Refusal.SCHEME
        if hops > self._max_redirects:
            return Refusal.REDIRECTS
        host = url.removeprefix("http://").partition(PORT)[0].partition("/")[0]
        if not self._in_scope(host):
            return Refusal.SCOPE
        return None if host in self._sites else Refusal.ADDRESS

    def _split(self, url: str) -> tuple[Site, str]:
        host, _, target = url.removeprefix("http://").partition(PORT)
        return self._sites[host], target

    def _record(self, url: str, resource: Resource) -> None:
        truth = self.truth
        match resource.fate:
            case Fate.PAGE:
                truth.pages.add(url)
                if resource.phrase:
                    truth.phrases[url] = resource.phrase
                if not resource.index:
                    truth.noindex.add(url)
                if resource.around[0]:
                    truth.marked.add(url)
                if resource.text_key:
                    host = url.partition(PORT)[0]
                    self._twins[host, resource.text_key, resource.ending].add(url)
            case Fate.GONE:
                truth.gone.add(url)
            case Fate.DENIED:
                truth.denied[url] = resource.answers[-1].status
            case Fate.REDIRECT:
                truth.redirects[url] = resource.to
            case Fate.FAILED:
                truth.failed[url] = resource.fault
            case Fate.UNJUDGED:
                truth.unjudged.add(url)

    def _find_twins(self) -> None:
        near: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for (host, text, ending), urls in sorted(self._twins.items()):
            if len(urls) > 1:
                self.truth.exact.append(frozenset(urls))
            if ending:
                near[host, text] |= urls
        self.truth.near = [frozenset(urls) for _text, urls in sorted(near.items()) if len(urls) > 1]


def at_port(truth: Truth, port: int) -> Truth:
    """The same truth with the port filled in."""

    def real(url: str) -> str:
        return with_port(url, port)

    return Truth(
        pages=set(map(real, truth.pages)),
        gone=set(map(real, truth.gone)),
        denied={real(url): status for url, status in truth.denied.items()},
        redirects={real(url): real(to) for url, to in truth.redirects.items()},
        refused={real(url): why for url, why in truth.refused.items()},
        failed={real(url): fault for url, fault in truth.failed.items()},
        unjudged=set(map(real, truth.unjudged)),
        hidden=set(map(real, truth.hidden)),
        exact=[frozenset(map(real, group)) for group in truth.exact],
        near=[frozenset(map(real, group)) for group in truth.near],
        traps=[replace(trap, prefix=real(trap.prefix)) for trap in truth.traps],
        phrases={real(url): text for url, text in truth.phrases.items()},
        noindex=set(map(real, truth.noindex)),
        marked=set(map(real, truth.marked)),
        delays=dict(truth.delays),
    )
