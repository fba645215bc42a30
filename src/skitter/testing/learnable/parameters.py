"""A site whose URLs have forty kinds of parameters, and the truth about each: which pages it distinguishes.

A page has a path and one parameter that matters; its text follows from these alone. Any page may be linked again with
needless parameters, one or two of them. Some pages are only ever linked so. What a needless parameter does is what such
parameters do: nothing, other markup around the same text, the same items in another order, the page without its frame.

Some that matter are made to look needless: one that changes a page in twenty, one that is the default on most links,
one that is needless in all sections but one.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from urllib.parse import quote

from skitter.testing.web.graph import Answer, Resource
from skitter.testing.web.pages import reply
from skitter.testing.web.server import Served
from skitter.testing.web.words import below, dice, paragraphs, phrase, pick

NEEDLESS, MATTERS = True, False


@dataclass(frozen=True)
class Kind:
    """A kind of parameter."""

    name: str
    needless: bool  # the truth: no two URLs that differ in it alone are different pages
    effect: str  # "same", "markup", "order", "frame", "page"
    value: Callable[[Random], str]


def _hex(digits: int) -> Callable[[Random], str]:
    return lambda chance: hashlib.sha256(str(chance.random()).encode()).hexdigest()[:digits]


def _of(*values: str) -> Callable[[Random], str]:
    return lambda chance: pick(chance, values)


def _up_to(limit: int) -> Callable[[Random], str]:
    return lambda chance: str(below(chance, limit))


def _words(count: int) -> Callable[[Random], str]:
    return lambda chance: quote(phrase(chance, count))


_NEEDLESS = (
    Kind("visit", NEEDLESS, "same", _hex(32)),
    Kind("tok", NEEDLESS, "same", _hex(16)),
    Kind("zid", NEEDLESS, "markup", _hex(8)),
    Kind("src", NEEDLESS, "same", _of("mail", "home", "menu", "foot", "feed")),
    Kind("campaign", NEEDLESS, "same", _of("spring", "autumn", "sale", "launch")),
    Kind("aff", NEEDLESS, "same", _up_to(40)),
    Kind("clickpos", NEEDLESS, "same", _up_to(20)),
    Kind("from", NEEDLESS, "same", _of("list", "search", "top", "side")),
    Kind("ref", NEEDLESS, "same", lambda chance: quote(f"/page/{below(chance, 900)}", safe="")),
    Kind("back", NEEDLESS, "markup", _words(1)),
    Kind("highlight", NEEDLESS, "markup", _words(1)),
    Kind("hl", NEEDLESS, "markup", _words(2)),
    Kind("sort", NEEDLESS, "order", _of("name", "date", "price", "rating")),
    Kind("dir", NEEDLESS, "order", _of("asc", "desc", "random")),
    Kind("view", NEEDLESS, "markup", _of("list", "grid", "wide")),
    Kind("theme", NEEDLESS, "markup", _of("dark", "light", "plain")),
    Kind("font", NEEDLESS, "markup", _of("small", "large", "serif")),
    Kind("width", NEEDLESS, "markup", _up_to(12)),
    Kind("print", NEEDLESS, "frame", _of("1")),
    Kind("nocache", NEEDLESS, "same", _hex(10)),
    Kind("ts", NEEDLESS, "same", lambda chance: str(1_700_000_000 + below(chance, 10**8))),
    Kind("debug", NEEDLESS, "same", _of("0")),
    Kind("tab", NEEDLESS, "same", _of("about", "more", "terms")),
    Kind("popup", NEEDLESS, "markup", _of("yes", "no", "auto")),
)
_MATTER = (
    *(
        Kind(name, MATTERS, "page", _up_to(10**6))
        for name in ("id", "page", "item", "product", "topic", "chapter")
    ),
    *(
        Kind(name, MATTERS, "page", _words(1))
        for name in ("q", "category", "tag", "author", "city", "section")
    ),
    Kind("lang", MATTERS, "page", _of("en", "de", "fr")),
    Kind("rare", MATTERS, "same", _up_to(30)),  # changes one page in twenty
    Kind(
        "start", MATTERS, "same", _of("0")
    ),  # 0 is what a page shows without it; any other value is another page
    Kind("mode", MATTERS, "markup", _of("full", "short", "brief")),  # needless except in one section
)
KINDS = (*_NEEDLESS, *_MATTER)
_NAMED = {kind.name: kind for kind in KINDS}
SECTIONS = tuple(kind for kind in _MATTER if kind.effect == "page")
ODD_ONE = SECTIONS[-2].name  # the section where `mode` matters
_EVERY = 20  # `rare` changes one page in so many


@dataclass(frozen=True)
class ParameterWeb:
    """A site of distinct pages, some of whose URLs are duplicates by parameter.

    `duplicates` is their share of all URLs; `noise` puts a number that changes with the URL on every page.
    """

    seed: int = 0
    pages: int = 2400
    duplicates: float = 0.25
    noise: bool = False
    domain: str = "params.test"

    @property
    def home(self) -> str:
        """The host."""
        return f"www.{self.domain}"

    # ------------------------------------------------------------------------------------------ what there is

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The distinct pages, each by its plain target; the first is the start page."""
        found: dict[str, None] = {"/": None}
        chance = dice(self.seed, "pages")
        languages = ("en", "de", "fr", "it", "nl")
        while len(found) < self.pages:
            kind = SECTIONS[len(found) % len(SECTIONS)]
            if kind.name == "lang":
                found[f"/lang/{below(chance, self.pages)}?lang={pick(chance, languages)}"] = None
            else:
                found[f"/{kind.name}?{kind.name}={kind.value(chance)}{len(found)}"] = None
            if len(found) % 10 == 0:  # pages that the dangerous kinds do distinguish
                number = len(found)
                found[f"/id?id=7{number}&start={1 + number % 9}0"] = None
                found[f"/{ODD_ONE}?mode=short&{ODD_ONE}=m{number}"] = None
                found[f"/{ODD_ONE}?mode=full&{ODD_ONE}=m{number}"] = None
        return tuple(found)[: self.pages]

    @cached_property
    def real(self) -> frozenset[tuple[str, str]]:
        """Every distinct page: host and plain target."""
        rare = {self.plain_of(target) for target in self.spellings}
        return frozenset((self.home, target) for target in {*self.plain, *rare})

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The other URLs, most of them duplicates of a plain one."""
        wanted = int(self.pages * self.duplicates / (1 - self.duplicates))
        found: dict[str, None] = {}
        chance = dice(self.seed, "spellings")
        kinds = [kind for kind in KINDS if kind.effect != "page"]
        for number in range(20 * wanted):
            if len(found) == wanted:
                break
            page = self.plain[1 + below(chance, self.pages - 1)]
            kind = kinds[number % len(kinds)]
            if kind.name == "mode" and ("mode=" in page or page.startswith(f"/{ODD_ONE}?")):
                continue
            if kind.name == "start" and "start=" in page:
                continue
            more = [kind] if chance.random() < 0.8 else [kind, pick(chance, _NEEDLESS)]
            pairs = {each.name: each.value(chance) for each in more}
            found[page + "".join(f"&{name}={value}" for name, value in pairs.items())] = None
        return tuple(found)

    @cached_property
    def linked(self) -> tuple[tuple[str, ...], ...]:
        """The targets that each plain page links to, by its place: a tree, and the other spellings all over it.

        One page in ten that has another spelling is linked by that alone.
        """
        respelt: dict[str, str] = {}
        for target in self.spellings:
            respelt.setdefault(self.plain_of(target), target)
        links: list[list[str]] = [[] for _ in self.plain]
        for place, page in enumerate(self.plain[1:], 1):
            alone = page in respelt and place % 10 == 3
            links[(place - 1) // 3].append(respelt[page] if alone else page)
        chance = dice(self.seed, "links")
        for target in self.spellings:
            links[below(chance, len(links))].append(target)
        return tuple(map(tuple, links))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {target: place for place, target in enumerate(self.plain)}

    def plain_of(self, target: str) -> str:
        """The name of the page at a target: without what changes nothing there."""
        path, _, query = target.partition("?")
        kept = [pair for pair in query.split("&") if pair and self._matters(path, query, pair)]
        return f"{path}?{'&'.join(sorted(kept))}" if kept else path

    def _matters(self, path: str, query: str, pair: str) -> bool:
        name, _, value = pair.partition("=")
        if name == "rare":
            return self._is_rare(path, query)
        if name == "start":
            return value != "0"
        if name == "mode":
            return path == f"/{ODD_ONE}"
        return name in _NAMED and _NAMED[name].effect == "page"

    def _is_rare(self, path: str, query: str) -> bool:
        others = sorted(pair for pair in query.split("&") if _NAMED[pair.partition("=")[0]].effect == "page")
        return int(hashlib.sha256(f"{path}{others}".encode()).hexdigest(), 16) % _EVERY == 0

    def urls(self) -> int:
        """How many URLs there are to find."""
        return len({*self.spellings, *(target for links in self.linked for target in links), "/"})

    # ------------------------------------------------------------------------------------------ serving

    def seeds(self, port: int) -> list[str]:
        """The start page."""
        return [f"http://{self.home}:{port}/"]

    def look_up(self, host: str, target: str, port: int) -> Served:
        """What answers here."""
        page = self._page_at(target) if host == self.home else None
        if page is None:
            answer = Answer(status=404, body=b"<title>Not found</title>")
            name = "(robots.txt)" if target == "/robots.txt" else "(missing)"
            return Served(name, (reply(Resource(target), answer, str, port),))
        answer = Answer(body=self._html(page, target).encode())
        return Served(page, (reply(Resource(target), answer, str, port),))

    def _page_at(self, target: str) -> str | None:
        _path, _, query = target.partition("?")
        names = {pair.partition("=")[0] for pair in query.split("&") if pair}
        if not names <= _NAMED.keys():
            return None
        page = self.plain_of(target)
        return page if (self.home, page) in self.real else None

    def _html(self, page: str, target: str) -> str:
        effects = {
            kind.effect: value
            for name, _, value in (pair.partition("=") for pair in target.partition("?")[2].split("&"))
            if (kind := _NAMED.get(name)) is not None and f"{name}={value}" not in page
        }
        chance = dice(self.seed, page)
        title = phrase(chance, 4).title()
        blocks = [f"<p class=item>{block}</p>" for block in paragraphs(chance, 500)]
        if "order" in effects:
            blocks.sort(key=lambda block: hashlib.sha256(f"{effects['order']}{block}".encode()).digest())
        style = f' class="{effects["markup"]}"' if "markup" in effects else ""
        place = self._places.get(page)
        links = () if place is None else self.linked[place]
        anchors = "".join(
            f'<li><a href="{to.replace("&", "&amp;")}">{to.split("?")[0]}</a></li>' for to in links
        )
        frame = "" if "frame" in effects else "<nav>Home News Products Contact Search Help Imprint</nav>"
        noise = f"<p>Answer {hashlib.sha256(target.encode()).hexdigest()[:8]}.</p>" if self.noise else ""
        return (
            f"<!doctype html><html lang=en><head><title>{title}</title></head><body{style}>{frame}"
            f"<main><h1>{title}</h1>{''.join(blocks)}<ul>{anchors}</ul></main>{noise}</body></html>"
        )
