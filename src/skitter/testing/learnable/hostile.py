"""A site of 1,000 real pages among six generators without end.

Every generator is of a kind that honest software makes by accident, and real pages are behind each of them: a
crawler that avoids everything with a query, or every calendar, loses some.

calendar     months for ever in both directions; 24 of them have events, each with a page of its own
facets       a catalogue by category, whose filters combine; products are found by category
sessions     a shop with a session id in the path, a forum with one in the query; new ones with every answer
spiral       a manual with relative links that lack their slash, answered at any depth
pagination   the news, twenty pages of which have items; the "next" link never ends
subdomains   blogs at names of their own; any other name has an answer too, and names more

What a generator answers is what such software answers: the frame of the site, and a line that nothing is here, a
list of things seen elsewhere, or a real page under another URL.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from skitter.testing.web.graph import PORT, Answer, Resource, with_port
from skitter.testing.web.pages import reply
from skitter.testing.web.server import Served
from skitter.testing.web.words import below, dice, paragraphs, phrase

EVENTS, MONTHS = 60, range(2025 * 12 + 11, 2027 * 12 + 11)  # December 2025 to November 2027
CATEGORIES, PRODUCTS = 10, 80
ITEMS, TOPICS, GUIDES = 40, 50, 60
NEWS_PAGES, NEWS = 20, 100
BLOGS, POSTS = 8, 4
FACETS = {
    "colour": ("red", "green", "blue", "black", "white"),
    "size": ("s", "m", "l", "xl"),
    "brand": ("arda", "belo", "cura", "dino"),
    "material": ("wool", "cotton", "linen"),
    "price": ("low", "middle", "high"),
    "sort": ("name", "price", "date", "rating"),
}
_NAV = ("/", "/calendar/2026/11", "/catalogue", "/shop/", "/forum/", "/docs/", "/news?page=1", "/community")


@dataclass(frozen=True)
class Found:
    """What a URL shows: a real page, by its one name, or what a generator makes of it."""

    page: str  # a real page's own target; a generator's name in brackets
    title: str
    text: str
    links: tuple[str, ...] = ()  # targets, or whole URLs


@dataclass(frozen=True)
class HostileWeb:
    """The site. The same arguments give the same one, byte for byte."""

    seed: int = 0
    pages: int = 1000
    domain: str = "hostile.test"

    # ------------------------------------------------------------------------------------------ what there is

    @property
    def home(self) -> str:
        """The host with everything but the blogs."""
        return f"www.{self.domain}"

    @cached_property
    def real(self) -> frozenset[tuple[str, str]]:
        """Every real page: host and target."""
        here = {(self.home, target) for target in self._fixed()}
        blogs = {(self._blog(n), target) for n in range(BLOGS) for target in self._posts()}
        articles = self.pages - len(here) - len(blogs)
        if articles < 1:
            raise ValueError(f"this web has at least {len(here) + len(blogs) + 1} pages")
        return frozenset(here | blogs | {(self.home, f"/articles/{n}") for n in range(articles)})

    def _fixed(self) -> Iterator[str]:
        yield from ("/", "/catalogue", "/shop/", "/forum/", "/docs/", "/community")
        yield from (_month(at) for at in MONTHS)
        yield from (f"/events/{n}" for n in range(EVENTS))
        yield from (f"/catalogue?category={n}" for n in range(CATEGORIES))
        yield from (f"/product/{n}" for n in range(PRODUCTS))
        yield from (f"/shop/item/{n}" for n in range(ITEMS))
        yield from (f"/forum/topic/{n}" for n in range(TOPICS))
        yield from (f"/docs/guide-{n}/" for n in range(GUIDES))
        yield from (f"/news?page={n}" for n in range(1, NEWS_PAGES + 1))
        yield from (f"/news/item-{n}" for n in range(NEWS))

    @cached_property
    def _articles(self) -> int:
        return sum(target.startswith("/articles/") for _host, target in self.real)

    def _blog(self, number: int) -> str:
        return f"{_token(self.seed, 'blog', number)[:6]}.{self.domain}"

    @cached_property
    def _blogs(self) -> frozenset[str]:
        return frozenset(self._blog(n) for n in range(BLOGS))

    @staticmethod
    def _posts() -> list[str]:
        return ["/", *(f"/post-{n}" for n in range(POSTS))]

    # ------------------------------------------------------------------------------------------ serving

    def seeds(self, port: int) -> list[str]:
        """The start page."""
        return [f"http://{self.home}:{port}/"]

    def look_up(self, host: str, target: str, port: int) -> Served:
        """What answers here."""
        found = self._at_home(target) if host == self.home else self._at_blog(host, target)
        if found is None:
            body, status = b"<title>Not found</title><p>There is nothing here.", 404
            page = "(robots.txt)" if target == "/robots.txt" else "(missing)"
        else:
            body, status, page = with_port(self._html(host, target, found), port).encode(), 200, found.page
        answer = Answer(status=status, body=body)
        return Served(page, (reply(Resource(target), answer, str, port),))

    def _html(self, host: str, target: str, found: Found) -> str:
        nav = "".join(f'<a href="http://{self.home}{PORT}{to}">{to.strip("/") or "home"}</a> ' for to in _NAV)
        links = "".join(
            f'<li><a href="{to.replace("&", "&amp;")}">{_label(to)}</a></li>' for to in found.links
        )
        served = int(_token(host, target)[:6], 16)  # like a time or a counter: different in every answer
        return (
            f"<!doctype html><html lang=en><head><title>{found.title}</title></head><body><nav>{nav}</nav>"
            f"<main><h1>{found.title}</h1>{found.text}<ul>{links}</ul></main>"
            f"<footer><p>{self._frame}</p><p>Answer {served}.</p></footer></body></html>"
        )

    @cached_property
    def _frame(self) -> str:
        """What is on every page of the site."""
        return " ".join(paragraphs(dice(self.seed, "frame"), 120))

    def _page(self, target: str, links: list[str], host: str = "") -> Found:
        """A real page."""
        chance = dice(self.seed, host, target)
        text = "".join(f"<p>{block}</p>" for block in paragraphs(chance, 250))
        return Found(target, phrase(chance, 4).title(), text, tuple(links))

    # ------------------------------------------------------------------------------------------ the host

    def _at_home(self, target: str) -> Found | None:
        if target == "/":
            return self._page(target, ["/articles/0", *_NAV[1:]])
        parts: tuple[tuple[str, Callable[[str], Found | None]], ...] = (
            ("/articles/", self._article),
            ("/calendar/", self._calendar),
            ("/events/", self._event),
            ("/catalogue", self._catalogue),
            ("/product/", self._product),
            ("/shop/", self._shop),
            ("/forum/", self._forum),
            ("/docs/", self._docs),
            ("/news", self._news),
            ("/community", self._community),
        )
        for prefix, make in parts:
            if target.startswith(prefix):
                return make(target)
        return None

    def _article(self, target: str) -> Found | None:
        number = _number(target.removeprefix("/articles/"), self._articles)
        if number is None:
            return None
        chance = dice(self.seed, target, "links")
        onward = [2 * number + 1, 2 * number + 2, *(below(chance, self._articles) for _ in range(4))]
        return self._page(target, [f"/articles/{to}" for to in onward if to < self._articles])

    def _calendar(self, target: str) -> Found | None:
        match = re.fullmatch(r"/calendar/(\d{1,6})/(0[1-9]|1[0-2])", target)
        if match is None:
            return None
        at = int(match[1]) * 12 + int(match[2]) - 1
        around = [_month(at - 1), _month(at + 1), _month(at - 12), _month(at + 12)]
        if at in MONTHS:
            here = [f"/events/{n}" for n in range(EVENTS) if n % len(MONTHS) == at - MONTHS.start]
            return self._page(target, [*here, *around])
        title = f"Calendar {match[1]}-{match[2]}"
        days = " ".join(f"<td>{day}</td>" for day in range(1, 31))
        text = f"<p>There are no events in this month.</p><table><tr>{days}</tr></table>"
        return Found("(calendar)", title, text, tuple(around))

    def _event(self, target: str) -> Found | None:
        number = _number(target.removeprefix("/events/"), EVENTS)
        return None if number is None else self._page(target, [_month(MONTHS.start + number % len(MONTHS))])

    def _catalogue(self, target: str) -> Found | None:
        path, _, query = target.partition("?")
        if path != "/catalogue":
            return None
        if not query:
            return self._page(target, [f"/catalogue?category={n}" for n in range(CATEGORIES)])
        given = [pair.partition("=")[::2] for pair in query.split("&")]
        chosen = dict(given)
        number = _number(chosen.get("category", ""), CATEGORIES)
        if number is None:
            return None
        more = [
            f"{target}&{name}={value}"
            for name, values in FACETS.items()
            for value in values
            if (name, value) not in given
        ]
        products = [f"/product/{n}" for n in range(PRODUCTS) if n % CATEGORIES == number]
        if len(given) == 1:
            return self._page(target, [*products, *more])
        chance = dice(target)
        some = tuple(product for product in products if chance.random() < 0.6)
        return Found("(facets)", f"Category {number}, filtered", "<p>Products found:</p>", (*some, *more))

    def _product(self, target: str) -> Found | None:
        number = _number(target.removeprefix("/product/"), PRODUCTS)
        if number is None:
            return None
        return self._page(target, [f"/catalogue?category={number % CATEGORIES}"])

    def _shop(self, target: str) -> Found | None:
        """Every answer starts a session of its own, and says so in the path of its links."""
        match = re.fullmatch(r"/shop/(?:u-[0-9a-f]{16}/)?(?:item/(\d{1,4}))?", target)
        if match is None:
            return None
        into = f"/shop/u-{_token(self.seed, target)[:16]}/"
        if match[1] is None:
            return self._page("/shop/", [f"{into}item/{n}" for n in range(ITEMS)])
        number = _number(match[1], ITEMS)
        if number is None:
            return None
        near = [f"{into}item/{(number + step) % ITEMS}" for step in (1, 7)]
        return self._page(f"/shop/item/{number}", [into, *near])

    def _forum(self, target: str) -> Found | None:
        match = re.fullmatch(r"/forum/(?:topic/(\d{1,4}))?(?:\?visit=[0-9a-f]{32})?", target)
        if match is None:
            return None
        session = f"?visit={_token(self.seed, target)[:32]}"
        if match[1] is None:
            return self._page("/forum/", [f"/forum/topic/{n}{session}" for n in range(TOPICS)])
        number = _number(match[1], TOPICS)
        if number is None:
            return None
        near = [f"/forum/topic/{(number + step) % TOPICS}{session}" for step in (1, 7)]
        return self._page(f"/forum/topic/{number}", [f"/forum/{session}", *near])

    def _docs(self, target: str) -> Found | None:
        """The last two parts of the path say which guide; the ones before are ignored."""
        if target == "/docs/":
            return self._page(target, [f"/docs/guide-{n}/" for n in range(GUIDES)])
        match = re.fullmatch(r"/(?:docs/guide-\d+/)*docs/guide-(\d{1,4})/", target)
        number = None if match is None else _number(match[1], GUIDES)
        if number is None:
            return None
        forgot = [f"docs/guide-{(number + step) % GUIDES}/" for step in (1, 7)]  # the slash before
        return self._page(f"/docs/guide-{number}/", forgot)

    def _news(self, target: str) -> Found | None:
        if target.startswith("/news/item-"):
            number = _number(target.removeprefix("/news/item-"), NEWS)
            return None if number is None else self._page(target, [])
        number = _number(target.removeprefix("/news?page="), 10**6)
        if not number:
            return None
        onward = [f"/news?page={number + 1}"]
        if number > NEWS_PAGES:
            return Found(
                "(pagination)", f"News, page {number}", "<p>There are no more news.</p>", tuple(onward)
            )
        each = NEWS // NEWS_PAGES
        items = [f"/news/item-{n}" for n in range((number - 1) * each, number * each)]
        return self._page(target, [*items, *onward])

    def _community(self, target: str) -> Found | None:
        if target != "/community":
            return None
        return self._page(target, [f"http://{self._blog(n)}{PORT}/" for n in range(BLOGS)])

    # ------------------------------------------------------------------------------------------ the blogs

    def _at_blog(self, host: str, target: str) -> Found | None:
        if target == "/robots.txt":
            return None
        names = (_token(self.seed, host, target, n)[:6] for n in range(4))
        others = [f"http://{name}.{self.domain}{PORT}/" for name in names]
        if host in self._blogs:
            if target not in self._posts():
                return None
            return self._page(target, [*self._posts(), *others], host)
        if target != "/":
            return None
        text = "<p>Nobody has a blog under this name yet. It could be yours.</p>"
        return Found("(subdomains)", f"Welcome to {host}", text, tuple(others))


def _month(at: int) -> str:
    return f"/calendar/{at // 12}/{at % 12 + 1:02d}"


def _token(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _number(text: str, limit: int) -> int | None:
    """A number below the limit, written as it is linked."""
    if not (text.isascii() and text.isdigit() and len(text) < 9) or int(text) >= limit:
        return None
    return int(text) if text == str(int(text)) else None


def _label(target: str) -> str:
    return re.sub(r"[^a-z]+", " ", target.rpartition(PORT)[2]).strip() or "more"
