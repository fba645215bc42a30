"""One host of the synthetic web: its ordinary pages, its robots.txt and its wings.

Ordinary pages are computed on demand, so a web of a million pages costs nothing until it is visited. Page 0
is the start page; page k links to pages 2k+1 and 2k+2, so every page is within log2(n) links of the start,
and also to random pages, some of them on other hosts.
"""

import html as markup
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skitter.testing.web.features import Features
from skitter.testing.web.graph import PORT, Anchor, Refusal, Resource, Trap
from skitter.testing.web.robots import RobotsFile, resources
from skitter.testing.web.words import LABELS, dice, labels


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What a host knows about its web."""

    seed: int
    names: tuple[str, ...]
    pages_per_host: int
    features: Features


def link(url: str, href: str = "", text: str = "more", attributes: str = "") -> Anchor:
    """An ordinary anchor. `href` is how it is written, if not as the URL itself."""
    written = markup.escape(href or url)
    return Anchor(url, f'<a href="{written}"{attributes}>{text}</a>')


def dead(url: str, refusal: Refusal, text: str = "more") -> Anchor:
    """A link that can never be requested."""
    return Anchor(url, f'<a href="{markup.escape(url)}">{text}</a>', refusal=refusal)


class Site:
    """A host. Wings add to it; then it is only read."""

    def __init__(self, web: Neighbourhood, index: int, robots: RobotsFile) -> None:
        self.web = web
        self.index = index
        self.name = web.names[index]
        self.robots = robots
        self.traps: list[Trap] = []
        self.makers: list[tuple[str, Callable[[str], Resource | None]]] = []
        self._resources: dict[str, Resource] = {}
        self._hubs: list[str] = []
        for resource in resources(robots):
            self.add(resource)
        if robots.pages:
            ruled = [self.add(Resource(target, allowed=allowed)) for target, allowed in robots.pages]
            self.hub("rules", [link(url) for url in ruled])

    # -------------------------------------------------------------------------------------------- building

    def url(self, target: str, host: str = "") -> str:
        """The URL of a path, on this host if none is named."""
        return f"http://{host or self.name}{PORT}{target}"

    def neighbour(self, step: int = 1) -> str:
        """The name of another host; its own if there is no other."""
        return self.web.names[(self.index + step) % len(self.web.names)]

    def add(self, resource: Resource) -> str:
        """Add a resource to this host; returns its URL."""
        if resource.target in self._resources:
            raise ValueError(f"{self.name} has two resources at {resource.target}")
        self._resources[resource.target] = resource
        return self.url(resource.target)

    def hub(self, wing: str, anchors: Sequence[Anchor], head: str = "") -> None:
        """The page that leads to a wing's pages; the start page links to it."""
        self.add(Resource(f"/{wing}/", anchors=tuple(anchors), head=head))
        self._hubs.append(f"/{wing}/")

    # -------------------------------------------------------------------------------------------- reading

    def find(self, target: str) -> Resource | None:
        """The resource at this path, in normal form; None if there is none."""
        resource = self._resources.get(target)
        if resource is not None:
            return resource
        page = self._ordinary_number(target)
        if page is not None:
            return self._ordinary(page)
        for prefix, make in self.makers:
            if target.startswith(prefix):
                return make(target)
        return None

    def _ordinary_number(self, target: str) -> int | None:
        if target == "/":
            return 0
        digits = target[3:-5]
        if not (
            target.startswith("/p/") and target.endswith(".html") and digits.isascii() and digits.isdigit()
        ):
            return None
        page = int(digits)
        return page if 0 < page < self.web.pages_per_host and digits == str(page) else None

    def _ordinary(self, page: int) -> Resource:
        web = self.web
        count, features = web.pages_per_host, web.features
        chance = dice(web.seed, self.name, page, "links")
        anchors = [self._way(child, page) for child in (2 * page + 1, 2 * page + 2) if child < count]
        if page == 0:
            anchors += [link(self.url(target), target) for target in self._hubs]
            children = (2 * self.index + 1, 2 * self.index + 2)
            anchors += [link(self.url("/", web.names[host])) for host in children if host < len(web.names)]
        texts, roll = labels(), chance.random
        for _ in range(features.links_per_page - len(anchors)):
            text, to = texts[int(roll() * LABELS)], int(roll() * count)
            if roll() < features.foreign_share:
                url = self.url(_path(to), web.names[int(roll() * len(web.names))])
                anchors.append(Anchor(url, f'<a href="{url}">{text}</a>'))
            else:
                anchors.append(self._way(to, page, text))
        return Resource(
            _path(page), anchors=tuple(anchors), words=features.page_words, text_key=f"{self.name}/{page}"
        )

    def _way(self, to: int, page: int, text: str = "next") -> Anchor:
        """A link to an ordinary page of this host: some absolute, some rooted, some relative."""
        target = _path(to)
        url = f"http://{self.name}{PORT}{target}"
        if to % 3 == 0 or not page:
            href = target if to % 2 else url
        else:
            href = f"{to}.html" if to % 3 == 1 else f"../p/./{to}.html"
        return Anchor(url, f'<a href="{href}">{text}</a>')


def _path(page: int) -> str:
    return f"/p/{page}.html" if page else "/"
